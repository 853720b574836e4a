package openstackccm

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/provider/openstack/orphan"
)

// orphaned is a cloud whose Services are gone, and what the cluster says of those that are there.
type orphaned struct {
	*balanced

	settings map[string]string
	cloudprogram.OrphanQuestion
}

func bereave(t *testing.T, nodes int) *orphaned {
	t.Helper()
	b := balance(t, nodes)
	config := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(config, b.Config(), 0o600); err != nil {
		t.Fatal(err)
	}
	return &orphaned{balanced: b, settings: map[string]string{"config": config, "cluster": cluster}}
}

func (o *orphaned) ask(t *testing.T, q cloudprogram.OrphanQuestion) []v1.Orphan {
	t.Helper()
	var nodes []v1.Node
	for _, n := range o.nodes {
		nodes = append(nodes, v1.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID})
	}
	q.Services, q.AssumeOwned = o.Services, o.AssumeOwned
	o.Calls()
	out, err := orphan.Answer(t.Context(), o.settings, nodes, q)
	if err != nil {
		t.Fatal(err)
	}
	calls := o.Calls()
	o.noneUnknown(t, calls)
	if q.Remove == "" && len(writes(calls)) > 0 {
		t.Errorf("a look writes: %v", writes(calls))
	}
	return out
}

// see is what one object shows, as "state: reason" and the kinds of what goes and of what stays.
func (o *orphaned) see(t *testing.T, ids ...string) (found v1.Orphan, goes, stays []string) {
	t.Helper()
	found = o.ask(t, cloudprogram.OrphanQuestion{IDs: ids})[0]
	for _, part := range found.Goes {
		goes = append(goes, part.Kind)
	}
	for _, part := range found.Stays {
		stays = append(stays, part.Kind+": "+part.Reason)
	}
	return found, goes, stays
}

// removes removes what is named as the command does, and returns what became of each.
func (o *orphaned) removes(t *testing.T, ids ...string) (states []v1.OrphanState) {
	t.Helper()
	for _, shown := range o.ask(t, cloudprogram.OrphanQuestion{IDs: ids}) {
		q := cloudprogram.OrphanQuestion{IDs: ids, Remove: shown.ID}
		for _, part := range shown.Goes {
			q.Approved = append(q.Approved, part.ID)
		}
		state := v1.OrphanPending
		for range 20 {
			answers := o.ask(t, q)
			if state = answers[slices.Index(ids, shown.ID)].State; state != v1.OrphanPending {
				break
			}
			o.Advance(time.Minute)
		}
		states = append(states, state)
	}
	return states
}

func TestWhatTheInTreeManagerLeftIsRemoved(t *testing.T) {
	o := bereave(t, 2)
	id := o.inTree(service("web"), true)
	found, goes, stays := o.see(t, id)
	wantStays := []string{"floating IP: it has no description, so that it may be yours: name its ID, too, and it goes"}
	if found.State != v1.OrphanFound || found.Service != legacyName[1:] ||
		!slices.Equal(goes, []string{"load balancer", "port", "security group"}) || !slices.Equal(stays, wantStays) {
		t.Fatalf("%+v: goes %v, stays %v", found, goes, stays)
	}
	ip := o.FloatingIPs()[0].ID
	if got := o.removes(t, id, ip); !slices.Equal(got, []v1.OrphanState{v1.OrphanRemoved, v1.OrphanRemoved}) {
		t.Errorf("states %v", got)
	}
	o.nothingLeft(t)
	for _, p := range o.Ports() {
		if slices.ContainsFunc(p.Groups, func(g string) bool { return g != "default" }) {
			t.Errorf("port %+v has the group yet", p)
		}
	}
	if again, _, _ := o.see(t, id); again.State != v1.OrphanMissing || !strings.Contains(again.Reason, "was removed before") {
		t.Errorf("a second time: %+v", again)
	}
}

func TestTheUsersFloatingIPStaysWithoutItsLoadBalancer(t *testing.T) {
	o := bereave(t, 1)
	id := o.inTree(service("web"), false)
	if got := o.removes(t, id); !slices.Equal(got, []v1.OrphanState{v1.OrphanRemoved}) {
		t.Errorf("states %v", got)
	}
	if ips := o.FloatingIPs(); len(ips) != 1 || ips[0].Port != "" || len(o.LoadBalancers()) > 0 {
		t.Errorf("floating IPs %+v, load balancers %v", ips, o.LoadBalancers())
	}
}

