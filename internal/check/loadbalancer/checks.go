// Package loadbalancer decides whether load balancers survive a migration: names, members, owners, annotations that a
// new manager reads in another way.
package loadbalancer

import "github.com/transplant-dev/transplant/internal/check/rule"

// Checks are the checks about what the new service loop would do to load balancers.
var Checks = []rule.Check{
	excludeLabel,     // LB-001: a label whose value begins to matter
	servicesServed,   // LB-002: what is half made when the owner changes
	deletionStuck,    // LB-003: what is half gone
	finalizerMissing, // LB-004: a deletion in the gap that no manager would see
	annotationsLost,  // LB-005: what the new provider ignores or refuses
	annotationsBegin, // LB-006: what did nothing until now
	loadBalancerIPs,  // LB-007: a wish that is granted at last
	membersChange,    // LB-008: members that come and go at takeover
	balancersLeft,    // LB-009: load balancers without an owner
	balancersThere,   // LB-010: load balancers that would be made again
	clusterNames,     // LB-011: a name that is part of other names
	neutronBalancers, // LB-012: load balancers of a service that is gone
	clusterTags,      // LB-013: instances that are not the cluster's
	taggedGroups,     // LB-014: doors that would stay shut
	classServedTwice, // LB-015: what another controller has taken over
	uncheckedMembers, // LB-016: members that die and stay
}
