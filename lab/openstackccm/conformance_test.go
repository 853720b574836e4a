package openstackccm

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/provider/conformance"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// TestConformance puts the provider through the suite of all providers.
func TestConformance(t *testing.T) { conformance.Run(t, subject) }

func subject(t *testing.T, wire *conformance.Wire) conformance.Subject {
	t.Helper()
	spare := openstacksim.Start(openstacksim.Options{})
	router := spare.AddRouter("nodes", "10.0.0.1") // IDs are the same in each new cloud
	spare.Close()
	sim := openstacksim.Start(openstacksim.Options{})
	t.Cleanup(sim.Close)
	if made := sim.AddRouter("nodes", "10.0.0.1"); made != router {
		t.Fatalf("the router is %s, and the config says %s", made, router)
	}
	sim.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000001", Name: "public-1", Network: "public", External: true})
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	t.Cleanup(transport.CloseIdleConnections)
	over := wire.Over(transport, func(r *http.Request) bool { return client.Describe(r).Mutates })
	cloud, err := openstack.Open(sim.Config("[Route]", "router-id="+router, "[LoadBalancer]"), openstack.Options{Client: client.Options{Next: over}})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Cloud: sim, cloud: cloud}
	return conformance.Subject{
		Provider: cloud, Servers: &project{fixture: f, ids: map[string]string{}}, Cluster: cluster,
		Know:    func(nodes ...*corev1.Node) { f.know(t, nodes...) },
		Objects: func() []string { return objects(sim, router) },
		Adopt:   adoptions(t, f),
	}
}

// adoptions are what the in-tree manager and the external provider make.
func adoptions(t *testing.T, f *fixture) map[string]conformance.Adoption {
	t.Helper()
	inTree := func(groups bool, annotations ...string) conformance.Adoption {
		return func(s *corev1.Service, nodes []*corev1.Node) {
			for _, name := range annotations {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, name, "true")
			}
			(&balanced{fixture: f, nodes: nodes}).inTree(s, groups)
		}
	}
	return map[string]conformance.Adoption{
		"in tree":                                    inTree(false),
		"in tree and internal":                       inTree(false, private),
		"in tree, with security groups":              inTree(true),
		"in tree and internal, with security groups": inTree(true, private),
		"of cloud-provider-openstack": func(s *corev1.Service, nodes []*corev1.Node) {
			(&balanced{fixture: f, nodes: nodes}).external(t, s, cluster)
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: f.FloatingIPs()[0].Address}}
		},
	}
}

// objects are what a cluster may leave behind in a project.
func objects(sim *openstacksim.Cloud, router string) (out []string) {
	for _, lb := range sim.LoadBalancers() {
		out = append(out, fmt.Sprintf("load balancer %+v", lb))
	}
	for _, ip := range sim.FloatingIPs() {
		out = append(out, fmt.Sprintf("floating IP %+v", ip))
	}
	for _, p := range sim.Ports() {
		if len(p.Pairs)+len(p.Groups) > 0 || !strings.HasPrefix(p.Addresses[0], "10.0.7.") {
			out = append(out, fmt.Sprintf("port %s of %q with %v and %v", p.ID, p.DeviceID, p.Pairs, p.Groups))
		}
	}
	groups, rules := sim.SecurityGroups()
	for _, g := range groups {
		out = append(out, fmt.Sprintf("security group %+v", g))
	}
	for _, r := range rules {
		out = append(out, fmt.Sprintf("rule %+v", r))
	}
	for _, r := range sim.Routes(router) {
		out = append(out, "route "+r)
	}
	return out
}

// project is the owner of servers.
type project struct {
	*fixture

	ids map[string]string // by the Node's name
}

func (p *project) Create() *corev1.Node {
	name := fmt.Sprintf("n-%d", len(p.ids))
	p.ids[name] = p.AddServer(openstacksim.Server{Name: name})
	p.AddPort(openstacksim.Port{Network: "nodes", DeviceID: p.ids[name], Addresses: []string{fmt.Sprintf("10.0.7.%d", 10+len(p.ids))}})
	return node(name, "")
}

func (p *project) Stop(node *corev1.Node) {
	p.ChangeServer(p.ids[node.Name], func(s *openstacksim.Server) { s.Status, s.VMState = "SHUTOFF", "stopped" })
}

func (p *project) Delete(node *corev1.Node) { p.DeleteServer(p.ids[node.Name]) }
