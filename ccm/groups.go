package ccm

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
	genericconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
)

// group is a lease and what runs under it.
type group struct {
	lease       string
	controllers []string // by canonical name, in order
	workers     workers
	fence       *election.Fence
	// config and inits are the lease's own: clients and cloud ask its fence.
	config    *config.CompletedConfig
	cloud     cloudprovider.Interface
	inits     map[string]InitFunc
	informers informers.SharedInformerFactory // of InitFuncs, as upstream has them beside SharedInformers; nil before the lease is won
	// alone is that the lease is contended for though no controller runs under it, for the provider's own loops.
	alone bool
}

// isContended reports whether the process wants to hold the lease.
func (g *group) isContended() bool { return len(g.controllers) > 0 || g.alone }

// noLease is what stands for a lease without leader election.
const noLease = "none"

// divide returns the leases, the main lease first, with what this process runs under each. A group without controllers is a lease to observe and not
// to contend for: a holder with nothing to run would keep every other manager from running the loops. What a provider has is known only of one that
// is started early. Others may have loops of their own, which have the main lease to run under if there is nothing else.
func divide(constructors map[string]ControllerInitFuncConstructor, completed *config.CompletedConfig, provider cloudprovider.Interface) []*group {
	generic := &completed.ComponentConfig.Generic
	main := &group{lease: generic.LeaderElection.ResourceName}
	groups := []*group{main}
	var migrating *group
	switch {
	case !generic.LeaderElection.LeaderElect:
		main.lease = noLease
	case leadermigration.Enabled(generic):
		migrating = &group{lease: generic.LeaderMigration.LeaderName}
		groups = append(groups, migrating)
	}
	off := sets.NewString(disabledByDefault(constructors)...)
	for _, name := range sortedKeys(constructors) {
		if !genericcontrollermanager.IsControllerEnabled(name, off, generic.Controllers) {
			klog.InfoS("The controller is disabled", "controller", name)
			continue
		}
		if why := idle(constructors[name], completed, provider); why != "" {
			klog.InfoS("The controller is not started", "controller", name, "reason", why)
			continue
		}
		switch owner, listed := leaderOf(name, generic.LeaderMigration); {
		case migrating == nil || !listed:
			main.controllers = append(main.controllers, name)
		case owner == "*" || owner == string(component):
			migrating.controllers = append(migrating.controllers, name)
		default:
			klog.InfoS("The controller is left to another manager", "controller", name, "component", owner)
		}
	}
	main.alone = provider == nil && !slices.ContainsFunc(groups, (*group).isContended)
	for _, g := range groups {
		if !g.isContended() {
			klog.InfoS("The lease is not contended for, because this process has nothing to run under it", "lease", g.lease)
		}
	}
	return groups
}

// leaderOf is the component that runs a controller under the migration lease; false for one that does not migrate.
func leaderOf(controller string, migration genericconfig.LeaderMigrationConfiguration) (string, bool) {
	for _, leader := range migration.ControllerLeaders {
		if leader.Name == controller {
			return leader.Component, true
		}
	}
	return "", false
}

// leases are what the elector is to do about the leases of groups. The migration lease follows the main lease if both are contended for, so that one
// process holds both.
func leases(groups []*group, namespace string) []election.Lease {
	var out []election.Lease
	for _, g := range groups {
		l := election.Lease{Namespace: namespace, Name: g.lease, Contend: g.isContended()}
		if len(out) > 0 && l.Contend && out[0].Contend {
			l.After = out[0].Name
		}
		out = append(out, l)
	}
	return out
}
