package openstackccm

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/provider/openstack"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

const everything = cloud.WantExists | cloud.WantShutdown | cloud.WantMetadata

func TestTwoHundredNodesCostTenRequests(t *testing.T) {
	f := start(t, openstacksim.Options{PageSize: 100})
	nodes := f.addServers(200)
	for _, n := range nodes[:50] {
		n.Spec.ProviderID = "" // not initialised: found by name
	}
	states, err := f.cloud.ListInstances(t.Context(), nodes, everything)
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range states {
		want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodes[i].Status.Addresses[0].Address}}
		if !state.Exists || state.Shutdown || state.Err != nil || !cmp.Equal(want, state.Metadata.NodeAddresses) ||
			state.Metadata.InstanceType != "m1.small" || state.Metadata.Zone != "nova" || state.Metadata.Region != "RegionOne" {
			t.Fatalf("node %s: %+v, %+v", nodes[i].Name, state, state.Metadata)
		}
	}
	if calls := f.Calls(); len(calls) > 10 {
		t.Errorf("%d requests: %v", len(calls), calls)
	}
	if _, err := f.cloud.ListInstances(t.Context(), nodes, cloud.WantExists); err != nil {
		t.Fatal(err)
	}
	if calls := f.Calls(); len(calls) != 2 {
		t.Errorf("a period without metadata takes two pages of servers: %v", calls)
	}
}

func TestAServerIsGoneOnlyWhenNovaSaysSoOfIt(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(3)
	gone := strings.TrimPrefix(nodes[1].Spec.ProviderID, "openstack:///")
	f.DeleteServer(gone)
	exist := func(want ...bool) {
		t.Helper()
		states, err := f.cloud.ListInstances(t.Context(), nodes, everything)
		if err != nil {
			t.Fatal(err)
		}
		for i, state := range states {
			if state.Exists != want[i] || state.Err != nil {
				t.Errorf("node %s: %+v", nodes[i].Name, state)
			}
		}
	}
	exist(true, false, true)

	// a list that has lost everything
	remove := f.Add(openstacksim.Fault{
		Path: "servers/detail", Status: http.StatusOK, Body: `{"servers": []}`, Header: map[string]string{"Content-Type": "application/json"},
	})
	exist(true, false, true)
	remove()

	// a page that fails fails the list
	defer f.Add(openstacksim.Fault{Path: "servers/detail", Status: http.StatusInternalServerError, Body: `{"computeFault": {"message": "no database"}}`})()
	if _, err := f.cloud.ListInstances(t.Context(), nodes, everything); err == nil || !strings.Contains(err.Error(), "no database") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheNotFoundOfAProxyDeletesNothing(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(1)
	for name, body := range map[string]string{
		"HTML": "<html><body>404 Not Found</body></html>", "nothing": "", "another JSON": `{"path": "/compute", "status": 404}`,
	} {
		t.Run(name, func(t *testing.T) {
			defer f.Add(openstacksim.Fault{Service: "compute", Path: "servers/{id}", Status: http.StatusNotFound, Body: body})()
			exists, err := f.cloud.InstanceExists(t.Context(), nodes[0])
			if err == nil || exists {
				t.Errorf("exists %v, error %v", exists, err)
			}
		})
	}
}

func TestNodesAreFoundByName(t *testing.T) {
	f := start(t, openstacksim.Options{})
	id := f.AddServer(openstacksim.Server{Name: "Node-A.example"})
	f.AddPort(openstacksim.Port{Network: "nodes", DeviceID: id, Addresses: []string{"10.0.0.1"}})
	f.AddServer(openstacksim.Server{Name: "twin"})
	f.AddServer(openstacksim.Server{Name: "twin"})

	metadata, err := f.cloud.InstanceMetadata(t.Context(), node("node-a.example", ""))
	if err != nil || metadata.ProviderID != "openstack:///"+id {
		t.Errorf("metadata %+v, error %v", metadata, err)
	}
	// a name is no regular expression
	if exists, err := f.cloud.InstanceExists(t.Context(), node("node-aXexample", "")); err != nil || exists {
		t.Errorf("exists %v, error %v", exists, err)
	}
	_, err = f.cloud.InstanceExists(t.Context(), node("twin", ""))
	if err == nil || !strings.Contains(err.Error(), `2 servers have the name of node "twin"`) {
		t.Errorf("with two servers of one name the error is %v", err)
	}
	if _, err := f.cloud.InstanceMetadata(t.Context(), node("nobody", "")); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("without a server the error is %v", err)
	}
}

