package scheduling

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about what could keep the new manager from running at all.
var Checks = []rule.Check{
	webhookDead,               // HOOK-001: writes that no webhook answers
	webhookDeadlock,           // HOOK-002: each waits for the other
	webhookSlow,               // HOOK-003: leases that are held too long
	webhookOutside,            // HOOK-004: answers that cannot be foreseen
	webhookOnMigration,        // HOOK-005: policies that were never asked
	tolerationMissing,         // SCHED-001: what does not start on a new node
	controlPlaneUnschedulable, // SCHED-002: nowhere to run
	drainBlocked,              // SCHED-003: nodes that cannot be emptied
	autoscalerActive,          // SCHED-004: nodes that come in the gap
	machinesRolling,           // SCHED-005: nodes that come and go
	machinesAtZero,            // SCHED-006: nothing to rotate, and all of it done
	machinesMixed,             // SCHED-007: kubelets of both kinds
}
