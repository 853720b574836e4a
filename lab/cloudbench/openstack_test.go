package cloudbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	occm "k8s.io/cloud-provider-openstack/pkg/openstack"
	cloudapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/cloud"
	servicecontroller "github.com/transplant-dev/transplant/ccm/service"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

const (
	cluster = "bench"
	// ports is how many a load balancer has to which a node is added.
	ports = 10
	// initialised is how many servers are.
	initialised = 200
	// services is how many are created together.
	services = 50
	// octaviaWorkers is how many load balancers Octavia works on at a time.
	octaviaWorkers = 10
	// created is how long Octavia needs for a load balancer: 5 to 7 s on a real one whose amphorae are no machines.
	created = 5500 * time.Millisecond
)

// changed is how long Octavia needs for changes: 0.3 to 1 s on a real one.
var changed = []time.Duration{
	300 * time.Millisecond, 700 * time.Millisecond, 450 * time.Millisecond, time.Second, 600 * time.Millisecond,
	350 * time.Millisecond, 900 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond, 400 * time.Millisecond,
}

// project is a simulated OpenStack with our provider on it.
type project struct {
	*openstacksim.Cloud

	cloud     *openstack.Cloud
	balancers cloudprovider.LoadBalancer
	nodes     []*corev1.Node
}

func newProject(b *testing.B, nodes int) *project {
	b.Helper()
	sim := openstacksim.Start(openstacksim.Options{})
	b.Cleanup(sim.Close)
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	b.Cleanup(transport.CloseIdleConnections)
	cloud, err := openstack.Open(sim.Config("[LoadBalancer]"), openstack.Options{Client: client.Options{Next: transport}})
	if err != nil {
		b.Fatal(err)
	}
	balancers, ok := cloud.LoadBalancer()
	if !ok {
		b.Fatal("there are no load balancers")
	}
	p := &project{Cloud: sim, cloud: cloud, balancers: balancers}
	sim.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000001", Name: "public-1", Network: "public", External: true})
	for range nodes {
		p.addNode()
	}
	return p
}

func (p *project) addNode() {
	i := len(p.nodes)
	name, address := fmt.Sprintf("n-%d", i), fmt.Sprintf("10.0.0.%d", 10+i)
	id := p.AddServer(openstacksim.Server{Name: name})
	p.AddPort(openstacksim.Port{Network: "nodes", DeviceID: id, Addresses: []string{address}})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + id}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	p.nodes = append(p.nodes, node)
}

func service(i, ports int) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("0b1c2d3e-4f50-6172-8394-%012d", i)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
		},
	}
	for n := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("p-%d", n), Protocol: corev1.ProtocolTCP, Port: int32(8000 + n), NodePort: int32(30000 + n), //nolint:gosec // few
		})
	}
	return s
}

// settle calls until the provider asks for no other call, and waits as long as it asks for in between.
func settle(ctx context.Context, call func() error) error {
	for {
		err := call()
		var retry *cloudapi.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		if !poll.Pause(ctx, retry.RetryAfter()) {
			return err
		}
	}
}

// balanced is a project with a load balancer for a Service of ten ports, and a node more than its members.
func balanced(b *testing.B) (*project, *corev1.Service) {
	b.Helper()
	p, s := newProject(b, 3), service(0, ports)
	err := settle(b.Context(), func() error {
		_, err := p.balancers.EnsureLoadBalancer(b.Context(), cluster, s, p.nodes)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	p.addNode()
	p.SetWork(openstacksim.Work{Workers: 1, Create: created, Changes: changed})
	p.Calls()
	return p, s
}

// BenchmarkANodeMoreOnTenPorts adds a node to a load balancer of ten ports: by our provider, and by plain gophercloud, which asks
// every 100 ms whether it can go on. Octavia takes its time for each change in both cases.
func BenchmarkANodeMoreOnTenPorts(b *testing.B) {
	for b.Loop() {
		p, s := balanced(b)
		begin := time.Now()
		err := settle(b.Context(), func() error { return p.balancers.UpdateLoadBalancer(b.Context(), cluster, s, p.nodes) })
		ours := time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		puts, calls := 0, p.Calls()
		for _, c := range calls {
			if c.Mutates() {
				puts++
			}
		}
		p.complete(b)
		plain, theirs := plainGophercloud(b), upstreamsWay(b)
		ratio := ours.Seconds() / plain.Seconds()
		b.ReportMetric(float64(puts), "PUTs")
		b.ReportMetric(float64(len(calls)), "calls")
		b.ReportMetric(ratio, "x-gophercloud")
		b.ReportMetric(ours.Seconds()/theirs.took.Seconds(), "x-upstream")
		b.Logf("a node more on %d ports: %d changes and %d calls in %.2f s; plain gophercloud %.2f s: %.2f times (goals: 10 changes, 1.3 times); "+
			"upstream's provider %d calls and %.2f s", ports, puts, len(calls), ours.Seconds(), plain.Seconds(), ratio, theirs.calls, theirs.took.Seconds())
	}
}

// upstreamsWay is what the same costs with cloud-provider-openstack, on a load balancer of its own.
func upstreamsWay(b *testing.B) period {
	b.Helper()
	p, s := newProject(b, 3), service(0, ports)
	balancers := p.upstreamBalancers(b, s)
	if _, err := balancers.EnsureLoadBalancer(b.Context(), cluster, s, p.nodes); err != nil {
		b.Fatal(err)
	}
	p.addNode()
	p.SetWork(openstacksim.Work{Workers: 1, Create: created, Changes: changed})
	p.Calls()
	begin := time.Now()
	if err := balancers.UpdateLoadBalancer(b.Context(), cluster, s, p.nodes); err != nil {
		b.Fatal(err)
	}
	out := period{took: time.Since(begin), calls: p.calls(b)}
	p.complete(b)
	return out
}

// upstream is cloud-provider-openstack in the project, in a cluster with some objects.
func (p *project) upstream(b *testing.B, objects ...runtime.Object) cloudprovider.Interface {
	b.Helper()
	made, err := cloudprovider.GetCloudProvider(occm.ProviderName, bytes.NewReader(p.Config("[LoadBalancer]")))
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop) })
	made.Initialize(clients{api: fake.NewClientset(objects...)}, stop)
	return made
}

