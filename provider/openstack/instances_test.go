package openstack

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

func TestTheStateOfAServer(t *testing.T) {
	up, off := cloud.InstanceState{Exists: true}, cloud.InstanceState{Exists: true, Shutdown: true}
	for _, test := range []struct {
		status, vmState string
		want            cloud.InstanceState
	}{
		{"ACTIVE", "active", up},
		{"BUILD", "building", up},
		{"ERROR", "error", up},
		{"PAUSED", "paused", up},
		{"SHUTOFF", "stopped", off},
		{"SHUTOFF", "", off},
		{"RESIZE", "stopped", off}, // while it is stopped
		{"RESIZE", "active", up},
		{"MIGRATING", "active", up},
		{"SHELVED_OFFLOADED", "shelved_offloaded", off},
		{"SOFT_DELETED", "soft-delete", off}, // it may be restored
		{"DELETED", "deleted", cloud.InstanceState{Terminated: true}},
		{"UNKNOWN", "", up},
	} {
		if got := stateOf(&servers.Server{Status: test.status, VmState: test.vmState}, nil); !cmp.Equal(test.want, got) {
			t.Errorf("%s, %s: %+v, want %+v", test.status, test.vmState, got, test.want)
		}
	}
	if got := stateOf(nil, nil); got.Exists || got.Err != nil {
		t.Errorf("no server: %+v", got)
	}
	if got := stateOf(nil, errors.New("no answer")); got.Err == nil {
		t.Errorf("an error: %+v", got)
	}
}

func TestBothFormsOfProviderIDs(t *testing.T) {
	const server = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	here := &instances{region: "RegionOne"}
	for id, want := range map[string]asked{
		"openstack:///" + server:          {id: server},
		"openstack://RegionOne/" + server: {id: server},
		server:                            {id: server},
		strings.ToUpper(server):           {id: server},
		"":                                {name: "n"},
	} {
		if got := here.queryFor(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}, ObjectMeta: named("n")}); got != want {
			t.Errorf("%q: %+v, want %+v", id, got, want)
		}
	}
	for id, says := range map[string]string{
		"openstack://RegionTwo/" + server: "for region RegionTwo",
		"aws:///eu-west-1a/i-1":           "not of the form",
		"openstack:///abc/" + server:      "not of the form",
		"openstack:///":                   "not of the form",
	} {
		if got := here.queryFor(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got.err == nil || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%q: %+v", id, got)
		}
	}
}

// A Node keeps the providerID that it has. A new one carries the region where OS_CCM_REGIONAL asks for it, and is read again.
func TestNewProviderIDsCarryTheRegionWhereThatIsAskedFor(t *testing.T) {
	const id = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	server := &servers.Server{ID: id, Name: "n", AccessIPv4: "203.0.113.9", Flavor: map[string]any{"original_name": "m1.small"}}
	for _, test := range []struct {
		of   instances
		want string
	}{
		{instances{region: "RegionOne"}, "openstack:///" + id},
		{instances{region: "RegionOne", regional: true}, "openstack://RegionOne/" + id},
		{instances{regional: true}, "openstack:///" + id},
	} {
		metadata, err := test.of.metadata(server, nil)
		if err != nil || metadata.ProviderID != test.want {
			t.Errorf("region %q, regional %v: %+v, error %v, want %s", test.of.region, test.of.regional, metadata, err, test.want)
			continue
		}
		node := &corev1.Node{ObjectMeta: named("n"), Spec: corev1.NodeSpec{ProviderID: metadata.ProviderID}}
		if got := test.of.queryFor(node); got != (asked{id: id}) {
			t.Errorf("%s is read as %+v", metadata.ProviderID, got)
		}
	}
}

func TestLabels(t *testing.T) {
	if got := labelValue(" zone/1 (old)"); got != "zone-1--old" {
		t.Errorf("zone %q", got)
	}
	for name, want := range map[string]string{"m1.small": "m1.small", "big one": "f-1"} {
		got, err := flavorOf(&servers.Server{Flavor: map[string]any{"original_name": name, "id": "f-1"}})
		if got != want || err != nil {
			t.Errorf("flavor %q: %q, error %v", name, got, err)
		}
	}
	if got, err := flavorOf(&servers.Server{ID: "s", Flavor: map[string]any{"original_name": "big one"}}); err == nil {
		t.Errorf("a flavor that is no label: %q", got)
	}
}

