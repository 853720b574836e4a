package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// Deployments of a control plane that decisions depend on.
const (
	apiserver         = "apiserver"
	controllerManager = "controller-manager"
)

// inTreeProvider is an annotation of cached Deployments only: the provider that kube-controller-manager's flags name,
// if that is in-tree.
const inTreeProvider = "transplant.dev/in-tree-provider"

// foreignManager is an annotation of cached Deployments only: they run a cloud-controller-manager that this program did
// not make.
const foreignManager = "transplant.dev/foreign-cloud-controller-manager"

// askAgain is how long a namespace is left alone after the seed has refused to show its Deployments.
const askAgain = 2 * time.Minute

// sweep is how often namespaces of new clusters are looked for, and those of clusters that are gone are given up.
const sweep = 30 * time.Second

// deployments caches of the Deployments in each control plane's namespace what decisions depend on: a few hundred bytes
// each. Each namespace has a watch of its own, so that the operator needs rights in these namespaces only.
type deployments struct {
	kube    kubernetes.Interface
	changed func(namespace string)
	// wanted are the namespaces of all clusters, and whether these are all.
	wanted   func() ([]string, bool)
	askAgain time.Duration

	mu     sync.Mutex
	ctx    context.Context // nil until the caches run
	ended  sync.WaitGroup
	spaces map[string]*space
	// complete is set once all clusters were known and each of their namespaces was followed.
	complete bool
}

// space is the cache of one namespace.
type space struct {
	informer cache.SharedIndexInformer
	lister   appslisters.DeploymentNamespaceLister
	stop     context.CancelFunc

	mu      sync.Mutex
	refused error
	at      time.Time
}

func newDeployments(
	kube kubernetes.Interface,
	changed func(namespace string),
	wanted func() ([]string, bool),
) *deployments {
	return &deployments{
		kube:     kube,
		changed:  changed,
		wanted:   wanted,
		askAgain: askAgain,
		spaces:   map[string]*space{},
	}
}

// run keeps the caches of all clusters' namespaces until ctx ends.
func (d *deployments) run(ctx context.Context) {
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	for {
		wait := sweep
		if !d.syncNamespaces() { //nolint:contextcheck // the caches end with the operator and not with a caller
			wait = 10 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			d.mu.Lock()
			d.ctx = nil
			d.mu.Unlock()
			d.ended.Wait()
			return
		case <-time.After(wait):
		}
	}
}

// syncNamespaces follows the namespaces of clusters that came, and gives up those of clusters that went. It reports
// whether all clusters are known.
func (d *deployments) syncNamespaces() bool {
	wanted, all := d.wanted()
	for _, namespace := range wanted {
		d.ensureCache(namespace)
	}
	if !all {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for namespace, s := range d.spaces {
		if !slices.Contains(wanted, namespace) {
			s.stop()
			delete(d.spaces, namespace)
		}
	}
	d.complete = true
	return true
}

// ensureCache returns the cache of a namespace, and begins it if there is none; nil while no cache runs.
func (d *deployments) ensureCache(namespace string) *space {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.spaces[namespace]; ok || d.ctx == nil || d.ctx.Err() != nil {
		return s
	}
	s := d.newSpace(namespace)
	ctx, stop := context.WithCancel(d.ctx)
	s.stop = stop
	d.spaces[namespace] = s
	d.ended.Go(func() {
		s.informer.RunWithContext(ctx)
	})
	d.ended.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
			d.changed(namespace)
		}
	})
	return s
}

func (d *deployments) newSpace(namespace string) *space {
	s := &space{}
	client := d.kube.AppsV1().Deployments(namespace)
	heard := func(err error) {
		if s.recordRefusal(err) {
			d.changed(namespace)
		}
	}
	s.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := s.quiet(d.askAgain); err != nil {
				return nil, err
			}
			list, err := client.List(ctx, o)
			heard(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := s.quiet(d.askAgain); err != nil {
				return nil, err
			}
			w, err := client.Watch(ctx, o)
			heard(err)
			return w, err
		},
	}, d.kube), &appsv1.Deployment{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	s.lister = appslisters.NewDeploymentLister(s.informer.GetIndexer()).Deployments(namespace)
	_ = s.informer.SetTransform(stripped) // fails only for one that runs
	_ = s.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) { // which the Cluster's condition says
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	_, _ = s.informer.AddEventHandler(cache.FilteringResourceEventHandler{ // fails only for one that was stopped
		FilterFunc: func(o any) bool { return concerns(o) },
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { d.changed(namespace) },
			UpdateFunc: func(was, is any) {
				if hasRelevantChange(was.(*appsv1.Deployment), is.(*appsv1.Deployment)) {
					d.changed(namespace)
				}
			},
			DeleteFunc: func(any) { d.changed(namespace) },
		},
	})
	return s
}

