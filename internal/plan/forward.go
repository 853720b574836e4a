package plan

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// Phases of a migration, in order.
const (
	PhasePrepare   = "prepare"
	PhaseMigration = "leader-migration"
	PhaseHandover  = "handover"
	PhaseKubelets  = "kubelets"
	PhaseVerify    = "verify"
	PhaseFinish    = "finish"
)

// movedLoops are the loops that change their manager; nodeipam stays with the KCM but changes its process at every restart of an owner.
var movedLoops = []controllernames.Loop{controllernames.Service, controllernames.Route, controllernames.NodeLifecycle}

func (b *builder) forward(hosts []v1.Host) error {
	if err := b.prepare(hosts); err != nil {
		return err
	}
	for _, h := range hosts {
		b.enableLeaderMigration(h)
	}
	for _, h := range hosts {
		b.rollHost(h)
	}
	b.kubelets()
	b.verify(PhaseVerify, "verify/handed-over", owners(CCM))
	if !b.opts.KeepLeaderMigration {
		b.finish(hosts)
	}
	return nil
}

// owners is the expectation that the moved loops run in one component. Node IPAM, which stays in the kube-controller-manager, is looked at when
// a phase is verified: v1.26 sleeps for 10 s before it runs it, and no step has to wait for that.
func owners(moved string) map[string]string {
	out := map[string]string{}
	for _, l := range movedLoops {
		out[string(l)] = moved
	}
	return out
}

// expectFor leaves out a loop that nobody ran before: a cluster without --allocate-node-cidrs has no node IPAM, one without
// --configure-cloud-routes no route loop.
func (b *builder) expectFor(in map[string]string) map[string]string {
	out := map[string]string{}
	for loop, comp := range in {
		if b.runs(loop) {
			out[loop] = comp
		}
	}
	return out
}

func (b *builder) runs(loop string) bool {
	for _, h := range b.snap.Hosts {
		m := component(h, KCM)
		if m == nil {
			continue
		}
		switch loop {
		case string(controllernames.NodeIPAM):
			return m.Flags["allocate-node-cidrs"] == "true"
		case string(controllernames.Route):
			return m.Flags["allocate-node-cidrs"] == "true" && m.Flags["configure-cloud-routes"] != "false"
		}
	}
	return true
}

func (b *builder) prepare(hosts []v1.Host) error {
	b.fact("cluster:uid", b.snap.Cluster.UID, "")
	b.ensure(PhasePrepare, "reads the managers' /metrics with a token that may do nothing else", observerObjects())
	b.ensure(PhasePrepare, "the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so", migrationObjects(b.opts.LeaseName))
	b.ensure(PhasePrepare, "identity and rights of the cloud-controller-manager", ccmObjects())
	for _, h := range hosts {
		m := component(h, KCM)
		kcmMinor, err := minor(m.Image, b.snap.Cluster.Version)
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		kcmFile, err := migrationconfig.Render(controllernames.KubeControllerManager, kcmMinor, movedLoops, b.opts.LeaseName)
		if err != nil {
			return fmt.Errorf("rendering the leader migration config of %s on host %s: %w", KCM, h.Name, err)
		}
		ccmFile, err := migrationconfig.Render(controllernames.CloudControllerManager, ccmMinor, movedLoops, b.opts.LeaseName)
		if err != nil {
			return fmt.Errorf("rendering the leader migration config of %s on host %s: %w", CCM, h.Name, err)
		}
		if m.Flags["cloud-config"] == "" {
			return fmt.Errorf("%s on host %s has no --cloud-config: give the provider its configuration in a file, so that the cloud-controller-manager's can be derived from it", KCM, h.Name)
		}
		if h.CloudConfig == nil || h.CloudConfig.Error != "" {
			return fmt.Errorf("cloud config %s on host %s could not be read or turned into the external provider's: see transplant check", m.Flags["cloud-config"], h.Name)
		}
		b.writeFile(h, KCMMigration, string(kcmFile), "names of the loops in the dialect of this kube-controller-manager")
		b.writeFile(h, CCMMigration, string(ccmFile), "the same loops in the dialect of the cloud-controller-manager: one file for both would make two owners")
		b.derive(h, CCMCloudConf, DeriveCloudConfig, h.CloudConfig.Path, "0600", h.CloudConfig.DerivedChanges)
		b.derive(h, CCMKubeconfig, DeriveKubeconfig, KCMKubeconfig, "0600", []string{"server and CA of " + KCMKubeconfig + ", token of Secret " + Namespace + "/" + TokenSecret})
	}
	return nil
}