// OS_CCM_REGIONAL has new provider IDs carry the region, and a Node with one of another region is no Node of this manager.
func TestRegionalProviderIDs(t *testing.T) {
	plain := start(t, openstacksim.Options{})
	f := startOn(t, plain.Cloud, plain.Config(), func(o *openstack.Options) { o.Regional = true })
	nodes := f.addServers(2)
	id := strings.TrimPrefix(nodes[0].Spec.ProviderID, "openstack:///")
	fresh := node(nodes[0].Name, "")
	metadata, err := f.cloud.InstanceMetadata(t.Context(), fresh)
	if err != nil || metadata.ProviderID != "openstack://RegionOne/"+id {
		t.Fatalf("metadata %+v, error %v", metadata, err)
	}
	fresh.Spec.ProviderID = metadata.ProviderID
	elsewhere := node("elsewhere", "")
	elsewhere.Spec.ProviderID = "openstack://RegionTwo/" + id
	states, err := f.cloud.ListInstances(t.Context(), []*corev1.Node{fresh, nodes[1], elsewhere}, everything)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{metadata.ProviderID, "openstack://RegionOne/" + strings.TrimPrefix(nodes[1].Spec.ProviderID, "openstack:///")} {
		if s := states[i]; !s.Exists || s.Err != nil || s.Metadata.ProviderID != want {
			t.Errorf("state %+v, metadata %+v, want %s", s, s.Metadata, want)
		}
	}
	if s := states[2]; s.Exists || s.Err == nil || !strings.Contains(s.Err.Error(), "is for region RegionTwo") {
		t.Errorf("the Node of another region is %+v", s)
	}
	f.DeleteServer(id)
	if exists, err := f.cloud.InstanceExists(t.Context(), fresh); err != nil || exists {
		t.Errorf("its server is deleted, and exists: %v, error %v", exists, err)
	}
}

func TestAServerWithoutAddressesIsNotInitialised(t *testing.T) {
	f := start(t, openstacksim.Options{})
	id := f.AddServer(openstacksim.Server{Name: "bare", Status: "BUILD", VMState: "building"})
	_, err := f.cloud.InstanceMetadata(t.Context(), node("bare", id))
	if err == nil || !strings.Contains(err.Error(), "has no address") || !strings.Contains(err.Error(), id) {
		t.Errorf("the error is %v", err)
	}
}

func TestATokenMayExpireAtAnyTime(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(2)
	for range 3 {
		if _, err := f.cloud.ListInstances(t.Context(), nodes, everything); err != nil {
			t.Fatal(err)
		}
		f.RevokeTokens()
	}
	f.SetPassword(openstacksim.User, "another")
	f.Calls()
	for range 5 {
		_, err := f.cloud.ListInstances(t.Context(), nodes, everything)
		if err == nil || !strings.Contains(err.Error(), "OpenStack refuses a new one") || cloud.Classify(err) != cloud.OutcomeAuth {
			t.Fatalf("the error is %v (%s)", err, cloud.Classify(err))
		}
	}
	logins := 0
	for _, call := range f.Calls() {
		if call.Service == "identity" && call.Method == http.MethodPost {
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("%d logins with a password that is not taken: they lock the account", logins)
	}
}

func TestTheManagerStartsWithoutKeystone(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(1)
	remove := f.Add(openstacksim.Fault{Service: "identity", Status: http.StatusServiceUnavailable, Body: "<html>down</html>"})
	_, err := f.cloud.InstanceExists(t.Context(), nodes[0])
	if err == nil || client.Refused(err) || !strings.Contains(err.Error(), "logging in to OpenStack") {
		t.Errorf("the error is %v", err)
	}
	remove()
	if exists, err := f.cloud.InstanceExists(t.Context(), nodes[0]); err != nil || !exists {
		t.Errorf("exists %v, error %v", exists, err)
	}
}

func TestALoginThatIsRefusedSaysSo(t *testing.T) {
	f := start(t, openstacksim.Options{})
	f.SetPassword(openstacksim.User, "another")
	err := f.cloud.Probe(t.Context())
	if !client.Refused(err) || strings.Contains(err.Error(), openstacksim.Password) {
		t.Errorf("the error is %v", err)
	}
}

func TestAnotherRegionHasNoServices(t *testing.T) {
	f := start(t, openstacksim.Options{Region: "RegionOne"}, "region=RegionTwo")
	nodes := f.addServers(1)
	_, err := f.cloud.InstanceExists(t.Context(), nodes[0])
	if err == nil || !strings.Contains(err.Error(), "catalog has no compute service for region RegionTwo") {
		t.Errorf("the error is %v", err)
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(1)
	for _, fault := range []openstacksim.Fault{
		{Path: "servers/{id}", Times: 2, Status: http.StatusServiceUnavailable, Body: "busy"},
		{Path: "servers/{id}", Times: 2}, // the connection is closed
		{Path: "servers/{id}", Times: 2, Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "0"}},
	} {
		remove := f.Add(fault)
		if exists, err := f.cloud.InstanceExists(t.Context(), nodes[0]); err != nil || !exists {
			t.Errorf("%+v: exists %v, error %v", fault, exists, err)
		}
		remove()
	}
	defer f.Add(openstacksim.Fault{Path: "servers/{id}", Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "3600"}})()
	if _, err := f.cloud.InstanceExists(t.Context(), nodes[0]); cloud.Classify(err) != cloud.OutcomeThrottled {
		t.Errorf("the error is %v (%s)", err, cloud.Classify(err))
	}
}

