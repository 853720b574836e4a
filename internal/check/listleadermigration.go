package check

// leaderMigrationChecks are the checks about who owns the loops, and by which lease.
var leaderMigrationChecks = []Check{
	controllerNames, // LM-001: names of another version match nothing
	migrationLeftOn, // LM-002: a process that owns nothing keeps the lease from those who could
	leaseAccess,     // LM-003: without the rights no loop runs, and nothing says so
	resourceLock,    // LM-004: a line that one version ignores and another dies of
	defaultConfig,   // LM-005: upstream's default matches nothing since 0.28
	ownership,       // LM-006: each loop has exactly one owner now
	idleHolder,      // LM-007: the migration lease is held by a manager that runs nothing
	differentLeases, // LM-008: two leases exclude nobody
	inTreeUnfenced,  // GAP-001: what cannot be promised
}
