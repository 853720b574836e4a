package plan

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// PhaseReplace is the phase in which control-plane nodes of version N+1 come and those of version N go.
const PhaseReplace = "replace"

// replacement is a migration of control-plane nodes that are replaced and never edited. Every step on a host is a wait that tells the operator what to
// make, with the flags and files in full; Transplant itself writes API objects only.
//
//	prepare          RBAC                                                     made
//	leader-migration nodes of version N have leader migration on              awaited
//	replace          one node of version N+1 in, one of version N out         awaited, the owner's node last
//	verify           nodes and load balancers
//	finish           cloud-controller-managers without leader migration       awaited; the lease and its rights go
type replacement struct {
	*builder
	old          []v1.Host
	from, to     int
	kcm          *v1.Component
	kcmFile      string
	ccmFile      string
	ccmManifest  string
	externalized []v1.Edit
}

// replace plans the replacement of the hosts.
func (b *builder) replace() error {
	r := replacement{builder: b}
	b.opts.Strategy = LeaderMigration
	b.shape = v1.ShapeStaticPod
	if err := r.look(); err != nil {
		return err
	}
	if err := r.render(); err != nil {
		return err
	}
	b.fact("cluster:uid", b.snap.Cluster.UID, "")
	b.ensure(PhasePrepare, "reads the managers' /metrics with a token that may do nothing else", observerObjects())
	b.ensure(PhasePrepare, "the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so", migrationObjects(b.opts.LeaseName))
	b.ensure(PhasePrepare, "identity and rights of the cloud-controller-manager", b.identity())
	r.leaderMigrationOn()
	for i, h := range r.old {
		r.in(i)
		r.out(i, h)
	}
	b.add(v1.Step{ID: "verify/handed-over", Phase: PhaseVerify, Kind: v1.StepVerify, Title: "nodes that were not replaced and load balancers are as before", EstimateSeconds: 2})
	if !b.opts.KeepLeaderMigration {
		r.finish()
	}
	return nil
}

// look finds the nodes that go, the owner's last, and the versions.
func (r *replacement) look() error {
	var errs []error
	for _, h := range r.snap.Hosts {
		m := component(h, KCM)
		if !h.ControlPlane || m == nil {
			continue
		}
		if m.Flags["cloud-provider"] == "" || m.Flags["cloud-provider"] == "external" {
			errs = append(errs, fmt.Errorf("%s on node %s runs with --cloud-provider=%q: there is no in-tree provider that could move", KCM, nodeOf(h), m.Flags["cloud-provider"]))
		}
		r.old = append(r.old, h)
	}
	if len(r.old) < 2 {
		errs = append(errs, fmt.Errorf("%d control-plane nodes with a %s are known: replacing needs two or more; with one, use --strategy %s", len(r.old), KCM, Downtime))
	}
	var err error
	if r.from, err = minor("", r.snap.Cluster.Version); err != nil {
		errs = append(errs, err)
	}
	if r.to, err = minor("", r.opts.TargetVersion); err != nil {
		errs = append(errs, fmt.Errorf("--target-version %q: give the version of the new nodes, e.g. v1.%d.0", r.opts.TargetVersion, r.from+1))
	} else if r.to != r.from && r.to != r.from+1 {
		errs = append(errs, fmt.Errorf("--target-version %s: the cluster is at %s, and a control plane goes up one minor version at a time", r.opts.TargetVersion, r.snap.Cluster.Version))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	owner := r.ownerNode()
	if err := r.canBeFollowed(); err != nil {
		return err
	}
	sort.SliceStable(r.old, func(i, j int) bool { return nodeOf(r.old[i]) != owner && nodeOf(r.old[j]) == owner })
	r.kcm = component(r.old[0], KCM)
	return nil
}

// canBeFollowed returns why the managers cannot be followed, by their cloud config or by where node IPAM is to run; nil where they can.
func (r *replacement) canBeFollowed() error {
	var errs []error
	for _, h := range r.old {
		errs = append(errs, r.withoutConfig(component(h, KCM), "node "+nodeOf(h)))
	}
	return errors.Join(append(errs, r.chooseIPAM(component(r.old[0], KCM))...)...)
}

// ownerNode is the node whose kube-controller-manager leads, by its own word or by the holder of its lease.
func (r *replacement) ownerNode() string {
	if owner := OwnerHost(r.snap, KCM); owner != "" {
		for _, h := range r.old {
			if h.Name == owner {
				return nodeOf(h)
			}
		}
	}
	for _, l := range r.snap.Leases {
		if l.Name == KCM {
			holder, _, _ := strings.Cut(l.Holder, "_")
			return holder
		}
	}
	return ""
}

func nodeOf(h v1.Host) string {
	if h.NodeName != "" {
		return h.NodeName
	}
	return h.Name
}

// render makes the files that the nodes of both sides must have.
func (r *replacement) render() error {
	loops := r.loops()
	kcmFile, err := migrationconfig.Render(controllernames.KubeControllerManager, r.from, loops, r.opts.LeaseName)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", KCM, err)
	}
	ccmFile, err := migrationconfig.Render(controllernames.CloudControllerManager, r.program.minor, loops, r.opts.LeaseName)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", CCM, err)
	}
	r.kcmFile, r.ccmFile = string(kcmFile), string(ccmFile)
	r.ccmManifest, _ = r.renderCCM(r.old[0], r.kcm)
	r.externalized = slices.DeleteFunc(r.externalKCM(r.kcm), func(e v1.Edit) bool { return r.moveIPAM && e.Name == "controllers" })
	if r.moveIPAM {
		r.externalized = append(r.externalized, v1.Edit{Op: "setFlag", Name: "controllers", Value: r.withoutIPAM(r.kcm, r.to)})
	}
	return nil
}

