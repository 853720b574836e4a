// Package inventory decides what a cloud holds for a cluster: its load balancers, its routes, and the instance of each
// node. It only reads.
//
// The result is compared before and after a migration, so everything is sorted. Identities are those that survive
// changes: an ARN, or name and creation time, never an address. A part that could not be read is an error of the
// inventory, never an empty list. An instance counts as missing only when the cloud says that there is none.
package inventory

import (
	"context"
	"fmt"
	"strings"

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

// Open returns the source that a specification names: "aws", or "aws:cluster=NAME,routeTable=ID". Credentials, region
// and endpoint come from the environment, the way the cloud's own tools take them.
func Open(ctx context.Context, spec string) (Source, error) {
	cloud, rest, _ := strings.Cut(spec, ":")
	settings := map[string]string{}
	if rest != "" {
		for pair := range strings.SplitSeq(rest, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" || value == "" {
				return nil, fmt.Errorf("cloud %q: %q is not key=value", spec, pair)
			}
			settings[key] = value
		}
	}
	if cloud != "aws" {
		return nil, fmt.Errorf("cloud %q is not known: use aws, or aws:cluster=NAME,routeTable=ID", spec)
	}
	var opts AWSOptions
	for key, value := range settings {
		switch key {
		case "cluster":
			opts.Cluster = value
		case "routeTable":
			opts.RouteTable = value
		default:
			return nil, fmt.Errorf("cloud %q: there is no setting %q; there are cluster and routeTable", spec, key)
		}
	}
	return OpenAWS(ctx, opts)
}
