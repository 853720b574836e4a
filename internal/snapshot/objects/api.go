package objects

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherCluster asks which cluster this is.
func GatherCluster(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("cluster", collect.NoAPI)
		return
	}
	ctx, cancel := g.Call(ctx)
	defer cancel()
	if ns, err := g.Kube.CoreV1().Namespaces().Get(ctx, component.Namespace, metav1.GetOptions{}); err != nil {
		g.Unknown("cluster/uid", g.Describe("reading namespace "+component.Namespace, err))
	} else {
		g.Snap.Cluster.UID = string(ns.UID)
	}
	if v, err := discover(g).ServerVersionWithContext(ctx); err != nil {
		g.Unknown("cluster/version", g.Describe("reading /version", err))
	} else {
		g.Snap.Cluster.Version = v.GitVersion
	}
}

// discover asks with a context. Without one the operator would wait for as long as a user cluster's API server likes.
// Its clients have no timeout of their own, and Retry-After may be years.
func discover(g *collect.Collector) discovery.DiscoveryInterfaceWithContext {
	return discovery.ToDiscoveryInterfaceWithContext(g.Kube.Discovery())
}

// GatherGroups asks which APIs the server has: two requests, whatever their number.
func GatherGroups(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("apigroups", collect.NoAPI)
		return
	}
	ctx, cancel := g.Call(ctx)
	defer cancel()
	list, err := discover(g).ServerGroupsWithContext(ctx)
	if err != nil {
		g.Unknown("apigroups", g.Describe("discovering the API groups", err))
		return
	}
	for _, group := range list.Groups {
		for _, version := range group.Versions {
			g.Snap.APIGroups = append(g.Snap.APIGroups, version.GroupVersion)
		}
	}
	slices.Sort(g.Snap.APIGroups)
	g.Snap.APIGroups = slices.Compact(g.Snap.APIGroups)
}

// Serves reports whether the API server has a group and version. Where discovery did not answer, or had nothing to say,
// the question is left to the list itself.
func Serves(g *collect.Collector, groupVersion string) bool {
	return len(g.Snap.APIGroups) == 0 || slices.Contains(g.Snap.APIGroups, groupVersion)
}

// GatherNamespaces counts them without reading them: the rest of a list of one is told in its metadata.
func GatherNamespaces(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("namespaces", collect.NoAPI)
		return
	}
	ctx, cancel := g.Call(ctx)
	defer cancel()
	list, err := g.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		g.Unknown("namespaces", g.Describe("listing namespaces", err))
		return
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	g.Count("namespaces", n)
}

// GatherLeases are those of the managers' main elections and of every migration lease that some file or flag names.
func GatherLeases(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("leases", collect.NoAPI)
		return
	}
	items, ok := collect.List(
		ctx,
		g,
		"leases",
		"leases in "+component.Namespace,
		g.Kube.CoordinationV1().Leases(component.Namespace).List,
		func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items },
	)
	if !ok {
		return
	}
	wanted := leaseNames(g)
	for i := range items {
		if wanted[items[i].Name] {
			g.Snap.Leases = append(g.Snap.Leases, Lease(&items[i]))
		}
	}
	slices.SortFunc(g.Snap.Leases, func(a, b v1.Lease) int { return strings.Compare(a.Name, b.Name) })
}

func leaseNames(g *collect.Collector) map[string]bool {
	wanted := map[string]bool{component.KCM: true, component.CCM: true, component.MigrationLease: true, g.LeaseName: true}
	add := func(c v1.Component) {
		if name := c.Flags["leader-elect-resource-name"]; name != "" && (c.Name == component.KCM || c.Name == component.CCM) {
			wanted[name] = true
		}
	}
	for _, c := range g.Snap.Hosted {
		add(c)
	}
	for _, h := range g.Snap.Hosts {
		for _, c := range h.Components {
			add(c)
		}
		for _, f := range h.LeaderMigration {
			// A file that does not parse is for a check to complain of; its lease's name may be readable all the same.
			if config, _ := migrationconfig.Parse([]byte(f.Content)); config.LeaderName != "" {
				wanted[config.LeaderName] = true
			}
		}
	}
	return wanted
}

// Lease returns the facts of a Lease object.
func Lease(l *coordinationv1.Lease) v1.Lease {
	out := v1.Lease{Name: l.Name, ResourceVersion: l.ResourceVersion}
	if l.Spec.HolderIdentity != nil {
		out.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		out.DurationSeconds = *l.Spec.LeaseDurationSeconds
	}
	if l.Spec.LeaseTransitions != nil {
		out.Transitions = *l.Spec.LeaseTransitions
	}
	out.AcquireTime, out.RenewTime = moment(l.Spec.AcquireTime), moment(l.Spec.RenewTime)
	return out
}

func moment(t *metav1.MicroTime) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}
