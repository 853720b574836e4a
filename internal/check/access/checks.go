package access

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about what this tool needs: the API, the hosts and rights.
var Checks = []rule.Check{
	apiReachable,    // API-001: without the API nothing else is known
	clockOff,        // API-002: elections are judged by clocks
	hostsReadable,   // HOST-001: nor without the hosts' files
	hostsComplete,   // HOST-002: a manager on a host that was not named would stay in-tree
	hostsDistinct,   // HOST-003: a step on one host would be proven by another
	hostsOfCluster,  // HOST-004: another cluster would be changed
	callerAccess,    // RBAC-001: apply would stop half-way
	managerRights,   // RBAC-002: the new manager would lead and be refused
	otherAuthorizer, // RBAC-003: roles have no effect without RBAC
	mainLeaseAccess, // RBAC-004: a role that was patched by merge
	writeRefused,    // PROOF-001: what a webhook or quota refuses is found by asking
}
