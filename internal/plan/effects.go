package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// effects says in sentences what this plan will change, what it will not, and what nobody can promise.
func (b *builder) effects() []string {
	if b.inSeed() {
		return b.seedEffects()
	}
	if b.opts.ReplaceHosts {
		return b.replacedEffects()
	}
	out := append(effects(Forward, b.snap, b.steps, b.opts), b.members()...)
	if b.opts.Strategy == Downtime {
		out = append(out, fmt.Sprintf("gap: for about %d s nobody runs the loops %s: load balancers, routes and nodes stay as they are, a node that joins keeps its taint, and a Service waits for its address",
			b.gap(), strings.Join(b.loopNames(), ", ")))
	}
	if !b.observable() {
		out = append(out, fmt.Sprintf("not observed: which manager runs a loop is not said on /metrics by %s 1.%d or by the manager in image %s; each step waits for its process and its lease, and in the end nodes and load balancers are compared",
			KCM, b.kcm, b.opts.Image))
	}
	if note := b.volumeNote(); note != "" {
		out = append(out, note)
	}
	if note := b.credentialNote(); note != "" {
		out = append(out, note)
	}
	if left := b.proxiesLeftOut(); len(left) > 0 {
		out = append(out, fmt.Sprintf("not carried over: %s of %s; a snapshot holds no values of variables, so where the cloud is reached through a proxy or with a private authority, name them with --ccm-env",
			strings.Join(left, ", "), KCM))
	}
	out = append(out, b.upgradeEffects()...)
	return append(append(out, b.balancerNote()...), b.notes...)
}

// effects are those that every plan has.
func effects(direction string, snap *v1.Snapshot, steps []v1.Step, opts v1.Options) []string {
	restarts := map[string]int{}
	for _, s := range steps {
		if s.Component == KCM && stops(s) {
			continue // the step that starts it is counted
		}
		if s.Ref == "" || s.Kind == v1.StepEnsureObject || s.Kind == v1.StepEditWorkload {
			restarts[s.Component]++ // steps that restart nothing name no component
		}
	}
	anew := 0
	if direction == Forward && recreated(snap, opts) != "" {
		anew = len(snap.Services)
	}
	out := []string{
		fmt.Sprintf("load balancers: %d kept, %d recreated, %d address changes", len(snap.Services)-anew, anew, anew),
		nodesEffect(snap, steps),
	}
	if snap.Cloud != nil {
		out = append(out, fmt.Sprintf("routes: %d kept", len(snap.Cloud.Routes)))
	}
	out = append(out, fmt.Sprintf("restarts: kube-controller-manager %d, kube-apiserver %d, cloud-controller-manager %d, kubelet %d",
		restarts[KCM], restarts[KAS], restarts[CCM], restarts["kubelet"]))
	if direction == Rollback {
		return append(out, unfenced(snap, opts)...)
	}
	if n := unreached(snap); n > 0 {
		end := "the version that has it no longer"
		if name, err := inTreeProvider(snap); err == nil {
			if p, ok := catalogue.Lookup(name); ok {
				end = fmt.Sprintf("Kubernetes 1.%d", p.LastInTree+1)
			}
		}
		out = append(out, fmt.Sprintf("not changed: the kubelets of %d nodes, whose hosts are not in --host-access; those with an in-tree --cloud-provider keep it, and do not start with %s", n, end))
	}
	return append(out, unfenced(snap, opts)...)
}

// members says what changes for the members of load balancers with the version of the loop that chooses them.
func (b *builder) members() []string {
	before, after := catalogue.ServiceLoopAt(b.kcm), catalogue.ServiceLoopAt(b.program.minor)
	var out []string
	if after.KeepsNotReady && !before.KeepsNotReady {
		out = append(out, "nodes that are NotReady stay in load balancers once the cloud-controller-manager owns them (KEP-3458)")
	}
	if after.ReadsExclusion && !before.ReadsExclusion {
		out = append(out, "the label node.kubernetes.io/exclude-from-external-load-balancers counts when it is true, no longer when it is merely there")
	}
	return out
}

// nodesEffect counts the nodes that keep what they have and those that get a providerID or are drained.
func nodesEffect(snap *v1.Snapshot, steps []v1.Step) string {
	filled, drained := 0, 0
	for _, s := range steps {
		if s.Kind == v1.StepInitializeNode {
			filled++
		}
		if s.Drain {
			drained++
		}
	}
	out := fmt.Sprintf("nodes: %d kept, 0 provider ids changed", len(snap.Nodes))
	if filled > 0 {
		out += fmt.Sprintf(", %d nodes get one", filled)
	}
	if drained > 0 {
		out += fmt.Sprintf(", %d drained one by one", drained)
	}
	return out
}

