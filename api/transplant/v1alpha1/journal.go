package v1alpha1

import "time"

// Kinds of the documents of a running migration.
const (
	KindJournal = "Journal"
	KindStatus  = "Status"
)

// Phases of a run, in Journal.Phase.
const (
	RunApplying    = "applying"
	RunApplied     = "applied"
	RunRollingBack = "rolling-back"
	RunRolledBack  = "rolled-back"
)

// Journal says what was started; what is true is asked of the live cluster. It is kept in the cluster.
type Journal struct {
	TypeMeta `json:",inline"`
	// Run names this migration; backups on hosts lie in a directory of that name.
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// Phase is the state of the run: applying, applied, rolling-back, rolled-back.
	Phase string `json:"phase"`
	// User and Host that started it, as the tool saw them.
	User    string       `json:"user,omitempty"`
	Plan    Plan         `json:"plan"`
	Records []StepRecord `json:"records,omitempty"`
	// Rollback is the plan of the rollback once one was started.
	Rollback *Plan      `json:"rollback,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
}

// StepRecord is what happened to a step.
type StepRecord struct {
	ID      string     `json:"id"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	// Result is started, done, already-done, failed, interrupted, undone.
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	// Path is the file on the host, of a record that belongs to no step of the plan.
	Path string `json:"path,omitempty"`
	// Backup is the path on the host of the file as it was, and its SHA-256; empty path when the file was absent.
	Backup       string `json:"backup,omitempty"`
	BackupSHA256 string `json:"backupSHA256,omitempty"`
	// BackupMode is the octal mode that the file had.
	BackupMode string `json:"backupMode,omitempty"`
	// AfterSHA256 is what the step wrote: the fact that the next step on the same file requires.
	AfterSHA256 string `json:"afterSHA256,omitempty"`
	// Before is what an object had where the step changed it, as JSON with which it is put back: a merge patch, edits, or the state of a unit. It
	// holds what the step changes and no more.
	Before string `json:"before,omitempty"`
	// Created tells that an object was absent before the step, so that a rollback may delete it.
	Created bool `json:"created,omitempty"`
	// Handovers that were assisted during the step.
	Handovers []HandoverRecord `json:"handovers,omitempty"`
}

// HandoverRecord is one release of a lease for a holder that has provably ended.
type HandoverRecord struct {
	Lease  string `json:"lease"`
	Holder string `json:"holder"`
	// PID and StartTicks name the process that the holder was bound to.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
	Component  string `json:"component"`
	Host       string `json:"host"`
	// Transitions and AcquireTime name the term of the holder.
	Transitions int32     `json:"transitions"`
	AcquireTime time.Time `json:"acquireTime"`
	// Ended is when the process was first seen gone, Released when the release was accepted; nil where that did not happen.
	Ended      *time.Time `json:"ended,omitempty"`
	Released   *time.Time `json:"released,omitempty"`
	NextHolder string     `json:"nextHolder,omitempty"`
	// Note says why the lease was left alone, where it was.
	Note string `json:"note,omitempty"`
}

// Status is one screen about a migration.
type Status struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	// Run is empty when no migration was started.
	Run        string `json:"run,omitempty"`
	Phase      string `json:"phase"`
	StepsDone  int    `json:"stepsDone"`
	StepsTotal int    `json:"stepsTotal"`
	Current    string `json:"current,omitempty"`
	// Upcoming is the step that comes next where none is under way and not all are done.
	Upcoming   string            `json:"upcoming,omitempty"`
	LastError  string            `json:"lastError,omitempty"`
	LockHolder string            `json:"lockHolder,omitempty"`
	Owners     map[string]string `json:"owners,omitempty"` // loop -> component@host
	Next       string            `json:"next,omitempty"`
}
