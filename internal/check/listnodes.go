package check

// nodeChecks are the checks about what a node is to the cloud.
var nodeChecks = []Check{
	providerIDs,      // NODE-001: nodes that the new manager cannot look up
	nodesInCloud,     // NODE-002: nodes that the new manager would delete
	nodesReady,       // NODE-003: nodes that come back to the load balancers
	nodesInitialised, // NODE-004: nodes that wait for a manager that is not there
}