func TestWhatTheExternalProviderLeftIsRemoved(t *testing.T) {
	o := bereave(t, 2)
	id := o.external(t, service("web"), cluster)
	found, goes, stays := o.see(t, id)
	if found.Service != "default/web" || !slices.Equal(goes, []string{"load balancer", "port", "floating IP"}) || len(stays) > 0 {
		t.Fatalf("%+v: goes %v, stays %v", found, goes, stays)
	}
	if got := o.removes(t, id); !slices.Equal(got, []v1.OrphanState{v1.OrphanRemoved}) {
		t.Errorf("states %v", got)
	}
	o.nothingLeft(t)
}

// What is PENDING, and what another client is changing, is waited for. What has come since it was shown stays.
func TestAnOrphanThatIsBeingChanged(t *testing.T) {
	o := bereave(t, 1)
	id := o.external(t, service("web"), cluster)
	ip := o.FloatingIPs()[0].ID
	remove := func(approved ...string) v1.Orphan {
		return o.ask(t, cloudprogram.OrphanQuestion{IDs: []string{id}, Remove: id, Approved: approved})[0]
	}
	o.ChangeResource(id, "provisioning_status", "PENDING_UPDATE")
	if got := remove(id); got.State != v1.OrphanPending || got.Reason != "it is PENDING_UPDATE" {
		t.Errorf("PENDING: %+v", got)
	}
	o.ChangeResource(id, "provisioning_status", "ERROR")
	undo := o.Add(openstacksim.Fault{
		Service: "load-balancer", Method: http.MethodDelete, Status: http.StatusConflict,
		Body: `{"faultstring": "Load Balancer is immutable and cannot be updated."}`,
	})
	got := remove(id)
	undo()
	if got.State != v1.OrphanPending || !strings.Contains(got.Reason, "changed by another client") {
		t.Errorf("409: %+v", got)
	}
	if ips := o.FloatingIPs(); len(ips) != 1 || ips[0].ID != ip {
		t.Errorf("a floating IP that was not approved is gone: %v", ips)
	}
	if got := remove(ip); got.State != v1.OrphanRefused || len(o.LoadBalancers()) != 1 {
		t.Errorf("the load balancer was not approved: %+v", got)
	}
	if got := remove(id); got.State != v1.OrphanPending || len(got.Stays) != 2 || !strings.Contains(got.Stays[1].Reason, "when this was approved") {
		t.Errorf("in ERROR: %+v", got)
	}
	o.Advance(time.Minute)
	if got := remove(id); got.State != v1.OrphanRemoved || len(o.LoadBalancers()) > 0 || len(o.FloatingIPs()) != 1 {
		t.Errorf("gone: %+v, floating IPs %v", got, o.FloatingIPs())
	}
}

