package openstacktrial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

const onError = "transplant.dev/openstack-on-error"

const internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"

// TestTheLifeOfAClusterOnTheSimulator runs against the API servers of proven.Short; with -openstack.all against those of proven.VersionsOf.
func TestTheLifeOfAClusterOnTheSimulator(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts an API server")
	}
	versions := proven.Short()
	if *every {
		versions = proven.VersionsOf("openstack")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			sim := simulator(t)
			live(t, sim, version)
			sim.noneUnknown(t, sim.Calls())
		})
	}
}

func TestTheLifeOfAClusterOnARealOpenStack(t *testing.T) {
	live(t, realStack(t), apiserver.DefaultVersion)
}

// life is a cluster in the middle of the scenario.
type life struct {
	*cluster

	servers []server // those that are there
	begun   time.Time
}

// done logs how long a step has taken.
func (l *life) done(t *testing.T, what string) {
	t.Helper()
	t.Logf("%6.1f s: %s", time.Since(l.begun).Seconds(), what)
	l.begun = time.Now()
}

// live takes a cluster through all that the manager does in OpenStack, and looks at what is left.
func live(t *testing.T, s site, version string) {
	t.Helper()
	l := &life{begun: time.Now(), cluster: newCluster(t, s, version)}
	l.done(t, "the manager is started")
	before, err := l.see.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.servers = s.addServers(t, "worker-0", "worker-1", "worker-2")
	l.done(t, "three servers are there")
	for _, step := range []struct {
		name string
		take func(*life, *testing.T)
	}{
		{"nodes are initialised", (*life).initialised},
		{"pods are routed", (*life).routed},
		{"Services get load balancers", (*life).exposed},
		{"Services are changed", (*life).changed},
		{"tokens are revoked", (*life).revoked},
		{"Octavia is killed between two changes", (*life).withoutOctavia},
		{"Octavia's API is killed while a load balancer is made", (*life).interrupted},
		{"Octavia's worker is killed while a load balancer is made", (*life).killed},
		{"a server is stopped", (*life).stopped},
		{"a server is deleted", (*life).deleted},
		{"a server joins", (*life).joined},
		{"Services go", (*life).unexposed},
		{"all servers go", (*life).emptied},
	} {
		step.take(l, t)
		l.done(t, step.name)
	}
	until(t, "OpenStack to hold what it held before", func(ctx context.Context) string {
		after, err := l.see.Objects(ctx)
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(withoutServers(before), withoutServers(after))
	})
	l.done(t, "nothing is left")
}

// withoutServers leaves out the ports of servers. Nova makes and deletes them, and has left one behind.
func withoutServers(objects []string) []string {
	isOfServer := func(o string) bool { return strings.HasPrefix(o, "port ") && strings.Contains(o, " compute:") }
	return slices.DeleteFunc(slices.Clone(objects), isOfServer)
}

func (l *life) initialised(t *testing.T) {
	t.Helper()
	l.initialise(t, l.servers...)
}

// initialise has the Nodes of servers initialised.
func (l *life) initialise(t *testing.T, added ...server) {
	t.Helper()
	for _, s := range added {
		l.register(t, s.name, s.id, s.podCIDR())
	}
	for _, s := range added {
		want := map[string]string{
			"providerID": "openstack:///" + s.id, "addresses": fmt.Sprint([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.address}}),
			"zone": "nova", "region": "RegionOne", "type": l.flavor(), "uninitialised": "false",
		}
		l.untilNode(t, s.name, "initialised", func(n *corev1.Node) string {
			return cmp.Diff(want, map[string]string{
				"providerID": n.Spec.ProviderID, "addresses": fmt.Sprint(n.Status.Addresses),
				"zone": n.Labels[corev1.LabelTopologyZone], "region": n.Labels[corev1.LabelTopologyRegion],
				"type":          n.Labels[corev1.LabelInstanceTypeStable],
				"uninitialised": fmt.Sprint(tainted(n, cloudproviderapi.TaintExternalCloudProvider)),
			})
		})
	}
}

func (l *life) routed(t *testing.T) {
	t.Helper()
	l.untilRoutes(t)
	for _, s := range l.servers {
		l.untilNode(t, s.name, "in the network", func(n *corev1.Node) string {
			for _, condition := range n.Status.Conditions {
				if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
					return ""
				}
			}
			return fmt.Sprintf("its conditions are %+v", n.Status.Conditions)
		})
	}
}

