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
	// ToolVersion is of the program that wrote it last: which one to take when another does not know the schema.
	ToolVersion string `json:"toolVersion,omitempty"`
	// Run names this migration; backups on hosts lie in a directory of that name.
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
	// Phase is the state of the run: applying, applied, rolling-back, rolled-back.
	Phase string `json:"phase"`
	// User and Host that started it, as the tool saw them.
	User    string       `json:"user,omitempty"`
	Plan    Plan         `json:"plan"`
	Records []StepRecord `json:"records,omitempty"`
	// Without are the hosts that were lost and excluded from the migration. Their steps are skipped, and they must not
	// come back as they were.
	Without []HostOut `json:"without,omitempty"`
	// Accepted are the differences from before the migration that the operator lives with.
	Accepted []AcceptedDifference `json:"accepted,omitempty"`
	// Rollback is the plan of the rollback once one was started.
	Rollback *Plan      `json:"rollback,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	// Pauses are the times during which the run waited because an administrator had asked for it.
	Pauses []PauseRecord `json:"pauses,omitempty"`
	// Stops are the times during which no command executed the run.
	Stops []StopRecord `json:"stops,omitempty"`
}

// IsUnderWay reports whether a run was begun and has not ended, whether or not a command executes it now.
func (j Journal) IsUnderWay() bool { return j.Phase == RunApplying || j.Phase == RunRollingBack }

// LastSign is the last moment at which the journal shows a command at work on the run.
func (j Journal) LastSign() time.Time {
	last := j.Started
	note := func(times ...*time.Time) {
		for _, t := range times {
			if t != nil && t.After(last) {
				last = *t
			}
		}
	}
	note(j.Ended)
	for _, r := range j.Records {
		note(&r.Started, r.Ended)
	}
	for _, p := range j.Pauses {
		note(&p.From, p.To)
	}
	for _, s := range j.Stops {
		note(&s.To)
	}
	return last
}

// IdleSince is for how long the run was paused, or no command executed it, from a moment on.
func (j Journal) IdleSince(from time.Time) time.Duration {
	var idle time.Duration
	add := func(begin, end time.Time) {
		if begin.Before(from) {
			begin = from
		}
		idle += max(0, end.Sub(begin))
	}
	for _, p := range j.Pauses {
		if p.To != nil {
			add(p.From, *p.To)
		}
	}
	for _, s := range j.Stops {
		add(s.From, s.To)
	}
	return idle
}

// Pause is what an operator asks of a run that may be executed elsewhere: to wait before its next step. It is kept
// in the ConfigMap kube-system/transplant-control.
type Pause struct {
	// Run is the migration that is to wait; a pause of another one counts for nothing.
	Run string `json:"run"`
	// By is who asked, user@host as the tool saw them.
	By string `json:"by"`
	// At is when, by the clock of who asked.
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// PauseRecord is a time during which a run waited.
type PauseRecord struct {
	Pause `json:",inline"`
	// From is when the run began to wait, by the clock of the process that executes it. To is nil while it waits, and
	// if it ended while it waited.
	From time.Time  `json:"from"`
	To   *time.Time `json:"to,omitempty"`
	// Before is the step before which it waited.
	Before string `json:"before,omitempty"`
}

// StopRecord is a time during which no command executed the run. The command before had failed, was interrupted or
// killed, or had done what it was asked to.
type StopRecord struct {
	// From is the last moment at which the journal shows that command at work; To is when the next one went on.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// By is who went on, user@host as the tool saw them.
	By string `json:"by,omitempty"`
}

// HostOut is a host that was excluded from a migration that was begun, since it is gone for good.
type HostOut struct {
	// Name is the host's, Node its Node's.
	Name string `json:"name"`
	Node string `json:"node"`
	// At is when, and By who excluded it.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Evidence are sentences about what proved that it was gone.
	Evidence []string `json:"evidence,omitempty"`
}

// AcceptedDifference is what an operator gave with --accept, and a verification of the run met.
type AcceptedDifference struct {
	// Difference is an object such as Node/worker-1, or an object, a space and a field. A star stands for any part of a
	// name.
	Difference string `json:"difference"`
	Reason     string `json:"reason"`
	// At is when, and By who accepted it.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// StepResult says how a step went.
type StepResult string

// Results of steps.
const (
	// StepResultStarted is that of a step which is being done, or was when its run ended without a word.
	StepResultStarted StepResult = "started"
	StepResultDone    StepResult = "done"
	// StepResultAlreadyDone says that the step's effect was there before it.
	StepResultAlreadyDone StepResult = "already-done"
	// StepResultSkipped says that the step's host was excluded from the migration.
	StepResultSkipped     StepResult = "skipped"
	StepResultFailed      StepResult = "failed"
	StepResultInterrupted StepResult = "interrupted"
	// StepResultUndone says that a rollback took the step back.
	StepResultUndone StepResult = "undone"
	// StepResultPending is that of a step which was never begun. Reports have it, journals do not.
	StepResultPending StepResult = "pending"
)

// StepRecord is what happened to a step.
type StepRecord struct {
	ID      string     `json:"id"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"`
	// Result is started, done, already-done, skipped (its host was excluded), failed, interrupted, undone.
	Result StepResult `json:"result"`
	Error  string     `json:"error,omitempty"`
	// Path is the file on the host, of a record that belongs to no step of the plan.
	Path string `json:"path,omitempty"`
	// Backup is the path on the host of the file as it was, and its SHA-256; empty path when the file was absent.
	Backup       string `json:"backup,omitempty"`
	BackupSHA256 string `json:"backupSHA256,omitempty"`
	// BackupMode is the octal mode that the file had.
	BackupMode string `json:"backupMode,omitempty"`
	// AfterSHA256 is what the step wrote: the fact that the next step on the same file requires.
	AfterSHA256 string `json:"afterSHA256,omitempty"`
	// Before is what an object had where the step changed it, as the JSON that restores it. That is a merge patch,
	// edits, or the state of a unit. It holds what the step changes and no more.
	Before string `json:"before,omitempty"`
	// Created reports whether an object was absent before the step, so that a rollback may delete it.
	Created bool `json:"created,omitempty"`
	// Handovers that were assisted during the step.
	Handovers []HandoverRecord `json:"handovers,omitempty"`
	// Files are those that the step changes next to its own.
	Files []FileRecord `json:"files,omitempty"`
	// Flags are the values that the kubelet's process had of the flags that the step changes; one that it had not is
	// not in it.
	Flags map[string]string `json:"flags,omitempty"`
	// Node is what the node was like before, while the step is under way.
	Node *NodeRecord `json:"node,omitempty"`
	// Undo is there when the step was taken back, or is about to be.
	Undo *UndoRecord `json:"undo,omitempty"`
	// Notes are sentences about what the step found that is no failure, for example a certificate that waits for
	// approval.
	Notes []string `json:"notes,omitempty"`
}