func in(network, kind, address string) map[string]any {
	return map[string]any{network: []any{map[string]any{"OS-EXT-IPS:type": kind, "addr": address}}}
}

func portWith(id, status string, addresses ...string) port {
	p := port{Port: ports.Port{ID: id, Status: status, DeviceID: "s"}}
	for _, address := range addresses {
		p.FixedIPs = append(p.FixedIPs, ports.IP{IPAddress: address})
	}
	return p
}

func TestAddresses(t *testing.T) {
	internal := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a} }
	external := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a} }
	for name, test := range map[string]struct {
		conf   cloudconf.Networking
		server servers.Server
		ports  []port
		want   []corev1.NodeAddress
	}{
		"ports in order": {
			server: servers.Server{Addresses: in("b", "fixed", "10.0.0.2")},
			ports:  []port{portWith("1", "ACTIVE", "10.0.0.1"), portWith("2", "ACTIVE", "10.0.0.2", "fd00::2"), portWith("3", "DOWN", "10.0.0.3")},
			want:   []corev1.NodeAddress{internal("10.0.0.1"), internal("10.0.0.2"), internal("fd00::2")},
		},
		"floating": {
			server: servers.Server{Addresses: in("a", "floating", "203.0.113.1"), AccessIPv4: "203.0.113.9"},
			ports:  []port{portWith("1", "ACTIVE", "10.0.0.1")},
			want:   []corev1.NodeAddress{internal("10.0.0.1"), external("203.0.113.9"), external("203.0.113.1")},
		},
		"a public network": {
			conf:   cloudconf.Networking{PublicNetworkName: []string{"public"}},
			server: servers.Server{Addresses: in("public", "fixed", "10.0.0.1")},
			ports:  []port{portWith("1", "ACTIVE", "10.0.0.1"), portWith("2", "ACTIVE", "10.0.0.2")},
			want:   []corev1.NodeAddress{internal("10.0.0.2"), external("10.0.0.1")},
		},
		"internal networks": {
			conf:   cloudconf.Networking{InternalNetworkName: []string{"nodes"}},
			server: servers.Server{Addresses: map[string]any{"nodes": in("nodes", "fixed", "10.0.0.1")["nodes"], "storage": in("storage", "fixed", "10.9.0.1")["storage"]}},
			ports:  []port{portWith("1", "ACTIVE", "10.9.0.1"), portWith("2", "ACTIVE", "10.0.0.1")},
			want:   []corev1.NodeAddress{internal("10.0.0.1")},
		},
		"no IPv6": {
			conf:  cloudconf.Networking{IPv6SupportDisabled: true},
			ports: []port{portWith("1", "ACTIVE", "fd00::1", "10.0.0.1")},
			want:  []corev1.NodeAddress{internal("10.0.0.1")},
		},
		"sorted": {
			conf:   cloudconf.Networking{AddressSortOrder: "10.2.0.0/16, 10.1.0.0/16"},
			server: servers.Server{Metadata: map[string]string{"hostname": "n.example"}},
			ports:  []port{portWith("1", "ACTIVE", "10.1.0.1", "10.9.0.1", "10.2.0.9", "10.2.0.3")},
			want: []corev1.NodeAddress{
				internal("10.2.0.3"), internal("10.2.0.9"), internal("10.1.0.1"), internal("10.9.0.1"), {Type: corev1.NodeHostName, Address: "n.example"},
			},
		},
		"no address": {ports: []port{portWith("1", "BUILD", "10.0.0.1")}},
	} {
		t.Run(name, func(t *testing.T) {
			order, err := test.conf.SortOrder()
			if err != nil {
				t.Fatal(err)
			}
			test.server.ID = "s"
			got, err := addressing{conf: test.conf, order: order}.addressesOf(&test.server, map[string][]port{"s": test.ports})
			if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.want != nil) {
				t.Errorf("error %v, addresses (-want +got):\n%s", err, diff)
			}
		})
	}
	if (addressing{}).wants("no address") {
		t.Error("what is no address is wanted")
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
