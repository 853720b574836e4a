// Package replace plans for control planes whose hosts are replaced and never edited.
package replace

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/manual"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
)

// replacement is a migration of control-plane nodes that are replaced and never edited. Every step on a host is a wait
// that tells the operator what to make, with the flags and files in full. Transplant itself writes API objects only.
//
//	prepare          RBAC                                                     made
//	leader-migration nodes of version N have leader migration on              awaited
//	replace          one node of version N+1 in, one of version N out         awaited, the owner's node last
//	verify           nodes and load balancers
//	finish           cloud-controller-managers without leader migration       awaited; the lease and its rights go
type replacement struct {
	draft       *draft.Draft
	old         []v1.Host
	from, to    int
	kcm         *v1.Component
	kcmFile     string
	ccmFile     string
	ccmManifest string
	// managerEdits and serverEdits are how the flags of a new host's kube-controller-manager and kube-apiserver differ.
	managerEdits, serverEdits []v1.Edit
}

// PlanReplacement plans the replacement of the hosts.
func PlanReplacement(d *draft.Draft) error {
	r := replacement{draft: d}
	d.Options.Strategy = planstep.LeaderMigration
	d.Shape = v1.ShapeStaticPod
	if err := r.findNodes(); err != nil {
		return err
	}
	if err := r.renderFiles(); err != nil {
		return err
	}
	d.AddFact("cluster:uid", d.Snapshot.Cluster.UID, "")
	d.EnsureObjects(
		planstep.PhasePrepare,
		"reads the managers' /metrics with a token that may do nothing else",
		layout.ObserverObjects(),
	)
	d.EnsureObjects(
		planstep.PhasePrepare,
		"the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so",
		layout.MigrationObjects(d.Options.LeaseName),
	)
	d.EnsureObjects(planstep.PhasePrepare, "identity and rights of the cloud-controller-manager", ccm.IdentityObjects(d))
	r.awaitLeaderMigration()
	for i, h := range r.old {
		r.awaitNewNode(i)
		r.awaitOldNode(i, h)
	}
	d.VerifyOwners(planstep.PhaseVerify, "verify/handed-over", draft.OwnedBy(component.CCM))
	if !d.Options.KeepLeaderMigration {
		r.awaitFinish()
	}
	return nil
}