// IsEnded reports whether nothing of a step is left to do: it was done, or left out with its host.
func (r StepRecord) IsEnded() bool {
	return r.Result == StepResultDone || r.Result == StepResultAlreadyDone || r.Result == StepResultSkipped
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
	// Ended is when the process was first seen gone, Released when the release was accepted; nil where that did not
	// happen.
	Ended      *time.Time `json:"ended,omitempty"`
	Released   *time.Time `json:"released,omitempty"`
	NextHolder string     `json:"nextHolder,omitempty"`
	// Node is where the pod of the holder ran, for a manager that is a pod; its Host is the pod's name then.
	Node string `json:"node,omitempty"`
	// Note says why the lease was left alone, where it was.
	Note string `json:"note,omitempty"`
}

// FileRecord is a file that a step changes next to its own: its backup, and what the step wrote. The fields are those
// of StepRecord.
type FileRecord struct {
	// Path of the file on the host.
	Path         string `json:"path"`
	Backup       string `json:"backup,omitempty"`
	BackupSHA256 string `json:"backupSHA256,omitempty"`
	BackupMode   string `json:"backupMode,omitempty"`
	AfterSHA256  string `json:"afterSHA256,omitempty"`
}

// NodeRecord is what a node was like right before its kubelet was changed. It is kept while the step is under way, so
// that a process that continues after a crash compares with the same. It is removed when the step is done.
type NodeRecord struct {
	UID        string `json:"uid"`
	ProviderID string `json:"providerID,omitempty"`
	// Addresses are Type=address, in the object's order.
	Addresses []string          `json:"addresses,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Taints are key=value:effect, sorted.
	Taints []string `json:"taints,omitempty"`
	// Drivers are the CSI drivers that were registered on the node, sorted.
	Drivers []string `json:"drivers,omitempty"`
	// Attachable are the allocatable attachable-volumes-* resources.
	Attachable map[string]string `json:"attachable,omitempty"`
	// ReadyPods are the pods of the node that were Ready, namespace/name, sorted.
	ReadyPods []string `json:"readyPods,omitempty"`
	// Names are those in the serving certificate of the kubelet; empty when it could not be looked at.
	Names []string `json:"names,omitempty"`
	// PID and StartTicks name the kubelet's process that ran before.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"startTicks,omitempty"`
}

