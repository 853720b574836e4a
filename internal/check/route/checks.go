// Package route decides whether routes and pod CIDRs stay what they are. It judges who runs the loops, which ranges are
// used, and what the cloud's route table holds.
package route

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about pod CIDRs and the routes to them.
var Checks = []rule.Check{
	routesHaveNodes,    // ROUTE-001: a row that stops the route loop
	networkUnavailable, // ROUTE-002: nodes that wait for a route
	routeLoopDiffers,   // ROUTE-003: routes that begin or end with the new manager
	twoRouters,         // ROUTE-004: routes that no pod uses
	routeTableFull,     // ROUTE-005: no row left for a node
	routeTables,        // ROUTE-006: two tables, and the loop takes none
	routesDiffer,       // ROUTE-007: rows that the new manager would change
	ipamByCloud,        // IPAM-001: pod CIDRs that come from the in-tree provider
	podCIDRMissing,     // IPAM-002: nodes without one
	podCIDROverlap,     // IPAM-003: nodes with another's
	nodeMasks,          // IPAM-004: pieces of another size, or none left
	twoAllocators,      // IPAM-005: two managers that give them out
}