// recordRefusal notes whether the seed has refused to show the namespace, and reports whether that is news.
func (s *space) recordRefusal(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.refused != nil
	switch {
	case err == nil:
		s.refused = nil
	case apierrors.IsForbidden(err):
		s.refused, s.at = err, time.Now()
	}
	return was != (s.refused != nil)
}

// quiet returns the last refusal while it is too early to ask again. Hundreds of namespaces without rights must not use
// up the requests for the others.
func (s *space) quiet(wait time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil && time.Since(s.at) < wait {
		return s.refused
	}
	return nil
}

func (s *space) isRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused != nil
}

// hasSynced reports whether every namespace of a cluster was read or refused.
func (d *deployments) hasSynced() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.spaces {
		if !s.informer.HasSynced() && !s.isRefused() {
			return false
		}
	}
	return d.complete
}

// plane is what the cache knows of a control plane.
func (d *deployments) plane(namespace string) state.Plane {
	s := d.ensureCache(namespace)
	if s == nil {
		return state.Plane{}
	}
	if s.isRefused() {
		return state.Plane{
			Refused: fmt.Sprintf(
				"the operator may not read Deployments in namespace %s of the seed: transplant fleet rights (with --operator-account, where its account has another name) prints the RoleBinding that gives it its rights there",
				namespace,
			),
		}
	}
	out := state.Plane{Known: s.informer.HasSynced()}
	if !out.Known {
		return out
	}
	out.Apiserver, _ = s.workload(apiserver)
	out.ControllerManager, out.InTree = s.workload(controllerManager)
	out.Foreign = s.foreign()
	return out
}

// foreign is the first Deployment of a namespace, by name, that runs a cloud-controller-manager of another program;
// empty when there is none.
func (s *space) foreign() string {
	all, err := s.lister.List(labels.Everything())
	if err != nil { // a lister's List has none
		return ""
	}
	var names []string
	for _, found := range all {
		if isForeign(found) {
			names = append(names, found.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func isForeign(d *appsv1.Deployment) bool {
	_, is := d.Annotations[foreignManager]
	return is
}

func (s *space) workload(name string) (*state.Workload, string) {
	found, err := s.lister.Get(name)
	if err != nil { // a lister's only error is that there is none
		return nil, ""
	}
	return &state.Workload{
		Desired: ptr.Deref(found.Spec.Replicas, 1),
		Ready:   found.Status.ReadyReplicas,
	}, found.Annotations[inTreeProvider]
}

// stripped leaves what is wanted of a Deployment.
func stripped(o any) (any, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return o, nil
	}
	out := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            d.Name,
			UID:             d.UID,
			ResourceVersion: d.ResourceVersion,
		},
	}
	if runsManager(d) && d.Labels[managedBy] != managedByUs {
		out.Annotations = map[string]string{foreignManager: ""}
		return out, nil
	}
	if !concerns(out) {
		return out, nil
	}
	out.Spec.Replicas = d.Spec.Replicas
	out.Status.ReadyReplicas = d.Status.ReadyReplicas
	if provider := inTree(d); provider != "" && d.Name == controllerManager {
		out.Annotations = map[string]string{inTreeProvider: provider}
	}
	return out, nil
}

// Deployments of cloud-controller-managers that this program made carry this label.
const (
	managedBy   = "app.kubernetes.io/managed-by"
	managedByUs = "transplant"
)

// runsManager reports whether a container of a Deployment is a cloud-controller-manager, however its command is
// wrapped. One that is scaled to zero counts: it may come back.
func runsManager(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(
		d.Spec.Template.Spec.Containers,
		func(c corev1.Container) bool { return workloads.SeedComponent(&c) == component.CCM },
	)
}

// inTree is the in-tree provider in the flags of a component, however its command is wrapped.
func inTree(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		flags := commandline.FlagsOf(commandline.Unwrapped(slices.Concat(c.Command, c.Args)))
		if provider := flags["cloud-provider"]; provider != "" && provider != "external" {
			return provider
		}
	}
	return ""
}

func concerns(o any) bool {
	d, ok := deploymentOf(o)
	return ok && (d.Name == apiserver || d.Name == controllerManager || isForeign(d))
}

// hasRelevantChange reports whether something changed which decisions depend on.
func hasRelevantChange(was, is *appsv1.Deployment) bool {
	return ptr.Deref(was.Spec.Replicas, 1) != ptr.Deref(is.Spec.Replicas, 1) ||
		was.Annotations[inTreeProvider] != is.Annotations[inTreeProvider] ||
		isForeign(was) != isForeign(is) ||
		(was.Status.ReadyReplicas == 0) != (is.Status.ReadyReplicas == 0)
}

func deploymentOf(o any) (*appsv1.Deployment, bool) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	d, ok := o.(*appsv1.Deployment)
	return d, ok
}
