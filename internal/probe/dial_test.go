package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestANameWithSeveralAddressesAnswersWhileOneDoes(t *testing.T) {
	bubble(t, "one of three is dead, then the resolver is, then all are", func(t *testing.T) {
		alive, asked, resolver := map[string]bool{"10.0.0.2:80": true, "10.0.0.3:80": true}, 0, error(nil)
		first := map[string]int{}
		tried := 0
		d := &Dialer{
			Resolve: func(context.Context, string) ([]string, error) {
				asked++
				return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, resolver
			},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				if tried == 0 {
					first[address]++
				}
				tried++
				if !alive[address] {
					return nil, errRefused
				}
				a, b := net.Pipe()
				return a, b.Close()
			},
		}
		look := func() error {
			tried = 0
			return d.Look(t.Context(), Target{Kind: v1.PathTCP, Address: "lb.example.com:80"})
		}
		for range 6 {
			if err := look(); err != nil {
				t.Fatal(err)
			}
		}
		if want := map[string]int{"10.0.0.1:80": 2, "10.0.0.2:80": 2, "10.0.0.3:80": 2}; asked != 1 || !cmp.Equal(first, want) {
			t.Errorf("asked the resolver %d times, and began with %v", asked, first)
		}
		sleep(resolveFor)
		resolver = errors.New("no such host")
		if err := look(); err != nil || asked != 2 {
			t.Errorf("without a resolver, a client that knows the addresses: %v", err)
		}
		clear(alive)
		if err := look(); !errors.Is(err, errRefused) || strings.Count(err.Error(), "refused") != 3 {
			t.Errorf("error is %v", err)
		}
	})
}

func TestANameThatCannotBeResolvedIsAnError(t *testing.T) {
	for _, c := range []struct {
		name      string
		addresses []string
		err       error
		want      string
	}{{"refused", nil, errors.New("no such host"), "no such host"}, {"empty", nil, nil, "lb.example.com has no address"}} {
		t.Run(c.name, func(t *testing.T) {
			d := &Dialer{Resolve: func(context.Context, string) ([]string, error) { return c.addresses, c.err }}
			if err := d.Look(t.Context(), Target{Kind: v1.PathTCP, Address: "lb.example.com:80"}); err == nil || err.Error() != c.want {
				t.Errorf("error is %v", err)
			}
		})
	}
	if err := (&Dialer{}).Look(t.Context(), Target{Kind: v1.PathTCP, Address: "no port"}); err == nil {
		t.Error("an address without a port is looked at")
	}
}

func TestAnotherAddressIsConnectedToThanIsPublished(t *testing.T) {
	to, err := ParseConnectTo([]string{
		"LB.example.com=127.0.0.9", "lb.example.com:443=tunnel.example.com:8443", "2001:db8::1=[::1]:9000", "shop.example.com:80=127.0.0.8:8080",
	})
	if err != nil {
		t.Fatal(err)
	}
	asked, dialed := []string{}, []string{}
	d := &Dialer{
		ConnectTo: to,
		Resolve: func(_ context.Context, host string) ([]string, error) {
			asked = append(asked, host)
			return []string{"192.0.2.7"}, nil
		},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			a, b := net.Pipe()
			return a, b.Close()
		},
	}
	for _, address := range []string{"lb.example.com:80", "lb.example.com:443", "[2001:db8::1]:53", "shop.example.com:81"} {
		if err := d.Look(t.Context(), Target{Kind: v1.PathTCP, Address: address}); err != nil {
			t.Fatal(err)
		}
	}
	_ = d.Look(t.Context(), Target{Kind: v1.PathHTTP, Address: "http://shop.example.com/healthz"}) // what is dialed answers nothing
	if diff := cmp.Diff([]string{"127.0.0.9:80", "192.0.2.7:8443", "[::1]:9000", "192.0.2.7:81", "127.0.0.8:8080"}, dialed); diff != "" {
		t.Errorf("dialed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tunnel.example.com", "shop.example.com"}, asked); diff != "" {
		t.Errorf("the resolver was asked for (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoAddressToConnectToIsRefused(t *testing.T) {
	for _, pairs := range [][]string{
		{""}, {"a"}, {"a="}, {"=127.0.0.1"}, {"a:b=127.0.0.1"}, {"a:0=127.0.0.1"}, {"a=127.0.0.1:70000"}, {"a=https://b/"}, {"a=b=c"},
		{"a=[::1"}, {"a b=c"}, {"a=127.0.0.1", "A=127.0.0.2"},
	} {
		if to, err := ParseConnectTo(pairs); err == nil {
			t.Errorf("%q is taken: %v", pairs, to)
		}
	}
}

func TestAGETIsGoodBelow500(t *testing.T) {
	status := 200
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.Close {
			t.Error("the connection would be kept")
		}
		http.Redirect(w, r, "http://127.0.0.1:1/", status)
	}))
	defer s.Close()
	d := &Dialer{}
	for code, good := range map[int]bool{200: true, 302: true, 404: true, 500: false, 503: false} {
		status = code
		if err := d.Look(t.Context(), Target{Kind: v1.PathHTTP, Address: s.URL}); (err == nil) != good {
			t.Errorf("status %d: %v", code, err)
		}
	}
	s.Close()
	if err := d.Look(t.Context(), Target{Kind: v1.PathHTTP, Address: s.URL}); err == nil {
		t.Error("a closed server answers")
	}
}

