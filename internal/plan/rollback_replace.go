package plan

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// PhaseReplaceBack is the phase of a rollback in which control-plane nodes of version N come and those of version N+1 go.
const PhaseReplaceBack = "rollback-replace"

// replaced is the way back of replaced hosts: nodes of version N with leader migration come, one for each of version N+1 that goes. Where leader
// migration was dropped already it is awaited in the cloud-controller-managers first, with its lease's rights made again.
func (r *rollback) replaced() error {
	from, err := minor("", r.journal.Plan.Cluster.Version)
	if err != nil {
		return err
	}
	file, err := migrationconfig.Render(controllernames.KubeControllerManager, from, movedLoops, r.opts.LeaseName)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", KCM, err)
	}
	old, external := r.sides()
	if len(external) > 0 && len(r.started(byID("await/finish"))) > 0 {
		r.onAgain(len(external))
	}
	for i, h := range external {
		r.await(fmt.Sprintf("undo/await/in/%d", i+1), PhaseReplaceBack, fmt.Sprintf("wait for control-plane node %d of %d of version 1.%d with leader migration", len(old)+i+1, len(old)+len(external), from), v1.Await{
			Nodes: len(old) + i + 1, Component: KCM, Version: fmt.Sprintf("1.%d", from), Flags: map[string]string{"cloud-provider": r.provider(), "enable-leader-migration": "true"},
			Instructions: append([]string{
				fmt.Sprintf("make a control-plane node of version 1.%d, with the flags and files that those of version N had before the migration, and", from),
				"flags of " + KCM + ": --cloud-provider=" + r.provider() + " --enable-leader-migration=true --leader-migration-config=" + KCMMigration, "file " + KCMMigration + ":",
			}, indented(string(file))...),
		}, "it takes the loops over when the last of the others is gone; no "+CCM+" may run on it")
		r.await("undo/await/out/"+nodeOf(h), PhaseReplaceBack, "wait until control-plane node "+nodeOf(h)+" is gone", v1.Await{
			NodeGone: nodeOf(h), Component: CCM, Nodes: len(external) - i - 1,
			Instructions: []string{"take node " + nodeOf(h) + " down: drain it, remove its etcd member, shut the machine down"},
		}, "one in, one out")
	}
	r.add(v1.Step{ID: "verify/rolled-back", Phase: PhaseOriginal, Kind: v1.StepVerify, Title: "nodes that were not replaced and load balancers are as before", EstimateSeconds: 2})
	if len(old)+len(external) > 0 {
		r.await("undo/await/leader-migration", PhaseOriginal, "wait until leader migration is off in every "+KCM, v1.Await{
			Nodes: len(old) + len(external), Component: KCM, Version: fmt.Sprintf("1.%d", from), Flags: map[string]string{"cloud-provider": r.provider(), "enable-leader-migration": ""},
			Instructions: []string{"in a rolling manner, on each control-plane node: take --enable-leader-migration and --leader-migration-config out of " + KCM},
		}, "the lease and its rights go next")
	}
	r.cleanup()
	return nil
}

// sides are the control-plane nodes of version N, and those whose managers are external by now, the owner's last.
func (r *rollback) sides() (old, external []v1.Host) {
	for _, h := range r.snap.Hosts {
		m := component(h, KCM)
		switch {
		case !h.ControlPlane || m == nil:
		case m.Flags["cloud-provider"] == r.provider():
			old = append(old, h)
		default:
			external = append(external, h)
		}
	}
	owner := OwnerHost(r.snap, CCM)
	last := func(h v1.Host) bool { return h.Name == owner }
	for i := range external {
		if last(external[i]) {
			external = append(append(external[:i:i], external[i+1:]...), external[i])
			break
		}
	}
	return old, external
}

func (r *rollback) provider() string {
	if p := r.journal.Plan.Cluster.Provider; p != "" {
		return p
	}
	return ProviderAWS
}

func (r *rollback) onAgain(nodes int) {
	for _, s := range r.journal.Plan.Steps {
		if _, done := r.records[s.ID]; done && s.Kind == v1.StepEnsureObject && contains(migrationObjects(r.opts.LeaseName), s.Ref) {
			s.ID, s.Phase, s.Requires = "again/"+s.ID, PhaseReenable, []string{"cluster:uid"}
			r.add(s)
		}
	}
	r.await("again/await/leader-migration", PhaseReenable, "wait until leader migration is on again in every "+CCM, v1.Await{
		Nodes: nodes, Component: CCM, Flags: map[string]string{"enable-leader-migration": "true"},
		Instructions: []string{"in a rolling manner, on each control-plane node: put " + CCMMigration + " back, and --enable-leader-migration=true and --leader-migration-config=" + CCMMigration + " into " + CCMManifest},
	}, "an in-tree manager may come back only under the lease that both respect")
}
