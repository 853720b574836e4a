package draft

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// RunningLoops are the loops that stop and start, as far as they ran.
func (d *Draft) RunningLoops() []string {
	var out []string
	for _, l := range d.MovedLoops() {
		if d.RunsLoop(string(l)) {
			out = append(out, string(l))
		}
	}
	return out
}

// MovedLoops are those that change their manager in this plan.
func (d *Draft) MovedLoops() []controllernames.Loop {
	if d.MoveIPAM {
		return append(slices.Clone(clusterview.CloudLoops), controllernames.NodeIPAM)
	}
	return clusterview.CloudLoops
}

// OtherManagers are who has to be ready before the manager of a host is restarted, and what it then gives up. On a
// single host there is none.
func (d *Draft) OtherManagers(leases ...string) (give, successors []string) {
	if len(d.Hosts) < 2 {
		return nil, nil
	}
	return leases, []string{component.KCM}
}

// OwnedBy is the expectation that the moved loops run in one component. Node IPAM, where it stays in the
// kube-controller-manager, is looked at when a phase is verified. v1.26 sleeps for 10 s before it runs that loop, and
// no step has to wait for that.
func OwnedBy(moved string) map[string]string {
	out := map[string]string{}
	for _, l := range clusterview.CloudLoops {
		out[string(l)] = moved
	}
	return out
}

// ExpectRunning leaves out a loop that no manager ran before. A cluster without --allocate-node-cidrs has no node IPAM,
// one without --configure-cloud-routes no route loop, a cloud without load balancers no service loop.
func (d *Draft) ExpectRunning(in map[string]string) map[string]string {
	out := map[string]string{}
	if !d.ReportsLoops() {
		return nil
	}
	for loop, comp := range in {
		if d.RunsLoop(loop) {
			out[loop] = comp
		}
	}
	return out
}

// ReportsLoops reports whether both managers say which loops they run; older ones cannot be asked for that. In a
// rollback it is as the migration had it.
func (d *Draft) ReportsLoops() bool {
	return d.Provider.Name == "" || catalogue.ShowsLoops(component.KCM, d.KCMMinor) && d.Program.ShowsLoops
}

// RunsLoop reports whether the flags of the kube-controller-managers let a loop run.
func (d *Draft) RunsLoop(loop string) bool {
	m, config := d.anyManager()
	if m == nil {
		return true
	}
	if flagvalue.IsLoopDisabled(m.Flags["controllers"], controllernames.Loop(loop)) {
		return false
	}
	switch loop {
	case string(controllernames.NodeIPAM):
		return m.Flags["allocate-node-cidrs"] == "true"
	case string(controllernames.Route):
		return m.Flags["allocate-node-cidrs"] == "true" && m.Flags["configure-cloud-routes"] != "false" &&
			d.runsRouteLoop(config)
	case string(controllernames.Service):
		return d.Provider.Name == "" || d.Provider.LoadBalancers
	}
	return true
}

// anyManager is a kube-controller-manager with its cloud config: that of the first host, or else that of the
// Deployment. Both are nil where none is known.
func (d *Draft) anyManager() (*v1.Component, *v1.CloudConfig) {
	for _, h := range d.Snapshot.Hosts {
		if m := clusterview.FindComponent(h, component.KCM); m != nil {
			return m, h.CloudConfig
		}
	}
	if m := clusterview.FindHosted(d.Snapshot, component.KCM); m != nil {
		return m, m.CloudConfig
	}
	return nil, nil
}

// runsRouteLoop reports whether the in-tree provider has a route loop: OpenStack's has one when its config names a
// router.
func (d *Draft) runsRouteLoop(config *v1.CloudConfig) bool {
	if d.Provider.Name == "" {
		return true // a rollback, which asks the gauges
	}
	return clusterview.HasRouteLoop(d.Provider, config)
}
