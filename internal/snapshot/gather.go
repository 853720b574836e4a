// Package snapshot decides what is known of a cluster: it gathers every fact that checks, plans and comparisons look at, once and read-only.
// It is the only package that looks before a migration.
//
//	API server ─┐
//	hosts ──────┼─> facts, sorted ─> Snapshot ─> saved, judged, planned from, compared with
//	managers ───┤        └─ could not be gathered ─> Errors: unknown, never absent
//	cloud ──────┘
//
// Gathering never fails as a whole. The access reviews it makes are create calls that the API server answers and does not store; everything
// else is a get or a list. No secret is kept: environment variables by name only, cloud configs by key only, Secrets not at all.
package snapshot

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/mask"
)

// namespace is where control planes live.
const namespace = "kube-system"

// Components of a control plane.
const (
	kas       = "kube-apiserver"
	kcm       = "kube-controller-manager"
	scheduler = "kube-scheduler"
	ccm       = "cloud-controller-manager"
)

// components are those whose manifests are read.
var components = []string{kas, kcm, scheduler, ccm}

// Sources are where facts come from. What is nil is not asked, and the facts that it would give are unknown.
type Sources struct {
	// Kube is the cluster's API. Its rate limit should allow a burst of about 100: access reviews are many.
	Kube kubernetes.Interface
	// Dynamic is the same API, for kinds that client-go does not know: the objects of machine controllers.
	Dynamic dynamic.Interface
	// Seed hosts the control plane; nil for a cluster that runs its own. With a seed, Deployments of the cluster itself are no part of its control plane.
	Seed *Seed
	// Traffic watches the requests of both clients; nil when nobody wants to know how many there were and how the API server's clock goes.
	Traffic *Traffic
	// Hosts whose files and processes can be read.
	Hosts []hostaccess.Host
	// HostsAreNodes tells that the hosts are those of the cluster's Nodes and have their names: nobody has named them.
	HostsAreNodes bool
	// Scrape asks a manager on a host for its gauges; a Manager with an Error is unknown.
	Scrape func(ctx context.Context, component, host, address string) v1.Manager
	// ScrapeUnavailable says why Scrape is nil.
	ScrapeUnavailable string
	// Cloud reads what the cloud holds.
	Cloud inventory.Source
	// CloudUnavailable says why Cloud is nil; when both are empty the cloud was not asked for, which is no error.
	CloudUnavailable string
	// Context and Server name the API in words: the kubeconfig's context and the address.
	Context, Server string
	ToolVersion     string
	// Now is the real clock when nil.
	Now func() time.Time
}

// Options are what to look for beside what is always looked for.
type Options struct {
	// LeaseName is the migration lease; empty means the documented one.
	LeaseName string
	// ObjectRefs are API objects whose presence is asked for, Kind/namespace/name or Kind/name.
	ObjectRefs []string
	// Files are paths on every control-plane host whose presence and hash are wanted; {host} stands for the host's name.
	Files []string
	// TokenFile is the path of the cloud-controller-manager's token on every control-plane host.
	TokenFile string
	// Needs are what the caller has to be allowed to do; nil means DefaultNeeds.
	Needs []Need
	// AskCredentialProviders runs each host's image credential providers and asks them about one image; what they answer is not kept.
	AskCredentialProviders bool
	// Timeout bounds each call to the API and to a manager; zero means 20 seconds.
	Timeout time.Duration
}

const defaultLease = "cloud-provider-extraction-migration"

const defaultTimeout = 20 * time.Second

// gatherer collects facts and errors from several goroutines.
type gatherer struct {
	Sources
	Options
	snap *v1.Snapshot
	// mirrors are the mirror pods in kube-system.
	mirrors []corev1.Pod
	// runsOn are the nodes on which the pods of a workload in kube-system run, by its Ref; nil when pods could not be listed.
	runsOn map[string][]string
	// managerPods are the pods in kube-system in which a manager runs, whatever made them.
	managerPods []SeedPod
	// selectors of all Services by namespace/name; nil when they could not be listed.
	selectors map[string]map[string]string
	// found are all workloads, of whatever role.
	found []workload

	// seedPods are the pods of the control plane in the seed.
	seedPods []corev1.Pod

	mu     sync.Mutex
	errors []v1.GatherError
	// plugins are the image credential providers of each host, for asking them.
	plugins map[string][]plugin
}