// loopNames are the loops that stop and start, as far as they ran.
func (b *builder) loopNames() []string {
	var out []string
	for _, l := range b.loops() {
		if b.runs(string(l)) {
			out = append(out, string(l))
		}
	}
	return out
}

// volumeNote says what becomes of the volumes.
func (b *builder) volumeNote() string {
	if len(b.volumes.plugins) == 0 {
		return ""
	}
	names := make([]string, len(b.volumes.plugins))
	for i, p := range b.volumes.plugins {
		names[i] = p.Name
	}
	left := b.unmigratedNodes()
	switch {
	case !b.volumes.csi && b.volumes.unknown:
		return fmt.Sprintf("volumes: which there are of %s is not known, so %s keeps the plugin with --%s and its --cloud-config", strings.Join(names, ", "), KCM, flagVolumePlugin)
	case !b.volumes.csi:
		return fmt.Sprintf("volumes: those of %s stay in-tree; %s keeps the provider for them with --%s and its --cloud-config, which ends with Kubernetes 1.%d: install the CSI driver and plan with --volumes=%s before that",
			strings.Join(names, ", "), KCM, flagVolumePlugin, b.provider.LastInTree+1, v1.VolumesCSI)
	case len(left) > 0:
		return fmt.Sprintf("volumes: those of %s go to CSI node by node; %s keeps the plugin, because the kubelets of %s are not changed by this plan", strings.Join(names, ", "), KCM, few(left))
	}
	return fmt.Sprintf("volumes: those of %s go to CSI node by node, none is copied or recreated; the in-tree plugin stays until the last kubelet is done", strings.Join(names, ", "))
}

// recreated says in a clause why the new manager makes every load balancer anew; empty when it adopts them. Which one belongs to a Service it finds on
// AWS and GCE by the Service's uid, on OpenStack and Azure by the cluster's name; and on OpenStack it knows Octavia's only.
func recreated(snap *v1.Snapshot, opts v1.Options) string {
	if len(snap.Services) == 0 {
		return ""
	}
	provider, err := inTreeProvider(snap)
	if err != nil || provider != providerOpenStack && provider != providerAzure {
		return ""
	}
	for _, h := range snap.Hosts {
		m := component(h, KCM)
		if m == nil {
			continue
		}
		name := cmp.Or(m.Flags["cluster-name"], defaultClusterName)
		if opts.ClusterName != "" && opts.ClusterName != name {
			return fmt.Sprintf("the cluster's name becomes %q, and they were made under %q", opts.ClusterName, name)
		}
		if c := h.CloudConfig; provider == providerOpenStack && c != nil && c.Settings != nil && !strings.EqualFold(c.Settings["LoadBalancer.use-octavia"], "true") {
			return "they are Neutron's (use-octavia is not true in " + c.Path + "), and the external provider knows Octavia's only"
		}
	}
	return ""
}

// balancerNote says what a provider does to load balancers when another manager takes them over, and what is left to do about the records of volumes.
func (b *builder) balancerNote() []string {
	var out []string
	if why := recreated(b.snap, b.opts); why != "" {
		out = append(out, fmt.Sprintf("load balancers: all %d are made anew with new addresses and the old ones are left behind: %s", len(b.snap.Services), why))
	}
	if b.provider.Name == providerOpenStack {
		n := 0
		if b.snap.Volumes != nil {
			for _, pv := range b.snap.Volumes.PersistentVolumes {
				if strings.HasPrefix(pv.ProvisionedBy, "kubernetes.io/") {
					n++
				}
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("to do by hand: %d persistent volumes say that kubernetes.io/cinder made them; when one is deleted later its disk stays in Cinder, unless the annotation names the driver: "+
				"kubectl annotate pv NAME --overwrite pv.kubernetes.io/provisioned-by=cinder.csi.openstack.org", n))
		}
	}
	return out
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
	if opts.Strategy == Downtime {
		return []string{fmt.Sprintf("not promised: the in-tree manager is not fenced. If it is paused and resumed while it is stopped it can still write to the cloud for one renew deadline, %s", b)}
	}
	return []string{fmt.Sprintf("not promised: the in-tree manager is not fenced. If it is paused and resumed during a handover it can still write to the cloud for one "+
		"renew deadline: %s now, %s during the migration. Its leases are released only when its process has ended, so a planned handover does not open that window", b, a)}
}
