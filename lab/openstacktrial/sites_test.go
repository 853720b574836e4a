package openstacktrial

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/transplant-dev/transplant/lab/openstackreal"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/lab/openstackview"
)

var (
	real    = flag.Bool("openstack.real", false, "take the program through a real OpenStack, which needs root (make e2e-openstack)")
	every   = flag.Bool("openstack.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")
	running = flag.String("openstack.dir", "", "take the OpenStack that runs in this directory, and leave it running")
)

// site is an OpenStack, and what its users and failures do to it. What the program has made is read from its API.
type site interface {
	// config is the cloud config of the program.
	config() []byte
	// looker has the API of someone who sees everything.
	looker(t *testing.T) *gophercloud.ProviderClient
	router() string
	flavor() string
	addServers(t *testing.T, names ...string) []server
	stopServer(t *testing.T, id string)
	deleteServer(t *testing.T, id string)
	// octaviaAway ends Octavia's API in the middle of whatever it does, and its worker, too; back starts them again.
	octaviaAway(t *testing.T, worker bool) (back func())
	// slowDown has Octavia take its time for a change, as far as it would be too fast; back ends that.
	slowDown() (back func())
	// failBalancer sets a load balancer that is PENDING to ERROR, as an administrator does.
	failBalancer(t *testing.T, id string)
	// revokeTokens has the program's tokens refused; it can log in again.
	revokeTokens(t *testing.T)
}

type server struct{ name, id, address string }

// login is a client of a user.
func login(t *testing.T, url, user, project, password string) *gophercloud.ProviderClient {
	t.Helper()
	provider, closeIdle, err := openstackview.Login(t.Context(), url, user, project, password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeIdle)
	return provider
}

// look is what someone sees who sees everything.
func look(t *testing.T, s site) *openstackview.View {
	t.Helper()
	see, err := openstackview.New(s.looker(t), openstackreal.Region, s.router())
	if err != nil {
		t.Fatal(err)
	}
	return see
}

// simulated is the simulator.
type simulated struct {
	*openstacksim.Cloud

	routerID string
	servers  int
}

// briefly is how long a change takes in the simulator.
const briefly = 300 * time.Millisecond

func simulator(t *testing.T) *simulated {
	t.Helper()
	sim := openstacksim.Start(openstacksim.Options{})
	t.Cleanup(sim.Close)
	sim.SetPending(briefly)
	sim.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000001", Name: "public-1", Network: "public", External: true})
	return &simulated{Cloud: sim, routerID: sim.AddRouter("nodes", "10.0.0.1")}
}

func (s *simulated) config() []byte {
	return s.Config("[LoadBalancer]", "create-monitor=true", "monitor-delay=5s", "[Route]", "router-id="+s.routerID)
}

func (s *simulated) looker(t *testing.T) *gophercloud.ProviderClient {
	t.Helper()
	return login(t, s.URL(), openstacksim.User, "demo", openstacksim.Password)
}

func (s *simulated) router() string { return s.routerID }

func (s *simulated) flavor() string { return "m1.small" }

func (s *simulated) addServers(t *testing.T, names ...string) (made []server) {
	t.Helper()
	for _, name := range names {
		s.servers++
		one := server{name, s.AddServer(openstacksim.Server{Name: name}), fmt.Sprintf("10.0.0.%d", 10+s.servers)}
		s.AddPort(openstacksim.Port{Network: "nodes", DeviceID: one.id, Addresses: []string{one.address}})
		made = append(made, one)
	}
	return made
}

func (s *simulated) stopServer(_ *testing.T, id string) {
	s.ChangeServer(id, func(s *openstacksim.Server) { s.Status, s.VMState = "SHUTOFF", "stopped" })
}

func (s *simulated) deleteServer(_ *testing.T, id string) { s.DeleteServer(id) }

func (s *simulated) octaviaAway(_ *testing.T, worker bool) func() {
	resume := func() {}
	if worker {
		resume = s.StopWorker()
	}
	back := s.Add(openstacksim.Fault{Service: "load-balancer"}) // connections are closed
	return func() {
		back()
		resume()
	}
}

func (s *simulated) slowDown() func() {
	s.SetPending(time.Minute)
	return func() { s.SetPending(briefly) }
}

func (s *simulated) failBalancer(_ *testing.T, id string) { s.SetStatus(id, openstacksim.Errored) }

// noneUnknown checks that the simulator has answered each of some calls.
func (s *simulated) noneUnknown(t *testing.T, calls []openstacksim.Call) {
	t.Helper()
	for _, call := range calls {
		if call.Unknown {
			t.Errorf("unknown to the simulator: %s ?%s", call, call.Query)
		}
	}
}

