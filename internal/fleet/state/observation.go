package state

import (
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Part is a part of a migration that the engine executes, as hosted.Part.
type Part string

// The parts, in order. NoPart is none.
const (
	NoPart   Part = ""
	Handover Part = "handover"
	Finish   Part = "finish"
	// Install stands in the place of Handover where a cluster was made external: there is no loop to hand over.
	Install Part = "install"
)

// Stage is how far a part is by its journal.
type Stage string

// The stages of a part.
const (
	NotBegun    Stage = ""
	Begun       Stage = "begun"
	Done        Stage = "done"
	RollingBack Stage = "rolling-back"
	RolledBack  Stage = "rolled-back"
)

// Outcome is how the last run of the engine ended.
type Outcome string

// The outcomes of a run.
const (
	NoOutcome   Outcome = ""
	Succeeded   Outcome = "succeeded"
	Blocked     Outcome = "blocked"     // the checks refuse; nothing was changed
	Locked      Outcome = "locked"      // another process is changing the cluster
	Stale       Outcome = "stale"       // the control plane is not as it was when the plan was made
	Unreachable Outcome = "unreachable" // an API server did not answer; that passes
	Interrupted Outcome = "interrupted" // it was told to stop
	Broken      Outcome = "broken"      // a step failed, or its effect did not show
	NoWayBack   Outcome = "no-way-back" // a rollback was asked for after Finish had begun
)

// Observation is what is known of a cluster at one moment. A zero part of it means that it was not read yet.
type Observation struct {
	Now time.Time
	// Cluster is the object as the cache has it, with the conditions that were last written.
	Cluster *kubermaticv1.Cluster
	// Groups are the API groups under which there is a Cluster of this name.
	Groups []string
	// Refusals are the sentences of the rules that this object breaks: unsupported providers and versions, downgrades.
	Refusals []string
	// Unjudged reports whether Refusals only say that too little is known for a judgement.
	Unjudged bool
	// Installs reports whether this program has a cloud-controller-manager for the provider of the cluster.
	Installs bool

	Plane    Plane
	Journal  Journal
	Run      Run
	Owners   Owners
	Parts    Parts
	Machines Machines
	// Token is when the token of a completed cluster's manager was last looked at.
	Token Seen
}

// Plane is the cluster's control plane in the seed, from the cache of Deployments.
type Plane struct {
	// Known is false until the cache is complete.
	Known bool
	// Refused says that the operator may not read the namespace, and what to do; empty where it may.
	Refused string
	// Apiserver and ControllerManager are nil when there is no such Deployment.
	Apiserver, ControllerManager *Workload
	// InTree is the provider that kube-controller-manager's flags name; empty when that is external or none.
	InTree string
	// Foreign is a Deployment that runs a cloud-controller-manager and was made by another program; empty when there is
	// none.
	Foreign string
}

// Workload is a Deployment's counts.
type Workload struct{ Desired, Ready int32 }

// Journal is how far the parts are, read from the seed namespace.
type Journal struct {
	Known bool
	// At is when it was last read or tried to be read; Error is why it could not be.
	At               time.Time
	Error            string
	Handover, Finish Stage
	// Install reports whether the journal of Handover is that of an Install.
	Install bool
}

// Run is the engine's run for this cluster: the one under way, or how the last one ended.
type Run struct {
	// Active is that one is under way for Part; Back that it is a rollback.
	Active bool
	Part   Part
	Back   bool
	// Step is the title of the last step that was told of, Number and Total count it. Waiting is what the step waits for.
	Step          string
	Number, Total int
	Waiting       string
	// Paused says why the run waits for a person, and how it goes on; empty where it does not.
	Paused string
	// Outcome, Message and Ended are about the last run that ended. Failures counts those that ended broken or stale, one
	// after the other, Retries all that did not succeed.
	Outcome           Outcome
	Message           string
	Ended             time.Time
	Failures, Retries int
}

// ForgetStep forgets where the run was: it has ended, or another one begins.
func (r *Run) ForgetStep() { r.Step, r.Number, r.Total, r.Waiting, r.Paused = "", 0, 0, "", "" }

// Seen is when something was last looked at.
type Seen struct {
	// At is the end of the last look, good or bad; zero before the first one.
	At time.Time
	// Error is why the last look failed; empty for a good one. What is next to it is then from an earlier look.
	Error string
	// Failures counts the looks that failed, one after the other.
	Failures int
	// Known is that some look was good.
	Known bool
}

// Owners says who ran the cloud loops at the last look. Every loop that the cluster has is in exactly one of the first
// four lists.
type Owners struct {
	Seen
	// InTree are loops of a kube-controller-manager, External of a cloud-controller-manager, Twice of both; the last field
	// of none.
	InTree, External, Twice, Unowned []string
	// ByLease are those of them whose owner does not say that it runs them: it holds its lease, and its flags leave them
	// on.
	ByLease []string
	// Unsure are sentences about what did not answer. While there are any, it is not proven that no manager runs the
	// loops.
	Unsure []string
}

// AllExternal reports whether each loop has a cloud-controller-manager and no other owner.
func (o Owners) AllExternal() bool {
	return o.Known && o.Error == "" && len(o.External) > 0 && len(o.InTree)+len(o.Twice)+len(o.Unowned) == 0
}

// Parts says how the CSI driver, machine-controller, its webhook and operating-system-manager stand.
type Parts struct {
	Seen
	// Ready is that all of them are patched and rolled out.
	Ready bool
	// CSIReady is that the CSI driver's controller and node parts run, or that none is wanted; CSI says which, or what is
	// missing.
	CSIReady bool
	CSI      string
	// Waiting are sentences about what is not ready.
	Waiting []string
}

// Machines says how many machines are external.
type Machines struct {
	Seen
	// Total are all machines that are not being deleted, Migrated those of them whose node really is external, Deleting
	// the others.
	Total, Migrated, Deleting int
	// Done is that nothing in the cluster is or will be of the old sort.
	Done bool
	// Reasons are sentences about what is not migrated, and why, sorted; More is how many further ones were left out.
	Reasons []string
	More    int
	// Moved is when Migrated last changed.
	Moved time.Time
	// Regression is why a restart by the operator was stopped; empty when none was.
	Regression string
	// Rolling is that the operator is restarting a MachineDeployment, which is neither over nor stopped.
	Rolling bool
	// Watched is that changes in the user cluster are told. Changed is when the first one was told since Looked, the
	// beginning of the last look.
	Watched         bool
	Changed, Looked time.Time
}

// Limits are the times and counts that decisions depend on. The zero value of a time-out means never.
type Limits struct {
	// StuckQueued and the others are how long a phase may take before ConditionStuck is True.
	StuckQueued, StuckBlocked, StuckHandover, StuckComponents, StuckMachines, StuckFinish time.Duration
	// MaxFailures is how often a part may end broken or stale, one after the other, before the cluster is Failed.
	MaxFailures int
	// Look is how often a cluster in migration is looked at, Audit how often the machines of a completed one are; 0 for
	// never.
	Look, Audit time.Duration
	// Renew is how often the token of a completed cluster's manager is looked at, which lasts for months; 0 for never.
	Renew time.Duration
	// Retry is the wait after the first run that did not succeed; it doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	// Version stands in the conditions as the version of the program that wrote them.
	Version string
}

// DefaultLimits are those of an operator without flags.
func DefaultLimits() Limits {
	return Limits{
		StuckQueued:     2 * time.Hour,
		StuckBlocked:    0,
		StuckHandover:   20 * time.Minute,
		StuckComponents: 15 * time.Minute,
		StuckMachines:   24 * time.Hour,
		StuckFinish:     20 * time.Minute,
		MaxFailures:     3,
		Look:            10 * time.Second,
		Audit:           time.Hour,
		Renew:           12 * time.Hour,
		Retry:           5 * time.Second,
		MaxRetry:        5 * time.Minute,
	}
}
