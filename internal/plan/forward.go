package plan

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Phases of a migration, in order.
const (
	PhasePrepare     = "prepare"
	PhaseMigration   = "leader-migration"
	PhaseHandover    = "handover"
	PhaseStart       = "start" // strategy downtime: the cloud-controller-managers come when no in-tree one is left
	PhaseVolumes     = "volumes"
	PhaseKubelets    = "kubelets"
	PhaseNodes       = "nodes"
	PhaseVolumesDone = "volumes-done"
	PhaseKubeadm     = "kubeadm"
	PhaseVerify      = "verify"
	PhaseFinish      = "finish"
)

// movedLoops are the loops that change their manager; nodeipam stays with the KCM, unless it is moved, but changes its process at every restart of an owner.
var movedLoops = []controllernames.Loop{controllernames.Service, controllernames.Route, controllernames.NodeLifecycle}

// loops are those that change their manager in this plan.
func (b *builder) loops() []controllernames.Loop {
	if b.moveIPAM {
		return append(slices.Clone(movedLoops), controllernames.NodeIPAM)
	}
	return movedLoops
}

// forward is the whole migration.
func (b *builder) forward() {
	b.prepare()
	if b.opts.Strategy == Downtime {
		b.interrupted()
	} else {
		b.handedOver()
	}
	b.nodeManagers()
	b.upgradeSchedulers()
	b.schedulers()
	b.kubelets()
	b.backfill()
	b.dropPlugins()
	b.kubeadm()
	b.verify(PhaseVerify, "verify/handed-over", owners(CCM))
	if b.opts.Strategy == LeaderMigration && !b.opts.KeepLeaderMigration {
		b.finish()
	}
}

// handedOver moves the loops from manager to manager under the migration lease: at no moment do two run them, and only for an election does none.
func (b *builder) handedOver() {
	for _, h := range b.hosts {
		b.enableLeaderMigration(h)
		if b.shape == v1.ShapeDaemonSet || b.up.wanted() {
			b.externalAPI(h, PhaseMigration) // its manager has just given the loops up, and no other one will come to this host before the next phase
		}
	}
	if b.shape == v1.ShapeDaemonSet {
		b.startDaemonSet(PhaseHandover)
	}
	for _, h := range b.hosts {
		b.makeExternal(h, "it no longer runs the moved loops; leader migration must be off here, or it would sit on the lease with nothing to run. "+
			"On the owner's host, which comes last, this is the handover of the loops", []string{KCM, b.opts.LeaseName}, []string{KCM, CCM})
		if b.shape == v1.ShapeDaemonSet {
			continue
		}
		b.externalAPI(h, PhaseHandover)
		b.startPod(h, PhaseHandover, PhaseHandover+"@"+h.Name, "the next owner runs, has its main lease and reaches the cloud before the old one is stopped")
	}
}

// interrupted stops the loops in one manager and starts them in the other. The API server of the owner's host is restarted after another host's manager
// has the loops, so that the gap is no longer than it must be.
func (b *builder) interrupted() {
	last := b.hosts[len(b.hosts)-1]
	others := b.hosts[:len(b.hosts)-1]
	if len(others) == 0 {
		b.alone(last)
		return
	}
	b.upgradeServers()
	for _, h := range b.hosts {
		b.makeExternal(h, "it no longer runs the cloud loops. On the owner's host, which comes last, the gap begins: nobody runs them until the first "+CCM+" does",
			[]string{KCM}, []string{KCM})
		if h.Name != last.Name || b.shape == v1.ShapeDaemonSet {
			b.externalAPI(h, PhaseHandover)
		}
	}
	if b.shape == v1.ShapeDaemonSet {
		b.startDaemonSet(PhaseStart)
		return
	}
	for _, h := range others {
		b.startPod(h, PhaseStart, PhaseStart+"@"+h.Name, "no in-tree manager runs the loops any longer: with the first one the gap ends")
	}
	b.externalAPI(last, PhaseStart)
	b.startPod(last, PhaseStart, PhaseStart+"@"+last.Name, "no in-tree manager runs the loops any longer")
}

