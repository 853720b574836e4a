package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// project is an OpenStack that knows the requests of one test. The lab has a whole one.
type project struct {
	mu    sync.Mutex
	calls []string

	// answers are by method and path: "GET network/v2.0/ports". They see the request's query and body.
	answers map[string]func(r *http.Request, body object) (int, any)
}

// RoundTrip implements http.RoundTripper.
func (p *project) RoundTrip(r *http.Request) (*http.Response, error) {
	var body object
	if r.Body != nil {
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil && err != io.EOF {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	call := r.Method + " " + strings.Trim(r.URL.Path, "/")
	status, answer := http.StatusNotImplemented, any(object{"error": object{"message": "the test does not know " + call}})
	p.mu.Lock()
	p.calls = append(p.calls, call)
	known := p.answers[call]
	p.mu.Unlock()
	switch {
	case known != nil:
		status, answer = known(r, body)
	case call == "POST identity/v3/auth/tokens":
		status, answer = http.StatusCreated, login()
	case r.Method == http.MethodGet && strings.Count(call, "/") < 2:
		status, answer = http.StatusOK, versions(strings.TrimPrefix(strings.Split(call, "/")[0], "GET "))
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}, "X-Subject-Token": {"token"}},
		Body: io.NopCloser(bytes.NewReader(text)), Request: r,
	}, err
}

func login() object {
	endpoint := func(kind, path string) object {
		return object{"type": kind, "endpoints": []object{{"interface": "public", "region": "R", "region_id": "R", "url": "http://cloud/" + path}}}
	}
	return object{"token": object{
		"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"project":    object{"id": "p", "name": "demo"},
		"catalog":    []object{endpoint("compute", "compute/v2.1"), endpoint("network", "network")},
	}}
}

func versions(service string) object {
	version := map[string]string{"identity": "v3.14", "compute": "v2.1", "network": "v2.0"}[service]
	list := []object{{
		"id": version, "status": "CURRENT", "version": "2.93", "min_version": "2.1",
		"links": []object{{"rel": "self", "href": "http://cloud/" + service + "/" + strings.TrimSuffix(version, ".14") + "/"}},
	}}
	if service == "identity" {
		return object{"versions": object{"values": list}}
	}
	return object{"versions": list}
}

// made is how often a request was made.
func (p *project) made(call string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, made := range p.calls {
		if made == call {
			n++
		}
	}
	return n
}

// open makes the provider over a project, with the Nodes that its cache has.
func (p *project) open(t *testing.T, nodes ...*corev1.Node) (*Cloud, *testclock.FakePassiveClock) {
	t.Helper()
	config := "[Global]\nauth-url=http://cloud/identity/v3/\nusername=u\npassword=s\ntenant-name=demo\ndomain-name=Default\nregion=R\n[Route]\nrouter-id=" + router + "\n"
	clock := testclock.NewFakePassiveClock(time.Now())
	c, err := Open([]byte(config), Options{Client: client.Options{Next: p}, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	c.SetInformers(factory)
	for _, n := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetStore().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return c, clock
}

const router = "00000000-0000-4000-8000-00000000000f"

// uuid is the ID of a server or a port.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// nodeAt is a Node that claims an address, with the providerID of a server; with none for 0.
func nodeAt(name string, server int, address string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: named(name)}
	if server > 0 {
		n.Spec.ProviderID = "openstack:///" + uuid(server)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// network is Neutron with a router that has an interface in the network nodes, and the port of one node.
type network struct {
	*project

	pairs   []string // of the node's port
	subnets []object
	gateway string // an address of the router in the network external
	at      string // the network of the node's port
	add     func() (int, any)
}

func newNetwork(pairs ...string) *network {
	n := &network{
		pairs: pairs, at: "nodes",
		subnets: []object{{"id": "s-1", "network_id": "nodes", "cidr": "10.0.0.0/16"}, {"id": "s-2", "network_id": "external", "cidr": "10.128.0.0/9"}},
		add:     func() (int, any) { return http.StatusOK, object{"router": object{"id": router}} },
	}
	const at = "network/v2.0/"
	n.project = &project{answers: map[string]func(*http.Request, object) (int, any){
		"GET " + at + "extensions": func(*http.Request, object) (int, any) {
			return http.StatusOK, object{"extensions": []object{{"alias": "extraroute"}, {"alias": "extraroute-atomic"}, {"alias": "allowed-address-pairs"}}}
		},
		"GET " + at + "ports": func(r *http.Request, _ object) (int, any) {
			list := []object{}
			if r.URL.Query().Get("device_id") != router {
				list = append(list, n.port())
			} else {
				list = append(list, portAt(9, "nodes", router, "network:router_interface", "10.0.0.1"))
				if n.gateway != "" {
					list = append(list, portAt(8, "external", router, "network:router_gateway", n.gateway))
				}
			}
			return http.StatusOK, object{"ports": list}
		},
		"GET " + at + "subnets": func(r *http.Request, _ object) (int, any) {
			list := slices.DeleteFunc(slices.Clone(n.subnets), func(s object) bool { return s["network_id"] != r.URL.Query().Get("network_id") })
			return http.StatusOK, object{"subnets": list}
		},
		"GET " + at + "ports/" + uuid(10): func(*http.Request, object) (int, any) { return http.StatusOK, object{"port": n.port()} },
		"PUT " + at + "ports/" + uuid(10): func(_ *http.Request, body object) (int, any) {
			n.pairs = nil
			for _, pair := range body["port"].(object)["allowed_address_pairs"].([]any) {
				n.pairs = append(n.pairs, pair.(object)["ip_address"].(string))
			}
			return http.StatusOK, object{"port": n.port()}
		},
		"PUT " + at + "routers/" + router + "/add_extraroutes": func(*http.Request, object) (int, any) { return n.add() },
	}}
	return n
}

func portAt(id int, network, device, owner, address string) object {
	return object{
		"id": uuid(id), "network_id": network, "device_id": device, "device_owner": owner, "status": "ACTIVE",
		"fixed_ips": []object{{"subnet_id": "s-1", "ip_address": address}}, "port_security_enabled": true,
	}
}

func (n *network) port() object {
	p := portAt(10, n.at, uuid(1), "compute:nova", "10.0.0.10")
	pairs := []object{}
	for _, pair := range n.pairs {
		pairs = append(pairs, object{"ip_address": pair})
	}
	p["allowed_address_pairs"] = pairs
	return p
}

// refusal is what Neutron answers to what it does not take.
func refusal(status int) func() (int, any) {
	return func() (int, any) { return status, object{"NeutronError": object{"message": "the test refuses it"}} }
}