// findNodes finds the nodes that go, the owner's last, and the versions.
func (r *replacement) findNodes() error {
	var errs []error
	for _, h := range r.draft.Snapshot.Hosts {
		m := clusterview.FindComponent(h, component.KCM)
		if !h.ControlPlane || m == nil || clusterview.IsGone(r.draft.Snapshot, h) {
			continue
		}
		if m.Flags["cloud-provider"] == "" || m.Flags["cloud-provider"] == "external" {
			errs = append(
				errs,
				fmt.Errorf(
					"%s on node %s runs with --cloud-provider=%q: there is no in-tree provider that could move",
					component.KCM,
					clusterview.NodeName(h),
					m.Flags["cloud-provider"],
				),
			)
		}
		r.old = append(r.old, h)
	}
	if len(r.old) < 2 {
		errs = append(
			errs,
			fmt.Errorf(
				"%d control-plane nodes with a %s are known: replacing needs two or more; with one, use --strategy %s",
				len(r.old),
				component.KCM,
				planstep.Downtime,
			),
		)
	}
	var err error
	if r.from, err = clusterview.ParseMinor("", r.draft.Snapshot.Cluster.Version); err != nil {
		errs = append(errs, err)
	}
	if r.to, err = clusterview.ParseMinor("", r.draft.Options.TargetVersion); err != nil {
		errs = append(
			errs,
			fmt.Errorf(
				"--target-version %q: give the version of the new nodes, e.g. v1.%d.0",
				r.draft.Options.TargetVersion,
				r.from+1,
			),
		)
	} else if r.to != r.from && r.to != r.from+1 {
		errs = append(
			errs,
			fmt.Errorf(
				"--target-version %s: the cluster is at %s, and a control plane goes up one minor version at a time",
				r.draft.Options.TargetVersion,
				r.draft.Snapshot.Cluster.Version,
			),
		)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// Both versions are asked for their loops: the new one in the end, the old one after a rollback.
	r.draft.KCMMinor = min(r.from, r.to)
	owner := r.ownerNode()
	if err := r.checkManagers(); err != nil {
		return err
	}
	sort.SliceStable(r.old, func(i, j int) bool {
		return clusterview.NodeName(r.old[i]) != owner && clusterview.NodeName(r.old[j]) == owner
	})
	r.kcm = clusterview.FindComponent(r.old[0], component.KCM)
	return nil
}

// checkManagers returns why the managers cannot be followed, by their cloud config or by where node IPAM is to run; nil
// where they can.
func (r *replacement) checkManagers() error {
	var errs []error
	for _, h := range r.old {
		errs = append(
			errs,
			ccm.CheckCloudConfig(r.draft, clusterview.FindComponent(h, component.KCM), "node "+clusterview.NodeName(h)),
		)
	}
	return errors.Join(
		append(errs, external.ChooseNodeIPAM(r.draft, clusterview.FindComponent(r.old[0], component.KCM))...)...)
}

// ownerNode is the node whose kube-controller-manager leads, by its own word or by the holder of its lease.
func (r *replacement) ownerNode() string {
	if owner := clusterview.OwnerHost(r.draft.Snapshot, component.KCM); owner != "" {
		for _, h := range r.old {
			if h.Name == owner {
				return clusterview.NodeName(h)
			}
		}
	}
	for _, l := range r.draft.Snapshot.Leases {
		if l.Name == component.KCM {
			holder, _, _ := strings.Cut(l.Holder, "_")
			return holder
		}
	}
	return ""
}

// renderFiles makes the files that the nodes of both sides must have.
func (r *replacement) renderFiles() error {
	loops := r.draft.MovedLoops()
	kcmFile, err := migrationconfig.Render(controllernames.KubeControllerManager, r.from, loops, r.draft.Options.LeaseName)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", component.KCM, err)
	}
	ccmFile, err := migrationconfig.Render(
		controllernames.CloudControllerManager,
		r.draft.Program.Minor,
		loops,
		r.draft.Options.LeaseName,
	)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", component.CCM, err)
	}
	r.kcmFile, r.ccmFile = string(kcmFile), string(ccmFile)
	r.ccmManifest, _ = ccm.RenderStaticPod(r.draft, r.old[0], r.kcm)
	r.compareFlags()
	return nil
}

// compareFlags finds how the flags of a new host differ: by the external provider, and by what its version no longer
// takes. A component does not start with a flag that it does not know, or with a gate that is locked.
func (r *replacement) compareFlags() {
	next := *r.draft
	next.Upgrade = draft.Upgrade{Version: "v" + strings.TrimPrefix(r.draft.Options.TargetVersion, "v"), Minor: r.to}
	next.Notes, next.Refusals = nil, nil
	r.managerEdits = slices.DeleteFunc(
		external.ManagerEdits(&next, r.kcm),
		func(e v1.Edit) bool { return r.draft.MoveIPAM && e.Name == "controllers" },
	)
	if r.draft.MoveIPAM {
		r.managerEdits = append(
			r.managerEdits,
			v1.Edit{Op: v1.EditSetFlag, Name: "controllers", Value: external.ControllersWithoutIPAM(r.draft, r.kcm, r.to)},
		)
	}
	r.managerEdits = upgrade.DropUnknown(&next, r.kcm, r.managerEdits)
	if api := clusterview.FindComponent(r.old[0], component.KAS); api != nil {
		r.serverEdits = upgrade.DropUnknown(&next, api, external.APIServerEdits(&next, api))
	}
	for _, note := range next.Notes {
		r.draft.Note(note)
	}
	r.draft.Refusals = append(r.draft.Refusals, next.Refusals...)
}

func (r *replacement) awaitLeaderMigration() {
	instructions := []string{
		fmt.Sprintf(
			"give each of the %d control-plane nodes of version 1.%d leader migration: restart its %s with the flags below, or replace the node by one that has them",
			len(r.old),
			r.from,
			component.KCM,
		),
		"file " + layout.KCMMigration + " (mode 0644, mounted at the same path):",
	}
	instructions = append(instructions, manual.Indent(r.kcmFile)...)
	instructions = append(
		instructions,
		"flags of "+component.KCM+": --enable-leader-migration=true --leader-migration-config="+layout.KCMMigration,
	)
	if r.from < 22 {
		instructions = append(
			instructions,
			"flag of "+component.KCM+": --feature-gates=ControllerManagerLeaderMigration=true, next to those that are there: before 1.22 it is alpha",
		)
	}
	r.draft.AwaitOperator(
		"await/leader-migration",
		planstep.PhaseMigration,
		"wait until leader migration is on in every "+component.KCM+" of version 1."+fmt.Sprint(r.from),
		v1.Await{
			Nodes: len(r.old), Component: component.KCM, Version: fmt.Sprintf("1.%d", r.from), Instructions: instructions,
			Flags: map[string]string{"cloud-provider": r.kcm.Flags["cloud-provider"], "enable-leader-migration": "true"},
		},
		"from here on the loops run only under the lease that both managers respect; a node that does not has to be gone before the first of the new ones comes",
	)
}

