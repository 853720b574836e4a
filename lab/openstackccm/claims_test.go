package openstackccm

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// looksAtServers are the requests for servers and ports since it was last asked.
func (b *balanced) looksAtServers(t *testing.T) (n int) {
	t.Helper()
	calls := b.Calls()
	b.noneUnknown(t, calls)
	for _, c := range calls {
		if c.Method == http.MethodGet && (strings.HasPrefix(c.Path, "servers") || c.Path == "ports") {
			n++
		}
	}
	return n
}

func claims(n *corev1.Node, address string) { n.Status.Addresses[0].Address = address }

// TestANodeThatClaimsAnothersAddressIsNoMember: a kubelet writes any address into the status of its Node.
func TestANodeThatClaimsAnothersAddressIsNoMember(t *testing.T) {
	const database = "10.0.9.9"
	for name, attack := range map[string]func(*corev1.Node){
		"of a machine without a Node":          func(n *corev1.Node) { claims(n, database) },
		"of no machine":                        func(n *corev1.Node) { claims(n, "10.0.0.1") },
		"that way around":                      func(n *corev1.Node) { claims(n, "::ffff:"+database) },
		"with a server that does not exist":    func(n *corev1.Node) { claims(n, database); n.Spec.ProviderID = "openstack:///" + uid },
		"with no providerID":                   func(n *corev1.Node) { claims(n, database); n.Spec.ProviderID = "" },
		"with a providerID that names none":    func(n *corev1.Node) { claims(n, database); n.Spec.ProviderID = "openstack:///detail" },
		"as an ExternalIP, without InternalIP": func(n *corev1.Node) { claims(n, database); n.Status.Addresses[0].Type = corev1.NodeExternalIP },
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 2)
			victim := b.AddServer(openstacksim.Server{Name: "database"})
			b.AddPort(openstacksim.Port{Network: "nodes", DeviceID: victim, Addresses: []string{database}})
			s := service("web")
			s.Spec.Ports = s.Spec.Ports[:1]
			for _, when := range []string{"new", "changed"} {
				honest := b.nodes[1].DeepCopy()
				attack(b.nodes[1])
				b.ensure(t, s)
				b.looks(t, "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080")
				b.nodes[1] = honest
				b.wait(time.Minute)
				b.ensure(t, s)
				b.looks(t, "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080")
				if t.Failed() {
					t.Fatalf("load balancer: %s", when)
				}
			}
		})
	}
}

// Neither nodes that show what they have nor one that does not cost a list with each pass.
func TestAddressesOfNodesAreCheckedByWhatIsKnown(t *testing.T) {
	b := balance(t, 3)
	s := service("web")
	b.ensure(t, s)
	if n := b.looksAtServers(t); n != 2 { // the other finds the subnet
		t.Errorf("a new manager has made %d looks at servers and ports", n)
	}
	b.ensure(t, s)
	claims(b.nodes[2], "10.0.0.1")
	if n := b.looksAtServers(t); n != 0 {
		t.Errorf("a second pass has made %d looks", n)
	}
	b.wait(time.Minute)
	b.ensure(t, s)
	if n := b.looksAtServers(t); n != 2 {
		t.Errorf("the first pass with a wrong address has made %d looks", n)
	}
	b.ensure(t, s)
	if n := b.looksAtServers(t); n != 0 {
		t.Errorf("the second pass with a wrong address has made %d looks", n)
	}
}

// A look at nodes has read all that load balancers need.
func TestALookAtNodesIsEnoughForMembers(t *testing.T) {
	b := balance(t, 3)
	if _, err := b.cloud.ListInstances(t.Context(), b.nodes, everything); err != nil {
		t.Fatal(err)
	}
	s := service("web")
	b.Calls()
	b.ensure(t, s)
	if n := b.looksAtServers(t); n != 1 { // for the subnet
		t.Errorf("it has made %d looks", n)
	}
}

// Members stay where nothing better is known.
func TestMembersStayWhereEachNodeClaimsAnothersAddress(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	s.Spec.Ports = s.Spec.Ports[:1]
	b.ensure(t, s)
	claims(b.nodes[0], "10.0.0.1")
	b.wait(time.Minute)
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "of node n-0, it claims the address 10.0.0.1") {
		t.Errorf("the error is %v", err)
	}
	b.looks(t, "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080")
}

// While Nova does not answer, what is known stays a member, and nothing else becomes one.
func TestMembersWithoutNova(t *testing.T) {
	b := balance(t, 2)
	s := service("web")
	s.Spec.Ports = s.Spec.Ports[:1]
	b.ensure(t, s)
	remove := b.Add(openstacksim.Fault{Method: http.MethodGet, Path: "servers/detail", Status: http.StatusServiceUnavailable})
	defer remove()
	b.nodes = b.nodes[:1]
	b.ensure(t, s)
	b.looks(t, "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080")
	b.nodes = append(b.nodes, node("n-9", "", "10.0.0.99"))
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "checking the addresses of nodes: listing servers") {
		t.Errorf("the error is %v", err)
	}
}

// The subnet of a new load balancer is found by the UUID of a node's server, in each form of its providerID.
func TestTheSubnetIsFoundByTheServersUUID(t *testing.T) {
	for name, form := range map[string]func(id string) string{
		"in capitals": func(id string) string { return "openstack:///" + strings.ToUpper(id) },
		"alone":       func(id string) string { return id },
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			b.nodes[0].Spec.ProviderID = form(strings.TrimPrefix(b.nodes[0].Spec.ProviderID, "openstack:///"))
			b.ensure(t, service("web"))
			if subnet := b.only(t).VIPSubnet; subnet != "subnet-nodes" {
				t.Errorf("the load balancer is in %s", subnet)
			}
		})
	}
	t.Run("of one that names no server", func(t *testing.T) {
		b := balance(t, 1)
		b.nodes[0].Spec.ProviderID += "?name=x"
		claims(b.nodes[0], "10.0.0.77") // no server's
		b.Calls()
		if err := b.fails(t, service("web")); err == nil || !strings.Contains(err.Error(), "no port of nodes n-0 is found") {
			t.Errorf("the error is %v", err)
		}
		for _, c := range b.Calls() {
			if c.Path == "ports" {
				t.Errorf("it was asked for: %s ?%s", c, c.Query)
			}
		}
	})
}
