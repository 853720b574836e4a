package node

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about what a node is to the cloud.
var Checks = []rule.Check{
	providerIDs,      // NODE-001: nodes that the new manager cannot look up
	nodesInCloud,     // NODE-002: nodes that the new manager would delete
	nodesReady,       // NODE-003: nodes that come back to the load balancers
	nodesInitialised, // NODE-004: nodes that wait for a manager that is not there
	providerIDForm,   // NODE-005: ids that name no instance
	providerIDShared, // NODE-006: two nodes, one instance
	addressShared,    // NODE-007: two nodes, one address
	nodeNames,        // NODE-008: names that no provider would find
	resourceNames,    // NODE-009: names that change when a node registers again
	previewFound,     // NODE-010: the new provider finds every node
	previewIdentity,  // NODE-011: and knows it by the same id
	previewAddresses, // NODE-012: at the same addresses
	previewTopology,  // NODE-013: in the same zone
	topologyLabels,   // NODE-014: labels that the new manager would change
	providedAddress,  // NODE-015: addresses that it would not write
	severalAddresses, // NODE-016: addresses whose order it may change
	systemUUIDs,      // NODE-017: virtual machines that it would not find
	metadataAtRisk,   // NODE-018: what is lost with a Node object
	windowsNodes,     // NODE-019: kubelets that no plan changes
}
