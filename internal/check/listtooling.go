package check

// toolingChecks are the checks about what this tool needs: the API, the hosts and rights.
var toolingChecks = []Check{
	apiReachable,  // API-001: without the API nothing else is known
	hostsReadable, // HOST-001: nor without the hosts' files
	hostsComplete, // HOST-002: a manager on a host that nobody named would stay in-tree
	callerAccess,  // RBAC-001: apply would stop half-way
}
