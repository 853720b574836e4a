package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/served"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// discoveryTimeout bounds the question whether a group is served.
const discoveryTimeout = 10 * time.Second

// groups are the API groups that Clusters may be under; an object of the first one goes before one of the second.
var groups = []string{kubermaticv1.GroupName, kubermaticv1.LegacyGroupName}

// clusters caches the Clusters of those groups that the seed serves, with one watch for each. What our types do not
// know of a Cluster, credentials among it, is not kept.
type clusters struct {
	client    dynamic.Interface
	discovery discovery.ServerResourcesInterfaceWithContext
	changed   func(name string)
	judge     func(ctx context.Context) ([]served.Verdict, error)
	log       logr.Logger
	// unusable are the groups whose definition would drop what is written, with the reason. Only discover uses it.
	unusable map[string]string

	mu      sync.Mutex
	sources map[string]*source
	asked   bool  // discovery has answered once
	problem error // why it does not answer
	// listeners are told whenever the cache changes.
	listeners map[chan struct{}]bool
}

// source is the cache of one group.
type source struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	ended    chan struct{}
}

func newClusters(o *Options, changed func(name string)) *clusters {
	return &clusters{
		client:    o.Dynamic,
		discovery: o.Kube.Discovery(),
		judge:     o.Definitions,
		changed:   changed,
		log:       o.Log,
		unusable:  map[string]string{},
		sources:   map[string]*source{},
		listeners: map[chan struct{}]bool{},
	}
}

// run keeps a cache for each group that is served until ctx ends.
func (c *clusters) run(ctx context.Context, every time.Duration) {
	defer c.stopAll()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.discover(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *clusters) discover(ctx context.Context) {
	var problems []error
	if err := c.definitions(ctx); err != nil {
		problems = append(problems, err)
	}
	for _, group := range groups {
		there, err := c.served(ctx, group)
		if err != nil { // what is cached stays
			problems = append(problems, fmt.Errorf("asking the seed whether it serves %s: %w", group, err))
			continue
		}
		c.syncSource(ctx, group, there && c.unusable[group] == "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = errors.Join(problems...)
	c.asked = c.asked || c.problem == nil
}

// definitions judges the CRDs again. Where they cannot be read, the last judgement stands.
func (c *clusters) definitions(ctx context.Context) error {
	if c.judge == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	verdicts, err := c.judge(ctx)
	if err != nil {
		return fmt.Errorf("reading the definitions of Clusters: %w", err)
	}
	for _, v := range verdicts {
		why := ""
		if v.Present && !v.Usable() {
			why = v.String()
		}
		if why != "" && c.unusable[v.Group] == "" {
			c.log.Info("The Clusters of a group are left alone", "group", v.Group, "reason", why)
		}
		c.unusable[v.Group] = why
	}
	return nil
}

func (c *clusters) served(ctx context.Context, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(
		ctx,
		objects.Resource(group).GroupVersion().String(),
	)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "clusters" }), nil
}

// syncSource starts or ends the cache of a group.
func (c *clusters) syncSource(ctx context.Context, group string, served bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.sources[group]
	switch {
	case served && old == nil:
		c.sources[group] = c.start(ctx, group)
		c.log.Info("Clusters are watched", "group", group)
	case !served && old != nil:
		old.stop()
		delete(c.sources, group)
		c.log.Info("The seed does not serve Clusters of this group any longer", "group", group)
		for _, key := range old.informer.GetStore().ListKeys() {
			c.changed(key)
		}
	}
}

func (c *clusters) start(ctx context.Context, group string) *source {
	resource := c.client.Resource(objects.Resource(group))
	s := &source{ended: make(chan struct{})}
	s.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(
			ctx context.Context,
			o metav1.ListOptions,
		) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}, c.client), &unstructured.Unstructured{}, 0, cache.Indexers{byNamespace: namespaceOf})
	_ = s.informer.SetTransform(reduced) // fails only for one that runs
	_, _ = s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.notifyListeners(o) },
		UpdateFunc: func(_, o any) { c.notifyListeners(o) },
		DeleteFunc: func(o any) { c.notifyListeners(o) },
	})
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.ended)
		s.informer.RunWithContext(ctx)
	}()
	return s
}

const byNamespace = "namespace"

func namespaceOf(o any) ([]string, error) {
	if c, ok := o.(*kubermaticv1.Cluster); ok {
		return []string{c.ControlPlaneNamespace()}, nil
	}
	return nil, nil
}

// unreadable is an annotation of cached Clusters only: why our types cannot hold one. Nothing is decided about it, and
// nothing written to it. What it says is not known, and a part of it would look like a cluster that is not to be
// migrated.
const unreadable = "transplant.dev/unreadable"

// features are those of spec.features that are acted on. The others are not cached: in a map they take ten times what
// they take in the object.
var features = []string{
	kubermaticv1.FeatureExternalCloudProvider,
	kubermaticv1.FeatureCCMClusterName,
	kubermaticv1.FeatureVSphereCSIClusterID,
}

