package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
)

type server struct {
	Address string `json:"address"`
	Stopped bool   `json:"stopped"`
}

// memory is a cloud in this process, and the provider for it. A provider for a real cloud has an SDK in place of maps.
type memory struct {
	cloud.Partial

	mu        sync.Mutex
	servers   map[string]server // by the Node's name
	balancers map[string]string // what each does, by its name
	fences    []*election.Fence
	send      func(ctx context.Context, mutates bool, request func() error) error // tests put a wire here
}

func newMemory(servers map[string]server) *memory {
	direct := func(_ context.Context, _ bool, request func() error) error { return request() }
	return &memory{
		servers: servers, balancers: map[string]string{}, send: direct,
		fences: []*election.Fence{election.Unfenced(time.Now())},
	}
}

// UseFences tells the provider what its own goroutines run under. A call of a controller carries its fence.
func (m *memory) UseFences(fences ...*election.Fence) { m.fences = fences }

// request does not send a change behind a closed fence: another process may hold the lease by now.
func (m *memory) request(ctx context.Context, mutates bool, do func()) error {
	if mutates {
		if err := election.Guard(ctx, m.fences...); err != nil {
			return err
		}
	}
	return m.send(ctx, mutates, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		do()
		return nil
	})
}

func (m *memory) find(ctx context.Context, node *corev1.Node) (found server, exists bool, err error) {
	if id := node.Spec.ProviderID; id != "" && id != "memory://"+node.Name {
		return server{}, false, fmt.Errorf("the providerID %q of node %q is not memory://%[2]s", id, node.Name)
	}
	err = m.request(ctx, false, func() { found, exists = m.servers[node.Name] })
	return found, exists, err
}

// InstanceExists is false only when the cloud has said so: the Node is deleted for it.
func (m *memory) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	_, exists, err := m.find(ctx, node)
	return exists, err
}

func (m *memory) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	found, _, err := m.find(ctx, node)
	return found.Stopped, err
}

func (m *memory) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, exists, err := m.find(ctx, node)
	if err == nil && !exists {
		err = cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "memory://" + node.Name, InstanceType: "thread", Zone: "heap", Region: "ram",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: found.Address}},
	}, err
}

// GetLoadBalancerName is stable: by it the load balancer is found again.
func (m *memory) GetLoadBalancerName(_ context.Context, cluster string, service *corev1.Service) string {
	return cluster + "-" + string(service.UID)
}

func (m *memory) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service,
) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	name := m.GetLoadBalancerName(ctx, cluster, service)
	err = m.request(ctx, false, func() { _, exists = m.balancers[name] })
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: name}}}, exists, err
}

// EnsureLoadBalancer changes the load balancer only where it differs from what it should be.
func (m *memory) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	name, members, is := m.GetLoadBalancerName(ctx, cluster, service), sets.New[string](), ""
	for _, node := range nodes {
		members.Insert(node.Name)
	}
	should := fmt.Sprint(service.Spec.Ports, sets.List(members))
	err := m.request(ctx, false, func() { is = m.balancers[name] })
	if err == nil && is != should {
		err = m.request(ctx, true, func() { m.balancers[name] = should })
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: name}}}, err
}

func (m *memory) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) error {
	_, err := m.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return err
}

// EnsureLoadBalancerDeleted returns no error where there is nothing to delete.
func (m *memory) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	_, exists, err := m.GetLoadBalancer(ctx, cluster, service)
	if err == nil && exists {
		err = m.request(ctx, true, func() { delete(m.balancers, m.GetLoadBalancerName(ctx, cluster, service)) })
	}
	return err
}

func (m *memory) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return m, true }
func (m *memory) InstancesV2() (cloudprovider.InstancesV2, bool)   { return m, true }
func (m *memory) ProviderName() string                             { return "memory" }