func service(name string, kind corev1.ServiceType, ingress []corev1.LoadBalancerIngress, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: kind, Ports: ports},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

func TestTargetsAreThePortsOfLoadBalancers(t *testing.T) {
	deleted := service("deleted", corev1.ServiceTypeLoadBalancer, []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}, corev1.ServicePort{Port: 80})
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x/y"}
	kube := fake.NewClientset([]runtime.Object{
		service("web", corev1.ServiceTypeLoadBalancer, []corev1.LoadBalancerIngress{{Hostname: "web.elb.example.com"}, {IP: "2001:db8::1"}},
			corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP}, corev1.ServicePort{Port: 443}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}),
		service(
			"pending",
			corev1.ServiceTypeLoadBalancer,
			nil,
			corev1.ServicePort{Port: 80},
		),
		service("inside", corev1.ServiceTypeClusterIP, nil, corev1.ServicePort{Port: 80}),
		deleted,
	}...)
	got, err := Balancers(kube, []string{"https://shop.example.com/"})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, x := range append(got.Targets, Target{}) {
		paths = append(paths, x.Kind+" "+x.Path)
	}
	if diff := cmp.Diff([]string{
		"http https://shop.example.com/",
		"tcp shop/web web.elb.example.com:80",
		"tcp shop/web web.elb.example.com:443",
		"tcp shop/web [2001:db8::1]:80",
		"tcp shop/web [2001:db8::1]:443",
		" ",
	}, paths); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if len(got.NotProbed) != 3 || !strings.Contains(got.NotProbed[1].Why+got.NotProbed[2].Why, "protocol UDP") {
		t.Errorf("not probed are %+v", got.NotProbed)
	}
	if diff := cmp.Diff(map[string]bool{"Service shop/web": true, "Service shop/pending": true}, got.Owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestReadsHaveConnectionsOfTheirOwn(t *testing.T) {
	connections, requests := map[string]bool{}, 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		requests++
		if r.URL.Path != "/api/v1/namespaces/kube-system" || r.URL.RawQuery != "" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system"}}`))
	}))
	defer s.Close()
	_, reads, err := Clients(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"over a kept connection": 1, "over a new connection each time": 4} {
		clear(connections)
		for range 4 {
			if err := reads[name](t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(connections) != want {
			t.Errorf("%s: %d connections for 4 reads, want %d", name, len(connections), want)
		}
	}
	s.Close()
	began := time.Now()
	if err := reads["over a kept connection"](t.Context()); err == nil || time.Since(began) > 900*time.Millisecond {
		t.Errorf("error is %v after %s: a read that failed is not tried again", err, time.Since(began))
	}
}

func TestALogThatACrashCutOffIsReadAndContinued(t *testing.T) {
	path := t.TempDir() + "/log.jsonl"
	f, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	want := v1.ProbeEvent{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Event: v1.ProbeBegin, IntervalSeconds: 0.5}
	if err := errors.Join(f.Append(want), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLog(strings.NewReader("{\"event\":\"begin\"}\n")); err == nil || !strings.Contains(err.Error(), "line 1: it has no time") {
		t.Errorf("error is %v", err)
	}
	got, err := ReadLog(strings.NewReader("{\"time\":\"2026-03-01T12:00:00Z\",\"event\":\"begin\",\"intervalSeconds\":0.5}\n{\"time\":\"2026"))
	if diff := cmp.Diff([]v1.ProbeEvent{want}, got); diff != "" || err != nil {
		t.Errorf("error %v, events (-want +got):\n%s", err, diff)
	}
}