// A kubelet may write any providerID on its own Node, once. What is no ID of a server is no path of Nova's API either.
func TestAProviderIDThatIsNoneConcernsItsNodeAlone(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(3)
	server := strings.TrimPrefix(nodes[0].Spec.ProviderID, "openstack:///")
	gone := strings.TrimPrefix(nodes[2].Spec.ProviderID, "openstack:///")
	f.DeleteServer(gone)
	for _, id := range []string{
		"openstack:///detail", "detail", "openstack:///..", "openstack:///.", "openstack:///?limit=1", "openstack:///" + server + "?", "openstack:///" + server + "/",
		"openstack:///" + server + "/../detail", "openstack:////" + server, "openstack://RegionOne/../" + server, "openstack:///%2e%2e", "openstack:///" + server + "%2f", "openstack:///",
		"openstack:///" + server + "#", "openstack:///" + strings.ReplaceAll(server, "-", ""), "openstack:///" + server + "0", "openstack:///" + server + "\n", "aws:///z/i-0",
	} {
		wrong := node("wrong", "")
		wrong.Spec.ProviderID = id
		f.Calls()
		states, err := f.cloud.ListInstances(t.Context(), []*corev1.Node{nodes[0], wrong, nodes[1], nodes[2]}, everything)
		if err != nil {
			t.Errorf("%q: the whole list fails: %v", id, err)
			continue
		}
		if states[0].Err != nil || !states[0].Exists || states[2].Err != nil || !states[2].Exists || states[3].Err != nil || states[3].Exists {
			t.Errorf("%q: the others are %+v", id, states)
		}
		if states[1].Err == nil || states[1].Exists || errors.Is(states[1].Err, cloudprovider.InstanceNotFound) || !strings.Contains(states[1].Err.Error(), `node "wrong"`) {
			t.Errorf("%q: its node is %+v", id, states[1])
		}
		if exists, err := f.cloud.InstanceExists(t.Context(), wrong); err == nil || exists {
			t.Errorf("%q: alone: exists %v, error %v", id, exists, err)
		}
		for _, call := range f.Calls() {
			if call.Service == "compute" && call.Path != "servers/detail" && call.Path != "servers/{id}" {
				t.Errorf("%q: Nova is asked for %s", id, call)
			}
		}
	}
}

// Nova refuses one server, or answers with another one: that says nothing about the other nodes.
func TestARefusalOfOneServerConcernsItsNodeAlone(t *testing.T) {
	f := start(t, openstacksim.Options{})
	nodes := f.addServers(3)
	f.DeleteServer(strings.TrimPrefix(nodes[1].Spec.ProviderID, "openstack:///"))
	for name, fault := range map[string]openstacksim.Fault{
		"refused":        {Status: http.StatusForbidden, Body: `{"forbidden": {"code": 403, "message": "Policy does not allow it."}}`},
		"another server": {Status: http.StatusOK, Body: `{"server": {"id": "another"}}`, Header: map[string]string{"Content-Type": "application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			fault.Service, fault.Path = "compute", "servers/{id}"
			defer f.Add(fault)()
			states, err := f.cloud.ListInstances(t.Context(), nodes, everything)
			if err != nil {
				t.Fatal(err)
			}
			if states[0].Err != nil || !states[0].Exists || states[2].Err != nil || !states[2].Exists {
				t.Errorf("the others are %+v", states)
			}
			if states[1].Err == nil || states[1].Exists {
				t.Errorf("its node is %+v", states[1])
			}
		})
	}
}
