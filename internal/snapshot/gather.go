// Package snapshot decides what is known of a cluster: it gathers every fact that checks, plans and comparisons look
// at, once and read-only. It is the only package that looks before a migration.
//
//	API server ─┐
//	hosts ──────┼─> facts, sorted ─> Snapshot ─> saved, judged, planned from, compared with
//	managers ───┤        └─ could not be gathered ─> Errors: unknown, never absent
//	cloud ──────┘
//
// Gathering never fails as a whole. The access reviews it makes are create calls that the API server answers and does
// not store; everything else is a get or a list. No secret is kept: environment variables by name only, cloud configs
// by key only, Secrets not at all.
package snapshot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
	"github.com/transplant-dev/transplant/internal/snapshot/hosted"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
	"github.com/transplant-dev/transplant/internal/snapshot/volume"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
	"github.com/transplant-dev/transplant/internal/together"
)

// Gather looks at everything once. It returns a snapshot in any case; what could not be learnt is in its Errors.
func Gather(ctx context.Context, src collect.Sources, opts collect.Options) *v1.Snapshot {
	if src.Now == nil {
		src.Now = time.Now
	}
	if opts.LeaseName == "" {
		opts.LeaseName = component.MigrationLease
	}
	if opts.Timeout == 0 {
		opts.Timeout = collect.DefaultTimeout
	}
	g := &collect.Collector{Sources: src, Options: opts, Snap: &v1.Snapshot{
		TypeMeta: v1.Type(v1.KindSnapshot), TakenAt: src.Now().UTC(), ToolVersion: src.ToolVersion,
		NamedHosts: slices.Compact(slices.Sorted(slices.Values(src.NamedHosts))),
		Cluster:    v1.Cluster{Context: src.Context, Server: src.Server},
	}}
	var before collect.Mark
	if g.Traffic != nil {
		before = g.Traffic.Mark()
	}
	ctx, done := answerlimit.Keep(ctx)
	defer func() { done(answerlimit.Size(g.Snap)) }()
	// The groups say which version of an API to ask for, the manifests which leases, managers and rights. The nodes say
	// which instances to ask for, the webhooks which endpoints.
	collect.Together(
		ctx,
		g,
		collect.Named("the API server's version", objects.GatherCluster),
		collect.Named("API groups", objects.GatherGroups),
	)
	collect.Together(
		ctx,
		g,
		collect.Named("nodes", objects.GatherNodes),
		collect.Named("Services", objects.GatherServices),
		collect.Named("pods", workloads.GatherPods),
		collect.Named("objects of the migration", objects.GatherObjects),
		host.GatherHosts,
		collect.Named("workloads", workloads.GatherWorkloads),
		collect.Named("webhooks", workloads.GatherWebhooks),
		collect.Named("volumes", volume.GatherVolumes),
		collect.Named("endpoints", objects.GatherEndpoints),
		collect.Named("PodDisruptionBudgets", objects.GatherBudgets),
		collect.Named("certificate requests", objects.GatherCertificateRequests),
		collect.Named("machines", objects.GatherMachines),
		collect.Named("kubeadm's configuration", objects.GatherKubeadm),
		collect.Named("the kubelets' configuration", objects.GatherKubeletDefaults),
		collect.Named("namespaces", objects.GatherNamespaces),
		collect.Named("certificate authorities", host.GatherAuthorities),
	)
	workloads.MatchPods(g)
	objects.MarkServicesWithoutEndpoints(g)
	if g.Seed == nil {
		hosted.FindHosted(g)
	}
	collect.Named("the seed", hosted.GatherSeed)(ctx, g)
	collect.Together(
		ctx,
		g,
		collect.Named("leases", objects.GatherLeases),
		gatherManagers,
		collect.Named("the cloud", gatherCloud),
		collect.Named("endpoints of webhooks", workloads.GatherWebhookEndpoints),
		collect.Named("access reviews", permission.GatherAccess),
		collect.Named("image credential providers", host.GatherCredentials),
	)
	finish(g, before)
	return g.Snap
}

// gatherManagers asks every manager that a manifest names for its gauges.
func gatherManagers(ctx context.Context, g *collect.Collector) {
	var wg together.Group
	var mu sync.Mutex
	for _, h := range g.Snap.Hosts {
		if h.APIOnly {
			continue // HOST-002 tells of it; what listens on another host's loopback cannot be asked from here
		}
		seen := map[string]bool{}
		for _, c := range h.Components {
			if c.Name != component.KCM && c.Name != component.CCM || c.Error != "" || seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			wg.Go(func() {
				m := g.AskManager(ctx, c, h.Name)
				if m.Error != "" {
					g.Unknown("managers/"+h.Name+"/"+c.Name, "asking "+c.Name+" on host "+h.Name+" which loops it runs: "+m.Error)
				}
				mu.Lock()
				defer mu.Unlock()
				g.Snap.Managers = append(g.Snap.Managers, m)
			})
		}
	}
	wg.Wait()
	if g.Seed != nil {
		hosted.AskSeedManagers(ctx, g)
	}
	if g.Seed == nil { // else its pods were asked
		workloads.AskDeployedManagers(ctx, g)
	}
	slices.SortFunc(g.Snap.Managers, func(a, b v1.Manager) int {
		return strings.Compare(a.Component+"@"+a.Host, b.Component+"@"+b.Host)
	})
}

// gatherCloud reads the inventory of the nodes that were listed.
func gatherCloud(ctx context.Context, g *collect.Collector) {
	if g.Cloud == nil {
		if g.CloudUnavailable != "" {
			g.Unknown("cloud", g.CloudUnavailable)
		}
		return
	}
	g.Snap.Cloud = g.Cloud.Inventory(ctx, g.Snap.Nodes)
	for _, e := range g.Snap.Cloud.Errors {
		part, why, _ := strings.Cut(e, ": ")
		g.Unknown("cloud/"+part, "reading "+part+" of the cloud: "+why)
	}
}

// finish names the cluster and its provider after the live managers' flags, says what the gathering cost, and sorts the
// errors.
func finish(g *collect.Collector, before collect.Mark) {
	var providers []string
	for _, c := range g.Components() {
		if c.Name == component.KCM && c.Flags["cluster-name"] != "" && g.Snap.Cluster.Name == "" {
			g.Snap.Cluster.Name = c.Flags["cluster-name"]
		}
		if p := c.Flags["cloud-provider"]; p != "" && p != "external" &&
			(c.Name == component.KCM || c.Name == component.CCM) {
			providers = append(providers, p)
		}
	}
	slices.Sort(providers)
	if providers = slices.Compact(providers); len(providers) == 1 {
		g.Snap.Cluster.Provider = providers[0]
	}
	objects.SummarizeRegistries(g)
	workloads.SummarizeWorkloads(g)
	if g.Traffic != nil {
		calls, clock := g.Traffic.Since(before)
		g.Snap.Calls = calls
		if clock != nil {
			g.Snap.Clocks = append(g.Snap.Clocks, *clock)
		} else {
			g.Unknown("clocks/api", "comparing clocks with the API server: no answer of it had a date")
		}
	}
	slices.SortFunc(g.Snap.Clocks, func(a, b v1.Clock) int { return strings.Compare(a.Who, b.Who) })
	g.Snap.Errors = g.Errors
	collect.SortErrors(g.Snap)
}