// UndoRecord is a change of a host that is being taken back because its node did not come back as it was.
type UndoRecord struct {
	Started time.Time `json:"started"`
	// Reason is a clause that says what was not as before.
	Reason string `json:"reason"`
	// Ended is when the host was seen to be as it was; nil while that is not so.
	Ended *time.Time `json:"ended,omitempty"`
}

// KindRunEvent is the kind of RunEvent.
const KindRunEvent = "RunEvent"

// RunEventType is what a line of -o jsonl is about: of apply, rollback or fleet apply.
type RunEventType string

// Types of a RunEvent, in the order in which a run has them.
const (
	// EventVersion is the first line: which program writes the others.
	EventVersion RunEventType = "version"
	// EventFinding is a finding that did not pass, where findings block the run.
	EventFinding RunEventType = "finding"
	// EventPlan is the plan that is shown before it is executed, or after --dry-run instead of it.
	EventPlan RunEventType = "plan"
	// EventQuestion says that an administrator is asked on standard error. Nothing goes on until the answer.
	EventQuestion RunEventType = "question"
	// EventStepStarted says that a step is being done.
	EventStepStarted RunEventType = "step.started"
	// EventStepProgress says what a step does or waits for.
	EventStepProgress RunEventType = "step.progress"
	// EventStepDeferred says that steps come after others of their phase.
	EventStepDeferred RunEventType = "step.deferred"
	// EventStepPaused and EventStepResumed say that the run waits before a step, and that it goes on.
	EventStepPaused  RunEventType = "step.paused"
	EventStepResumed RunEventType = "step.resumed"
	// EventStepFinished is the last line about a step. It comes without step.started where the step's effect was there
	// already, and where the step was skipped.
	EventStepFinished RunEventType = "step.finished"
	// EventWaveStarted says that the clusters of a wave are those whose turn it is. EventWaveWaiting says that none of
	// them starts before those of the wave before it were watched.
	EventWaveStarted RunEventType = "wave.started"
	EventWaveWaiting RunEventType = "wave.waiting"
	// EventClusterStarted says that the object of a cluster was written so that the operator migrates it.
	EventClusterStarted RunEventType = "cluster.started"
	// EventClusterProgress says that the phase of a cluster's migration is another one, or what it waits for.
	EventClusterProgress RunEventType = "cluster.progress"
	// EventClusterFinished says that a cluster is done, failed or was passed over. It comes again for a cluster that was
	// repaired, since the rollout follows it further.
	EventClusterFinished RunEventType = "cluster.finished"
	// EventRolloutFinished says that the rollout ended, and how many clusters stand where.
	EventRolloutFinished RunEventType = "rollout.finished"
	// EventFinished is the last line.
	EventFinished RunEventType = "finished"
)

