// Package collect has what every part of a snapshot is gathered with. That is the sources, the snapshot under way,
// errors that make a fact unknown, lists in pages, and the traffic that it costs.
package collect

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
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/together"
)

// Sources are where facts come from. What is nil is not asked, and the facts that it would give are unknown.
type Sources struct {
	// Kube is the cluster's API. Its rate limit should allow a burst of about 100: access reviews are many.
	Kube kubernetes.Interface
	// Dynamic is the same API, for kinds that client-go does not know: the objects of machine controllers.
	Dynamic dynamic.Interface
	// Seed hosts the control plane; nil for a cluster that runs its own. With a seed, Deployments of the cluster itself
	// are no part of its control plane.
	Seed *Seed
	// Traffic watches the requests of both clients; nil when their number and the API server's clock are not needed.
	Traffic *Traffic
	// Hosts whose files and processes can be read.
	Hosts []hostaccess.Host
	// HostsAreNodes reports whether the hosts are those of the cluster's Nodes and have their names, and no flag named
	// them.
	HostsAreNodes bool
	// NamedHosts are those that the operator says are of the control plane.
	NamedHosts []string
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
	// Progress notes what is waited for; nil notes nothing.
	Progress *Progress
}

// Options are what to look for next to what is always looked for.
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
	// AskCredentialProviders runs each host's image credential providers and asks them about one image; what they answer
	// is not kept.
	AskCredentialProviders bool
	// Timeout bounds each call to the API and to a manager; zero means 20 seconds.
	Timeout time.Duration
}

// Collector collects facts and errors from several goroutines.
type Collector struct {
	Sources
	Options
	Snap *v1.Snapshot
	// Mirrors are the mirror pods in kube-system.
	Mirrors []corev1.Pod
	// RunsOn are the nodes that the pods of a workload in kube-system are on, or were made for, by its Ref. It is nil
	// when pods could not be listed.
	RunsOn map[string][]string
	// ManagerPods are the pods in kube-system in which a manager runs, whatever made them.
	ManagerPods []SeedPod
	// Selectors of all Services by namespace/name; nil when they could not be listed.
	Selectors map[string]map[string]string
	// Found are all workloads, of whatever role.
	Found []Workload

	// SeedPods are the pods of the control plane in the seed.
	SeedPods []corev1.Pod

	Mu     sync.Mutex
	Errors []v1.GatherError
	// Plugins are the image credential providers of each host, for asking them.
	Plugins map[string][]ProviderConfig
}

// maxReason bounds, in bytes, what is kept of why a fact is not known.
const maxReason = 4 << 10

// Unknown records that a fact could not be gathered.
func (g *Collector) Unknown(fact, why string) {
	why = mask.Cut(why, maxReason) // a program or an API server repeats what it was given, at any length
	g.Mu.Lock()
	defer g.Mu.Unlock()
	g.Errors = append(g.Errors, v1.GatherError{Fact: fact, Error: why})
}

// Call bounds one call.
func (g *Collector) Call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.Timeout)
}

// AskManager asks one manager for its gauges; a manager with an error is unknown.
func (g *Collector) AskManager(ctx context.Context, c v1.Component, host string) v1.Manager {
	defer g.Progress.Ask(c.Name + " on " + host)()
	m, why := v1.Manager{}, g.ScrapeUnavailable
	if g.Scrape != nil {
		ctx, cancel := g.Call(ctx)
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

// Components are those of the hosts, then the hosted ones.
func (g *Collector) Components() []v1.Component {
	var out []v1.Component
	for _, h := range g.Snap.Hosts {
		out = append(out, h.Components...)
	}
	return append(out, g.Snap.Hosted...)
}

// Together gathers several parts of a snapshot at a time, and returns when all are done.
func Together(ctx context.Context, g *Collector, parts ...func(context.Context, *Collector)) {
	var wg together.Group
	for _, part := range parts {
		wg.Go(func() { part(ctx, g) })
	}
	wg.Wait()
}

// ComponentNames are those whose manifests are read.
var ComponentNames = []string{component.KAS, component.KCM, component.Scheduler, component.CCM}

// DefaultTimeout bounds a call to the API or to a manager.
const DefaultTimeout = 20 * time.Second

// NoAPI is why facts of the API are unknown when there is no client.
const NoAPI = "no API server was given: name a kubeconfig with --kubeconfig"

// ForgetErrors drops the errors of a fact and of all below it.
func ForgetErrors(s *v1.Snapshot, fact string) {
	s.Errors = slices.DeleteFunc(
		s.Errors,
		func(e v1.GatherError) bool { return e.Fact == fact || strings.HasPrefix(e.Fact, fact+"/") },
	)
}

// AddError records in a snapshot that a fact is unknown.
func AddError(s *v1.Snapshot, fact, why string) {
	s.Errors = append(s.Errors, v1.GatherError{Fact: fact, Error: mask.Cut(why, maxReason)})
}

// SortErrors puts the errors of a snapshot in a fixed order.
func SortErrors(s *v1.Snapshot) {
	slices.SortFunc(s.Errors, func(a, b v1.GatherError) int {
		return strings.Compare(a.Fact+"\x00"+a.Error, b.Fact+"\x00"+b.Error)
	})
}
