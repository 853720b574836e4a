// Package leadermigration decides whether the loops can be handed over. It judges names in leader migration configs,
// leases and their holders, the owner of each loop, and the series that prove it.
package leadermigration

import (
	"github.com/transplant-dev/transplant/internal/check/controlplane"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

// Checks are the checks about who owns the loops, and by which lease.
var Checks = []rule.Check{
	controllerNames,        // LM-001: names of another version match nothing
	migrationLeftOn,        // LM-002: a process that owns nothing keeps the lease from those who could
	leaseAccess,            // LM-003: without the rights no loop runs, and nothing says so
	resourceLock,           // LM-004: a line that one version ignores and another dies of
	defaultConfig,          // LM-005: upstream's default matches nothing since 0.28
	ownership,              // LM-006: each loop has exactly one owner now
	idleHolder,             // LM-007: the migration lease is held by a manager that runs nothing
	differentLeases,        // LM-008: two leases exclude no manager
	holderUnknown,          // LM-009: a manager that was not named
	leadershipUnstable,     // LM-010: a leader that changes by itself makes steps fail
	lockKinds,              // LM-011: locks of different kinds exclude no manager
	migrationGate,          // LM-012: the gate that old versions need
	migrationMixed,         // LM-013: a host without leader migration does not respect the lease
	loopErrors,             // LM-014: what was wrong before is not the migration's doing
	inTreeUnfenced,         // GAP-001: what cannot be promised
	controlplane.GapLength, // GAP-002: how long no manager runs the loops
	seriesMove,             // GAP-003: alerts that would fall silent
}