func TestWhatIsNoOrphanOfThisClusterIsRefused(t *testing.T) {
	web := cloudprogram.OrphanService{Namespace: "default", Name: "web", UID: uid}
	other := cloudprogram.OrphanService{Namespace: "default", Name: "other", UID: "99999999-4f50-6172-8394-a5b6c7d8e9f0"}
	inTree := func(t *testing.T, o *orphaned) string { t.Helper(); return o.inTree(service("web"), false) }
	external := func(t *testing.T, o *orphaned) string { t.Helper(); return o.external(t, service("web"), cluster) }
	changed := func(field string, value any) func(*testing.T, *orphaned) string {
		return func(t *testing.T, o *orphaned) string {
			t.Helper()
			id := o.external(t, service("web"), cluster)
			o.ChangeResource(id, field, value)
			return id
		}
	}
	for name, c := range map[string]struct {
		make func(*testing.T, *orphaned) string
		with func(*testing.T, *orphaned)
		says string
	}{
		"its Service is back, by its UID": {inTree, func(_ *testing.T, o *orphaned) { o.Services = []cloudprogram.OrphanService{web} }, "Service default/web which it was made for, is there"},
		"a new Service of its name": {external, func(_ *testing.T, o *orphaned) {
			o.Services = []cloudprogram.OrphanService{{Namespace: "default", Name: "web", UID: "1" + uid[1:]}}
		}, "Service default/web which it was made for, is there"},
		"a Service names it": {inTree, func(_ *testing.T, o *orphaned) {
			uses := other
			uses.Annotations = map[string]string{annote + "load-balancer-id": strings.ToUpper(o.LoadBalancers()[0].ID)}
			o.Services = []cloudprogram.OrphanService{uses}
		}, "Service default/other uses it"},
		"a Service shows its floating IP": {external, func(_ *testing.T, o *orphaned) {
			shows := other
			shows.Addresses = []string{o.FloatingIPs()[0].Address}
			o.Services = []cloudprogram.OrphanService{shows}
		}, "Service default/other shows its address"},
		"shared by its tags":        {changed("tags", []any{"kube_service_lab_default_web", "kube_service_lab_default_mail"}), nil, `the tag "kube_service_lab_default_mail" is that of another Service`},
		"made by hand":              {changed("name", "shop"), nil, `no manager names the load balancer of a Service "shop"`},
		"a name that was cut":       {changed("name", "kube_service_lab_default_"+strings.Repeat("w", 230)), nil, "no manager names"},
		"a listener by hand":        {func(t *testing.T, o *orphaned) string { t.Helper(); return o.withListener("mine") }, nil, `its listener "mine" was not made by a manager`},
		"another cluster's name":    {func(t *testing.T, o *orphaned) string { t.Helper(); return o.external(t, service("web"), "prod") }, nil, `it is of cluster "prod", and this one is "lab"`},
		"the cluster is not named":  {external, func(_ *testing.T, o *orphaned) { delete(o.settings, "cluster") }, "with --cloud=openstack:cluster=NAME"},
		"a member of other servers": {inTree, func(_ *testing.T, o *orphaned) { o.nodes = nil }, "which is no Node of this cluster"},
		"without proof": {inTree, func(t *testing.T, o *orphaned) {
			t.Helper()
			o.DeleteServer(strings.TrimPrefix(o.nodes[0].Spec.ProviderID, "openstack:///"))
			for _, p := range o.Ports() {
				if strings.HasPrefix(p.Owner, "compute:") {
					o.ChangePort(p.ID, func(p *openstacksim.Port) { p.DeviceID, p.Owner = "", "" })
				}
			}
		}, "add --assume-owned"},
		"a Node whose kubelet has said no UUID": {inTree, func(_ *testing.T, o *orphaned) { o.nodes[0].Status.NodeInfo.SystemUUID = "" }, "add --assume-owned"},
		"a Node of another machine":             {inTree, func(_ *testing.T, o *orphaned) { o.nodes[0].Status.NodeInfo.SystemUUID = uid }, "add --assume-owned"},
		"another cluster's server has the same address": {inTree, func(_ *testing.T, o *orphaned) {
			o.AddPort(openstacksim.Port{Network: "elsewhere", DeviceID: o.AddServer(openstacksim.Server{Name: "x"}), Addresses: []string{"10.0.0.10"}})
		}, "add --assume-owned"},
		"an in-tree one with the tag of a Service that is there": {func(t *testing.T, o *orphaned) string {
			t.Helper()
			id := o.inTree(service("web"), false)
			o.ChangeResource(id, "tags", []any{"kube_service_lab_default_other"})
			return id
		}, func(_ *testing.T, o *orphaned) { o.Services = []cloudprogram.OrphanService{other} }, "it has the tag of Service default/other, which is there"},
	} {
		t.Run(name, func(t *testing.T) {
			o := bereave(t, 1)
			id := c.make(t, o)
			if c.with != nil {
				c.with(t, o)
			}
			got, _, _ := o.see(t, id)
			if got.State != v1.OrphanRefused || !strings.Contains(got.Reason, c.says) || len(got.Goes) > 0 {
				t.Errorf("%+v, want %q", got, c.says)
			}
			answers := o.ask(t, cloudprogram.OrphanQuestion{IDs: []string{id}, Remove: id, Approved: []string{id}})
			if answers[0].State != v1.OrphanRefused || len(o.LoadBalancers()) != 1 {
				t.Errorf("it is removed all the same: %+v, %v", answers, o.LoadBalancers())
			}
			if strings.Contains(c.says, "assume-owned") {
				o.AssumeOwned = true
				if states := o.removes(t, id); !slices.Equal(states, []v1.OrphanState{v1.OrphanRemoved}) {
					t.Errorf("with --assume-owned: %v", states)
				}
			}
		})
	}
}