// alone is the way of a single control-plane host. Its manager is stopped while the API server restarts: nobody else could take its lease over, and
// without an API server it could not act anyway.
func (b *builder) alone(h v1.Host) {
	group := PhaseHandover + "@" + h.Name
	m := b.now(h, KCM)
	edits := b.upgraded(m, b.externalEdits(m, component(h, KCM)))
	b.add(b.stop(h, m, v1.Step{
		ID: "stop/" + KCM + "@" + h.Name, Phase: PhaseHandover, Title: "stop " + KCM + " on " + h.Name,
		Why:    "the gap begins: nobody runs the cloud loops until the " + CCM + " does, and no other loop until this one is back",
		Leases: []string{KCM}, Group: group, Edits: edits,
	}))
	b.externalAPI(h, PhaseHandover)
	b.add(b.start(h, m, v1.Step{
		ID: "external/" + KCM + "@" + h.Name, Phase: PhaseHandover, Title: "start " + KCM + " on " + h.Name + " without its provider",
		Why: "it comes back without the cloud loops", Group: group, Restore: "stop/" + KCM + "@" + h.Name, Edits: edits,
	}))
	if b.shape == v1.ShapeDaemonSet {
		b.startDaemonSet(PhaseStart)
		return
	}
	b.startPod(h, PhaseStart, PhaseStart+"@"+h.Name, "no in-tree manager runs the loops any longer: the gap ends")
}

// others are who has to be ready before the manager of a host is restarted, and what it then gives up; on a single host there is nobody.
func (b *builder) others(leases ...string) (give, successors []string) {
	if len(b.hosts) < 2 {
		return nil, nil
	}
	return leases, []string{KCM}
}

// owners is the expectation that the moved loops run in one component. Node IPAM, where it stays in the kube-controller-manager, is looked at when
// a phase is verified: v1.26 sleeps for 10 s before it runs it, and no step has to wait for that.
func owners(moved string) map[string]string {
	out := map[string]string{}
	for _, l := range movedLoops {
		out[string(l)] = moved
	}
	return out
}

// expectFor leaves out a loop that nobody ran before: a cluster without --allocate-node-cidrs has no node IPAM, one without
// --configure-cloud-routes no route loop, a cloud without load balancers no service loop.
func (b *builder) expectFor(in map[string]string) map[string]string {
	out := map[string]string{}
	if !b.observable() {
		return nil
	}
	for loop, comp := range in {
		if b.runs(loop) {
			out[loop] = comp
		}
	}
	return out
}

// observable tells that both managers say which loops they run; of older ones nobody can ask for that. In a rollback it is as the migration had it.
func (b *builder) observable() bool {
	return b.provider.Name == "" || catalogue.ShowsLoops(KCM, b.kcm) && b.program.showsLoops
}

func (b *builder) runs(loop string) bool {
	for _, h := range b.snap.Hosts {
		m := component(h, KCM)
		if m == nil {
			continue
		}
		if disabled(m.Flags["controllers"], controllernames.Loop(loop)) {
			return false
		}
		switch loop {
		case string(controllernames.NodeIPAM):
			return m.Flags["allocate-node-cidrs"] == "true"
		case string(controllernames.Route):
			return m.Flags["allocate-node-cidrs"] == "true" && m.Flags["configure-cloud-routes"] != "false" && b.hasRoutes(h)
		case string(controllernames.Service):
			return b.provider.Name == "" || b.provider.LoadBalancers
		}
	}
	return true
}

// hasRoutes tells that the in-tree provider has a route loop: OpenStack's has one when its config names a router.
func (b *builder) hasRoutes(h v1.Host) bool {
	if b.provider.Name == "" {
		return true // a rollback, which asks the gauges
	}
	return cloudRoutes(b.provider, h.CloudConfig)
}

// cloudRoutes tells that a provider's route controller starts: OpenStack's does when the config names a router. A config that was not read decides nothing.
func cloudRoutes(p catalogue.Provider, config *v1.CloudConfig) bool {
	if p.Name != providerOpenStack || config == nil || config.Format == "" {
		return p.Routes
	}
	return slices.ContainsFunc(config.Keys, func(k string) bool { return strings.EqualFold(k, "Route.router-id") })
}

func (b *builder) enableLeaderMigration(h v1.Host) {
	m := b.now(h, KCM)
	edits := []v1.Edit{
		{Op: "setFlag", Name: "enable-leader-migration", Value: "true"},
		{Op: "setFlag", Name: "leader-migration-config", Value: KCMMigration},
		{Op: "setFlag", Name: "leader-elect-retry-period", Value: b.opts.RetryPeriod},
		{Op: "setFlag", Name: "leader-elect-renew-deadline", Value: b.opts.RenewDeadline},
		{Op: "addHostPath", Name: "transplant-leader-migration", Value: KCMMigration, PathType: "File"},
	}
	n, _ := b.minorOf(m) // aim has asked
	edits = append(edits, gateEdits(m.Flags[gatesFlag], KCM, n, append(b.csiGates(), gateChange{name: gateLeaderMigration, to: gateOn}))...)
	b.add(b.edit(h, m, v1.Step{
		ID: "leader-migration/" + KCM + "@" + h.Name, Phase: PhaseMigration, Title: "switch leader migration on in " + KCM + " on " + h.Name,
		Why:    "from here on the loops run only under the lease that both managers respect; shorter elections close the gap of each restart",
		Leases: []string{KCM, b.opts.LeaseName}, Successors: []string{KCM}, Group: PhaseMigration + "@" + h.Name,
		Edits: edits, Expect: b.expectFor(owners(KCM)),
	}))
}

