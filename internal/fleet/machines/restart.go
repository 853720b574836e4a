package machines

import (
	"time"
)

// Policy is how MachineDeployments are restarted.
type Policy struct {
	// Wanted tells that the cluster's owner asks for it (AnnotationRestartMachines). Nothing is restarted otherwise, and a restart that stopped is
	// forgotten, so that taking the annotation off and putting it on again is how one tries again.
	Wanted bool
	// Hold is why no further MachineDeployment may be begun now, a sentence; empty when one may. What was begun is seen to its end, or stopped.
	Hold string
	// MaxUnavailable is how many machines of the cluster may be missing: a number or a percentage (rounded down, at least 1); empty means 1.
	MaxUnavailable string
	// Timeout is how long a MachineDeployment may be without progress, and a new machine without a node that works; default 20 minutes.
	Timeout time.Duration
}

// Step is what Next allows to do now: at most one thing.
type Step struct {
	// Restart is the MachineDeployment to restart, and Value what its annotation forceRestart becomes; nil for none.
	Restart *Deployment
	Value   string
	// Pause is the MachineDeployment whose rollout has to be stopped; Resume one that we stopped and that may go on.
	Pause, Resume *Deployment
	// Record is what has to be remembered of the restart from now on, before anything is done.
	Record Restart
	// Waiting says what is waited for, a sentence; empty when there is nothing to wait for.
	Waiting string
	// Stopped is why nothing is restarted any longer.
	Stopped *Stopped
	// Rolling tells that machines are being replaced: a MachineDeployment was begun, and is neither over nor stopped.
	Rolling bool
	// Done tells that no MachineDeployment has to be restarted.
	Done bool
}