// untilRoutes waits for a route to each server that is there, and none else.
func (l *life) untilRoutes(t *testing.T) {
	t.Helper()
	var routes, pairs []string
	for _, s := range l.servers {
		routes, pairs = append(routes, s.podCIDR()+" via "+s.address), append(pairs, s.podCIDR())
	}
	until(t, "routes", func(ctx context.Context) string {
		got, err := l.see.Routes(ctx)
		if err != nil {
			return err.Error()
		}
		passed, err := l.see.Pairs(ctx)
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(routes, got) + cmp.Diff(pairs, passed)
	})
}

// podCIDR is that of the server's Node.
func (s server) podCIDR() string {
	return fmt.Sprintf("10.244.%s.0/24", strings.TrimPrefix(s.name, "worker-"))
}

// lines are how the load balancer of a Service has to look, given what is different from port to port.
func (l *life) lines(t *testing.T, name, suffix string) (lines []string) {
	t.Helper()
	s := l.service(t, name)
	for _, port := range s.Spec.Ports {
		var members []string
		for _, server := range l.servers {
			member := fmt.Sprintf("%s:%d", server.address, port.NodePort)
			if s.Spec.HealthCheckNodePort != 0 {
				member += fmt.Sprintf("/%d", s.Spec.HealthCheckNodePort)
			}
			members = append(members, member)
		}
		slices.Sort(members)
		lines = append(lines, fmt.Sprintf("TCP %d ROUND_ROBIN %s %s", port.Port, strings.Join(members, ","), suffix))
	}
	slices.Sort(lines)
	return lines
}

// untilShape waits for a Service's load balancer to look as its ports say.
func (l *life) untilShape(t *testing.T, name, suffix string) {
	t.Helper()
	until(t, "the load balancer of "+name, func(ctx context.Context) string {
		lb, err := l.see.Balancer(ctx, "kube_service_lab_default_"+name)
		if err != nil || lb == nil {
			return fmt.Sprintf("load balancer %v, error %v", lb, err)
		}
		got, err := l.see.Shape(ctx, lb)
		if err != nil {
			return err.Error()
		}
		return cmp.Diff(l.lines(t, name, suffix), got)
	})
}

// untilAddress waits for a Service's address: a floating IP, or the load balancer's own.
func (l *life) untilAddress(t *testing.T, name string, external bool) {
	t.Helper()
	until(t, "an address of "+name, func(context.Context) string {
		s := l.service(t, name)
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			failures, err := l.failures(t.Context(), name)
			return fmt.Sprintf("its status is %+v, failures %v, error %v", s.Status.LoadBalancer, failures, err)
		}
		if address := s.Status.LoadBalancer.Ingress[0].IP; strings.HasPrefix(address, "203.0.113.") != external {
			return "its address is " + address
		}
		return ""
	})
}

func (l *life) exposed(t *testing.T) {
	t.Helper()
	l.expose(t, "web", nil, 80, 443)
	l.expose(t, "inside", map[string]string{internal: "true"}, 5432)
	l.untilAddress(t, "web", true)
	l.untilAddress(t, "inside", false)
	l.untilShape(t, "web", "TCP")
	l.untilShape(t, "inside", "TCP")
}

func (l *life) changed(t *testing.T) {
	t.Helper()
	port := func(number int) map[string]any {
		return map[string]any{"name": fmt.Sprintf("p-%d", number), "port": number, "protocol": "TCP"}
	}
	l.change(t, "web", map[string]any{"ports": []any{port(80), port(8080)}})
	l.untilShape(t, "web", "TCP")
	l.done(t, "  a port more and one less")
	l.change(t, "web", map[string]any{"loadBalancerSourceRanges": []string{"192.0.2.0/24", "10.0.0.0/8"}})
	l.untilShape(t, "web", "TCP from 10.0.0.0/8,192.0.2.0/24")
	l.change(t, "web", map[string]any{"loadBalancerSourceRanges": nil})
	l.untilShape(t, "web", "TCP")
	l.done(t, "  source ranges, and none")
	l.change(t, "web", map[string]any{"externalTrafficPolicy": "Local"})
	l.untilShape(t, "web", "HTTP")
	l.change(t, "web", map[string]any{"externalTrafficPolicy": "Cluster"})
	l.untilShape(t, "web", "TCP")
	l.done(t, "  externalTrafficPolicy Local, and Cluster")
	l.patch(t, "web", map[string]any{"metadata": map[string]any{"annotations": map[string]any{internal: "true"}}})
	l.untilAddress(t, "web", false)
	l.patch(t, "web", map[string]any{"metadata": map[string]any{"annotations": map[string]any{internal: nil}}})
	l.untilAddress(t, "web", true)
	l.done(t, "  internal, and external again")
	l.quiet(t, "web", "inside")
}

