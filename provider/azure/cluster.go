package azure

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery"
	discoveryv1informers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	upstream "sigs.k8s.io/cloud-provider-azure/pkg/provider"
)

// cluster is what upstream's provider knows of the cluster. It stands in place of informers, and is brought up to date
// before each call. Upstream's handlers of events would write taints of Nodes, also without a lease.
type cluster struct {
	informers.SharedInformerFactory

	kube     kubernetes.Interface
	nodes    *still
	services *still
	// addresses are those of load balancers that were made, by the UID of the Service. A Service without a status would
	// lose its security rules with the next change of another one.
	addresses map[types.UID]corev1.LoadBalancerStatus
}

func newCluster(kube kubernetes.Interface) *cluster {
	return &cluster{
		kube: kube, nodes: newStill(), services: newStill(), addresses: map[types.UID]corev1.LoadBalancerStatus{},
	}
}

// know brings upstream's caches up to date: with all Nodes and Services of the cluster, where they are known, and with
// those of the call.
func (c *cluster) know(
	made *upstream.Cloud,
	of about,
	nodes corelisters.NodeLister,
	services corelisters.ServiceLister,
) error {
	if nodes != nil {
		all, err := nodes.List(labels.Everything())
		if err != nil {
			return fmt.Errorf("reading the cache of Nodes: %w", err)
		}
		of.nodes = leavingExcluded(all)
	}
	made.KubeClient = nil // with none, the handler of Nodes writes no taint
	c.nodes.update(toObjects(of.nodes), of.nodes != nil)
	made.KubeClient = c.kube
	if services != nil {
		all, err := services.List(labels.Everything())
		if err != nil {
			return fmt.Errorf("reading the cache of Services: %w", err)
		}
		c.services.update(toObjects(c.addressed(all)), true)
	}
	if of.service != nil {
		c.services.update([]any{of.service}, false)
	}
	return nil
}

// addressed gives Services the addresses that the cache has not seen yet.
func (c *cluster) addressed(all []*corev1.Service) []*corev1.Service {
	out := make([]*corev1.Service, len(all))
	for n, service := range all {
		out[n] = service
		if made, known := c.addresses[service.UID]; known && len(service.Status.LoadBalancer.Ingress) == 0 {
			out[n] = service.DeepCopy()
			out[n].Status.LoadBalancer = made
		}
	}
	return out
}

// made notes the address of a Service.
func (c *cluster) made(service *corev1.Service, status *corev1.LoadBalancerStatus) {
	c.addresses[service.UID] = *status.DeepCopy()
	c.services.update([]any{c.addressed([]*corev1.Service{service})[0]}, false)
}

// leavingExcluded excludes the Nodes that an autoscaler is about to delete from load balancers, as the controller does.
// Upstream removes a machine by its Node's label alone.
func leavingExcluded(all []*corev1.Node) []*corev1.Node {
	out := make([]*corev1.Node, len(all))
	for n, node := range all {
		out[n] = node
		for _, taint := range node.Spec.Taints {
			if taint.Key == leavingTaint {
				out[n] = node.DeepCopy()
				metav1.SetMetaDataLabel(&out[n].ObjectMeta, corev1.LabelNodeExcludeBalancers, "")
			}
		}
	}
	return out
}

// leavingTaint is the autoscaler's.
const leavingTaint = "ToBeDeletedByClusterAutoscaler"

func (c *cluster) forget(service *corev1.Service) {
	delete(c.addresses, service.UID)
	c.services.remove(service)
}

func toObjects[T any](all []T) (out []any) {
	for _, one := range all {
		out = append(out, one)
	}
	return out
}

// still is an informer whose objects change only when it is told to.
type still struct {
	cache.SharedIndexInformer

	store    cache.Indexer
	handlers []cache.ResourceEventHandler
}

func newStill() *still {
	return &still{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})}
}

// AddEventHandler implements cache.SharedInformer.
func (s *still) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, handler)
	return nil, nil //nolint:nilnil // upstream has no use for it
}

// HasSynced implements cache.SharedInformer.
func (s *still) HasSynced() bool { return true }