func (p *project) upstreamBalancers(b *testing.B, s *corev1.Service) cloudprovider.LoadBalancer {
	b.Helper()
	balancers, ok := p.upstream(b, s).LoadBalancer()
	if !ok {
		b.Fatal("upstream's provider has no load balancers")
	}
	return balancers
}

// calls are how many there were since the last time.
func (p *project) calls(b *testing.B) (calls int) {
	b.Helper()
	for _, c := range p.Calls() {
		if calls++; c.Unknown {
			b.Fatalf("the simulator does not know %s ?%s", c, c.Query)
		}
	}
	return calls
}

// newNodes is a project with the nodes of 200 servers, none of which has a providerID yet.
func newNodes(b *testing.B) *project {
	b.Helper()
	p := newProject(b, initialised)
	for _, n := range p.nodes {
		n.Spec.ProviderID = ""
	}
	return p
}

// BenchmarkTwoHundredServersInitialised describes the servers of new nodes, login and all.
func BenchmarkTwoHundredServersInitialised(b *testing.B) {
	for b.Loop() {
		p := newNodes(b)
		begin := time.Now()
		states, err := p.cloud.ListInstances(b.Context(), p.nodes, cloud.WantExists|cloud.WantShutdown|cloud.WantMetadata)
		if err != nil {
			b.Fatal(err)
		}
		ours := period{took: time.Since(begin), calls: p.calls(b)}
		for _, s := range states {
			if s.Err != nil || s.Metadata == nil || len(s.Metadata.NodeAddresses) == 0 {
				b.Fatalf("a node is described as %+v", s)
			}
		}

		p = newNodes(b)
		begin = time.Now()
		instances, ok := p.upstream(b).InstancesV2() // which logs in
		if !ok {
			b.Fatal("upstream's provider has no InstancesV2")
		}
		for _, n := range p.nodes {
			if metadata, err := instances.InstanceMetadata(b.Context(), n); err != nil || len(metadata.NodeAddresses) == 0 {
				b.Fatalf("node %s is described as %+v, error %v", n.Name, metadata, err)
			}
		}
		theirs := period{took: time.Since(begin), calls: p.calls(b)}
		report(b, fmt.Sprintf("%d servers initialised", initialised), ours, theirs, 10)
	}
}

// BenchmarkAnUnchangedLoadBalancer ensures a load balancer of ten ports again, as each resync does.
func BenchmarkAnUnchangedLoadBalancer(b *testing.B) {
	for b.Loop() {
		again := func(p *project, balancers cloudprovider.LoadBalancer, s *corev1.Service) period {
			ensure := func() error {
				_, err := balancers.EnsureLoadBalancer(b.Context(), cluster, s, p.nodes)
				return err
			}
			var begin time.Time
			for range 3 { // the second one may look at what the first one has made
				p.Advance(time.Minute)
				p.Calls()
				begin = time.Now()
				if err := settle(b.Context(), ensure); err != nil {
					b.Fatal(err)
				}
			}
			return period{took: time.Since(begin), calls: p.calls(b)}
		}
		s := service(0, ports)
		p := newProject(b, 3)
		ours := again(p, p.balancers, s)
		p = newProject(b, 3)
		theirs := again(p, p.upstreamBalancers(b, s), s)
		report(b, fmt.Sprintf("an unchanged load balancer of %d ports", ports), ours, theirs, 3)
	}
}