func (r *replacement) leaderMigrationOn() {
	instructions := []string{
		fmt.Sprintf("give each of the %d control-plane nodes of version 1.%d leader migration: restart its %s with the flags below, or replace it by a node of the same version that has them", len(r.old), r.from, KCM),
		"file " + KCMMigration + " (mode 0644, mounted at the same path):",
	}
	instructions = append(instructions, indented(r.kcmFile)...)
	instructions = append(instructions, "flags of "+KCM+": --enable-leader-migration=true --leader-migration-config="+KCMMigration)
	if r.from < 22 {
		instructions = append(instructions, "flag of "+KCM+": --feature-gates=ControllerManagerLeaderMigration=true, beside those that are there: before 1.22 it is alpha")
	}
	r.await("await/leader-migration", PhaseMigration, "wait until leader migration is on in every "+KCM+" of version 1."+fmt.Sprint(r.from), v1.Await{
		Nodes: len(r.old), Component: KCM, Version: fmt.Sprintf("1.%d", r.from), Instructions: instructions,
		Flags: map[string]string{"cloud-provider": r.kcm.Flags["cloud-provider"], "enable-leader-migration": "true"},
	}, "from here on the loops run only under the lease that both managers respect; a node that does not has to be gone before the first of the new ones comes")
}

// in waits for the next node of version N+1.
func (r *replacement) in(i int) {
	want := fmt.Sprintf("1.%d", r.to)
	group := fmt.Sprintf("node %d of %d", i+1, len(r.old))
	r.await(fmt.Sprintf("await/in/%s/%d", KCM, i+1), PhaseReplace, fmt.Sprintf("wait for new control-plane %s: %s external", group, KCM), v1.Await{
		Nodes: i + 1, Component: KCM, Version: want, Instructions: r.newNode(i), Flags: r.awaitedFlags(),
	}, "leader migration must be off in a manager that runs none of the loops, or it would sit on the lease with nothing to run")
	r.await(fmt.Sprintf("await/in/%s/%d", CCM, i+1), PhaseReplace, fmt.Sprintf("wait for new control-plane %s: %s ready", group, CCM), v1.Await{
		Nodes: i + 1, Component: CCM, Flags: r.awaitedManager(),
		Instructions: []string{"it is the static pod that the step before describes; it is ready once it reaches the API and the cloud"},
	}, "the next owner runs before the old one is taken down")
}

// awaitedFlags are those by which a kube-controller-manager of version N+1 is known. Where node IPAM moves it must have none, or two managers give out pod CIDRs.
func (r *replacement) awaitedFlags() map[string]string {
	out := map[string]string{"cloud-provider": "external", "enable-leader-migration": ""}
	if r.moveIPAM {
		out["controllers"] = r.withoutIPAM(r.kcm, r.to)
	}
	return out
}

// awaitedManager are the flags by which a cloud-controller-manager is known.
func (r *replacement) awaitedManager() map[string]string {
	out := map[string]string{"enable-leader-migration": "true", "cluster-name": r.kcm.Flags["cluster-name"]}
	if r.moveIPAM {
		out["controllers"] = r.ccmControllers(r.kcm.Flags["controllers"])
	}
	return out
}