// quiet checks that no change of Services has failed.
func (l *life) quiet(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if failures, err := l.failures(t.Context(), name); err != nil || len(failures) > 0 {
			t.Errorf("failures of %s: %v, error %v", name, failures, err)
		}
	}
}

func (l *life) revoked(t *testing.T) {
	t.Helper()
	l.revokeTokens(t)
	l.change(t, "inside", map[string]any{"loadBalancerSourceRanges": []string{"10.0.0.0/16"}})
	l.untilShape(t, "inside", "TCP from 10.0.0.0/16")
}

// Its Service has had few events yet: a recorder drops those of one object after the 25th.
func (l *life) withoutOctavia(t *testing.T) {
	t.Helper()
	before, err := l.failures(t.Context(), "inside")
	if err != nil {
		t.Fatal(err)
	}
	back := l.octaviaAway(t, true)
	l.change(t, "inside", map[string]any{"loadBalancerSourceRanges": []string{"198.51.100.0/24"}})
	until(t, "an event of the failure", func(ctx context.Context) string {
		if now, err := l.failures(ctx, "inside"); err != nil || len(now) <= len(before) {
			return fmt.Sprintf("failures %v, error %v", now, err)
		}
		return ""
	})
	if left := l.service(t, "inside").Status.LoadBalancer.Ingress; len(left) != 1 {
		t.Errorf("without Octavia, inside shows %+v", left)
	}
	back()
	l.untilOctavia(t)
	l.untilShape(t, "inside", "TCP from 198.51.100.0/24")
}

