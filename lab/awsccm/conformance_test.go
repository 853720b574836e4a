package awsccm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/provider/aws"
	"github.com/transplant-dev/transplant/provider/aws/client"
	"github.com/transplant-dev/transplant/provider/conformance"
)

// TestConformance puts the provider through the suite of all providers, with classic load balancers.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject { return subject(t, wire, "") })
}

func TestConformanceOfNetworkLoadBalancers(t *testing.T) {
	conformance.RunLoadBalancers(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject { return subject(t, wire, "nlb") })
}

func subject(t *testing.T, wire *conformance.Wire, kind string) conformance.Subject {
	t.Helper()
	sim, err := awssim.New(awssim.Options{Instances: []awssim.Instance{{ID: "i-0000000000000000a", PrivateIP: "10.0.9.9"}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		server.Close()
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
		for _, call := range sim.Unknown() {
			t.Errorf("a call that the simulator does not know: %+v", call)
		}
	})
	over := &http.Client{Transport: wire.Over(server.Client().Transport, mutates)}
	cloud, err := aws.Open(t.Context(), []byte(inTree(server.URL)), aws.Options{HTTPClient: over})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Server: sim, cloud: cloud}
	s := conformance.Subject{
		Provider: cloud, Servers: &account{bench: b, t: t}, Cluster: "lab",
		Know:    func(nodes ...*corev1.Node) { b.know(t, nodes...) },
		Objects: func() []string { return leaves(t, sim) },
		Adopt: map[string]conformance.Adoption{
			"in tree": func(service *corev1.Service, nodes []*corev1.Node) { earlier(t, sim, server, service, nodes) },
		},
	}
	if kind == "" {
		s.KnownWrites = 1 // upstream sets the policies of a classic load balancer without having asked for them
	} else {
		s.Annotations = map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": kind}
	}
	return s
}

// earlier makes a load balancer as a manager in tree does, whose code this provider has: by another process, which no
// wire counts.
func earlier(t *testing.T, sim *awssim.Server, server *httptest.Server, service *corev1.Service, nodes []*corev1.Node) {
	t.Helper()
	cloud, err := aws.Open(t.Context(), []byte(inTree(server.URL)), aws.Options{HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	(&bench{Server: sim, cloud: cloud}).know(t, nodes...)
	balancers, ok := cloud.LoadBalancer()
	if !ok {
		t.Fatal("there are no load balancers")
	}
	status, err := balancers.EnsureLoadBalancer(t.Context(), "lab", service, nodes)
	if err != nil {
		t.Fatal(err)
	}
	service.Status.LoadBalancer = *status
}

// mutates reads which action a request is for.
func mutates(r *http.Request) bool {
	if r.Body == nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return false
	}
	form, err := url.ParseQuery(string(body))
	return err == nil && client.Mutates(form.Get("Action"))
}

// account is the owner of instances.
type account struct {
	*bench

	t    *testing.T
	made int
}

func (a *account) Create() *corev1.Node {
	a.made++
	i, err := a.AddInstance(awssim.Instance{ID: fmt.Sprintf("i-%017x", a.made), PrivateIP: fmt.Sprintf("10.0.0.%d", 10+a.made)})
	if err != nil {
		a.t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.PrivateDNS}}
}

func (a *account) Stop(node *corev1.Node) { a.state(node, "stopped") }

func (a *account) Delete(node *corev1.Node) { a.state(node, "terminated") }

func (a *account) state(node *corev1.Node, state string) {
	id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	if err := a.SetInstanceState(id, state); err != nil {
		a.t.Fatal(err)
	}
}

// leaves are all values of the account that are no instance's: "elb.a1b2.listeners.0.port=80".
func leaves(t *testing.T, sim *awssim.Server) (out []string) {
	t.Helper()
	text, err := json.Marshal(sim.State())
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				if at := path + "." + key; at != ".ec2.instances" {
					walk(at, inner)
				}
			}
		case []any:
			for i, inner := range value {
				walk(fmt.Sprintf("%s.%d", path, i), inner)
			}
		default:
			out = append(out, fmt.Sprintf("%s=%v", path, value))
		}
	}
	walk("", state)
	return out
}
