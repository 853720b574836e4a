package plan

import (
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// effects says in sentences what a plan will change, what it will not, and what nobody can promise.
func effects(direction string, snap *v1.Snapshot, steps []v1.Step, opts v1.Options) []string {
	restarts := map[string]int{}
	for _, s := range steps {
		restarts[s.Component]++ // steps that restart nothing name no component
	}
	out := []string{
		fmt.Sprintf("load balancers: %d kept, 0 recreated, 0 address changes", len(snap.Services)),
		fmt.Sprintf("nodes: %d kept, 0 provider ids changed", len(snap.Nodes)),
	}
	if snap.Cloud != nil {
		out = append(out, fmt.Sprintf("routes: %d kept", len(snap.Cloud.Routes)))
	}
	out = append(out, fmt.Sprintf("restarts: kube-controller-manager %d, kube-apiserver %d, cloud-controller-manager %d, kubelet %d",
		restarts[KCM], restarts[KAS], restarts[CCM], restarts["kubelet"]))
	if direction == Rollback {
		return append(out, unfenced(snap, opts)...)
	}
	out = append(out,
		"nodes that are NotReady stay in load balancers once the cloud-controller-manager owns them (KEP-3458)",
		"the label node.kubernetes.io/exclude-from-external-load-balancers counts when it is true, no longer when it is merely there",
	)
	if n := unreached(snap); n > 0 {
		out = append(out, fmt.Sprintf("not changed: the kubelets of %d nodes, whose hosts are not in --host-access; those with an in-tree --cloud-provider keep it, and do not start with Kubernetes 1.27", n))
	}
	return append(out, unfenced(snap, opts)...)
}

// unreached counts the nodes whose kubelets a plan cannot see.
func unreached(snap *v1.Snapshot) int {
	reached := map[string]bool{}
	for _, h := range snap.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" {
			reached[h.NodeName] = true
		}
	}
	n := 0
	for _, node := range snap.Nodes {
		if !reached[node.Name] {
			n++
		}
	}
	return n
}

// unfenced names the window that no tool can close around an in-tree manager.
func unfenced(snap *v1.Snapshot, opts v1.Options) []string {
	before := "10s"
	for _, h := range snap.Hosts {
		if m := component(h, KCM); m != nil && m.Flags["leader-elect-renew-deadline"] != "" {
			before = m.Flags["leader-elect-renew-deadline"]
		}
	}
	b, errB := time.ParseDuration(before)
	a, errA := time.ParseDuration(opts.RenewDeadline)
	if errA != nil || errB != nil {
		return nil
	}
	return []string{fmt.Sprintf("not promised: the in-tree manager is not fenced. If it is paused and resumed during a handover it can still write to the cloud for one "+
		"renew deadline: %s now, %s during the migration. Its leases are released only when its process has ended, so a planned handover does not open that window", b, a)}
}
