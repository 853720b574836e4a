package v1alpha1

import "time"

// States of a run as Status has them. They say more than the journal's phase does: whether anybody works on it, and how
// it goes.
const (
	StateNotStarted = "not-started"
	StateApplying   = "applying"
	// StateStalled: the lock is there, and its holder has not renewed it for longer than it lasts.
	StateStalled = "stalled"
	// StatePaused: an administrator asked the run to wait.
	StatePaused = "paused"
	// StateFailed: the last step that was started failed, and no process works on it.
	StateFailed = "failed"
	// StateStopped: no process works on it, and no step failed. It was interrupted, or told to stop behind a step.
	StateStopped     = "stopped"
	StateApplied     = "applied"
	StateRollingBack = "rolling-back"
	StateRolledBack  = "rolled-back"
	// StateUnknown: the journal may not be read.
	StateUnknown = "unknown"
)

// Status is one screen about a migration, from what the API shows: no host is asked.
type Status struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	// Time is that of the API server, by which all ages here are measured.
	Time time.Time `json:"time"`
	// Run is empty when no migration was started.
	Run string `json:"run,omitempty"`
	// State is not-started, applying, stalled, paused, failed, stopped, applied, rolling-back or rolled-back; "unknown"
	// when the journal may not be read.
	State string `json:"state"`
	// Phase is that of the journal: applying, applied, rolling-back, rolled-back; or not-started.
	Phase   string    `json:"phase"`
	Started time.Time `json:"started,omitzero"`
	// PlanSHA256 is that of the plan which is executed, or taken back by its rollback: what apply and rollback take
	// with --plan-sha256.
	PlanSHA256 string `json:"planSHA256,omitempty"`
	StepsDone  int    `json:"stepsDone"`
	StepsTotal int    `json:"stepsTotal"`
	// Section is the phase of the plan that is under way, the SectionNumber-th of Sections.
	Section       string `json:"section,omitempty"`
	SectionNumber int    `json:"sectionNumber,omitempty"`
	Sections      int    `json:"sections,omitempty"`
	// SectionTimes are those of the phases of which a step was begun, in the order of the plan.
	SectionTimes []SectionTime `json:"sectionTimes,omitempty"`
	// Findings are those that did not pass when the plan was made, in the order of the checks.
	Findings []PlanFinding `json:"findings,omitempty"`
	// Current are the steps that were begun and are not finished.
	Current []StepStatus `json:"current,omitempty"`
	// Upcoming is the step that comes next where none is under way and not all are done.
	Upcoming string `json:"upcoming,omitempty"`
	// LastError is why the last step that was tried is not done. LastErrorStep names it, and LastErrorSeconds says how
	// long ago that was; empty and nil where that is not known.
	LastError        string   `json:"lastError,omitempty"`
	LastErrorStep    string   `json:"lastErrorStep,omitempty"`
	LastErrorSeconds *float64 `json:"lastErrorSeconds,omitempty"`
	// StoppedBehind is the step behind which the last command was told to stop, and did; empty where it was not.
	StoppedBehind string `json:"stoppedBehind,omitempty"`
	// Untrusted says which rules the journal breaks, so that no command goes on with it; empty when it keeps them all.
	Untrusted string `json:"untrusted,omitempty"`
	// Lock is nil when it is free.
	Lock *LockStatus `json:"lock,omitempty"`
	// Paused is who asked the run to wait; nil when there was no such request.
	Paused *Pause `json:"paused,omitempty"`
	// ElapsedSeconds is from the beginning of the run to its end, or to now.
	ElapsedSeconds float64 `json:"elapsedSeconds,omitempty"`
	// IdleSeconds are those of ElapsedSeconds during which the run was paused, or no command executed it.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
	// Remaining is how much longer it takes; nil when it is not known, or when no process works on it.
	Remaining *Range `json:"remaining,omitempty"`
	// Nodes are the hosts and nodes that steps are about, the worst first.
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Health is what stands in the way, the worst first.
	Health []Blocker `json:"health,omitempty"`
	// Owners maps a loop to component@host, as far as the API shows it; OwnersFrom says for each loop how it is known.
	Owners     map[string]string `json:"owners,omitempty"`
	OwnersFrom map[string]string `json:"ownersFrom,omitempty"`
	// Leases are those of the managers and of the migration, by name.
	Leases []LeaseStatus `json:"leases,omitempty"`
	// Disruption is what the probes of who executes the run have seen so far; empty where none run. Probes are the same
	// in numbers.
	Disruption string       `json:"disruption,omitempty"`
	Probes     *ProbeTotals `json:"probes,omitempty"`
	// Objectives say how those of KEP-2395 stand, in the words of who executes the run. They are empty where no manager
	// has shown its series.
	Objectives string `json:"objectives,omitempty"`
	// NotRead are the sentences that name what could not be read, and so is not in this document.
	NotRead []string `json:"notRead,omitempty"`
	Next    string   `json:"next,omitempty"`
}

