package openstacktrial

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// inhabited is a simulated cloud with what an in-tree cluster has in it, and the program that is asked about it.
type inhabited struct {
	*openstacksim.Cloud

	router, program, config string
	nodes                   []v1.Node
	servers                 []string
}

func inhabit(t *testing.T) *inhabited {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := &inhabited{Cloud: openstacksim.Start(openstacksim.Options{}), config: filepath.Join(dir, "cloud.conf")}
	t.Cleanup(in.Close)
	if in.program, err = build.BuildCommand(t.Context(), root, dir, program); err != nil {
		t.Fatal(err)
	}
	in.router = in.AddRouter("nodes", "10.0.0.1")
	in.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000001", Name: "public-1", Network: "public", External: true})
	// what an in-tree config has and ours refuses must not keep a look from an answer
	config := in.Config("[Route]", "router-id="+in.router, "[LoadBalancer]", "use-octavia=true", "manage-security-groups=true", "[BlockStorage]", "bs-version=v3")
	if err := os.WriteFile(in.config, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		name, address := fmt.Sprintf("n-%d", i), fmt.Sprintf("10.0.0.%d", 10+i)
		id := in.AddServer(openstacksim.Server{Name: name, Zone: "az-1", Metadata: map[string]string{"availability_zone": "old"}})
		in.AddPort(openstacksim.Port{Network: "nodes", DeviceID: id, Addresses: []string{address}})
		in.AddRoute(in.router, fmt.Sprintf("10.244.%d.0/24 via %s", i, address))
		in.servers = append(in.servers, id)
		in.nodes = append(in.nodes, v1.Node{
			Name: name, ProviderID: "openstack:///" + id, Addresses: []string{"InternalIP=" + address},
			Labels: map[string]string{"node.kubernetes.io/instance-type": "f-1", "topology.kubernetes.io/zone": "old"},
		})
	}
	in.balance("a0b1c2d3e4f5061728394a5b6c7d8e9f", "10.0.0.10", "10.0.0.11")
	in.balance("kube_service_lab_default_inside", "10.0.0.12")
	in.balance("a1111111111111111111111111111111", "10.0.0.99") // of another cluster
	in.balance("made-by-hand", "10.0.0.10")
	return in
}

func (in *inhabited) balance(name string, members ...string) {
	pool := openstacksim.Pool{Protocol: "TCP", Algorithm: "ROUND_ROBIN"}
	for _, address := range members {
		pool.Members = append(pool.Members, openstacksim.Member{Address: address, Port: 30080, Subnet: "subnet-nodes"})
	}
	in.AddLoadBalancer(openstacksim.LoadBalancer{
		Name: name, VIPSubnet: "subnet-nodes", Listeners: []openstacksim.Listener{{Protocol: "TCP", Port: 80}}, Pools: []openstacksim.Pool{pool},
	})
}

func (in *inhabited) lb(name string) openstacksim.LoadBalancer {
	all := in.LoadBalancers()
	return all[slices.IndexFunc(all, func(lb openstacksim.LoadBalancer) bool { return lb.Name == name })]
}

// readOnly checks that nothing was changed, and nothing asked that the simulator does not know.
func (in *inhabited) readOnly(t *testing.T) {
	t.Helper()
	for _, call := range in.Calls() {
		if call.Mutates() || call.Unknown {
			t.Errorf("the call %s ?%s", call, call.Query)
		}
	}
}

func (in *inhabited) inventory(t *testing.T, spec string) *v1.CloudInventory {
	t.Helper()
	source, err := cloudprogram.Programs{Cloud: spec, Path: in.program}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return source.Inventory(t.Context(), in.nodes)
}