func (b *builder) writeFile(h v1.Host, path, content, why string) {
	b.add(v1.Step{
		ID: "write/" + path + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepWriteFile, Title: "write " + path + " on " + h.Name, Why: why,
		Host: h.Name, Path: path, Content: content, Mode: "0644", Requires: []string{"cluster:uid", b.fileFact(h, path)},
		Undo: "restore what was there", EstimateSeconds: 0.1, Changes: []v1.Change{{Field: path, After: strings.TrimSpace(content)}},
	})
}

func (b *builder) derive(h v1.Host, path, derivation, source, mode string, changes []string) {
	s := v1.Step{
		ID: "write/" + path + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepWriteFile, Title: "write " + path + " on " + h.Name,
		Why: "derived on the host from " + source + ", which stays as it is", Host: h.Name, Path: path, Derive: derivation, Source: source, Mode: mode,
		Requires: []string{"cluster:uid", b.fileFact(h, path), b.fileFact(h, source)}, Undo: "restore what was there", EstimateSeconds: 0.1,
	}
	for _, c := range changes {
		s.Changes = append(s.Changes, v1.Change{Field: path, After: c})
	}
	b.add(s)
}

func (b *builder) enableLeaderMigration(h v1.Host) {
	m := component(h, KCM)
	b.add(b.edit(h, m, v1.Step{
		ID: "leader-migration/" + KCM + "@" + h.Name, Phase: PhaseMigration, Title: "switch leader migration on in " + KCM + " on " + h.Name,
		Why:    "from here on the loops run only under the lease that both managers respect; shorter elections close the gap of each restart",
		Leases: []string{KCM, b.opts.LeaseName}, Successors: []string{KCM}, Group: PhaseMigration + "@" + h.Name,
		Edits: []v1.Edit{
			{Op: "setFlag", Name: "enable-leader-migration", Value: "true"},
			{Op: "setFlag", Name: "leader-migration-config", Value: KCMMigration},
			{Op: "setFlag", Name: "leader-elect-retry-period", Value: b.opts.RetryPeriod},
			{Op: "setFlag", Name: "leader-elect-renew-deadline", Value: b.opts.RenewDeadline},
			{Op: "addHostPath", Name: "transplant-leader-migration", Value: KCMMigration, PathType: "File"},
		},
		Expect: b.expectFor(owners(KCM)),
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

func (b *builder) rollHost(h v1.Host) {
	group := PhaseHandover + "@" + h.Name
	m, api := component(h, KCM), component(h, KAS)
	during := withFlags(m.Flags, map[string]string{"enable-leader-migration": "true", "leader-migration-config": KCMMigration,
		"leader-elect-retry-period": b.opts.RetryPeriod, "leader-elect-renew-deadline": b.opts.RenewDeadline})
	external := b.edit(h, m, v1.Step{
		ID: "external/" + KCM + "@" + h.Name, Phase: PhaseHandover, Title: "make " + KCM + " on " + h.Name + " external",
		Why: "it no longer runs the moved loops; leader migration must be off here, or it would sit on the lease with nothing to run. " +
			"On the owner's host, which comes last, this is the handover of the loops",
		Leases: []string{KCM, b.opts.LeaseName}, Successors: []string{KCM, CCM}, Group: group, Edits: b.externalKCM(m), Expect: b.expectFor(owners("")),
	})
	external.Changes = changes(external.Edits, during)
	b.add(external)
	apiEdits := []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}
	if _, ok := api.Flags["cloud-config"]; ok {
		apiEdits = append(apiEdits, v1.Edit{Op: "unsetFlag", Name: "cloud-config"})
	}
	if api.Flags["cloud-provider"] == ProviderAWS {
		b.add(b.edit(h, api, v1.Step{
			ID: "external/" + KAS + "@" + h.Name, Phase: PhaseHandover, Title: "make " + KAS + " on " + h.Name + " external",
			Why:   "takes the provider out of the API server (labels of persistent volumes); no manager that owns a loop depends on it now",
			Group: group, Edits: apiEdits,
		}))
	}
	manifest, change := b.renderCCM(h, m)
	b.add(v1.Step{
		ID: "start/" + CCM + "@" + h.Name, Phase: PhaseHandover, Kind: v1.StepAddManifest, Title: "start " + CCM + " on " + h.Name,
		Why:  "the next owner runs, has its main lease and reaches the cloud before the old one is stopped",
		Host: h.Name, Component: CCM, Path: CCMManifest, Content: manifest, Mode: "0600", Group: group,
		Requires: []string{"cluster:uid", b.fileFact(h, CCMManifest)}, Changes: change, Undo: "remove it", EstimateSeconds: 20,
	})
}

func withFlags(flags, more map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{flags, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// externalKCM takes the in-tree provider and leader migration out, and puts back the election periods that were there.
func (b *builder) externalKCM(m *v1.Component) []v1.Edit {
	edits := []v1.Edit{
		{Op: "setFlag", Name: "cloud-provider", Value: "external"},
		{Op: "unsetFlag", Name: "cloud-config"},
		{Op: "unsetFlag", Name: "enable-leader-migration"},
		{Op: "unsetFlag", Name: "leader-migration-config"},
	}
	for _, f := range []string{"leader-elect-retry-period", "leader-elect-renew-deadline"} {
		if v, ok := m.Flags[f]; ok {
			edits = append(edits, v1.Edit{Op: "setFlag", Name: f, Value: v})
		} else {
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: f})
		}
	}
	return append(edits, v1.Edit{Op: "removeHostPath", Name: "transplant-leader-migration", Value: KCMMigration})
}

func (b *builder) kubelets() {
	for _, h := range b.snap.Hosts {
		if h.Kubelet == nil || h.Kubelet.Error != "" || h.Kubelet.Flags["cloud-provider"] != ProviderAWS {
			continue
		}
		edits := []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}
		if _, ok := h.Kubelet.Flags["cloud-config"]; ok {
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: "cloud-config"})
		}
		b.add(v1.Step{
			ID: "external/kubelet@" + h.Name, Phase: PhaseKubelets, Kind: v1.StepKubelet, Title: "make the kubelet on " + h.Name + " external",
			Why:  "a registered node gets no taint by this; its identity and addresses stay",
			Host: h.Name, Component: "kubelet", Path: h.Kubelet.Source, Edits: edits, Requires: []string{"cluster:uid", b.fileFact(h, h.Kubelet.Source)},
			Changes: changes(edits, h.Kubelet.Flags), Undo: "put the flags back and restart", EstimateSeconds: 5,
		})
	}
}