// awaitNewNode waits for the next node of version N+1.
func (r *replacement) awaitNewNode(i int) {
	want := fmt.Sprintf("1.%d", r.to)
	group := fmt.Sprintf("node %d of %d", i+1, len(r.old))
	r.draft.AwaitOperator(
		fmt.Sprintf("await/in/%s/%d", component.KCM, i+1),
		planstep.PhaseReplace,
		fmt.Sprintf("wait for new control-plane %s: %s external", group, component.KCM),
		v1.Await{
			Nodes: i + 1, Component: component.KCM, Version: want, Instructions: r.describeNewNode(i), Flags: r.awaitedFlags(),
		},
		"leader migration must be off in a manager that runs none of the loops, or it would sit on the lease with nothing to run",
	)
	r.draft.AwaitOperator(
		fmt.Sprintf("await/in/%s/%d", component.CCM, i+1),
		planstep.PhaseReplace,
		fmt.Sprintf("wait for new control-plane %s: %s ready", group, component.CCM),
		v1.Await{
			Nodes:     i + 1,
			Component: component.CCM,
			Flags:     r.awaitedManager(),
			Instructions: []string{
				"it is the static pod that the step before describes; it is ready once it reaches the API and the cloud",
			},
		},
		"the next owner runs before the old one is taken down",
	)
}

// awaitedFlags are those by which a kube-controller-manager of version N+1 is known. Where node IPAM moves it must have
// none, or two managers give out pod CIDRs.
func (r *replacement) awaitedFlags() map[string]string {
	out := map[string]string{"cloud-provider": "external", "enable-leader-migration": ""}
	if r.draft.MoveIPAM {
		out["controllers"] = external.ControllersWithoutIPAM(r.draft, r.kcm, r.to)
	}
	return out
}

// awaitedManager are the flags by which a cloud-controller-manager is known.
func (r *replacement) awaitedManager() map[string]string {
	out := map[string]string{"enable-leader-migration": "true", "cluster-name": r.kcm.Flags["cluster-name"]}
	if r.draft.MoveIPAM {
		out["controllers"] = ccm.ControllersFlag(r.draft, r.kcm.Flags["controllers"])
	}
	return out
}

// describeNewNode says everything that a node of version N+1 must have.
func (r *replacement) describeNewNode(i int) []string {
	if i > 0 {
		return []string{fmt.Sprintf("make one more control-plane node of version 1.%d, just as the first one", r.to)}
	}
	out := []string{
		fmt.Sprintf("make a control-plane node of version %s and let it join", r.draft.Options.TargetVersion),
		fmt.Sprintf("flags of %s that differ from those of the nodes of version 1.%d:", component.KCM, r.from),
	}
	if k := r.draft.Snapshot.Kubeadm; k != nil && k.Error == "" {
		out = append(
			out,
			"    where kubeadm makes the node, it takes these flags from ConfigMap "+layout.KubeadmConfigRef[len("ConfigMap/"):]+": change them there first",
		)
	}
	out = append(out, describeFlags(r.managerEdits)...)
	if len(r.serverEdits) > 0 {
		out = append(out, fmt.Sprintf("flags of %s that differ:", component.KAS))
		out = append(out, describeFlags(r.serverEdits)...)
	}
	out = append(
		out,
		"flags of the kubelet: --cloud-provider=external, no --cloud-config"+r.describeKubeletGates(),
		"file "+layout.CCMMigration+" (mode 0644):",
	)
	out = append(out, manual.Indent(r.ccmFile)...)
	if !ccm.IsUnconfigured(r.draft, r.kcm) {
		out = append(out, "file "+layout.CCMCloudConf+" (mode 0600): the cloud config of the old nodes, changed so:")
		out = append(out, r.cloudConfigChanges()...)
	}
	derivation, note := ccm.TokenDerivation(r.draft)
	out = append(
		out,
		"file "+layout.CCMKubeconfig+" (mode 0600): a kubeconfig with server and authority of "+layout.KCMKubeconfig+" and one user, whose tokenFile is "+layout.CCMToken,
		"file "+layout.CCMToken+" (mode 0600): what this prints, made for each new node (a token"+note+"):",
		"    "+manual.CreateToken(derivation),
		"file "+layout.CCMManifest+" (mode 0600; the addresses and the annotation transplant.dev/host are those of host "+r.old[0].Name+": give it the new host's):",
	)
	return append(out, manual.Indent(r.ccmManifest)...)
}

