// Package inventory decides what a cloud holds for a cluster: its load balancers, its routes, and the instance of each
// node. It only reads.
//
// The result is compared before and after a migration, so everything is sorted. Identities are those that survive
// changes: an ARN, or name and creation time, never an address. A part that could not be read is an error of the
// inventory, never an empty list. An instance counts as missing only when the cloud says that there is none.
package inventory

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Source reads one cloud.
type Source interface {
	// Inventory returns what the cloud holds for the cluster of these nodes. It is never nil; parts that could not be read
	// are in its Errors, each beginning with the part's name: instances, routes, loadbalancers, securitygroups.
	Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory
}

// Parts of an inventory, as its errors begin.
const (
	PartInstances      = "instances"
	PartRoutes         = "routes"
	PartLoadBalancers  = "loadbalancers"
	PartSecurityGroups = "securitygroups"
)

// Parts are all of them, in the order in which they are read.
var Parts = []string{PartInstances, PartRoutes, PartLoadBalancers, PartSecurityGroups}
