package vsphereccm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

const everything = cloud.WantExists | cloud.WantShutdown | cloud.WantMetadata

// fixture is a simulated vCenter, and our provider on it.
type fixture struct {
	*vspheresim.VCenter

	cloud    *vsphere.Cloud
	machines []vspheresim.Machine
	nodes    []*corev1.Node
	asked    map[string]int // how often each operation was asked for, where a test counts them
}

func vcenter(t *testing.T, o vspheresim.Options) *vspheresim.VCenter {
	t.Helper()
	sim, err := vspheresim.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

// config is a cloud config whose vCenters begin with these lines.
func config(vcenters, more string) []byte { return []byte("vcenter:\n" + vcenters + more) }

// trusted is the line of a cloud config that has a vCenter's certificate trusted.
func trusted(t *testing.T, sim *vspheresim.VCenter) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, sim.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "caFile: " + file
}

func open(t *testing.T, data []byte, o client.Options) *vsphere.Cloud {
	t.Helper()
	cloud, err := vsphere.Open(data, o)
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

// start is a vCenter with a provider, and a node for each of its machines, with provider IDs.
func start(t *testing.T, machines int, more string) *fixture {
	t.Helper()
	sim := vcenter(t, vspheresim.Options{Machines: machines, Number: 1})
	f := &fixture{VCenter: sim, cloud: open(t, config(sim.Config("a", trusted(t, sim)), more), client.Options{})}
	f.machines, f.nodes = nodes(t, sim)
	return f
}

func nodes(t *testing.T, sim *vspheresim.VCenter) (machines []vspheresim.Machine, all []*corev1.Node) {
	t.Helper()
	machines, err := sim.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		all = append(all, node("node-of-"+strings.ToLower(m.Name), m.UUID, m.UUID))
	}
	return machines, all
}

func node(name, id, systemUUID string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if id != "" {
		n.Spec.ProviderID = "vsphere://" + id
	}
	n.Status.NodeInfo.SystemUUID = systemUUID
	return n
}

func (f *fixture) list(t *testing.T, want cloud.Want, nodes ...*corev1.Node) []cloud.InstanceState {
	t.Helper()
	states, err := f.cloud.ListInstances(t.Context(), nodes, want)
	if err != nil {
		t.Fatal(err)
	}
	return states
}