func (l *life) untilOctavia(t *testing.T) {
	t.Helper()
	until(t, "Octavia to be back", func(ctx context.Context) string {
		if _, err := l.see.Balancer(ctx, "kube_service_lab_default_web"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// beginExposing makes a Service, and waits until Octavia has begun with its load balancer.
func (l *life) beginExposing(t *testing.T, name string) (lb string) {
	t.Helper()
	l.expose(t, name, nil, 80)
	until(t, "a load balancer that is made", func(ctx context.Context) string {
		begun, err := l.see.Balancer(ctx, "kube_service_lab_default_"+name)
		if err != nil || begun == nil {
			return fmt.Sprintf("load balancer %v, error %v", begun, err)
		}
		lb = begun.ID
		return ""
	})
	return lb
}

func (l *life) interrupted(t *testing.T) {
	t.Helper()
	l.beginExposing(t, "late")
	back := l.octaviaAway(t, false)
	back()
	l.untilOctavia(t)
	l.untilAddress(t, "late", true)
	l.untilShape(t, "late", "TCP")
}

// stuck is how long the manager may take to say that a load balancer stays PENDING: it waits 15 minutes for Octavia.
const stuck = 20 * time.Minute

// A real worker has acknowledged the request before it dies, and no queue delivers it again. If it was in the middle,
// the load balancer stays PENDING_CREATE until an administrator ends that. The manager has to say so. If it had not
// begun, the load balancer is made once it is back.
func (l *life) killed(t *testing.T) {
	t.Helper()
	defer l.slowDown()()
	id := l.beginExposing(t, "killed")
	back := l.octaviaAway(t, true)
	if sim, ok := l.site.(*simulated); ok {
		sim.Advance(time.Hour)
		all := sim.LoadBalancers()
		if last := all[len(all)-1]; last.ID != id || last.Status != openstacksim.PendingCreate {
			t.Errorf("without a worker, the load balancer is %+v", last)
		}
	}
	back()
	l.untilOctavia(t)
	gaveUp := false
	untilWithin(t, stuck, "an address of killed, or the event that its load balancer stays PENDING", func(ctx context.Context) string {
		failures, err := l.failures(ctx, "killed")
		gaveUp = slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, "set its provisioning_status to ERROR") })
		if shown := l.service(t, "killed").Status.LoadBalancer.Ingress; gaveUp || len(shown) == 1 {
			return ""
		}
		return fmt.Sprintf("failures %v, error %v", failures, err)
	})
	if gaveUp { // what the event asks for
		t.Log("the load balancer has stayed PENDING")
		l.failBalancer(t, id)
		l.patch(t, "killed", map[string]any{"metadata": map[string]any{"annotations": map[string]any{onError: "recreate"}}})
	}
	l.untilAddress(t, "killed", true)
	l.untilShape(t, "killed", "TCP")
}

func (l *life) stopped(t *testing.T) {
	t.Helper()
	gone := l.servers[1]
	l.stopServer(t, gone.id)
	l.notReady(t, gone.name)
	l.untilNode(t, gone.name, "tainted", func(n *corev1.Node) string {
		if n == nil || !tainted(n, cloudproviderapi.TaintNodeShutdown) {
			return fmt.Sprintf("it has no shutdown taint: %+v", n)
		}
		return ""
	})
}

func (l *life) deleted(t *testing.T) {
	t.Helper()
	l.lose(t, l.servers[2])
	l.servers = l.servers[:2]
	l.untilRoutes(t)
	l.untilShapes(t)
}

// untilShapes waits for all load balancers to have the servers that are there as members, and none else.
func (l *life) untilShapes(t *testing.T) {
	t.Helper()
	for name, suffix := range map[string]string{"web": "TCP", "inside": "TCP from 198.51.100.0/24", "late": "TCP", "killed": "TCP"} {
		l.untilShape(t, name, suffix)
	}
}

func (l *life) joined(t *testing.T) {
	t.Helper()
	added := l.addServers(t, "worker-3")
	sim, simulated := l.site.(*simulated)
	var before []openstacksim.Call
	if simulated {
		before = sim.Calls()
	}
	l.initialise(t, added...)
	l.servers = append(l.servers, added...)
	l.untilRoutes(t)
	l.untilShapes(t)
	if !simulated {
		return
	}
	var writes []string
	calls := sim.Calls()
	for _, call := range calls {
		if call.Mutates() && call.Service == "load-balancer" {
			writes = append(writes, call.Method+" "+call.Path)
		}
	}
	sim.noneUnknown(t, before)
	sim.noneUnknown(t, calls)
	// one for each port of web, inside, late and killed
	if want := slices.Repeat([]string{"PUT lbaas/pools/{id}/members"}, 5); !slices.Equal(writes, want) {
		t.Errorf("for a node more, Octavia got %v, want %v", writes, want)
	}
}

// lose deletes a server, and waits until its Node is gone.
func (l *life) lose(t *testing.T, gone server) {
	t.Helper()
	l.deleteServer(t, gone.id)
	l.notReady(t, gone.name)
	l.untilNode(t, gone.name, "gone", func(n *corev1.Node) string {
		if n != nil {
			return "it is there"
		}
		return ""
	})
}

func (l *life) unexposed(t *testing.T) {
	t.Helper()
	l.change(t, "inside", map[string]any{"type": "ClusterIP", "loadBalancerSourceRanges": nil})
	for _, name := range []string{"web", "late", "killed"} {
		if err := l.admin.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the Services to be gone", func(ctx context.Context) string {
		list, err := l.admin.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, s := range list.Items {
			if len(s.Finalizers) > 0 {
				failures, err := l.failures(ctx, s.Name)
				return fmt.Sprintf("%s has finalizers %v, failures %v, error %v", s.Name, s.Finalizers, failures, err)
			}
		}
		return ""
	})
}

// emptied has the servers go one after the other. When none of several nodes has a server, the manager deletes none: it
// takes that for the wrong project.
func (l *life) emptied(t *testing.T) {
	t.Helper()
	for len(l.servers) > 0 {
		l.lose(t, l.servers[0])
		l.servers = l.servers[1:]
	}
	l.untilRoutes(t)
}