// report prints our calls next to upstream's.
func report(b *testing.B, what string, ours, theirs period, goal int) {
	b.Helper()
	ratio := float64(theirs.calls) / float64(ours.calls)
	b.ReportMetric(float64(ours.calls), "calls")
	b.ReportMetric(float64(theirs.calls), "calls-upstream")
	b.ReportMetric(ratio, "x-upstream")
	b.Logf("%s: %d calls in %.2f s (goal: %d calls); upstream's provider %d calls in %.2f s: %.0f times as many", what, ours.calls,
		ours.took.Seconds(), goal, theirs.calls, theirs.took.Seconds(), ratio)
}

// complete checks that each pool has all nodes.
func (p *project) complete(b *testing.B) {
	b.Helper()
	for _, pool := range p.LoadBalancers()[0].Pools {
		if len(pool.Members) != len(p.nodes) {
			b.Fatalf("pool %s has %d members, and there are %d nodes", pool.Name, len(pool.Members), len(p.nodes))
		}
	}
}

// plainGophercloud is how long the same takes by hand.
func plainGophercloud(b *testing.B) time.Duration {
	b.Helper()
	p, s := balanced(b)
	octavia, err := p.cloud.Client().LoadBalancer(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	lb := p.LoadBalancers()[0]
	begin := time.Now()
	for i, port := range s.Spec.Ports {
		var members []pools.BatchUpdateMemberOpts
		for _, n := range p.nodes {
			members = append(members, pools.BatchUpdateMemberOpts{
				Name: &n.Name, Address: n.Status.Addresses[0].Address, ProtocolPort: int(port.NodePort), SubnetID: &lb.VIPSubnet,
			})
		}
		if err := pools.BatchUpdateMembers(b.Context(), octavia, lb.Pools[i].ID, members).ExtractErr(); err != nil {
			b.Fatal(err)
		}
		active(b, octavia, lb.ID)
	}
	took := time.Since(begin)
	p.complete(b)
	return took
}

// active waits until a load balancer can be changed.
func active(b *testing.B, octavia *gophercloud.ServiceClient, id string) {
	b.Helper()
	err := poll.Within(b.Context(), 100*time.Millisecond, time.Minute, "the load balancer to be ACTIVE", func(ctx context.Context) error {
		lb, err := loadbalancers.Get(ctx, octavia, id).Extract()
		if err == nil && lb.ProvisioningStatus != openstacksim.Active {
			err = fmt.Errorf("it is %s", lb.ProvisioningStatus)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFiftyServicesTogether creates fifty Services in a cluster whose service controller has one worker, as upstream's default
// is. Octavia works on ten load balancers at a time, so that it needs five times as long as for one.
func BenchmarkFiftyServicesTogether(b *testing.B) {
	for b.Loop() {
		slowest := time.Duration(0)
		for range 3 {
			slowest = max(slowest, serve(b, 1))
		}
		together := serve(b, services)
		rounds := (services + octaviaWorkers - 1) / octaviaWorkers
		ratio := together.Seconds() / (slowest.Seconds() * float64(rounds))
		b.ReportMetric(together.Seconds(), "s-together")
		b.ReportMetric(slowest.Seconds(), "s-single")
		alone := together.Seconds() / (created.Seconds() * float64(rounds))
		b.ReportMetric(ratio, "x-singles")
		b.ReportMetric(alone, "x-workers")
		b.Logf("%d Services together: %.1f s; the slowest single one %.1f s, times %d rounds of Octavia's %d workers: %.2f times (goal: 1.3 times); "+
			"Octavia's workers alone: %.2f times", services, together.Seconds(), slowest.Seconds(), rounds, octaviaWorkers, ratio, alone)
	}
}

// serve is how long it takes until so many new Services have an address.
func serve(b *testing.B, count int) time.Duration {
	b.Helper()
	p := newProject(b, 3)
	p.SetWork(openstacksim.Work{Workers: octaviaWorkers, Create: created, Changes: changed})
	api := fake.NewClientset()
	for _, n := range p.nodes {
		if _, err := api.CoreV1().Nodes().Create(b.Context(), n, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	defer p.control(b, api)()
	begin := time.Now()
	for i := range count {
		if _, err := api.CoreV1().Services("default").Create(b.Context(), service(i, 2), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	err := poll.Within(b.Context(), 20*time.Millisecond, 5*time.Minute, "all Services to have an address", func(ctx context.Context) error {
		list, err := api.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var waiting []string
		for _, s := range list.Items {
			if len(s.Status.LoadBalancer.Ingress) == 0 {
				waiting = append(waiting, s.Name)
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%d wait: %s", len(waiting), strings.Join(waiting, ", "))
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// control runs the service controller, and returns what ends it.
func (p *project) control(b *testing.B, api *fake.Clientset) (end func()) {
	b.Helper()
	factory := informers.NewSharedInformerFactory(api, 0)
	options := servicecontroller.NewOptions()
	options.StateConfigMap = "none"
	made, err := servicecontroller.New(servicecontroller.Config{
		Client: api, Cloud: p.cloud, Services: factory.Core().V1().Services(), Nodes: factory.Core().V1().Nodes(),
		ClusterName: cluster, Workers: 1, Options: options, Recorder: record.NewFakeRecorder(10000),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { made.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
}