func changes(edits []v1.Edit, flags map[string]string) []v1.Change {
	var out []v1.Change
	for _, e := range edits {
		switch e.Op {
		case "setFlag":
			out = append(out, v1.Change{Field: "--" + e.Name, Before: flags[e.Name], After: e.Value})
		case "unsetFlag":
			out = append(out, v1.Change{Field: "--" + e.Name, Before: flags[e.Name]})
		case "addHostPath":
			out = append(out, v1.Change{Field: "volume " + e.Name, After: e.Value})
		case "removeHostPath":
			out = append(out, v1.Change{Field: "volume " + e.Name, Before: e.Value})
		}
	}
	return out
}

// makeExternal makes the kube-controller-manager of a host external.
func (b *builder) makeExternal(h v1.Host, why string, leases, successors []string) {
	m := b.now(h, KCM)
	edits := b.upgraded(m, b.externalEdits(m, component(h, KCM)))
	s := v1.Step{
		ID: "external/" + KCM + "@" + h.Name, Phase: PhaseHandover, Title: b.up.title(KCM, h.Name, edits), Why: why,
		Leases: leases, Successors: successors, Group: PhaseHandover + "@" + h.Name, Edits: edits,
	}
	if b.opts.Strategy == LeaderMigration {
		s.Expect = b.expectFor(owners(""))
	}
	b.add(b.edit(h, m, s))
}

// externalKCM are the edits of a kube-controller-manager that nothing was changed of.
func (b *builder) externalKCM(m *v1.Component) []v1.Edit { return b.externalEdits(m, m) }

// externalEdits take the in-tree provider and leader migration out of m, and put back the election periods that it had when it was as was says.
func (b *builder) externalEdits(m, was *v1.Component) []v1.Edit {
	edits := []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}
	if b.volumes.keep() {
		edits = append(edits, v1.Edit{Op: "setFlag", Name: flagVolumePlugin, Value: b.provider.Name})
	} else if _, set := m.Flags[flagCloudConfig]; set {
		edits = append(edits, v1.Edit{Op: "unsetFlag", Name: flagCloudConfig})
	}
	if b.opts.Strategy == LeaderMigration {
		edits = append(edits, v1.Edit{Op: "unsetFlag", Name: "enable-leader-migration"}, v1.Edit{Op: "unsetFlag", Name: "leader-migration-config"})
		for _, f := range []string{"leader-elect-retry-period", "leader-elect-renew-deadline"} {
			if v, ok := was.Flags[f]; ok {
				edits = append(edits, v1.Edit{Op: "setFlag", Name: f, Value: v})
			} else {
				edits = append(edits, v1.Edit{Op: "unsetFlag", Name: f})
			}
		}
		edits = append(edits, v1.Edit{Op: "removeHostPath", Name: "transplant-leader-migration", Value: KCMMigration})
	}
	n, _ := b.minorAfter(m) // aim has asked
	edits = append(edits, gateEdits(m.Flags[gatesFlag], KCM, n, b.externalGates(m, was))...)
	return append(edits, b.ipamEdits(m, n)...)
}

// externalGates are the gates of a kube-controller-manager that becomes external.
func (b *builder) externalGates(m, was *v1.Component) []gateChange {
	var out []gateChange
	if b.opts.Strategy == Downtime {
		out = b.csiGates()
	}
	if !b.volumes.keep() {
		out = append(out, inTreeAgain(m.Flags[gatesFlag], gateNoProviders)...)
	}
	set, had := readGates(m.Flags[gatesFlag]), readGates(was.Flags[gatesFlag])
	_, now := set[gateLeaderMigration]
	if _, before := had[gateLeaderMigration]; now && !before {
		out = append(out, gateChange{name: gateLeaderMigration, to: gateGone})
	}
	return out
}

// pvLabels is the admission plugin that asks an in-tree provider for the labels of volumes; without one it refuses volumes or leaves them unlabelled.
const pvLabels = "PersistentVolumeLabel"