// describeFlags writes flags that are other ones, or are not to be given, a line each.
func describeFlags(edits []v1.Edit) (lines []string) {
	for _, e := range edits {
		switch e.Op {
		case v1.EditSetFlag:
			lines = append(lines, "    --"+e.Name+"="+e.Value)
		case v1.EditUnsetFlag:
			lines = append(lines, "    no --"+e.Name)
		default: // no other edit is about flags
		}
	}
	return lines
}

// describeKubeletGates says which gates of KEP-2395 are locked in a new kubelet; empty for none. With an in-tree
// provider they had to be set to the other value.
func (r *replacement) describeKubeletGates() string {
	var locked []string
	for _, name := range []string{catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders} {
		if g := catalogue.GateFor(component.Kubelet, name, r.to); g.Locked {
			locked = append(locked, name)
		}
	}
	if len(locked) == 0 {
		return ""
	}
	return ", neither as a flag nor in a file the gates " + strings.Join(locked, " and ")
}

func (r *replacement) cloudConfigChanges() []string {
	for _, h := range r.old {
		if h.CloudConfig == nil || h.CloudConfig.Error != "" {
			continue
		}
		if len(h.CloudConfig.DerivedChanges) == 0 {
			return []string{"    (nothing: the external provider reads it as it is)"}
		}
		return manual.Indent(strings.Join(h.CloudConfig.DerivedChanges, "\n"))
	}
	return []string{
		"    (its content is not known: name the old nodes with --host-access and plan again to see what changes)",
	}
}

func (r *replacement) awaitOldNode(i int, h v1.Host) {
	title := fmt.Sprintf("wait until control-plane node %s of version 1.%d is gone", clusterview.NodeName(h), r.from)
	why := "one in, one out: the control plane keeps its size"
	if i == len(r.old)-1 {
		why = "it owns the loops: with it they go to a " + component.CCM + ", once and for good"
	}
	r.draft.AwaitOperator("await/out/"+clusterview.NodeName(h), planstep.PhaseReplace, title, v1.Await{
		NodeGone: clusterview.NodeName(
			h,
		),
		Component:    component.KCM,
		Nodes:        i + 1,
		Version:      fmt.Sprintf("1.%d", r.to),
		Flags:        map[string]string{"cloud-provider": "external"},
		Instructions: manual.TakeDown(clusterview.NodeName(h)),
	}, why)
}

func (r *replacement) awaitFinish() {
	r.draft.AwaitOperator(
		"await/finish",
		planstep.PhaseFinish,
		"wait until leader migration is off in every "+component.CCM,
		v1.Await{
			Nodes: len(
				r.old,
			),
			Component: component.CCM,
			Flags:     map[string]string{"enable-leader-migration": "", "leader-migration-config": ""},
			Instructions: []string{
				"in a rolling manner, on each control-plane node: remove --enable-leader-migration and --leader-migration-config and the mount of " + layout.CCMMigration + " from " + layout.CCMManifest,
				"then remove " + layout.CCMMigration,
			},
		},
		"no in-tree manager is left that could want the migration lease",
	)
	r.draft.DeleteObject(
		planstep.PhaseFinish,
		"delete/",
		"Lease/"+component.Namespace+"/"+r.draft.Options.LeaseName,
		"no manager uses it any longer",
	)
	for _, o := range layout.MigrationObjects(r.draft.Options.LeaseName) {
		r.draft.DeleteObject(planstep.PhaseFinish, "delete/", layout.Ref(o), "the lease that it grants is gone")
	}
}
