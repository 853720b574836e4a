package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
)

// Subject is a provider, and an empty cloud that it alone uses.
type Subject struct {
	// Provider is initialised.
	Provider cloudprovider.Interface
	// Servers are those of the cloud.
	Servers Servers
	// Objects names each object that a cluster can leave behind in the cloud: load balancers and their parts,
	// addresses, security groups and their rules, routes. Servers are none.
	Objects func() []string
	// Know replaces the Nodes in the provider's cache; nil for a provider without one.
	Know func(nodes ...*corev1.Node)
	// Cluster is the name of the cluster; empty for "conformance".
	Cluster string
	// Annotations are those of each Service, where the cloud needs some.
	Annotations map[string]string
	// KnownWrites is how many requests that change something a look at an unchanged load balancer takes: 0 for a
	// provider that compares before it writes.
	KnownWrites int
	// Adopt are ways in which an earlier manager made the load balancer of a Service, by a name such as "in tree". Each
	// makes it without the wire, for a port and members as the Service and the nodes say. It sets the Service's status,
	// and the annotations that it needs. Nil where no other manager was there.
	Adopt map[string]Adoption
}

// Servers are what a test does to servers, as their owner would do it, not over the wire.
type Servers interface {
	// Create makes a running server, and returns its Node as the kubelet registers it: without a provider ID.
	Create() *corev1.Node
	// Stop stops the server of a Node. It stays in the cloud.
	Stop(node *corev1.Node)
	// Delete deletes the server of a Node.
	Delete(node *corev1.Node)
}

// New makes a Subject whose requests go over a wire. It is called once for each test, also in parallel ones.
type New func(t *testing.T, wire *Wire) Subject

// Run puts a provider through the suite. What the provider says that it lacks is left out.
func Run(t *testing.T, create New) {
	s := suite{create}
	t.Run("nodes", s.nodes)
	t.Run("load balancers", s.loadBalancers)
	t.Run("routes", s.routes)
}

// RunLoadBalancers puts the load balancers of a provider through their part of the suite, for one that has several
// kinds of them.
func RunLoadBalancers(t *testing.T, create New) { suite{create}.loadBalancers(t) }

type suite struct{ create New }

// subject is a Subject in a test.
type subject struct {
	Subject

	t         *testing.T
	wire      *Wire
	servers   int
	nodePorts map[string]int32 // of "Service/port"
}

func (s suite) subject(t *testing.T) *subject {
	t.Helper()
	wire := &Wire{}
	made := s.create(t, wire)
	if made.Cluster == "" {
		made.Cluster = "conformance"
	}
	return &subject{
		Subject:   made,
		t:         t,
		wire:      wire,
		nodePorts: map[string]int32{},
	}
}

// test runs one test, side by side with the others.
func (s suite) test(t *testing.T, name string, do func(*subject)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		do(s.subject(t))
	})
}

// patience is how long a call may take that cannot succeed: some providers try again until their context ends.
const patience = 500 * time.Millisecond

// unending is when a call counts as one that does not end with its context.
const unending = time.Minute

// during calls the provider while the wire has a fault. The context of a call that hangs is cancelled once it hangs.
func (s *subject) during(f Fault, call func(context.Context) error) error {
	s.t.Helper()
	hanging, heal := s.wire.failRequests(f)
	defer heal()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- call(ctx) }()
	end := time.NewTimer(unending)
	defer end.Stop()
	for {
		select {
		case err := <-returned:
			return err
		case <-hanging:
			cancel()
			hanging = nil
		case <-end.C:
			s.t.Fatalf("the call goes on %s after its context has ended", unending)
		}
	}
}

// callUntilSettled calls until the provider asks for no further call: one that waits for its cloud says when to call
// again.
func callUntilSettled(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		var retry *api.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		timer := time.NewTimer(retry.RetryAfter())
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for the time that the provider asks for: %w", err)
		case <-timer.C:
		}
	}
}

// node makes a server and its initialised Node.
func (s *subject) node() *corev1.Node {
	s.t.Helper()
	node := s.Servers.Create()
	metadata, err := s.instances().InstanceMetadata(s.t.Context(), node)
	if err != nil {
		s.t.Fatalf("describing the server of node %q: %v", node.Name, err)
	}
	node = node.DeepCopy()
	node.Spec.ProviderID, node.Status.Addresses = metadata.ProviderID, metadata.NodeAddresses
	node.Spec.PodCIDR = fmt.Sprintf("10.244.%d.0/24", s.servers)
	node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	s.servers++
	return node
}

// members makes servers whose Nodes the provider's cache has.
func (s *subject) members(count int) []*corev1.Node {
	s.t.Helper()
	var nodes []*corev1.Node
	for range count {
		nodes = append(nodes, s.node())
	}
	s.know(nodes...)
	return nodes
}

func (s *subject) know(nodes ...*corev1.Node) {
	if s.Know != nil {
		s.Know(nodes...)
	}
}

func (s *subject) instances() cloudprovider.InstancesV2 {
	s.t.Helper()
	instances, ok := s.Provider.InstancesV2()
	if !ok {
		s.t.Fatal("the provider has no InstancesV2, by which its Nodes would be initialised")
	}
	return instances
}

// service is a Service with a port for each of the given ones.
func (s *subject) service(name string, ports ...int32) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Annotations: maps.Clone(s.Annotations),
			UID: types.UID(fmt.Sprintf("0b7a1c52-43d4-4f0e-9a55-%012x", name)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityNone,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster, ClusterIP: "10.96.0.10",
		},
	}
	for _, port := range ports {
		key := fmt.Sprintf("%s/%d", name, port)
		if s.nodePorts[key] == 0 {
			s.nodePorts[key] = 30001 + int32(len(s.nodePorts)) //nolint:gosec // a handful
		}
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("p%d", port), Protocol: corev1.ProtocolTCP, Port: port, NodePort: s.nodePorts[key],
		})
	}
	return service
}

// objects are what is left in the cloud, in order.
func (s *subject) objects() []string { return slices.Sorted(slices.Values(s.Objects())) }

// fenced returns a context whose changes pass as long as the fence is open.
func (s *subject) fenced() (context.Context, *election.Fence) {
	fence := election.Unfenced(time.Now())
	if user, ok := s.Provider.(interface{ UseFences(...*election.Fence) }); ok {
		user.UseFences(fence)
	}
	return election.NewContext(s.t.Context(), fence), fence
}