// newNode tells everything that a node of version N+1 must have.
func (r *replacement) newNode(i int) []string {
	if i > 0 {
		return []string{fmt.Sprintf("make one more control-plane node of version 1.%d, just as the first one", r.to)}
	}
	out := []string{fmt.Sprintf("make a control-plane node of version %s and let it join", r.opts.TargetVersion), "flags of " + KCM + " that differ from version N:"}
	if k := r.snap.Kubeadm; k != nil && k.Error == "" {
		out = append(out, "    where kubeadm makes the node, it takes these flags from ConfigMap "+kubeadmRef[len("ConfigMap/"):]+": change them there first")
	}
	for _, e := range r.externalized {
		switch e.Op {
		case "setFlag":
			out = append(out, "    --"+e.Name+"="+e.Value)
		case "unsetFlag":
			out = append(out, "    no --"+e.Name)
		}
	}
	out = append(out, "flags of "+KAS+": --cloud-provider=external, no --cloud-config (from 1.33 on: neither)", "flags of the kubelet: --cloud-provider=external, no --cloud-config",
		"file "+CCMMigration+" (mode 0644):")
	out = append(out, indented(r.ccmFile)...)
	if !r.isUnconfigured(r.kcm) {
		out = append(out, "file "+CCMCloudConf+" (mode 0600): the cloud config of the old nodes, changed so:")
		out = append(out, r.cloudConfigChanges()...)
	}
	derivation, note := r.tokenKind()
	out = append(out,
		"file "+CCMKubeconfig+" (mode 0600): a kubeconfig with server and authority of "+KCMKubeconfig+" and one user, whose tokenFile is "+CCMToken,
		"file "+CCMToken+" (mode 0600): what this prints, made for each new node (a token"+note+"):",
		"    "+CreateToken(derivation),
		"file "+CCMManifest+" (mode 0600; its --bind-address is that of the node it was rendered for):")
	return append(out, indented(r.ccmManifest)...)
}

func (r *replacement) cloudConfigChanges() []string {
	for _, h := range r.old {
		if h.CloudConfig == nil || h.CloudConfig.Error != "" {
			continue
		}
		if len(h.CloudConfig.DerivedChanges) == 0 {
			return []string{"    (nothing: the external provider reads it as it is)"}
		}
		return indented(strings.Join(h.CloudConfig.DerivedChanges, "\n"))
	}
	return []string{"    (its content is not known: name the old nodes with --host-access and plan again to see what changes)"}
}

func (r *replacement) out(i int, h v1.Host) {
	title := fmt.Sprintf("wait until control-plane node %s of version 1.%d is gone", nodeOf(h), r.from)
	why := "one in, one out: the control plane keeps its size"
	if i == len(r.old)-1 {
		why = "it owns the loops: with it they go to a " + CCM + ", once and for good"
	}
	r.await("await/out/"+nodeOf(h), PhaseReplace, title, v1.Await{
		NodeGone: nodeOf(h), Component: KCM, Nodes: i + 1, Version: fmt.Sprintf("1.%d", r.to), Flags: map[string]string{"cloud-provider": "external"},
		Instructions: []string{
			"take node " + nodeOf(h) + " down: drain it, remove its etcd member, shut the machine down",
			"    kubectl drain " + nodeOf(h) + " --ignore-daemonsets --delete-emptydir-data && kubectl delete node " + nodeOf(h),
		},
	}, why)
}

func (r *replacement) finish() {
	r.await("await/finish", PhaseFinish, "wait until leader migration is off in every "+CCM, v1.Await{
		Nodes: len(r.old), Component: CCM, Flags: map[string]string{"enable-leader-migration": "", "leader-migration-config": ""},
		Instructions: []string{
			"in a rolling manner, on each control-plane node: take --enable-leader-migration and --leader-migration-config and the mount of " + CCMMigration + " out of " + CCMManifest,
			"then remove " + CCMMigration,
		},
	}, "no in-tree manager is left that could want the migration lease")
	r.deleteObject(PhaseFinish, "delete/", "Lease/"+Namespace+"/"+r.opts.LeaseName, "nobody respects it any longer")
	for _, o := range migrationObjects(r.opts.LeaseName) {
		r.deleteObject(PhaseFinish, "delete/", Ref(o), "the lease that it grants is gone")
	}
}

func (b *builder) await(id, phase, title string, a v1.Await, why string) {
	b.add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepAwait, Title: title, Why: why, Await: &a, Requires: []string{"cluster:uid"},
		Undo: "nothing was changed; nodes that came and went are replaced the other way round", EstimateSeconds: 600,
	})
}

// replacedEffects says what becomes of a cluster whose control-plane hosts are replaced.
func (b *builder) replacedEffects() []string {
	out := []string{
		fmt.Sprintf("load balancers: %d kept, 0 recreated, 0 address changes", len(b.snap.Services)),
		fmt.Sprintf("nodes: %d replaced by the operator, %d kept; no host is touched by transplant", b.goes(), len(b.snap.Nodes)-b.goes()),
		"the loops change hands once, when the last node of the old version goes; its kube-controller-manager releases its leases only if it ends in order, else they run out after 15 s",
		"nodes that are NotReady stay in load balancers once the cloud-controller-manager owns them (KEP-3458)",
		"not changed: kubelets of workers; roll their machines with --cloud-provider=external and, where images come from the cloud's registry, its image credential provider, before Kubernetes 1.27 (AWS) or the release that removes the provider",
	}
	return append(append(out, unfenced(b.snap, b.opts)...), b.notes...)
}

// goes is how many nodes are taken down.
func (b *builder) goes() int {
	n := 0
	for _, s := range b.steps {
		if s.Await != nil && s.Await.NodeGone != "" {
			n++
		}
	}
	return n
}

func indented(text string) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		out = append(out, "    "+line)
	}
	return out
}