// withListener makes a load balancer of a manager on which a listener is by hand.
func (o *orphaned) withListener(name string) string {
	return o.AddLoadBalancer(openstacksim.LoadBalancer{
		Name: "kube_service_lab_default_web", VIPSubnet: "subnet-nodes",
		Listeners: []openstacksim.Listener{{Name: name, Protocol: "TCP", Port: 80}},
		Pools:     []openstacksim.Pool{{Protocol: "TCP", Algorithm: "ROUND_ROBIN", Members: []openstacksim.Member{{Address: "10.0.0.10", Port: 30080}}}},
	})
}

func TestFloatingIPsAndGroupsThatAreNamedAlone(t *testing.T) {
	o := bereave(t, 1)
	described := func(service, cluster string) string {
		return o.AddFloatingIP(openstacksim.FloatingIP{
			Network: "public", Description: "Floating IP for Kubernetes external service " + service + " from cluster " + cluster,
		})
	}
	leaked, foreign := described("default/gone", cluster), described("default/gone", "prod")
	live, mine := described("default/web", cluster), o.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Description: "shop"})
	used := o.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Port: o.Ports()[0].ID})
	group := func(first string) string { return o.AddSecurityGroup("lb-sg-" + first + uid[1:] + "-default-gone") }
	attached, strange, ofLive, unknown := group("1"), group("2"), group("0"), group("3")
	hand := o.AddSecurityGroup("workers")
	node := o.Ports()[slices.IndexFunc(o.Ports(), func(p openstacksim.Port) bool { return strings.HasPrefix(p.Owner, "compute:") })]
	o.ChangePort(node.ID, func(p *openstacksim.Port) { p.Groups = []string{attached} })
	o.AddPort(openstacksim.Port{Network: "nodes", DeviceID: o.AddServer(openstacksim.Server{Name: "x"}), Addresses: []string{"10.0.9.9"}, Groups: []string{strange}})
	o.Services = []cloudprogram.OrphanService{{Namespace: "default", Name: "web", UID: uid}}
	for id, says := range map[string]string{
		foreign: `it is of cluster "prod"`, live: "Service default/web, which it is of, is there", mine: "is not a manager's", used: "it is in use, at port",
		strange: "which is neither of its load balancer nor of a Node", ofLive: "Service default/web, which it was made for, is there",
		unknown: "name its ID with --assume-owned", hand: "no manager names the security group",
	} {
		if got, _, _ := o.see(t, id); got.State != v1.OrphanRefused || !strings.Contains(got.Reason, says) {
			t.Errorf("%+v, want %q", got, says)
		}
	}
	if got := o.removes(t, leaked, attached); !slices.Equal(got, []v1.OrphanState{v1.OrphanRemoved, v1.OrphanRemoved}) {
		t.Errorf("states %v", got)
	}
	o.AssumeOwned = true
	if got := o.removes(t, unknown); !slices.Equal(got, []v1.OrphanState{v1.OrphanRemoved}) {
		t.Errorf("with --assume-owned: %v", got)
	}
	if got, _, _ := o.see(t, strange); got.State != v1.OrphanRefused {
		t.Errorf("what is on another's port, with --assume-owned: %+v", got)
	}
	groups, _ := o.SecurityGroups()
	var left []string
	for _, g := range groups {
		left = append(left, g.ID)
	}
	want := slices.Sorted(slices.Values([]string{strange, ofLive, hand}))
	if diff := cmp.Diff(want, left); diff != "" || len(o.FloatingIPs()) != 4 {
		t.Errorf("floating IPs %v, groups (-want +got):\n%s", o.FloatingIPs(), diff)
	}
}

func TestQuestionsAboutOrphansThatAreWrong(t *testing.T) {
	o := bereave(t, 1)
	if got, _, _ := o.see(t, "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"); got.State != v1.OrphanMissing {
		t.Errorf("an unknown ID: %+v", got)
	}
	for says, q := range map[string]cloudprogram.OrphanQuestion{
		"it has to be a UUID": {IDs: []string{"../loadbalancers"}}, "was not named": {Remove: uid},
	} {
		if _, err := orphan.Answer(t.Context(), o.settings, nil, q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	defer o.Add(openstacksim.Fault{Service: "network", Path: "ports", Status: http.StatusForbidden, Body: `{"NeutronError": {"message": "no"}}`})()
	if _, err := orphan.Answer(t.Context(), o.settings, nil, cloudprogram.OrphanQuestion{IDs: []string{uid}}); err == nil || !strings.Contains(err.Error(), "listing ports") {
		t.Errorf("a cloud that refuses: %v", err)
	}
}
