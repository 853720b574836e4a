package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Decision is what follows from an observation.
type Decision struct {
	// Phase is the reason of ConditionMigration, Message its message.
	Phase, Message string
	// Conditions are those that this program owns as they should be now. One of these types that is not in it is to be
	// removed.
	Conditions map[kubermaticv1.ClusterConditionType]kubermaticv1.ClusterCondition
	// Events are to be recorded once the conditions are written.
	Events []Event
	Work   Work
	// Wake is when to decide again although nothing has changed; 0 when there is no need to.
	Wake time.Duration
}

// Stuck reports whether the phase takes longer than it may; ok is false for a cluster that is not to be migrated.
func (d Decision) Stuck() (stuck, ok bool) {
	c, ok := d.Conditions[kubermaticv1.ConditionStuck]
	return c.Status == corev1.ConditionTrue, ok
}

// Event is something to tell about the Cluster.
type Event struct {
	Warning      bool
	Reason, Note string
}

// Work is what should be under way. Each item is idempotent; what is under way already is not begun twice.
type Work struct {
	// Annotate is that the annotations of the mutating webhook are missing and have to be added.
	Annotate bool
	// Unconfirm is that the plan that a person confirmed was begun, so that the annotation that says which it was has to
	// go.
	Unconfirm bool
	// Journal is that the journals have to be read.
	Journal bool
	// Run is the part that the engine should be executing; Back that Handover should be taken back.
	Run  Part
	Back bool
	// Stop is that a run under way should end between two steps.
	Stop bool
	// Owners, Parts, Machines are what should be looked at, and in the case of Parts brought about. Restart is that
	// machines may be restarted.
	Owners, Parts, Machines, Restart bool
	// Token is that the token of the cloud-controller-manager has to be renewed where it is due. Parts does that as well.
	Token bool
	// Watch is that changes of machines should be told, as long as it is asked for.
	Watch bool
	// Forget is that failures are forgotten, since an administrator intervened.
	Forget bool
	// Close is that nothing in the user cluster is looked at any more: its client can go.
	Close bool
}

// Idle reports whether nothing is to be done.
func (w Work) Idle() bool {
	return w == Work{} || w == Work{Close: true} || w == Work{Close: true, Forget: true}
}

// Reasons of events and of conditions other than ConditionMigration, whose reasons are the phases.
const (
	// ReasonMigrationFailed is the original's reason of the event that an error of the migration causes.
	ReasonMigrationFailed = "CCMCSIMigrationFailed"
	// ReasonObserved: it was seen to be so.
	ReasonObserved = "Observed"
	// ReasonWaiting: it is not so yet.
	ReasonWaiting = "Waiting"
	// ReasonUnknown: the last look failed, or could not see everything.
	ReasonUnknown = "Unknown"
	// ReasonTwoOwners: two managers run the same loop.
	ReasonTwoOwners = "TwoOwners"
	// ReasonNotWanted: there is no CSI driver, because spec.disableCsiDriver says so.
	ReasonNotWanted = "NotWanted"
	// ReasonInTime and ReasonTooLong: whether a phase takes longer than it may.
	ReasonInTime  = "InTime"
	ReasonTooLong = "PhaseTakesTooLong"
	// ReasonPaused: the run waits for a person, because the managers do not keep their objectives or because it was asked
	// to.
	ReasonPaused = "RunPaused"
	// ReasonRegression: machines that were restarted did not come up as external ones, so no further ones are restarted.
	ReasonRegression = "Regression"
	// ReasonNotExternal: a completed cluster has a machine that is not external.
	ReasonNotExternal = "MachineNotExternal"
	// ReasonPartsChanged and ReasonMachinesRestarted: what the operator changed next to the control plane.
	ReasonPartsChanged      = "PartsChanged"
	ReasonMachinesRestarted = "MachinesRestarted"
	// ReasonPanicked: code of the operator that worked for the cluster has panicked.
	ReasonPanicked = "OperatorPanicked"
	// ReasonRightMissing is that an installation of the operator claims no cluster whose journal it may not read.
	ReasonRightMissing = "RightMissing"
	// ReasonWebhookMissed: the mutating webhook did not see the feature being switched on.
	ReasonWebhookMissed = "WebhookMissed"
)
