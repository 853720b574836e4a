package clusterview

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// NodeIPAM is the loop that gives pod CIDRs to nodes.
const NodeIPAM = controllernames.NodeIPAM

// CloudLoops are the loops that change their manager. nodeipam stays with the KCM, unless it is moved, but changes its
// process at every restart of an owner.
var CloudLoops = []controllernames.Loop{controllernames.Service, controllernames.Route, controllernames.NodeLifecycle}

// HasRouteLoop reports whether a provider's route controller starts: that of some does when the config names a router.
// A config that was not read decides nothing.
func HasRouteLoop(p cloudprovider.Provider, config *v1.CloudConfig) bool {
	if p.RouteKey == "" || config == nil || config.Format == "" {
		return p.Routes
	}
	return slices.ContainsFunc(config.Keys, func(k string) bool { return strings.EqualFold(k, p.RouteKey) })
}

// ExpectedLoops are the cloud loops that a manager has to run in a cluster of a provider. They depend on the flags of
// one of its managers and its cloud config, nil if that is not known. The route loop is needed only if routes are the
// cloud's, the service loop only if the provider has load balancers. --controllers is not asked: what it removes from
// one manager may run in the other one. A provider that is not known has everything.
func ExpectedLoops(provider string, flags map[string]string, config *v1.CloudConfig) []string {
	known, ok := cloudprovider.Lookup(provider)
	var out []string
	for _, l := range CloudLoops {
		switch l {
		case controllernames.Route:
			if flags["allocate-node-cidrs"] != "true" || flags["configure-cloud-routes"] == "false" ||
				ok && !HasRouteLoop(known, config) {
				continue
			}
		case controllernames.Service:
			if ok && !known.LoadBalancers {
				continue
			}
		default: // every provider has a node lifecycle loop
		}
		out = append(out, string(l))
	}
	return out
}

// DependsOnConfig reports whether which loops ExpectedLoops names depends on the cloud config.
func DependsOnConfig(provider string, flags map[string]string) bool {
	known, ok := cloudprovider.Lookup(provider)
	return ok && known.RouteKey != "" &&
		slices.Contains(ExpectedLoops(provider, flags, nil), string(controllernames.Route))
}

// MovedLoopNames are the loops that a migration moves from one manager to the other, by their names in metrics.
func MovedLoopNames() []string {
	out := make([]string, 0, len(CloudLoops))
	for _, l := range CloudLoops {
		out = append(out, string(l))
	}
	return out
}

// IsSwitchedOff reports whether a --controllers list keeps a cloud loop from running, whatever dialect it is written
// in.
func IsSwitchedOff(controllers, loop string) bool {
	return flagvalue.IsLoopDisabled(controllers, controllernames.Loop(loop))
}