// RunEvent is one line of apply -o jsonl, of rollback -o jsonl and of fleet apply -o jsonl. Which of its fields are
// there depends on Type. Readers ignore types and fields that they do not know.
type RunEvent struct {
	Type     RunEventType `json:"type"`
	TypeMeta `json:",inline"`
	// Time is by the clock of the process that executes the run.
	Time time.Time `json:"time"`
	// Command is apply, rollback or fleet apply, and Version that of the program: in the line of type version.
	Command string `json:"command,omitempty"`
	Version string `json:"version,omitempty"`
	// Step is the one that the line is about.
	Step *RunStep `json:"step,omitempty"`
	// Wave and Cluster of a rollout are those that the line is about.
	Wave    *RunWave    `json:"wave,omitempty"`
	Cluster *RunCluster `json:"cluster,omitempty"`
	// Result of a step or a cluster that is finished: done, already-done, skipped or failed.
	Result StepResult `json:"result,omitempty"`
	// Message is what is waited for, asked, or went wrong.
	Message string `json:"message,omitempty"`
	// Waiting reports whether Message is what the step waits for.
	Waiting bool `json:"waiting,omitempty"`
	// Plan and PlanSHA256 of a line of type plan: the SHA-256 is what --plan-sha256 takes.
	Plan       *Plan  `json:"plan,omitempty"`
	PlanSHA256 string `json:"planSHA256,omitempty"`
	// DryRuns of a line of type plan: what the API server says of its objects, with --dry-run=server.
	DryRuns []DryRun `json:"dryRuns,omitempty"`
	// FleetPlan of a line of type plan of fleet apply, which has none of the two above.
	FleetPlan *FleetPlan `json:"fleetPlan,omitempty"`
	// Totals of a line of type rollout.finished.
	Totals *RunTotals `json:"totals,omitempty"`
	// Finding of a line of type finding.
	Finding *Finding `json:"finding,omitempty"`
	// Changed are the facts that make the plan stale: in a line of type finished with exit code 6.
	Changed []ChangedFact `json:"changed,omitempty"`
	// ExitCode of a line of type finished: that of the process.
	ExitCode *int `json:"exitCode,omitempty"`
}

// RunWave names a wave of a rollout.
type RunWave struct {
	// Number from 1, of Total.
	Number int `json:"number"`
	Total  int `json:"total"`
	// Clusters that the wave has, those included that were done before.
	Clusters int `json:"clusters"`
	// Until is when the wave before has been watched for long enough: in the line of type wave.waiting.
	Until *time.Time `json:"until,omitempty"`
}

// RunCluster names a cluster of a rollout, and says how its migration stands.
type RunCluster struct {
	// Name and Group of the Cluster object.
	Name  string `json:"name"`
	Group string `json:"group"`
	// Wave of the rollout that it is in, from 1.
	Wave int `json:"wave"`
	// Phase and Standing are those of FleetCluster; both are empty for a cluster that was deleted, or started just now.
	Phase    string `json:"phase,omitempty"`
	Standing string `json:"standing,omitempty"`
}

// RunTotals counts the clusters of a rollout; each is in exactly one of the fields.
type RunTotals struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
	// Skipped were passed over, since a user held, paused or deleted them meanwhile.
	Skipped int `json:"skipped"`
	// Running are carried on by the operator.
	Running    int `json:"running"`
	NotStarted int `json:"notStarted"`
}

// RunStep names a step of the plan.
type RunStep struct {
	// ID is that of the plan.
	ID    string `json:"id"`
	Phase string `json:"phase,omitempty"`
	Title string `json:"title,omitempty"`
	Host  string `json:"host,omitempty"`
	// Number in the plan, from 1, of Total.
	Number int `json:"number,omitempty"`
	Total  int `json:"total,omitempty"`
}
