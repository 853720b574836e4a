// Package effect says in sentences what a plan changes for load balancers, nodes and restarts, and what it does not
// promise.
package effect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// RestartsBegin begins the sentence that counts the restarts.
const RestartsBegin = "restarts: "

// Recreated begins the sentence about load balancers that get new addresses.
const Recreated = "load balancers: all "

// Restarts counts the restarts of each component.
func Restarts(steps []v1.Step) map[string]int {
	out := map[string]int{}
	for _, s := range steps {
		switch {
		case s.Component == component.KCM && planstep.StopsComponent(s): // the step that starts it is counted
		case planstep.LeavesPods(s): // those that replace its pods are counted
		case s.Ref == "",
			s.Kind == v1.StepEnsureObject,
			s.Kind == v1.StepEditWorkload,
			s.Kind == v1.StepReplacePod:
			out[s.Component]++ // steps that restart nothing name no component
		}
	}
	return out
}

func describeBalancers(all, recreated int) string {
	if all == 0 {
		return "load balancers: none"
	}
	return fmt.Sprintf("load balancers: %d kept, %d recreated, %d address changes", all-recreated, recreated, recreated)
}

// Describe are those that every plan has.
func Describe(direction string, snap *v1.Snapshot, steps []v1.Step, opts v1.Options) []string {
	restarts := Restarts(steps)
	recreated := 0
	if direction == planstep.Forward && WhyRecreated(snap, opts) != "" {
		recreated = len(snap.Services)
	}
	out := []string{
		describeBalancers(len(snap.Services), recreated),
		describeNodes(snap, steps),
	}
	if snap.Cloud != nil {
		out = append(out, fmt.Sprintf("routes: %d kept", len(snap.Cloud.Routes)))
	}
	out = append(
		out,
		fmt.Sprintf(RestartsBegin+"kube-controller-manager %d, kube-apiserver %d, cloud-controller-manager %d, kubelet %d",
			restarts[component.KCM], restarts[component.KAS], restarts[component.CCM], restarts[component.Kubelet]),
	)
	if direction == planstep.Rollback {
		return append(out, DescribeUnfenced(snap, opts)...)
	}
	if n := countUnreached(snap); n > 0 {
		end := "the version that has it no longer"
		if name, err := clusterview.InTreeProvider(snap); err == nil {
			if p, ok := cloudprovider.Lookup(name); ok {
				end = fmt.Sprintf("Kubernetes 1.%d", p.LastInTree+1)
			}
		}
		out = append(
			out,
			fmt.Sprintf(
				"not changed: the kubelets of %d nodes, whose hosts are not in --host-access; those with an in-tree --cloud-provider keep it, and do not start with %s",
				n,
				end,
			),
		)
	}
	return append(out, DescribeUnfenced(snap, opts)...)
}

// DescribeMembers says what changes for the members of load balancers with the version of the loop that chooses them.
func DescribeMembers(d *draft.Draft) []string {
	before, after := catalogue.ServiceLoopAt(d.KCMMinor), catalogue.ServiceLoopAt(d.Program.Minor)
	var out []string
	if after.KeepsNotReady && !before.KeepsNotReady {
		out = append(
			out,
			"nodes that are NotReady stay in load balancers once the cloud-controller-manager owns them (KEP-3458)",
		)
	}
	if after.ReadsExclusion && !before.ReadsExclusion {
		out = append(
			out,
			"the label node.kubernetes.io/exclude-from-external-load-balancers excludes a node only if its value is true; before, any value excluded it, even false",
		)
	}
	return out
}

// describeNodes counts the nodes that keep what they have and those that get a providerID or are drained.
func describeNodes(snap *v1.Snapshot, steps []v1.Step) string {
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

// WhyRecreated says in a clause why the new manager makes every load balancer again; empty when it adopts them. Which
// one belongs to a Service it finds on Azure by the cluster's name, and elsewhere by the Service's uid. On OpenStack it
// knows Octavia's only.
func WhyRecreated(snap *v1.Snapshot, opts v1.Options) string {
	if len(snap.Services) == 0 {
		return ""
	}
	provider, err := clusterview.InTreeProvider(snap)
	known, ok := cloudprovider.Lookup(provider)
	if err != nil || !ok {
		return ""
	}
	for _, h := range snap.Hosts {
		m := clusterview.FindComponent(h, component.KCM)
		if m == nil {
			continue
		}
		name := cmp.Or(m.Flags["cluster-name"], clusterview.DefaultClusterName)
		if cloudprovider.NamesBalancersByCluster(provider, true) && opts.ClusterName != "" && opts.ClusterName != name {
			return fmt.Sprintf("the cluster's name becomes %q, and they were made under %q", opts.ClusterName, name)
		}
		if c, has := h.CloudConfig, known.Balancers; has.Key != "" && c != nil && c.Settings != nil &&
			!strings.EqualFold(c.Settings[has.Key], has.Value) {
			return strings.ReplaceAll(has.Else, "{file}", c.Path)
		}
	}
	return ""
}

// DescribeLoadBalancers says what a provider does to load balancers when another manager takes them over. It also says
// what is left to do about the records of volumes.
func DescribeLoadBalancers(d *draft.Draft) []string {
	var out []string
	if why := WhyRecreated(d.Snapshot, d.Options); why != "" {
		out = append(
			out,
			fmt.Sprintf(
				Recreated+"%d are made again with new addresses and the old ones are left behind: %s",
				len(d.Snapshot.Services),
				why,
			),
		)
	}
	for _, plugin := range d.Provider.Plugins {
		n := 0
		if d.Snapshot.Volumes != nil && plugin.Orphans != "" {
			for _, pv := range d.Snapshot.Volumes.PersistentVolumes {
				if strings.HasPrefix(pv.ProvisionedBy, "kubernetes.io/") {
					n++
				}
			}
		}
		if n > 0 {
			out = append(
				out,
				fmt.Sprintf(
					"to do by hand: %d persistent volumes say that %s made them; when one is deleted later its disk stays in %s, unless the annotation names the driver: "+
						"kubectl annotate pv NAME --overwrite pv.kubernetes.io/provisioned-by=%s",
					n,
					plugin.Name,
					plugin.Orphans,
					plugin.Driver,
				),
			)
		}
	}
	return out
}

// countUnreached counts the nodes whose kubelets a plan cannot see.
func countUnreached(snap *v1.Snapshot) int {
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

// DescribeUnfenced names the window that no tool can close around an in-tree manager.
func DescribeUnfenced(snap *v1.Snapshot, opts v1.Options) []string {
	before := "10s"
	for _, h := range snap.Hosts {
		if m := clusterview.FindComponent(h, component.KCM); m != nil && m.Flags["leader-elect-renew-deadline"] != "" {
			before = m.Flags["leader-elect-renew-deadline"]
		}
	}
	b, errB := time.ParseDuration(before)
	a, errA := time.ParseDuration(opts.RenewDeadline)
	if errA != nil || errB != nil {
		return nil
	}
	if opts.Strategy == planstep.Downtime {
		return []string{
			fmt.Sprintf(
				"not promised: the in-tree manager has no fence. If its process freezes while it is being stopped, it may write to the cloud for one renew deadline, %s, after it wakes",
				b,
			),
		}
	}
	return []string{
		fmt.Sprintf(
			"not promised: the in-tree manager has no fence. If its process freezes during a handover, it may write to the cloud for one renew deadline after it "+
				"wakes: %s now, %s during the migration. Its leases are released only when its process has ended. The report says how long that window was",
			b,
			a,
		),
	}
}
