package route

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

var routesHaveNodes = rule.Check{
	Code:      "ROUTE-001",
	Reason:    "StaleRoute",
	Category:  findings.CategoryRoutes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactRoutes,
	LookFor:   "the target of the route that the finding names, and which instance that is",
	OnlyIf:    "nothing else than the finding's instance was meant to be reached by it; the command looks once more where it leads",
	Warning:   "packets to this pod CIDR are dropped from then on, until a route loop makes the route again",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Judge:     judgeRoutes,
}

func judgeRoutes(f facts.Facts) v1.Finding {
	runs := false
	for _, p := range f.AllManagers() {
		runs = runs || f.WouldRun(p, controllernames.Route)
	}
	switch {
	case !runs:
		return findings.Skip("no manager runs the route loop")
	case f.Cloud == nil:
		return findings.Dependent("CLOUD-001")
	}
	if errs := f.CloudErrors("routes"); len(errs) > 0 {
		return findings.Unknown("%s", strings.Join(errs, "; "))
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	if !cloudprovider.InventoryOrDefault(f.CloudName()).StaleRouteStops {
		return findings.Skip("a route to an instance that is no node's stops no route loop on %s", f.CloudName())
	}
	var bad findings.Problems
	fix := ""
	n := 0
	instances := f.RouteTargets()
	for _, r := range f.Cloud.Routes {
		if !strings.HasPrefix(r.Target, "i-") {
			continue
		}
		n++
		if why := stale(r, instances); why != "" {
			bad.Add(r.CIDR, "%s leads to %s", r.CIDR, why)
			isControlPlane := facts.IsControlPlane(f, instances[r.Target].Node)
			if !isControlPlane && !strings.Contains(fix, " delete-route ") {
				fix = deleteRoute(r)
			} else if fix == "" {
				fix = showRoutes(r)
			}
		}
	}
	if bad.Empty() {
		return findings.Pass("all %s to instances lead to nodes", findings.Plural(n, "route"))
	}
	return findings.With(
		bad.Finding(v1.Fail, "%s would stop the external route loop", findings.Plural(len(bad), "route")),
		"routes to instances of nodes only",
		"ec2:DescribeRouteTables",
		fix,
	)
}

// deleteRoute is the command that deletes a route, if it leads still where it led.
func deleteRoute(r v1.Route) string {
	if !shell.IsPlain(r.Table) || !shell.IsPlain(r.CIDR) || !shell.IsPlain(r.Target) {
		return showRoutes(r)
	}
	return fmt.Sprintf(
		"aws ec2 describe-route-tables --route-table-ids %[1]s --query \"RouteTables[].Routes[?DestinationCidrBlock=='%[2]s'].InstanceId\" --output text | grep -qx %[3]s && "+
			"aws ec2 delete-route --route-table-id %[1]s --destination-cidr-block %[2]s",
		r.Table,
		r.CIDR,
		r.Target,
	)
}

// showRoutes is the command that shows the table of a route.
func showRoutes(r v1.Route) string {
	return "aws ec2 describe-route-tables --route-table-ids " + shell.Quote(r.Table)
}

// stale says what is wrong with where a route leads; empty when nothing is.
func stale(r v1.Route, instances map[string]facts.Target) string {
	switch to, known := instances[r.Target]; {
	case !known:
		return r.Target + ", which is no node's instance"
	case to.Gone:
		return r.Target + " of node " + to.Node + ", which the cloud does not know"
	case r.State == "blackhole":
		return r.Target + " of node " + to.Node + " and is a blackhole"
	}
	return ""
}
