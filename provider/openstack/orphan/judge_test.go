package orphan

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
)

// project is one with a Node's server s-1 at 10.0.0.10, and another cluster's at 10.0.0.99.
func project() *facts {
	port := func(device, address string, groups ...string) ports.Port {
		return ports.Port{
			ID: "p-" + device, DeviceID: device, DeviceOwner: "compute:nova", SecurityGroups: groups,
			FixedIPs: []ports.IP{{IPAddress: address}},
		}
	}
	return &facts{
		cluster: "lab", nodes: map[string]string{"s-1": "n-1"}, balancers: map[string]*balancer{},
		ports: []ports.Port{port("s-1", "10.0.0.10", "g-node"), port("s-9", "10.0.0.99")},
	}
}

// Members are the only proof of whose a load balancer is. One server of another cluster outweighs one of this.
func TestWhoseALoadBalancerIsByItsMembers(t *testing.T) {
	for name, test := range map[string]struct {
		members []string
		assume  bool
		says    string
	}{
		"a Node":                         {[]string{"10.0.0.10"}, false, ""},
		"a Node, and a server that left": {[]string{"10.0.0.10", "10.0.0.11"}, false, ""},
		"a server that left":             {[]string{"10.0.0.11"}, false, "add --assume-owned"},
		"none":                           {nil, false, "add --assume-owned"},
		"none, and the user knows":       {nil, true, ""},
		"another cluster's":              {[]string{"10.0.0.99"}, true, "its member 10.0.0.99 is server s-9"},
		"both":                           {[]string{"10.0.0.10", "10.0.0.99"}, true, "its member 10.0.0.99 is server s-9"},
	} {
		t.Run(name, func(t *testing.T) {
			f := project()
			f.AssumeOwned = test.assume
			b := &balancer{members: test.members, LoadBalancer: loadbalancers.LoadBalancer{ID: "lb", Name: "kube_service_lab_default_web"}}
			got := f.judgeBalancer(b)
			if test.says == "" && got.State != v1.OrphanFound || test.says != "" && (got.State != v1.OrphanRefused || !strings.Contains(got.Reason, test.says)) {
				t.Errorf("%+v, want %q", got, test.says)
			}
		})
	}
}

// A providerID that was copied, or written by a stranger, would make another cluster's load balancer an orphan of this one.
func TestAProviderIDThatTheMachineContradictsProvesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		uuid   string
		assume bool
		says   string
	}{
		"the machine is the server":      {"S-9", false, ""},
		"no machine says its UUID":       {"", false, "its member 10.0.0.99 is server s-9: the providerID of Node n-9 names it, and no kubelet there has said the UUID of its machine"},
		"none, and the user knows it":    {"", true, ""},
		"the machine is another":         {"s-7", false, "its member 10.0.0.99 is server s-9: the providerID of Node n-9 names it, and the machine there has the UUID s-7"},
		"another, and the user knows it": {"s-7", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := project()
			f.AssumeOwned = test.assume
			f.believe([]v1.Node{{Name: "n-9", ProviderID: "openstack:///s-9", SystemUUID: test.uuid}})
			b := &balancer{members: []string{"10.0.0.99"}, LoadBalancer: loadbalancers.LoadBalancer{ID: "lb", Name: "kube_service_lab_default_web"}}
			got := f.judgeBalancer(b)
			if test.says == "" && got.State != v1.OrphanFound || test.says != "" && (got.State != v1.OrphanRefused || !strings.Contains(got.Reason, test.says)) {
				t.Errorf("%+v, want %q", got, test.says)
			}
			group := groups.SecGroup{ID: "g", Name: "lb-sg-uid-1-default-web"}
			f.ports[1].SecurityGroups = []string{"g"}
			if kept := f.keepsGroup(group, "", false); (kept != "") != (test.says != "") {
				t.Errorf("its security group stays because of %q", kept)
			}
		})
	}
}

func TestListenersOfManagersHaveTheNameOfTheirLoadBalancer(t *testing.T) {
	for name, tags := range map[string][]string{
		"listener_a0b1c2d3e4f5061728394a5b6c7d8e9f_0": nil, "listener_0_a0b1c2d3e4f5061728394a5b6c7d8e9f": nil, "": nil,
		"by any name": {"kube_service_lab_default_web"},
	} {
		b := &balancer{
			members: []string{"10.0.0.10"}, listeners: []listeners.Listener{{Name: name, Tags: tags}},
			LoadBalancer: loadbalancers.LoadBalancer{ID: "lb", Name: "a0b1c2d3e4f5061728394a5b6c7d8e9f"},
		}
		if got := project().judgeBalancer(b); got.State != v1.OrphanFound {
			t.Errorf("%q %v: %+v", name, tags, got)
		}
	}
}

// The other address of a dual-stack load balancer may be the only one that a Service still shows.
func TestAServiceThatShowsTheOtherAddressUsesALoadBalancer(t *testing.T) {
	for address, state := range map[string]v1.OrphanState{"FD00::7": v1.OrphanRefused, "fd00::8": v1.OrphanFound} {
		f := project()
		f.Services = []cloudprogram.OrphanService{{Namespace: "default", Name: "other", UID: "uid-2", Addresses: []string{address}}}
		b := &balancer{
			members: []string{"10.0.0.10"}, LoadBalancer: loadbalancers.LoadBalancer{
				ID: "lb", Name: "kube_service_lab_default_web", VipAddress: "10.0.0.7",
				AdditionalVips: []loadbalancers.AdditionalVip{{SubnetID: "s-6", IPAddress: "fd00::7"}},
			},
		}
		if got := f.judgeBalancer(b); got.State != state {
			t.Errorf("a Service shows %s: %+v", address, got)
		}
	}
}

// A rule on a Node's group that names a group, as the in-tree provider makes them, shows that it is this cluster's.
func TestAGroupThatAGroupOfANodeNamesIsTheClusters(t *testing.T) {
	f := project()
	g := groups.SecGroup{ID: "g", Name: "lb-sg-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0-default-web"}
	if why := f.keepsGroup(g, "", false); !strings.Contains(why, "--assume-owned") {
		t.Errorf("without a rule: %q", why)
	}
	f.rules = []rules.SecGroupRule{{SecGroupID: "g-node", RemoteGroupID: "g"}}
	if why := f.keepsGroup(g, "", false); why != "" {
		t.Errorf("with a rule: %q", why)
	}
	f.ports[1].SecurityGroups = []string{"g"}
	if why := f.keepsGroup(g, "", true); !strings.Contains(why, "port p-s-9 has it") {
		t.Errorf("on the port of another: %q", why)
	}
}