// externalAPI takes the provider out of a host's kube-apiserver, where it has one.
func (b *builder) externalAPI(h v1.Host, phase string) {
	api := b.now(h, KAS)
	edits := b.upgraded(api, b.apiEdits(api))
	if len(edits) == 0 {
		return
	}
	why := "takes the provider out of the API server (labels of persistent volumes); no manager that owns a loop depends on it now"
	if b.up.wanted() {
		why = "no manager may be newer than the API server that it talks to, so the API servers come first; " + why
	}
	b.add(b.edit(h, api, v1.Step{
		ID: "external/" + KAS + "@" + h.Name, Phase: phase, Title: b.up.title(KAS, h.Name, edits), Why: why,
		Group: phase + "@" + h.Name, Edits: edits,
	}))
}

func (b *builder) apiEdits(api *v1.Component) []v1.Edit {
	var edits []v1.Edit
	n, err := b.minorAfter(api)
	if err != nil {
		n = b.api
	}
	if api.Flags["cloud-provider"] == b.provider.Name {
		edits = append(edits, v1.Edit{Op: "setFlag", Name: "cloud-provider", Value: "external"})
		if f, held := catalogue.FlagAt(KAS, "cloud-provider", n); held && !f.Known {
			edits[0] = v1.Edit{Op: "unsetFlag", Name: "cloud-provider"}
		}
		if _, ok := api.Flags[flagCloudConfig]; ok {
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: flagCloudConfig})
		}
	}
	plugins := items(api.Flags["enable-admission-plugins"])
	if slices.Contains(plugins, pvLabels) {
		rest := slices.DeleteFunc(plugins, func(p string) bool { return p == pvLabels })
		if len(rest) == 0 {
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: "enable-admission-plugins"})
		} else {
			edits = append(edits, v1.Edit{Op: "setFlag", Name: "enable-admission-plugins", Value: strings.Join(rest, ",")})
		}
	}
	// From 1.29 on it compares both gates with --cloud-provider and does not start when they disagree, though it has no kubelet in it.
	return append(edits, gateEdits(api.Flags[gatesFlag], KAS, n, inTreeAgain(api.Flags[gatesFlag], gateNoProviders, gateNoCredentials))...)
}

// startPod puts the cloud-controller-manager on a host.
func (b *builder) startPod(h v1.Host, phase, group, why string) {
	manifest, change := b.renderCCM(h, component(h, KCM))
	b.add(b.addCCM(h, manifest, v1.Step{
		ID: "start/" + CCM + "@" + h.Name, Phase: phase, Title: "start " + CCM + " on " + h.Name, Why: why, Group: group, Changes: change,
	}))
}

func (b *builder) verify(phase, id string, expect map[string]string) {
	expect[string(controllernames.NodeIPAM)] = KCM
	if b.moveIPAM {
		expect[string(controllernames.NodeIPAM)] = expect[string(controllernames.NodeLifecycle)]
	}
	b.add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepVerify, Title: "each loop has one owner, nodes and load balancers are as before",
		Expect: b.expectFor(expect), EstimateSeconds: 2,
	})
}

func (b *builder) deleteObject(phase, id, r, why string) {
	b.add(v1.Step{
		ID: id + r, Phase: phase, Kind: v1.StepDeleteObject, Title: "delete " + r, Why: why, Ref: r,
		Changes: []v1.Change{{Field: r, Before: "made by this migration"}}, Undo: "make it again", EstimateSeconds: 0.1,
	})
}

// estimate sums up the guesses of steps, in whole seconds.
func estimate(steps []v1.Step) int {
	sum := 0.0
	for _, s := range steps {
		sum += s.EstimateSeconds
	}
	return int(sum + 0.5)
}

// gap is how long nobody runs the loops in a plan with downtime, from the end of the last in-tree owner to the first cloud-controller-manager.
func (b *builder) gap() int {
	from, to := -1, -1
	for i, s := range b.steps {
		if strings.HasPrefix(s.ID, "external/"+KCM+"@") && s.Restore == "" || strings.HasPrefix(s.ID, "stop/"+KCM+"@") {
			from = i
		}
		if to < 0 && (strings.HasPrefix(s.ID, "start/"+CCM) || s.Component == CCM && s.Kind == v1.StepEnsureObject) {
			to = i
		}
	}
	if from < 0 || to < from {
		return 0
	}
	return estimate(b.steps[from : to+1])
}

// apiAddress is where a component on a host finds the API server of its own host.
func apiAddress(h v1.Host) string {
	api := component(h, KAS)
	if api == nil {
		return ""
	}
	if p := api.Flags["secure-port"]; p != "" {
		return p
	}
	return fmt.Sprint(defaultAPIPort)
}

const defaultAPIPort = 6443
