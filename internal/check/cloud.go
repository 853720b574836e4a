package check

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// inventoryOf is the provider whose inventory is read.
const inventoryOf = "aws"

var inventoryComplete = Check{
	Code: "CLOUD-001", Reason: "InventoryIncomplete", Category: categoryCloud, Level: LevelError, Impact: ImpactNodeDeletion,
	Title: "what the cloud holds for the cluster was read",
	Explain: []string{
		"Whether the migration lost anything is decided by comparing the load balancers, routes and instances before and after. Whether the new manager would delete nodes is decided by asking the cloud " +
			"for their instances. Both need read access to the cloud from where transplant runs: --cloud=aws, with credentials from the environment, a profile or the instance.",
		"The rights are read-only: ec2:DescribeInstances, ec2:DescribeRouteTables, ec2:DescribeSecurityGroups, elasticloadbalancing:Describe*.",
		"The inventory is read of AWS only. On another cloud this check is unknown: --prove asks the new provider's own code for every node, where it has one, and what load balancers and routes hold has to be compared by hand.",
		"Accept this finding to migrate without that proof.",
	},
	judge: func(f facts) v1.Finding {
		const expected, fix = "load balancers, routes and instances", "transplant check --cloud=aws"
		if f.Cloud == nil {
			if finding, ok := f.missing("cloud"); ok {
				return with(finding, expected, "the cloud's API", fix)
			}
			if name := f.cloudName(); name != "" && name != inventoryOf {
				return with(unknown("transplant reads no inventory of %s: nodes that the new manager would delete are known from --prove at most, and before cannot be compared with after", name), expected,
					"the cloud's API", `transplant check --prove --accept CLOUD-001="load balancers and routes are compared by hand"`)
			}
			return with(unknown("the cloud was not asked: nodes that the new manager would delete are not known, and before cannot be compared with after"), expected, "the cloud's API", fix)
		}
		if errs := f.cloudErrors(""); len(errs) > 0 {
			return with(unknown("the inventory is incomplete: %s", strings.Join(errs, "; ")), expected, "the cloud's API", "aws sts get-caller-identity")
		}
		return pass("the cloud holds %s, %s and the instances of %s", plural(len(f.Cloud.LoadBalancers), "load balancer"), plural(len(f.Cloud.Routes), "route"),
			plural(len(f.Cloud.Instances), "node"))
	},
}

var routesHaveNodes = Check{
	Code: "ROUTE-001", Reason: "StaleRoute", Category: categoryRoutes, Level: LevelError, Impact: ImpactRoutes, DependsOn: append([]string{"API-001"}, onHosts...),
	Title: "every route to an instance leads to the instance of a node",
	Explain: []string{
		"The external route loop looks up the node of every route row that names an instance. One row whose node is gone, or whose instance the cloud does not know, stops it: it creates and deletes no route " +
			"at all from then on. The in-tree loop deletes a row whose node is gone, and is stopped only by an instance that the cloud does not know.",
		"Delete such rows before the migration. Rows that lead to gateways and interfaces are not looked at.",
	},
	judge: judgeRoutes,
}

func judgeRoutes(f facts) v1.Finding {
	runs := false
	for _, p := range f.managers() {
		runs = runs || f.runs(p, controllernames.Route)
	}
	switch {
	case !runs:
		return skip("no manager runs the route loop")
	case f.Cloud == nil:
		return dependent("CLOUD-001")
	}
	if errs := f.cloudErrors("routes"); len(errs) > 0 {
		return unknown("%s", strings.Join(errs, "; "))
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	var bad complaints
	fix := ""
	n := 0
	instances := f.routeTargets()
	for _, r := range f.Cloud.Routes {
		if !strings.HasPrefix(r.Target, "i-") {
			continue
		}
		n++
		if why := stale(r, instances); why != "" {
			bad.add(r.CIDR, "%s leads to %s", r.CIDR, why)
			if fix == "" {
				fix = deleteRoute(r)
			}
		}
	}
	if bad.empty() {
		return pass("all %s to instances lead to nodes", plural(n, "route"))
	}
	return with(bad.finding(v1.Fail, "%s would stop the external route loop", plural(len(bad.lines), "route")), "routes to instances of nodes only", "ec2:DescribeRouteTables", fix)
}

// deleteRoute is the command that deletes a route, if it leads still where it led.
func deleteRoute(r v1.Route) string {
	return fmt.Sprintf("aws ec2 describe-route-tables --route-table-ids %[1]s --query \"RouteTables[].Routes[?DestinationCidrBlock=='%[2]s'].InstanceId\" --output text | grep -qx %[3]s && "+
		"aws ec2 delete-route --route-table-id %[1]s --destination-cidr-block %[2]s", r.Table, r.CIDR, r.Target)
}

// target is an instance that a route may lead to.
type target struct {
	node string
	// gone is set when the cloud says that there is no such instance.
	gone bool
}

// routeTargets are the nodes' instances, by id.
func (f facts) routeTargets() map[string]target {
	out := map[string]target{}
	for _, n := range f.Nodes {
		if id := instanceID(n.ProviderID); id != "" {
			out[id] = target{node: n.Name}
		}
	}
	for _, i := range f.Cloud.Instances {
		if i.ID != "" {
			out[i.ID] = target{node: i.Node, gone: !i.Found}
		}
	}
	return out
}

// stale says what is wrong with where a route leads; empty when nothing is.
func stale(r v1.Route, instances map[string]target) string {
	switch to, known := instances[r.Target]; {
	case !known:
		return r.Target + ", which is no node's instance"
	case to.gone:
		return r.Target + " of node " + to.node + ", which the cloud does not know"
	case r.State == "blackhole":
		return r.Target + " of node " + to.node + " and is a blackhole"
	}
	return ""
}

// instanceID is the last element of aws:///<zone>/<instance id>.
func instanceID(providerID string) string {
	id := providerID[strings.LastIndex(providerID, "/")+1:]
	if strings.HasPrefix(providerID, "aws:") && strings.HasPrefix(id, "i-") {
		return id
	}
	return ""
}