// Gather looks at everything once. It returns a snapshot in any case; what could not be learnt is in its Errors.
func Gather(ctx context.Context, src Sources, opts Options) *v1.Snapshot {
	if src.Now == nil {
		src.Now = time.Now
	}
	if opts.LeaseName == "" {
		opts.LeaseName = defaultLease
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	g := &gatherer{Sources: src, Options: opts, snap: &v1.Snapshot{
		TypeMeta: v1.Type(v1.KindSnapshot), TakenAt: src.Now().UTC(), ToolVersion: src.ToolVersion,
		Cluster: v1.Cluster{Context: src.Context, Server: src.Server},
	}}
	var before mark
	if g.Traffic != nil {
		before = g.Traffic.mark()
	}
	// Which version of an API to ask for stands in the groups; which leases, managers and rights, in the manifests; which instances, in the nodes;
	// which endpoints, in the webhooks.
	together(ctx, g.cluster, g.groups)
	together(ctx, g.nodes, g.services, g.pods, g.objects, g.hosts, g.workloads, g.webhooks, g.volumes, g.serviceEndpoints, g.budgets,
		g.certificateRequests, g.machines, g.kubeadm, g.kubeletDefaults, g.namespaces, g.authorities)
	g.matchPods()
	g.emptyServices()
	if g.Seed == nil {
		g.hosted()
	}
	g.seedPlane(ctx)
	together(ctx, g.leases, g.managers, g.cloud, g.endpoints, g.access, g.afterHosts)
	g.finish(before)
	return g.snap
}

func together(ctx context.Context, parts ...func(context.Context)) {
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}

// unknown records that a fact could not be gathered.
func (g *gatherer) unknown(fact, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.errors = append(g.errors, v1.GatherError{Fact: fact, Error: mask.Text(why)}) // a program or an API server repeats what it was given
}

// call bounds one call.
func (g *gatherer) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.Timeout)
}

// managers asks every manager that a manifest names for its gauges.
func (g *gatherer) managers(ctx context.Context) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, h := range g.snap.Hosts {
		if h.APIOnly {
			continue // HOST-002 tells of it; what listens on another host's loopback cannot be asked from here
		}
		seen := map[string]bool{}
		for _, c := range h.Components {
			if c.Name != kcm && c.Name != ccm || c.Error != "" || seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			wg.Go(func() {
				m := g.manager(ctx, c, h.Name)
				if m.Error != "" {
					g.unknown("managers/"+h.Name+"/"+c.Name, "asking "+c.Name+" on host "+h.Name+" which loops it runs: "+m.Error)
				}
				mu.Lock()
				defer mu.Unlock()
				g.snap.Managers = append(g.snap.Managers, m)
			})
		}
	}
	wg.Wait()
	if g.Seed != nil {
		g.seedManagers(ctx)
	}
	if g.Seed == nil { // else its pods were asked
		g.deployedManagers(ctx)
	}
	slices.SortFunc(g.snap.Managers, func(a, b v1.Manager) int {
		return strings.Compare(a.Component+"@"+a.Host, b.Component+"@"+b.Host)
	})
}

func (g *gatherer) manager(ctx context.Context, c v1.Component, host string) v1.Manager {
	m, why := v1.Manager{}, g.ScrapeUnavailable
	if g.Scrape != nil {
		ctx, cancel := g.call(ctx)
		defer cancel()
		m = g.Scrape(ctx, c.Name, host, c.Address)
		why = m.Error
	} else if why == "" {
		why = "there is no way to reach it"
	}
	m.Component, m.Host, m.Address, m.Error = c.Name, host, c.Address, why
	slices.Sort(m.Loops)
	slices.Sort(m.Leads)
	return m
}

// cloud reads the inventory of the nodes that were listed.
func (g *gatherer) cloud(ctx context.Context) {
	if g.Cloud == nil {
		if g.CloudUnavailable != "" {
			g.unknown("cloud", g.CloudUnavailable)
		}
		return
	}
	g.snap.Cloud = g.Cloud.Inventory(ctx, g.snap.Nodes)
	for _, e := range g.snap.Cloud.Errors {
		part, why, _ := strings.Cut(e, ": ")
		g.unknown("cloud/"+part, "reading "+part+" of the cloud: "+why)
	}
}

// finish names the cluster and its provider after the live managers' flags, says what the gathering cost, and sorts the errors.
func (g *gatherer) finish(before mark) {
	var providers []string
	for _, c := range g.components() {
		if c.Name == kcm && c.Flags["cluster-name"] != "" && g.snap.Cluster.Name == "" {
			g.snap.Cluster.Name = c.Flags["cluster-name"]
		}
		if p := c.Flags["cloud-provider"]; p != "" && p != "external" && (c.Name == kcm || c.Name == ccm) {
			providers = append(providers, p)
		}
	}
	slices.Sort(providers)
	if providers = slices.Compact(providers); len(providers) == 1 {
		g.snap.Cluster.Provider = providers[0]
	}
	g.keepRegistries()
	g.keepWorkloads()
	if g.Traffic != nil {
		calls, clock := g.Traffic.since(before)
		g.snap.Calls = calls
		if clock != nil {
			g.snap.Clocks = append(g.snap.Clocks, *clock)
		} else {
			g.unknown("clocks/api", "comparing clocks with the API server: no answer of it had a date")
		}
	}
	slices.SortFunc(g.snap.Clocks, func(a, b v1.Clock) int { return strings.Compare(a.Who, b.Who) })
	g.snap.Errors = g.errors
	sortErrors(g.snap)
}

// components are those of the hosts, then the hosted ones.
func (g *gatherer) components() []v1.Component {
	var out []v1.Component
	for _, h := range g.snap.Hosts {
		out = append(out, h.Components...)
	}
	return append(out, g.snap.Hosted...)
}