// reduced turns what the API server sends into the few fields that we know.
func reduced(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	c, err := objects.Decode(u)
	if err != nil { // one bad object must not keep all others out of the cache: it is seen without what cannot be read
		c = &kubermaticv1.Cluster{}
		c.Name, c.UID, c.ResourceVersion = u.GetName(), u.GetUID(), u.GetResourceVersion()
		c.Annotations = map[string]string{unreadable: shownError(err)}
	}
	c.ManagedFields = nil
	delete(c.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	maps.DeleteFunc(c.Spec.Features, func(name string, _ bool) bool { return !slices.Contains(features, name) })
	return c, nil
}

func (c *clusters) notifyListeners(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	cluster, ok := o.(*kubermaticv1.Cluster)
	if !ok {
		return
	}
	c.changed(cluster.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.listeners {
		select {
		case l <- struct{}{}:
		default: // it has not yet looked at the last one
		}
	}
}

// get returns the Clusters of a name, one for each group that has one.
func (c *clusters) get(name string) []view.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []view.Object
	for _, group := range groups {
		if s := c.sources[group]; s != nil {
			if o, ok, _ := s.informer.GetStore().GetByKey(name); ok {
				out = append(out, view.Object{Group: group, Cluster: o.(*kubermaticv1.Cluster)})
			}
		}
	}
	return out
}

// in returns the names of the Clusters whose control plane is in a namespace.
func (c *clusters) in(namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, s := range c.sources {
		found, _ := s.informer.GetIndexer().ByIndex(byNamespace, namespace)
		for _, o := range found {
			out = append(out, o.(*kubermaticv1.Cluster).Name)
		}
	}
	return out
}

// namespaces are those of all control planes, and whether the caches are complete.
func (c *clusters) namespaces() ([]string, bool) {
	all, complete := c.List()
	var out []string
	for _, o := range all {
		out = append(out, o.Cluster.ControlPlaneNamespace())
	}
	slices.Sort(out)
	return slices.Compact(out), complete
}

// List implements web.Clusters: all of them, and whether the caches are complete.
func (c *clusters) List() ([]view.Object, bool) {
	complete := c.checkCaches() == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []view.Object
	for _, group := range groups {
		if s := c.sources[group]; s != nil {
			for _, o := range s.informer.GetStore().List() {
				out = append(out, view.Object{Group: group, Cluster: o.(*kubermaticv1.Cluster)})
			}
		}
	}
	return out, complete
}

// Changed implements web.Clusters.
func (c *clusters) Changed(ctx context.Context) <-chan struct{} {
	l := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[l] = true
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, l)
	})
	return l
}

// checkCaches returns why the caches are not complete.
func (c *clusters) checkCaches() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.asked && c.problem != nil:
		return c.problem
	case !c.asked:
		return errors.New("it is being asked which groups the seed serves")
	case len(c.sources) == 0:
		return errors.New("the seed serves no Clusters: apply deploy/crds")
	}
	for group, s := range c.sources {
		if !s.informer.HasSynced() {
			return fmt.Errorf("the cache of the Clusters of %s is not complete", group)
		}
	}
	return nil
}

func (c *clusters) stopAll() {
	c.mu.Lock()
	sources := c.sources
	c.sources = map[string]*source{}
	c.mu.Unlock()
	for _, s := range sources {
		s.stop()
		<-s.ended
	}
}

// Watcher is a Machines that says when a read would find something else. So a cluster whose machines are replaced over
// days is not read all the time.
type Watcher interface {
	// Watch calls changed when it has begun to watch and at each change, until ctx ends or the watch does. A nil error
	// means that it may begin again at once.
	Watch(ctx context.Context, t Target, changed func()) error
}

// watches are the clusters whose machines are watched now. There are never more than limit; further ones are polled.
type watches struct {
	limit int

	mu     sync.Mutex
	active map[string]context.CancelFunc
	ending bool
}

func newWatches(limit int) *watches {
	return &watches{limit: limit, active: map[string]context.CancelFunc{}}
}

// startWatch gives the cluster a place, if there is one and it has none.
func (w *watches) startWatch(ctx context.Context, name string) (context.Context, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.active[name] != nil || len(w.active) >= w.limit {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	w.active[name] = cancel
	return ctx, true
}

// stop ends the watch of the cluster, which gives its place back when it has ended.
func (w *watches) stop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.active[name]; cancel != nil {
		cancel()
	}
}

// stopAll ends all watches, and lets none begin.
func (w *watches) stopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	for _, cancel := range w.active {
		cancel()
	}
}

func (w *watches) endWatch(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[name]()
	delete(w.active, name)
}

// watch keeps a watch on the machines of a cluster. While there is none, or it has broken off, the machines are polled.
func (op *Operator) watch(ctx context.Context, t Target) {
	machines, ok := op.Machines.(Watcher)
	if !ok {
		return
	}
	ctx, ok = op.watches.startWatch(ctx, t.Name)
	if !ok {
		return
	}
	op.jobs.start(t.Name, "watch", func() {
		defer op.watches.endWatch(t.Name)
		wait := op.Limits.Retry
		for ctx.Err() == nil {
			err := op.jobs.guard(t.Name, "watch", func() error {
				return machines.Watch(ctx, t, func() { op.machinesChanged(t) })
			})
			op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { r.watched = false })
			if err == nil {
				wait = op.Limits.Retry
			} else if ctx.Err() == nil {
				op.Log.V(1).
					Info("The machines of a cluster are polled: the watch has broken off", "cluster", t.Name, "error", shownError(err))
			}
			op.queue.Add(t.Name)
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			if err != nil {
				wait = min(2*wait, max(op.Limits.MaxRetry, op.Limits.Retry))
			}
		}
	})
}

// machinesChanged notes that a look would find something else. Of many changes before the next look the first one is
// told.
func (op *Operator) machinesChanged(t Target) {
	news := false
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		news = !r.watched || !r.changed.After(r.looked)
		r.watched = true
		if news {
			r.changed = time.Now()
		}
	})
	if news {
		op.queue.Add(t.Name)
	}
}

// followed adds to what was seen of machines whether they are watched, and whether there is news since.
func (r *clusterState) followed() state.Machines {
	out := r.machines
	out.Watched, out.Looked, out.Changed = r.watched, r.looked, r.changed
	return out
}