func TestTheProgramSaysWhatOpenStackHoldsForACluster(t *testing.T) {
	in := inhabit(t)
	web, inside := in.lb("a0b1c2d3e4f5061728394a5b6c7d8e9f"), in.lb("kube_service_lab_default_inside")
	in.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Port: web.VIPPort})
	in.DeleteServer(in.servers[2])
	in.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Description: "Floating IP for Kubernetes external service default/gone from cluster lab"})
	in.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Description: "by hand"})
	const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	group := in.AddSecurityGroup("lb-sg-" + uid + "-default-web")
	in.AddSecurityGroup("workers")
	want := &v1.CloudInventory{
		Leftovers: []v1.CloudLeftover{
			{Kind: "floating IP", ID: in.FloatingIPs()[1].ID, Name: in.FloatingIPs()[1].Address, Service: "default/gone"},
			{Kind: "security group", ID: group, Name: "lb-sg-" + uid + "-default-web", UID: uid},
		},
		Provider: "openstack",
		Instances: []v1.CloudInstance{
			{Node: "n-0", ID: in.servers[0], State: "running", Found: true, Zone: "az-1", Type: "m1.small"},
			{Node: "n-1", ID: in.servers[1], State: "running", Found: true, Zone: "az-1", Type: "m1.small"},
			{Node: "n-2", ID: in.servers[2]},
		},
		LoadBalancers: []v1.LoadBalancer{
			{
				ID: web.ID, Name: web.Name, Kind: "octavia", Address: in.FloatingIPs()[0].Address, Scheme: "internet-facing",
				Members: []string{"10.0.0.10", "10.0.0.11"}, Listeners: []string{"80/TCP->30080"},
			},
			{
				ID: inside.ID, Name: inside.Name, Kind: "octavia", Address: inside.VIP, Scheme: "internal",
				Members: []string{"10.0.0.12"}, Listeners: []string{"80/TCP->30080"},
			},
		},
		Routes: []v1.Route{
			{Table: in.router, CIDR: "10.244.0.0/24", Target: in.servers[0], State: "active"},
			{Table: in.router, CIDR: "10.244.1.0/24", Target: in.servers[1], State: "active"},
			{Table: in.router, CIDR: "10.244.2.0/24", Target: "10.0.0.12", State: "active"},
		},
	}
	created := cmpopts.IgnoreFields(v1.LoadBalancer{}, "Created")
	if diff := cmp.Diff(want, in.inventory(t, "openstack:config="+in.config), created); diff != "" {
		t.Errorf("by the cloud config (-want +got):\n%s", diff)
	}
	in.readOnly(t)

	for name, value := range map[string]string{
		"OS_AUTH_URL": in.URL(), "OS_USERNAME": openstacksim.User, "OS_PASSWORD": openstacksim.Password, "OS_PROJECT_NAME": "demo",
		"OS_DOMAIN_NAME": "Default", "OS_REGION_NAME": "RegionOne",
	} {
		t.Setenv(name, value)
	}
	want.Routes = want.Routes[:2] // no router is named: those that lead to nodes
	if diff := cmp.Diff(want, in.inventory(t, "openstack"), created); diff != "" {
		t.Errorf("by the environment (-want +got):\n%s", diff)
	}
	want.LoadBalancers, want.Leftovers = want.LoadBalancers[:1], want.Leftovers[1:]
	if diff := cmp.Diff(want, in.inventory(t, "openstack:cluster=other"), created); diff != "" {
		t.Errorf("for another cluster (-want +got):\n%s", diff)
	}
	in.readOnly(t)
}

func TestWhatOpenStackDoesNotAnswerIsUnknown(t *testing.T) {
	in := inhabit(t)
	for _, id := range in.servers {
		in.DeleteServer(id)
	}
	defer in.Add(openstacksim.Fault{Service: "load-balancer", Path: "lbaas/loadbalancers", Status: http.StatusForbidden, Body: `{"faultstring": "Policy does not allow it."}`})()
	got := in.inventory(t, "openstack:config="+in.config)
	text := strings.Join(got.Errors, "\n")
	if len(got.Instances)+len(got.LoadBalancers) > 0 || len(got.Errors) != 2 || !strings.Contains(text, "none of the nodes' 3 instances is found: the project") ||
		!strings.Contains(text, "loadbalancers: listing load balancers: OpenStack refused") {
		t.Errorf("inventory %+v", got)
	}
	for spec, says := range map[string]string{
		"openstack": "there are no credentials; export OS_AUTH_URL", "openstack:config=/none": "no such file", "openstack:colour=red": "there are config, cluster and router",
	} {
		if _, err := (cloudprogram.Programs{Cloud: spec, Path: in.program}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v", spec, err)
		}
	}
}

func TestTheProgramSaysWhatItWouldWriteAboutNodes(t *testing.T) {
	in := inhabit(t)
	config, err := os.ReadFile(in.config)
	if err != nil {
		t.Fatal(err)
	}
	in.nodes = append(in.nodes, v1.Node{Name: "wrong", ProviderID: "openstack:///detail", Created: time.Unix(0, 0)})
	in.DeleteServer(in.servers[2])
	got, err := cloudprogram.Programs{Path: in.program, Cloud: "openstack"}.Preview(t.Context(), "openstack", config, in.nodes)
	if err != nil {
		t.Fatal(err)
	}
	seen := func(i int) v1.NodePreview {
		return v1.NodePreview{
			Node: in.nodes[i].Name, Found: true, ProviderID: in.nodes[i].ProviderID, Zone: "az-1", Region: "RegionOne", Type: "m1.small",
			Addresses: in.nodes[i].Addresses,
		}
	}
	want := []v1.NodePreview{seen(0), seen(1), {Node: "n-2"}, {Node: "wrong"}}
	if diff := cmp.Diff(want, got.Nodes, cmpopts.IgnoreFields(v1.NodePreview{}, "Error")); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	if got.Provider != "openstack" || got.Calls == 0 || !strings.Contains(got.Nodes[3].Error, "with the UUID of a server") {
		t.Errorf("preview %+v", got)
	}
	in.readOnly(t)
}