func (s *simulated) revokeTokens(*testing.T) { s.RevokeTokens() }

// stack is the real OpenStack.
type stack struct {
	*openstackreal.Stack

	admin   *gophercloud.ProviderClient
	compute *gophercloud.ServiceClient
}

// narration is the test's log.
type narration struct{ t *testing.T }

func (n narration) Write(p []byte) (int, error) {
	n.t.Helper()
	n.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

func realStack(t *testing.T) *stack {
	t.Helper()
	if !*real {
		t.Skip("runs a real OpenStack (make e2e-openstack)")
	}
	var (
		s   *openstackreal.Stack
		err error
	)
	if *running != "" {
		s, err = openstackreal.Take(*running)
	} else {
		s, err = openstackreal.Start(t.Context(), openstackreal.Options{Progress: narration{t}})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	user := login(t, openstackreal.AuthURL, openstackreal.User, openstackreal.Project, openstackreal.Password)
	compute, err := openstack.NewComputeV2(user, gophercloud.EndpointOpts{Region: openstackreal.Region})
	if err != nil {
		t.Fatal(err)
	}
	return &stack{Stack: s, compute: compute, admin: login(t, openstackreal.AuthURL, openstackreal.Administrator, "admin", openstackreal.Password)}
}

func (s *stack) config() []byte {
	return fmt.Appendf(nil, "[Global]\nauth-url=%s\nusername=%s\npassword=%s\ntenant-name=%s\ndomain-name=Default\nregion=%s\n"+
		"[LoadBalancer]\ncreate-monitor=true\nmonitor-delay=5s\n[Route]\nrouter-id=%s\n",
		openstackreal.AuthURL, openstackreal.User, openstackreal.Password, openstackreal.Project, openstackreal.Region, s.Router())
}

func (s *stack) looker(*testing.T) *gophercloud.ProviderClient { return s.admin }

func (s *stack) router() string { return s.Router() }

func (s *stack) flavor() string { return openstackreal.FlavorName }

func (s *stack) addServers(t *testing.T, names ...string) (made []server) {
	t.Helper()
	for _, name := range names {
		one, err := servers.Create(t.Context(), s.compute, servers.CreateOpts{
			Name: name, ImageRef: s.Image(), FlavorRef: s.Flavor(), Networks: []servers.Network{{UUID: s.Network()}},
		}, nil).Extract()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = servers.Delete(context.WithoutCancel(t.Context()), s.compute, one.ID).ExtractErr() }) // it may be gone
		made = append(made, server{name: name, id: one.ID})
	}
	for i := range made {
		until(t, made[i].name+" to be ACTIVE", func(ctx context.Context) string {
			one, err := servers.Get(ctx, s.compute, made[i].id).Extract()
			if err != nil || one.Status != "ACTIVE" {
				return fmt.Sprintf("it is %+v, error %v", one, err)
			}
			for _, list := range one.Addresses {
				made[i].address = list.([]any)[0].(map[string]any)["addr"].(string) //nolint:forcetypeassert // a test fails by it
			}
			return ""
		})
	}
	return made
}

func (s *stack) stopServer(t *testing.T, id string) {
	t.Helper()
	if err := servers.Stop(t.Context(), s.compute, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) deleteServer(t *testing.T, id string) {
	t.Helper()
	if err := servers.Delete(t.Context(), s.compute, id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) octaviaAway(t *testing.T, worker bool) (back func()) {
	t.Helper()
	names := []string{openstackreal.OctaviaAPI}
	if worker {
		names = append(names, openstackreal.OctaviaWorker)
	}
	for _, name := range names {
		if err := s.Kill(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, name := range names {
			if err := s.Launch(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s *stack) slowDown() func() { return func() {} }

func (s *stack) failBalancer(t *testing.T, id string) {
	t.Helper()
	if err := s.FailBalancer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// revokeTokens sets the user's password again, which ends all tokens of the user.
func (s *stack) revokeTokens(t *testing.T) {
	t.Helper()
	identity, err := openstack.NewIdentityV3(s.admin, gophercloud.EndpointOpts{Region: openstackreal.Region})
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Users []struct {
			ID string `json:"id"`
		} `json:"users"`
	}
	if _, err := identity.Get(t.Context(), identity.ServiceURL("users")+"?name="+openstackreal.User, &found, nil); err != nil || len(found.Users) != 1 {
		t.Fatalf("users %+v, error %v", found, err)
	}
	body := map[string]any{"user": map[string]any{"password": openstackreal.Password}}
	_, err = identity.Patch(t.Context(), identity.ServiceURL("users", found.Users[0].ID), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		t.Fatal(err)
	}
}