// update adds and changes objects. If they are all that there are, the others are gone.
func (s *still) update(all []any, isAll bool) {
	named := map[string]bool{}
	for _, one := range all {
		key, err := cache.MetaNamespaceKeyFunc(one)
		if err != nil {
			continue // it has a name
		}
		named[key] = true
		before, isKnown, _ := s.store.GetByKey(key)
		_ = s.store.Update(one) // an indexer in memory
		for _, h := range s.handlers {
			if isKnown {
				h.OnUpdate(before, one)
			} else {
				h.OnAdd(one, true)
			}
		}
	}
	for _, one := range s.store.List() {
		if key, err := cache.MetaNamespaceKeyFunc(one); isAll && err == nil && !named[key] {
			s.remove(one)
		}
	}
}

func (s *still) remove(one any) {
	_ = s.store.Delete(one) // an indexer in memory
	for _, h := range s.handlers {
		h.OnDelete(one)
	}
}

// Core implements informers.SharedInformerFactory.
func (c *cluster) Core() coreinformers.Interface { return coreGroup{c} }

type coreGroup struct{ of *cluster }

// V1 implements coreinformers.Interface.
func (g coreGroup) V1() corev1informers.Interface { return coreObjects{of: g.of} }

// Discovery implements informers.SharedInformerFactory. EndpointSlices are for several load balancers, which this
// manager does not have.
func (c *cluster) Discovery() discoveryinformers.Interface { return discoveryGroup{} }

type discoveryGroup struct{ discoveryinformers.Interface }

// V1 implements discoveryinformers.Interface.
func (discoveryGroup) V1() discoveryv1informers.Interface { return endpointSlices{} }

// endpointSlices are none.
type endpointSlices struct{ discoveryv1informers.Interface }

// EndpointSlices implements discoveryv1informers.Interface.
func (e endpointSlices) EndpointSlices() discoveryv1informers.TypedEndpointSliceInformer {
	return noSlices{}
}

type noSlices struct {
	discoveryv1informers.TypedEndpointSliceInformer
}

// Informer implements discoveryv1informers.EndpointSliceInformer.
func (noSlices) Informer() cache.SharedIndexInformer { return newStill() }

type coreObjects struct {
	corev1informers.Interface

	of *cluster
}

// Nodes implements corev1informers.Interface.
func (o coreObjects) Nodes() corev1informers.TypedNodeInformer { return nodeObjects{all: o.of.nodes} }

// Services implements corev1informers.Interface.
func (o coreObjects) Services() corev1informers.TypedServiceInformer {
	return serviceObjects{all: o.of.services}
}

type nodeObjects struct {
	corev1informers.TypedNodeInformer

	all *still
}

// Informer implements corev1informers.NodeInformer.
func (n nodeObjects) Informer() cache.SharedIndexInformer { return n.all }

// Lister implements corev1informers.NodeInformer.
func (n nodeObjects) Lister() corelisters.NodeLister { return corelisters.NewNodeLister(n.all.store) }

type serviceObjects struct {
	corev1informers.TypedServiceInformer

	all *still
}

// Informer implements corev1informers.ServiceInformer.
func (s serviceObjects) Informer() cache.SharedIndexInformer { return s.all }

// Lister implements corev1informers.ServiceInformer.
func (s serviceObjects) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(s.all.store)
}

// leaseless is the client of the cluster for upstream. The lease that upstream takes around each call is for the
// resource provider of AKS, which writes to the same load balancers. It is in memory here: no AKS has this manager.
type leaseless struct {
	kubernetes.Interface

	leases memoryLeases
}

// CoordinationV1 implements kubernetes.Interface.
func (l *leaseless) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return leasesOf{of: l}
}

type leasesOf struct {
	coordinationclient.CoordinationV1Interface

	of *leaseless
}

// Leases implements coordinationclient.CoordinationV1Interface.
func (l leasesOf) Leases(string) coordinationclient.LeaseInterface { return &l.of.leases }

// memoryLeases has one lease, whatever its name: upstream takes one.
type memoryLeases struct {
	coordinationclient.LeaseInterface

	mu   sync.Mutex
	have *coordinationv1.Lease
}

// Get implements coordinationclient.LeaseInterface.
func (m *memoryLeases) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
	}
	return m.have.DeepCopy(), nil
}

// Create implements coordinationclient.LeaseInterface.
func (m *memoryLeases) Create(
	ctx context.Context,
	lease *coordinationv1.Lease,
	_ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return m.Update(ctx, lease, metav1.UpdateOptions{})
}

// Update implements coordinationclient.LeaseInterface.
func (m *memoryLeases) Update(
	_ context.Context,
	lease *coordinationv1.Lease,
	_ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.have = lease.DeepCopy()
	return lease, nil
}
