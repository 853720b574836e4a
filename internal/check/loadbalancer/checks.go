// Package loadbalancer decides whether load balancers survive a migration: names, members, owners, annotations that a
// new manager reads in another way.
package loadbalancer

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about what the new service loop would do to load balancers.
var Checks = []rule.Check{
	excludeLabel,     // LB-001: nodes that a label takes from load balancers
	servicesServed,   // LB-002: Services without their load balancer when the owner changes
	deletionStuck,    // LB-003: Services that wait for their deletion
	finalizerMissing, // LB-004: Services whose deletion in the gap no manager would see
	annotationsLost,  // LB-005: annotations that the new provider ignores or refuses
	annotationsBegin, // LB-006: annotations that did nothing until now
	loadBalancerIPs,  // LB-007: spec.loadBalancerIP that the new provider acts on
	membersChange,    // LB-008: nodes that become members, or cease to be
	balancersLeft,    // LB-009: load balancers without an owner
	balancersThere,   // LB-010: load balancers that would be made again
	clusterNames,     // LB-011: a cluster name that decides names of load balancers
	neutronBalancers, // LB-012: load balancers of Neutron, which the new provider has not
	clusterTags,      // LB-013: instances that are not the cluster's
	taggedGroups,     // LB-014: security groups that the new provider would not find
	classServedTwice, // LB-015: Services that another controller serves, too
	uncheckedMembers, // LB-016: members without a health check
}
