package check

// Categories, in reporting order: who has to act.
const (
	categoryAccess          = "access"
	categoryControlPlane    = "control plane"
	categoryLeaderMigration = "leader migration"
	categoryVersions        = "versions"
	categoryConfig          = "configuration"
	categoryNodes           = "nodes"
	categoryCloud           = "cloud"
)

// Checks are all checks in reporting order. A check comes after those it depends on.
var Checks = []Check{
	apiReachable,   // API-001: without the API nothing else is known
	hostsReadable,  // HOST-001: nor without the hosts' files
	hostsComplete,  // HOST-002: a manager on a host that nobody named would stay in-tree
	callerAccess,   // RBAC-001: apply would stop half-way
	manifestsParse, // CP-003: a manifest that is read wrongly would be written wrongly

	inTreeEverywhere, // CP-001: what moves has to be there
	leaderElection,   // CP-002: without it nothing keeps two owners apart
	sameCloudFlags,   // CP-004: the owner would change its behaviour with its host
	podsCurrent,      // CP-005: what runs is not what the manifest says
	oneProcess,       // CP-006: nobody, or two, act on one host
	halfMigrated,     // CP-007: somebody began and left

	controllerNames,    // LM-001: names of another version match nothing
	migrationLeftOn,    // LM-002: a process that owns nothing keeps the lease from those who could
	leaseAccess,        // LM-003: without the rights no loop runs, and nothing says so
	resourceLock,       // LM-004: a line that one version ignores and another dies of
	defaultConfig,      // LM-005: upstream's default matches nothing since 0.28
	ownership,          // LM-006: each loop has exactly one owner now
	idleHolder,         // LM-007: the migration lease is held by a manager that runs nothing
	differentLeases,    // LM-008: two leases exclude nobody
	inTreeUnfenced,     // GAP-001: what cannot be promised
	ccmRange,           // VER-001: our manager against this API server
	providerInTree,     // VER-002: the in-tree provider exists in this version
	managerSkew,        // VER-003: managers and API servers fit each other
	cloudConfig,        // CFG-001: the external provider's configuration can be derived
	credentialVariable, // CRED-001: credentials that the new manager would not have

	providerIDs,       // NODE-001: nodes that the new manager cannot look up
	nodesInCloud,      // NODE-002: nodes that the new manager would delete
	nodesReady,        // NODE-003: nodes that come back to the load balancers
	nodesInitialised,  // NODE-004: nodes that wait for a manager that is not there
	excludeLabel,      // LB-001: a label whose value begins to matter
	inventoryComplete, // CLOUD-001: before and after can be compared
	routesHaveNodes,   // ROUTE-001: a row that stops the route loop
}

// List returns a copy of all checks in reporting order.
func List() []Check { return append([]Check(nil), Checks...) }
