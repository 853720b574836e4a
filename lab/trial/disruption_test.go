package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/edge"
)

// balancer is a load balancer that answers, of a class that no manager of the lab knows, and another one that does not.
type balancer struct {
	*edge.Edge
	lab        *Trial
	path, dead string
	slice      *discoveryv1.EndpointSlice
}

// newBalancer makes the Services answers and silent in the workload's namespace, with their addresses here; they are gone when the test ends.
func newBalancer(t *testing.T, lab *Trial) *balancer {
	t.Helper()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	go func() {
		for {
			c, err := backend.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	e, err := edge.Start(edge.Options{Name: "client->answers", Listen: "127.0.0.1:0", Target: backend.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	b := &balancer{Edge: e, lab: lab}
	b.path, b.dead = b.service(t, "answers", e.Addr()), b.service(t, "silent", closed.Addr().String())
	b.slice = &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.WorkloadNamespace,
			Name:      "answers-by-hand",
			Labels:    map[string]string{discoveryv1.LabelServiceName: "answers", discoveryv1.LabelManagedBy: "by-hand"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.200.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	if b.slice, err = lab.Client().DiscoveryV1().EndpointSlices(cluster.WorkloadNamespace).Create(t.Context(), b.slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// service makes a Service with an address, and returns the name of its path.
func (b *balancer) service(t *testing.T, name, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	services := b.lab.Client().CoreV1().Services(cluster.WorkloadNamespace)
	s, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type:              corev1.ServiceTypeLoadBalancer,
		LoadBalancerClass: ptr.To("example.com/by-hand"),
		Ports:             []corev1.ServicePort{{Port: int32(number), Protocol: corev1.ProtocolTCP}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		err := b.lab.Client().DiscoveryV1().EndpointSlices(cluster.WorkloadNamespace).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		if err != nil {
			t.Error(err)
		}
	})
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "127.0.0.1"}}
	if _, err := services.UpdateStatus(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cluster.WorkloadNamespace + "/" + name + " " + address
}

// ready says whether the endpoint is.
func (b *balancer) ready(t *testing.T, is bool) {
	t.Helper()
	var err error
	b.slice.Endpoints[0].Conditions.Ready = ptr.To(is)
	if b.slice, err = b.lab.Client().DiscoveryV1().EndpointSlices(cluster.WorkloadNamespace).Update(t.Context(), b.slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// out cuts the balancer off for a time, and returns for how long it was.
func (b *balancer) out(t *testing.T, d time.Duration) float64 {
	t.Helper()
	from := time.Now()
	b.Cut()
	after(t, d)
	if err := b.Heal(); err != nil {
		t.Fatal(err)
	}
	return time.Since(from).Seconds()
}

// apiOut cuts the endpoint of the API off, by cutting what is behind it off.
func apiOut(t *testing.T, lab *Trial, d time.Duration) float64 {
	t.Helper()
	var edges []*edge.Edge
	for _, h := range lab.ControlPlanes() {
		e, err := lab.Edge(cluster.LoadBalancerEdge(h.Name))
		if err != nil {
			t.Fatal(err)
		}
		edges = append(edges, e)
	}
	from := time.Now()
	for _, e := range edges {
		e.Cut()
	}
	after(t, d)
	for _, e := range edges {
		if err := e.Heal(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(from).Seconds()
}

// after lets time pass: outages have a length.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// narration is what a command says while it runs.
type narration struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *narration) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

// says waits until the command says something.
func (n *narration) says(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; after(t, 50*time.Millisecond) {
		n.mu.Lock()
		text := n.text.String()
		n.mu.Unlock()
		if strings.Contains(text, what) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the command never said %q:\n%s", what, tail(text, 30))
		}
	}
}

// begun runs a command next to the test, and returns what it says and what waits for its end.
func begun(t *testing.T, lab *Trial, args ...string) (*narration, func(code int) Result) {
	t.Helper()
	n := &narration{}
	var r Result
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = lab.CLI(t.Context(), n, nil, args...)
	}()
	return n, func(code int) Result {
		t.Helper()
		<-done
		if err != nil || r.Code != code {
			t.Fatalf("transplant %s: exit code %d, error %v, want %d\n%s\n%s", strings.Join(args, " "), r.Code, err, code, r.Stdout, tail(r.Stderr, 40))
		}
		return r
	}
}

// outage is for how long a path was made to be out, from what is known of when that was: an API server changes an object at some time during a request.
type outage struct{ least, most float64 }

func exactly(seconds float64) outage { return outage{seconds, seconds} }

// made fails the test unless a path was out once, for as long as it was made to be: never shorter, and longer by two looks at most, and by what a busy
// machine adds. What a watch sees it sees when it is told, which a busy machine does late at either end.
func made(t *testing.T, d v1.Disruption, kind, path string, was outage) {
	t.Helper()
	i := slices.IndexFunc(d.Paths, func(p v1.PathDisruption) bool { return p.Kind == kind && p.Path == path })
	if i < 0 {
		t.Errorf("%s %s is not in the table", kind, path)
		return
	}
	p := d.Paths[i]
	// A path that is cut says so at once. Somebody who does not answer in time is busy, on a machine that is.
	outages := slices.DeleteFunc(slices.Clone(p.Outages), func(o v1.Outage) bool { return strings.HasPrefix(o.Error, "no answer within") })
	if len(outages) != 1 {
		t.Errorf("%s %s: %d outages, want the one that was made: %+v", kind, path, len(outages), p.Outages)
		return
	}
	o := outages[0]
	t.Logf("%-9s %-32s made %.3f s, measured %.3f s, certain %.3f s: %s", kind, path, was.most, o.Seconds, o.LeastSeconds, o.Error)
	const looks, busy = 2 * 0.2, 0.8
	late := 0.05
	if kind == v1.PathEndpoints || kind == v1.PathAPIWatch {
		late = busy
	}
	if o.Seconds < was.least-late || o.Seconds > was.most+looks+busy || o.LeastSeconds > was.most+late || o.Open {
		t.Errorf("%s %s was out for %.3f s (%.3f s for certain), and was made to be for %.3f to %.3f s", kind, path, o.Seconds, o.LeastSeconds, was.least, was.most)
	}
}

func TestTheTableShowsTheOutagesThatWereMade(t *testing.T) {
	lab := theLab(t)
	before := facts(t, lab)
	t.Run("probe", func(t *testing.T) {
		b := newBalancer(t, lab)
		said, end := begun(t, lab, "probe", "--interval", "200ms", "--for", "16s", "--budget", "2500ms", "-o", "json")
		said.says(t, "not probed: TCP "+b.dead)
		after(t, time.Second)
		balancerOut := b.out(t, time.Second) // within the budget also with what a busy machine adds, see made
		after(t, 500*time.Millisecond)
		apiWasOut := apiOut(t, lab, 3*time.Second)
		after(t, 2*time.Second)
		asked := time.Now()
		b.ready(t, false)
		notReady := time.Now()
		after(t, 1500*time.Millisecond)
		least := time.Since(notReady).Seconds()
		b.ready(t, true)
		endpointsOut := outage{least, time.Since(asked).Seconds()}
		r := end(4) // the budget was not kept
		var d v1.Disruption
		if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
			t.Fatal(err)
		}
		made(t, d, v1.PathTCP, b.path, exactly(balancerOut))
		made(t, d, v1.PathAPIRead, "over a new connection each time", exactly(apiWasOut))
		made(t, d, v1.PathAPIRead, "over a kept connection", exactly(apiWasOut))
		// The client waits before it opens a watch again, for longer each time: nobody watches meanwhile.
		made(t, d, v1.PathAPIWatch, "leases in kube-system", outage{apiWasOut, apiWasOut + 3})
		made(t, d, v1.PathEndpoints, cluster.WorkloadNamespace+"/answers", endpointsOut)
		// Without an API nobody sees endpoints either: for them it is unknown for as long whether the budget was kept.
		if d.Result != v1.DisruptionOver || len(d.Reasons) != 4 || !strings.Contains(d.Reasons[3], "was not looked at") {
			t.Errorf(
				"result is %s because of %q, want the three paths of the API over the budget, the endpoints unknown and the load balancer within",
				d.Result,
				d.Reasons,
			)
		}
		if !slices.ContainsFunc(d.NotProbed, func(n v1.NotProbed) bool { return n.Path == b.dead }) {
			t.Errorf("not probed are %+v, want %s among them", d.NotProbed, b.dead)
		}
	})
	settled(t, lab)
	unchanged(t, lab, before)
}

// A migration whose command is killed, gone on with until a kube-apiserver has restarted, and rolled back.
func TestAMigrationIsProbedThroughACrash(t *testing.T) {
	long(t)
	lab := theLab(t)
	before := facts(t, lab)
	t.Run("probed", func(t *testing.T) {
		b := newBalancer(t, lab)
		all := steps(t, lab)
		server := slices.IndexFunc(all, func(s v1.Step) bool { return s.Component == "kube-apiserver" && s.Kind == v1.StepEditManifest })
		manager := slices.IndexFunc(all, func(s v1.Step) bool { return s.Component == cluster.ControllerManager && s.Kind == v1.StepEditManifest })
		if server < 0 || manager < 0 {
			t.Fatal("the plan restarts no kube-apiserver or no manager")
		}
		cli(t, lab, -1, []string{"TRANSPLANT_TEST_KILL=after:" + all[manager].ID}, apply("--probe", "--probe-interval", "200ms", "--probe-budget", "3m")...)
		said, end := begun(t, lab, apply("--until", all[server].ID)...) // without --probe: it goes on
		said.says(t, "goes on probing")
		said.says(t, "] ")
		wasOut := b.out(t, 2*time.Second)
		end(0)
		said.says(t, "probes: ")
		cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
		d := disruptionOf(t, lab)
		made(t, d, v1.PathTCP, b.path, exactly(wasOut))
		var during []string
		for _, p := range d.Paths {
			for _, o := range p.Outages {
				t.Logf("%s %s: %.3f s during %v: %s", p.Kind, p.Path, o.Seconds, o.Steps, o.Error)
				if p.Path == b.path {
					during = o.Steps
				}
			}
		}
		if len(during) == 0 {
			t.Error("the outage that was made names no step")
		}
		crashed := slices.ContainsFunc(d.Unobserved, func(u v1.Unobserved) bool { return strings.Contains(u.Why, "did not end in order") })
		ordered := slices.ContainsFunc(d.Unobserved, func(u v1.Unobserved) bool { return u.Why == "between two runs of the probes" })
		if !crashed || !ordered || len(d.Unobserved) != 2 {
			t.Errorf("unobserved are %+v, want the crash and the time before the rollback", d.Unobserved)
		}
		if d.Result != v1.DisruptionWithin {
			t.Errorf("result is %s because of %q", d.Result, d.Reasons)
		}
		cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	})
	unchanged(t, lab, before)
}

// disruptionOf reads the disruption of the report, whatever its result.
func disruptionOf(t *testing.T, lab *Trial) v1.Disruption {
	t.Helper()
	r := cli(t, lab, 0, nil, "report", "-o", "json", "--cloud", Cloud)
	var doc v1.Report
	if err := errors.Join(json.Unmarshal([]byte(r.Stdout), &doc)); err != nil {
		t.Fatal(err)
	}
	if doc.Disruption == nil {
		t.Fatal(fmt.Errorf("the report has no disruption: %s", doc.Result))
	}
	return *doc.Disruption
}
