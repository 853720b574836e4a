package hostproof

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestALabelledHostIsProvenByTheAddressOfItsAPIServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		servers []string
		nodes   map[string][]string
		want    map[string]Result
	}{
		"each has its own": {
			[]string{"10.0.0.1", "10.0.0.2"}, map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "w": {"10.0.0.9"}},
			map[string]Result{"a": Proven, "b": Proven, "w": Elsewhere},
		},
		"one host": {[]string{"10.0.0.1"}, map[string][]string{"a": {"10.0.0.1"}}, map[string]Result{"a": Proven}},
		"several addresses, one of which is announced": {
			[]string{"10.0.0.1"}, map[string][]string{"a": {"192.168.0.1", "10.0.0.1"}, "w": {"192.168.0.2", "10.0.0.2"}},
			map[string]Result{"a": Proven, "w": Elsewhere},
		},
		"both families, of which one is announced": {
			[]string{"fd00::1"}, map[string][]string{"a": {"10.0.0.1", "fd00:0:0::1"}}, map[string]Result{"a": Proven},
		},
		"a load balancer's address": {[]string{"10.0.0.100"}, map[string][]string{"a": {"10.0.0.1"}, "w": nil}, map[string]Result{"a": LabelAlone, "w": LabelAlone}},
		"each announces its own, and one Node has the virtual IP too": {
			[]string{"10.0.0.1", "10.0.0.2"}, map[string][]string{"a": {"10.0.0.1", "10.0.0.100"}, "b": {"10.0.0.2"}, "w": {"10.0.0.9"}},
			map[string]Result{"a": Proven, "b": Proven, "w": Elsewhere},
		},
		// Such hosts cannot be told from a worker that was labelled in a cluster of one control plane: both are refused.
		"a virtual IP is announced alone, and one Node has it": {
			[]string{"10.0.0.100"}, map[string][]string{"a": {"10.0.0.1", "10.0.0.100"}, "b": {"10.0.0.2"}, "w": {"10.0.0.9"}},
			map[string]Result{"a": Proven, "b": Elsewhere, "w": Elsewhere},
		},
		"a virtual IP has moved, and two Nodes have it": {
			[]string{"10.0.0.100"}, map[string][]string{"a": {"10.0.0.1", "10.0.0.100"}, "b": {"10.0.0.2", "10.0.0.100"}, "c": {"10.0.0.3"}},
			map[string]Result{"a": Shared, "b": Shared, "c": Elsewhere},
		},
		"nothing is announced": {nil, map[string][]string{"a": {"10.0.0.1"}}, map[string]Result{"a": LabelAlone}},
		"a worker says that it has the address of an API server": {
			[]string{"10.0.0.1", "10.0.0.2"}, map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "w": {"10.0.0.1", "10.0.0.9"}},
			map[string]Result{"a": Shared, "b": Proven, "w": Shared},
		},
		"a worker writes it another way": {
			[]string{"fd00::1"}, map[string][]string{"a": {"fd00::1"}, "w": {"FD00:0::0:1"}}, map[string]Result{"a": Shared, "w": Shared},
		},
		"a worker says so of every address": {
			[]string{"10.0.0.1", "10.0.0.2"}, map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "w": {"10.0.0.1", "10.0.0.2"}},
			map[string]Result{"a": Shared, "b": Shared, "w": Shared},
		},
		"a Node has one address twice": {[]string{"10.0.0.1"}, map[string][]string{"a": {"10.0.0.1", "::ffff:10.0.0.1"}}, map[string]Result{"a": Proven}},
		"there is no such Node":        {[]string{"10.0.0.1"}, map[string][]string{"a": {"10.0.0.1"}}, map[string]Result{"x": Elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(c.servers)
			snap := &v1.Snapshot{APIServers: c.servers}
			for node, ips := range c.nodes {
				e.AddNode(node, ips)
				n := v1.Node{Name: node, Addresses: []string{"Hostname=10.0.0.1", "ExternalIP=10.0.0.1"}}
				for _, ip := range ips {
					n.Addresses = append(n.Addresses, "InternalIP="+ip)
				}
				snap.Nodes = append(snap.Nodes, n)
			}
			for node, want := range c.want {
				why := e.Why(node)
				if got := e.Judge(node); got != want || (why == "") != (want == Proven) {
					t.Errorf("%s: %v, not %v: %q", node, got, want, why)
				}
				if got := OfSnapshot(snap).Judge(node); got != want {
					t.Errorf("%s of the snapshot: %v, not %v", node, got, want)
				}
			}
		})
	}
}

func TestWhatIsSaidOfAHostThatIsNotProven(t *testing.T) {
	t.Parallel()
	e := New([]string{"10.0.0.1", "10.0.0.2"})
	e.AddNode("a", []string{"10.0.0.1"})
	e.AddNode("b", []string{"10.0.0.2"})
	e.AddNode("x", []string{"10.0.0.2"})
	e.AddNode("w", []string{"10.0.0.9", "fd00::9"})
	for node, says := range map[string][]string{
		"a": {""}, "w": {"Node w", "10.0.0.9, fd00::9", "10.0.0.1, 10.0.0.2", "--advertise-address", "kubectl label node w node-role.kubernetes.io/control-plane-"},
		"b": {"Nodes b, x all have the address 10.0.0.2"}, "x": {"Nodes b, x"}, "gone": {"it has none"},
	} {
		for _, part := range says {
			if got := e.Why(node); !strings.Contains(got, part) || part == "" && got != "" {
				t.Errorf("%s: %q does not say %q", node, got, part)
			}
		}
	}
	if got := fmt.Sprint(e.Shared()); strings.Count(got, "Nodes") != 1 {
		t.Error(got)
	}
}