func (b *builder) verify(phase, id string, expect map[string]string) {
	expect[string(controllernames.NodeIPAM)] = KCM
	b.add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepVerify, Title: "each loop has one owner, nodes and load balancers are as before",
		Expect: b.expectFor(expect), EstimateSeconds: 2,
	})
}

func (b *builder) finish(hosts []v1.Host) {
	for _, h := range hosts {
		edits := []v1.Edit{
			{Op: "unsetFlag", Name: "enable-leader-migration"},
			{Op: "unsetFlag", Name: "leader-migration-config"},
			{Op: "unsetFlag", Name: "leader-elect-renew-deadline"},
			{Op: "setFlag", Name: "leader-elect-retry-period", Value: ccmRetryPeriod},
			{Op: "removeHostPath", Name: "transplant-leader-migration", Value: CCMMigration},
		}
		b.add(v1.Step{
			ID: "finish/" + CCM + "@" + h.Name, Phase: PhaseFinish, Kind: v1.StepEditManifest, Title: "switch leader migration off in " + CCM + " on " + h.Name,
			Why:  "no in-tree manager is left that could want the migration lease",
			Host: h.Name, Component: CCM, Path: CCMManifest, Edits: edits, Leases: []string{CCM, b.opts.LeaseName}, Successors: []string{CCM},
			Group: PhaseFinish + "@" + h.Name, Requires: []string{"cluster:uid", FileFact(h.Name, CCMManifest)},
			Changes: changes(edits, map[string]string{"enable-leader-migration": "true", "leader-migration-config": CCMMigration,
				"leader-elect-renew-deadline": b.opts.RenewDeadline, "leader-elect-retry-period": b.opts.RetryPeriod}),
			Undo: "put the manifest back from its backup", EstimateSeconds: 25, Expect: b.expectFor(owners(CCM)),
		})
	}
	for _, h := range hosts {
		for _, path := range []string{KCMMigration, CCMMigration} {
			b.add(v1.Step{
				ID: "remove/" + path + "@" + h.Name, Phase: PhaseFinish, Kind: v1.StepRemoveFile, Title: "remove " + path + " on " + h.Name,
				Host: h.Name, Path: path, Restore: "write/" + path + "@" + h.Name, Requires: []string{"cluster:uid", FileFact(h.Name, path)},
				Changes: []v1.Change{{Field: path, Before: "written by this migration"}}, Undo: "write it again", EstimateSeconds: 0.1,
			})
		}
	}
	b.deleteObject(PhaseFinish, "delete/", "Lease/"+Namespace+"/"+b.opts.LeaseName, "nobody respects it any longer")
	for _, o := range migrationObjects(b.opts.LeaseName) {
		b.deleteObject(PhaseFinish, "delete/", Ref(o), "the lease that it grants is gone")
	}
	b.verify(PhaseFinish, "verify/finished", owners(CCM))
}

func (b *builder) deleteObject(phase, id, r, why string) {
	b.add(v1.Step{
		ID: id + r, Phase: phase, Kind: v1.StepDeleteObject, Title: "delete " + r, Why: why, Ref: r,
		Changes: []v1.Change{{Field: r, Before: "made by this migration"}}, Undo: "make it again", EstimateSeconds: 0.1,
	})
}
