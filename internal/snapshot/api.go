package snapshot

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// noAPI is why facts of the API are unknown when there is no client.
const noAPI = "no API server was given: name a kubeconfig with --kubeconfig"

// cluster asks which cluster this is.
func (g *gatherer) cluster(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("cluster", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	if ns, err := g.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
		g.unknown("cluster/uid", g.describe("reading namespace "+namespace, err))
	} else {
		g.snap.Cluster.UID = string(ns.UID)
	}
	// The discovery client takes no context; the client's own timeout bounds it.
	if v, err := g.Kube.Discovery().ServerVersion(); err != nil {
		g.unknown("cluster/version", g.describe("reading /version", err))
	} else {
		g.snap.Cluster.Version = v.GitVersion
	}
}

// groups asks which APIs the server has: two requests, whatever their number.
func (g *gatherer) groups(context.Context) {
	if g.Kube == nil {
		g.unknown("apigroups", noAPI)
		return
	}
	list, err := g.Kube.Discovery().ServerGroups()
	if err != nil {
		g.unknown("apigroups", g.describe("discovering the API groups", err))
		return
	}
	for _, group := range list.Groups {
		for _, version := range group.Versions {
			g.snap.APIGroups = append(g.snap.APIGroups, version.GroupVersion)
		}
	}
	slices.Sort(g.snap.APIGroups)
	g.snap.APIGroups = slices.Compact(g.snap.APIGroups)
}

// serves tells whether the API server has a group and version. Where discovery did not answer, or had nothing to say, the question is left to the
// list itself.
func (g *gatherer) serves(groupVersion string) bool {
	return len(g.snap.APIGroups) == 0 || slices.Contains(g.snap.APIGroups, groupVersion)
}

// namespaces counts them without reading them: the rest of a list of one is told in its metadata.
func (g *gatherer) namespaces(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("namespaces", noAPI)
		return
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	list, err := g.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		g.unknown("namespaces", g.describe("listing namespaces", err))
		return
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	g.count("namespaces", n)
}

// leases are those of the managers' main elections and of every migration lease that some file or flag names.
func (g *gatherer) leases(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("leases", noAPI)
		return
	}
	items, ok := listed(ctx, g, "leases", "leases in "+namespace, g.Kube.CoordinationV1().Leases(namespace).List,
		func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items })
	if !ok {
		return
	}
	wanted := g.leaseNames()
	for i := range items {
		if wanted[items[i].Name] {
			g.snap.Leases = append(g.snap.Leases, Lease(&items[i]))
		}
	}
	slices.SortFunc(g.snap.Leases, func(a, b v1.Lease) int { return strings.Compare(a.Name, b.Name) })
}

func (g *gatherer) leaseNames() map[string]bool {
	wanted := map[string]bool{kcm: true, ccm: true, defaultLease: true, g.LeaseName: true}
	add := func(c v1.Component) {
		if name := c.Flags["leader-elect-resource-name"]; name != "" && (c.Name == kcm || c.Name == ccm) {
			wanted[name] = true
		}
	}
	for _, c := range g.snap.Hosted {
		add(c)
	}
	for _, h := range g.snap.Hosts {
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