// Range is a time that is not known exactly, in seconds.
type Range struct {
	LowSeconds  float64 `json:"lowSeconds"`
	HighSeconds float64 `json:"highSeconds"`
}

// StepStatus is a step that is under way.
type StepStatus struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Host  string `json:"host,omitempty"`
	// SinceSeconds is how long ago it was begun.
	SinceSeconds float64 `json:"sinceSeconds"`
	// Waiting is what it waits for, in the words of who executes it, since WaitingSeconds; empty where that is not
	// published.
	Waiting        string  `json:"waiting,omitempty"`
	WaitingSeconds float64 `json:"waitingSeconds,omitempty"`
	// Latest is what was last said of it, where that is no wait.
	Latest string `json:"latest,omitempty"`
}

// LockStatus is the lock on the cluster.
type LockStatus struct {
	Holder string `json:"holder"`
	// User, Host and PID are those parts of Holder; empty and 0 where it is no holder of ours.
	User string `json:"user,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// AgeSeconds is how long ago the lock was renewed; AgeFrom says by which clocks that is known.
	AgeSeconds float64 `json:"ageSeconds"`
	AgeFrom    string  `json:"ageFrom,omitempty"`
	// Expired reports whether it was not renewed for longer than it lasts.
	Expired bool `json:"expired,omitempty"`
}

// LeaseStatus is a lease under which a manager runs loops.
type LeaseStatus struct {
	Name   string `json:"name"`
	Holder string `json:"holder,omitempty"`
	// AgeSeconds is how long ago it was renewed.
	AgeSeconds float64 `json:"ageSeconds"`
	// Expired reports whether it was not renewed for longer than it lasts: no process acts under it.
	Expired bool `json:"expired,omitempty"`
}

// NodeStatus is how far a host or node is.
type NodeStatus struct {
	Name string `json:"name"`
	// State is Blocked, Working, Pending, Done or Out.
	State string `json:"state"`
	// Done and Total count the steps on it.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Step is the one that is under way, or comes next.
	Step         string  `json:"step,omitempty"`
	SinceSeconds float64 `json:"sinceSeconds,omitempty"`
	Message      string  `json:"message,omitempty"`
}

// States of a node.
const (
	NodeBlocked = "Blocked"
	NodeWorking = "Working"
	// NodeBegun is that of a node with a step that was begun, and that no command executes now.
	NodeBegun   = "Begun"
	NodePending = "Pending"
	NodeDone    = "Done"
	// NodeOut: the host was lost and excluded from the run.
	NodeOut = "Out"
)

// BlockerCode says what a Blocker is about. A code keeps its meaning, so that who compares codes may ignore the words.
type BlockerCode string

// Codes of a Blocker. Where a check finds the same, its reason is the code.
const (
	// BlockerJournalUntrusted: the journal is not what a migration writes, and no command goes on with it.
	BlockerJournalUntrusted BlockerCode = "JournalUntrusted"
	// BlockerRunFailed: the last step that was tried failed, and no process executes the run.
	BlockerRunFailed BlockerCode = "RunFailed"
	// BlockerRunStopped: no process executes the run, though no user told it to stop and no step failed.
	BlockerRunStopped BlockerCode = "RunStopped"
	// BlockerPaused: a user or the run itself has asked for a pause.
	BlockerPaused BlockerCode = "Paused"
	// BlockerLockSilent: the holder of the lock missed several renewals, and the lock is still its own.
	BlockerLockSilent BlockerCode = "LockSilent"
	// BlockerLockExpired: the lock was not renewed for longer than it lasts.
	BlockerLockExpired BlockerCode = "LockExpired"
	// BlockerStepSlow: a step takes far longer than the plan estimates.
	BlockerStepSlow BlockerCode = "StepSlow"
	// BlockerHostExcluded: a host was excluded from the run, and must not come back as it was.
	BlockerHostExcluded BlockerCode = "HostExcluded"
	// BlockerLoopWithoutOwner: the run has ended, and no manager may run a loop.
	BlockerLoopWithoutOwner BlockerCode = "LoopWithoutOwner"
	// BlockerTwoOwners: a loop of a hosted control plane runs in more than one manager.
	BlockerTwoOwners BlockerCode = "TwoOwners"
	// BlockerLeaseExpired: no manager renews a lease, so that the loops under it stand still.
	BlockerLeaseExpired BlockerCode = "LeaseExpired"
	// BlockerNodeNotReady: nodes are not Ready.
	BlockerNodeNotReady BlockerCode = "NodeNotReady"
	// BlockerPodNotReady: a pod of the control plane is not Ready.
	BlockerPodNotReady BlockerCode = "PodNotReady"
	// BlockerNodeWarning: a warning about Nodes was reported within the last minutes.
	BlockerNodeWarning BlockerCode = "NodeWarning"
	// BlockerServiceWarning: a warning about Services was reported within the last minutes.
	BlockerServiceWarning BlockerCode = "ServiceWarning"
	// BlockerTokenExpires: the token of a hosted cloud-controller-manager cannot be used, or not for long.
	BlockerTokenExpires BlockerCode = "TokenExpires"
	// BlockerClockOff: the clock of the machine that executes the run differs from the API server's.
	BlockerClockOff BlockerCode = "ClockOff"
)

// Blocker is something that stands in the way of a run, or that an operator should know of.
type Blocker struct {
	// Code says what it is about. It is stable, and Message is not.
	Code BlockerCode `json:"code"`
	// Level is error, warning or info.
	Level string `json:"level"`
	// Impact is what suffers, in two words: migration, node, control plane, load balancers.
	Impact  string `json:"impact"`
	Message string `json:"message"`
	// SinceSeconds is for how long; nil where that is not known.
	SinceSeconds *float64 `json:"sinceSeconds,omitempty"`
}

// PlanFinding is a finding that the plan in the journal was made with, and that did not pass. Finding has its words.
type PlanFinding struct {
	// Code and Level are those of a check that this version has.
	Code  string `json:"code"`
	Level string `json:"level"`
	// Outcome is warn, fail or unknown. One that fails or is unknown was accepted.
	Outcome Outcome `json:"outcome"`
}

// SectionTime is for how long a phase of the plan was executed.
type SectionTime struct {
	// Section is one of the phases that this version plans.
	Section string `json:"section"`
	// Result is done when all of its steps are, failed when the last try of one of them ended with an error, else started.
	Result StepResult `json:"result"`
	// Seconds from the begin of its first step to the end of its last, or to now. The times are left out in which the run
	// was paused, or no command executed it.
	Seconds float64 `json:"seconds"`
}

// ProbeTotals are what the probes next to a run have seen so far, in numbers.
type ProbeTotals struct {
	// BudgetSeconds is the longest outage that a path may have; nil when none was given.
	BudgetSeconds *float64 `json:"budgetSeconds,omitempty"`
	// Kinds are those of which a path was probed, each once, in the order of Disruption.Paths.
	Kinds []ProbeKindTotals `json:"kinds,omitempty"`
}

// ProbeKindTotals are those of the paths of one kind.
type ProbeKindTotals struct {
	// Kind is api-read, api-watch, endpoints, tcp, tcp-kept or http.
	Kind string `json:"kind"`
	// Paths that were probed, with those that ended since.
	Paths int `json:"paths"`
	// LongestSeconds is the longest outage of one path. TotalSeconds are the outages of all paths, one added to the other.
	// An outage that lasts counts until now.
	LongestSeconds float64 `json:"longestSeconds"`
	TotalSeconds   float64 `json:"totalSeconds"`
}

// Progress is what the process that executes a run publishes about it, on the lock's Lease, which it renews every few
// seconds anyway.
type Progress struct {
	Run string `json:"run"`
	// Steps are those under way, in the order in which they were begun.
	Steps []StepProgress `json:"steps,omitempty"`
	// Disruption is what its probes have seen so far; empty where none run. Probes are the same in numbers.
	Disruption string       `json:"disruption,omitempty"`
	Probes     *ProbeTotals `json:"probes,omitempty"`
	// Objectives say how those of KEP-2395 stand; empty where no manager has shown its series yet.
	Objectives string `json:"objectives,omitempty"`
}

// StepProgress is a step under way. Times are by the clock of who executes it.
type StepProgress struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	// Waiting is what it waits for, since WaitingSince.
	Waiting      string    `json:"waiting,omitempty"`
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// Latest is what was last said of it, where that is no wait.
	Latest string `json:"latest,omitempty"`
}

// KindTimeline is the kind of Timeline.
const KindTimeline = "Timeline"

// Sources of a TimelineEntry.
const (
	TimelineRun      = "run"
	TimelineStep     = "step"
	TimelineHandover = "handover"
	TimelinePause    = "pause"
	TimelineLease    = "lease"
	TimelineEvent    = "event"
	TimelineProbe    = "probe"
)

// Timeline is what happened during a run, from all sources, in the order of time.
type Timeline struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	Run      string  `json:"run,omitempty"`
	// Phase is that of the journal; "unknown" when it may not be read.
	Phase string `json:"phase,omitempty"`
	// Started is what offsets are counted from: the beginning of the run.
	Started time.Time `json:"started,omitzero"`
	// Untrusted says which rules the journal breaks that the entries are from; empty when it keeps them all.
	Untrusted string          `json:"untrusted,omitempty"`
	Entries   []TimelineEntry `json:"entries"`
	// NotRead are the sentences that name what could not be read, and so is not in this document.
	NotRead []string `json:"notRead,omitempty"`
}

// TimelineEntry is something that happened.
type TimelineEntry struct {
	// Time is by the clock of its source. The journal's is that of the process that executes the run, an event's that
	// of the component that reported it.
	Time time.Time `json:"time"`
	// OffsetSeconds is from the beginning of the run; negative before it.
	OffsetSeconds float64 `json:"offsetSeconds"`
	// DurationSeconds is nil for something that has no duration, or is not over.
	DurationSeconds *float64 `json:"durationSeconds,omitempty"`
	// Source is run, step, handover, pause, lease, event or probe.
	Source string `json:"source"`
	// Level is info, warning or error.
	Level string `json:"level"`
	// Object is what it happened to: a step's ID, a lease, Kind/namespace/name.
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	// Count is how often an event was seen, when more than once; Time is that of the last.
	Count int `json:"count,omitempty"`
}

// Kinds of short answers of commands.
const (
	KindVersion      = "Version"
	KindCheckList    = "CheckList"
	KindExplanation  = "Explanation"
	KindDiff         = "Diff"
	KindChangeResult = "ChangeResult"
	KindTokenList    = "TokenList"
	KindOrphanList   = "OrphanList"
)

// Version says which program this is.
type Version struct {
	TypeMeta `json:",inline"`
	Version  string `json:"version"`
	// Commit that it was built from; empty where the build does not say.
	Commit string `json:"commit,omitempty"`
	// Go is the version of the compiler, Platform the operating system and the architecture.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// CheckList names the checks that this version has.
type CheckList struct {
	TypeMeta `json:",inline"`
	Checks   []CheckInfo `json:"checks"`
}

// CheckInfo is what is known of a check before it has judged anything.
type CheckInfo struct {
	Code     string `json:"code"`
	Reason   string `json:"reason"`
	Category string `json:"category"`
	Level    string `json:"level"`
	Impact   string `json:"impact"`
	Title    string `json:"title"`
	// Mandatory reports whether --accept cannot take its findings.
	Mandatory bool `json:"mandatory"`
	// Retryable reports whether what it finds may pass by itself.
	Retryable bool     `json:"retryable"`
	DependsOn []string `json:"dependsOn,omitempty"`
	// LookFor is what to look for in what the command of a finding prints. OnlyIf is the condition under which one may
	// be run that deletes, drains or stops something. Warning says what it does then.
	LookFor string `json:"lookFor,omitempty"`
	OnlyIf  string `json:"onlyIf,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// Explanation is what a check looks for, why, and what to do about it.
type Explanation struct {
	TypeMeta `json:",inline"`
	Check    CheckInfo `json:"check"`
	// Text is Markdown.
	Text string `json:"text"`
	// Report has the findings of this check in a snapshot; nil where no snapshot was named.
	Report *CheckReport `json:"report,omitempty"`
}

// Diff is what a plan would change in files and objects.
type Diff struct {
	TypeMeta    `json:",inline"`
	Cluster     Cluster       `json:"cluster"`
	Differences []TextualDiff `json:"differences"`
}

// TextualDiff is what would change in one file or object.
type TextualDiff struct {
	// Name is that of the file, after its host, or of the object.
	Name string `json:"name"`
	// Unified is the difference in the format that patch reads. Secrets are masked.
	Unified string `json:"unified"`
}

// ChangeResult is what pause, resume and unlock did.
type ChangeResult struct {
	TypeMeta `json:",inline"`
	// Command is pause, resume or unlock.
	Command string `json:"command"`
	// Changed is false where everything was as asked already.
	Changed bool   `json:"changed"`
	Run     string `json:"run,omitempty"`
	// Phase is that of the journal.
	Phase string `json:"phase,omitempty"`
	// Paused is the request that the run waits for, or the one that was taken back; nil where there was none.
	Paused *Pause `json:"paused,omitempty"`
	// Lock is who held the lock when the command looked; nil when it was free, and when it could not be read.
	Lock *LockStatus `json:"lock,omitempty"`
	// Next is the command that comes next.
	Next string `json:"next,omitempty"`
}

// TokenList is what became of the tokens of cloud-controller-managers.
type TokenList struct {
	TypeMeta `json:",inline"`
	Tokens   []TokenStatus `json:"tokens"`
}

// TokenStatus is the token of one manager.
type TokenStatus struct {
	// Host that has the token in a file, or Namespace of the control plane in a seed.
	Host      string `json:"host,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// State is renewed, valid or endless.
	State string `json:"state"`
	// Expires is when it ends; zero for one that never does.
	Expires time.Time `json:"expires,omitzero"`
}

// States of a token.
const (
	TokenRenewed = "renewed"
	TokenValid   = "valid"
	// TokenEndless never expires: an earlier version of transplant made it.
	TokenEndless = "endless"
)

// OrphanList is what remove-orphans found of the cloud objects that it was given, and what became of each.
type OrphanList struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	// Changed reports whether anything was removed.
	Changed bool     `json:"changed"`
	Orphans []Orphan `json:"orphans"`
}

// Orphan is a cloud object that a manager made for a Service which may be gone.
type Orphan struct {
	ID string `json:"id"`
	// Kind is "load balancer", "floating IP" or "security group"; empty for an object that does not exist.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Service is what the object's name or description says: namespace/name, or a UID.
	Service string      `json:"service,omitempty"`
	State   OrphanState `json:"state"`
	// Reason is why it is not removed, or what it waits for.
	Reason string `json:"reason,omitempty"`
	// Goes is all that is deleted with it, itself first. Stays is what belongs to it and is not deleted.
	Goes  []OrphanPart `json:"goes,omitempty"`
	Stays []OrphanPart `json:"stays,omitempty"`
}

// OrphanPart is one cloud object that goes with an orphan, or stays.
type OrphanPart struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Reason is why it stays.
	Reason string `json:"reason,omitempty"`
}

// OrphanState is what may be done with an orphan, or was done.
type OrphanState string

// States of an orphan.
const (
	// OrphanFound may be removed.
	OrphanFound OrphanState = "found"
	// OrphanRefused is no orphan of this cluster, as far as can be known.
	OrphanRefused OrphanState = "refused"
	// OrphanPending is being changed: it can be removed later.
	OrphanPending OrphanState = "pending"
	// OrphanRemoved is gone.
	OrphanRemoved OrphanState = "removed"
	// OrphanMissing did not exist when the command started.
	OrphanMissing OrphanState = "missing"
)
