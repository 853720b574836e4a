package azuresim_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/simhttp"
	"github.com/transplant-dev/transplant/provider/azure"
)

func node(name, id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
}

// TestManyMachinesTakeFewRequests: one list of machines, one of scale sets, one of the set's machines, each in its pages.
func TestManyMachinesTakeFewRequests(t *testing.T) {
	sim := start(t, azuresim.Options{PageSize: 20})
	provider := open(t, sim, azure.Options{}, map[string]any{"vmType": "vmss"})
	var nodes []*corev1.Node
	for i := range 40 {
		name := fmt.Sprintf("%s%06d", azuresim.ScaleSet, i)
		nodes = append(nodes, node(name, sim.AddMachine(azuresim.Machine{Name: name, IP: fmt.Sprintf("10.0.1.%d", i), InScaleSet: true})))
	}
	nodes = append(nodes, node("alone", sim.AddMachine(azuresim.Machine{Name: "alone", IP: "10.0.2.1"})))
	sim.SetPower(nodes[1].Spec.ProviderID, "deallocated")
	states, err := provider.ListInstances(t.Context(), nodes, cloud.WantExists)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range states {
		if s.Err != nil || !s.Exists {
			t.Errorf("%s: %+v", nodes[i].Name, s)
		}
	}
	if calls := sim.Calls(); len(calls) != 4 {
		t.Errorf("it took %d requests: %v", len(calls), calls)
	}
	states, err = provider.ListInstances(t.Context(), nodes, cloud.WantExists|cloud.WantShutdown)
	if err != nil || !states[1].Shutdown || states[0].Shutdown || states[40].Err != nil {
		t.Errorf("%+v (error %v)", states[:2], err)
	}
}

// TestAMachineIsGoneOnlyIfAzureHasSaidSo: the lists may lack it.
func TestAMachineIsGoneOnlyIfAzureHasSaidSo(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	var nodes []*corev1.Node
	for i := range 5 {
		name := fmt.Sprintf("node-%d", i)
		nodes = append(nodes, node(name, sim.AddMachine(azuresim.Machine{Name: name, IP: fmt.Sprintf("10.0.1.%d", i)})))
	}
	sim.DeleteMachine(nodes[0].Spec.ProviderID)
	sim.SetProvisioning(nodes[1].Spec.ProviderID, "Failed")
	exists := func(want ...string) {
		t.Helper()
		states, err := provider.ListInstances(t.Context(), nodes, cloud.WantExists)
		if err != nil {
			states = make([]cloud.InstanceState, len(want))
		}
		for i, w := range want {
			is := fmt.Sprint(states[i].Exists)
			if err != nil || states[i].Err != nil {
				is = "unknown"
			}
			if is != w {
				t.Errorf("%s: exists %s, want %s (errors %v, %v)", nodes[i].Name, is, w, err, states[i].Err)
			}
		}
	}
	exists("false", "true", "true")
	sim.Fail(simhttp.Fault{Path: "/virtualmachines/node-0", Status: http.StatusServiceUnavailable, Code: "ServerBusy"})
	exists("unknown", "true", "true")
	sim.Heal()
	for _, code := range []string{"ResourceGroupNotFound", "SubscriptionNotFound", "NoRegisteredProviderFound"} {
		sim.Fail(simhttp.Fault{Path: "/virtualmachines/node-0", Status: http.StatusNotFound, Code: code})
		exists("unknown", "true", "true")
		sim.Heal()
	}
	sim.Fail(simhttp.Fault{Status: http.StatusNotFound, Code: "ResourceGroupNotFound"})
	exists("unknown", "unknown", "unknown")
}

// TestAnAnswerThatIsNotWhole says nothing of the machines that it lacks.
func TestAnAnswerThatIsNotWhole(t *testing.T) {
	for name, fault := range map[string]simhttp.Fault{
		"a page that is not given":       {Query: "skiptoken=2", Status: http.StatusServiceUnavailable, Code: "ServerBusy"},
		"a page that ends in its middle": {Query: "skiptoken=2", Half: true},
		"a list that ends in its middle": {Path: "/virtualMachines", Half: true},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, azuresim.Options{PageSize: 2})
			provider := open(t, sim, azure.Options{}, nil)
			var nodes []*corev1.Node
			for i := range 5 {
				name := fmt.Sprintf("node-%d", i)
				nodes = append(nodes, node(name, sim.AddMachine(azuresim.Machine{Name: name, IP: fmt.Sprintf("10.0.0.%d", i+1)})))
			}
			sim.Fail(fault)
			states, err := provider.ListInstances(t.Context(), nodes, cloud.WantExists)
			for i, state := range states {
				if err == nil && state.Err == nil && !state.Exists {
					t.Errorf("%s is gone", nodes[i].Name)
				}
			}
			if err == nil && states[4].Err == nil && len(sim.Calls()) < 4 {
				t.Errorf("it is known of node-4 that it is there, by an answer without it: %+v", states[4])
			}
			sim.Heal()
			if states, err = provider.ListInstances(t.Context(), nodes, cloud.WantExists); err != nil || states[4].Err != nil || !states[4].Exists {
				t.Errorf("when answers are whole again: %+v, error %v", states, err)
			}
		})
	}
}

// TestCredentialsThatGoAway: without a token, nothing is known of a machine.
func TestCredentialsThatGoAway(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	nodes := []*corev1.Node{node("one", sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})), node("two", sim.AddMachine(azuresim.Machine{Name: "two"}))}
	isThere := func() {
		t.Helper()
		states, err := provider.ListInstances(t.Context(), nodes, cloud.WantExists)
		if err != nil || !states[0].Exists || !states[1].Exists {
			t.Errorf("%+v, error %v", states, err)
		}
	}
	isThere()
	sim.RefuseTokens(true)
	for _, some := range [][]*corev1.Node{nodes, nodes[:1]} {
		states, err := provider.ListInstances(t.Context(), some, cloud.WantExists)
		for i := range some {
			if err == nil {
				err = states[i].Err
			}
			if cloud.Classify(err) != cloud.OutcomeAuth {
				t.Errorf("%s of %d nodes: %s: %v", some[i].Name, len(some), cloud.Classify(err), err)
			}
		}
	}
	if err := provider.Probe(t.Context()); err == nil {
		t.Error("the provider is ready")
	}
	sim.RefuseTokens(false)
	isThere()
}

// TestErrorsNameTheSetting that is wrong, and nothing is sent again.
func TestErrorsNameTheSetting(t *testing.T) {
	sim := start(t, azuresim.Options{})
	id := sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})
	ask := func(more map[string]any, id string) error {
		_, err := open(t, sim, azure.Options{}, more).InstanceExists(t.Context(), node("one", id))
		return err
	}
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v; it should have %q", err, want)
		}
	}
	another := "00000000-0000-0000-0000-000000000000"
	says(ask(map[string]any{"subscriptionId": another}, id), "check subscriptionId in the cloud config")
	says(ask(map[string]any{"subscriptionId": another}, ""), "check subscriptionId in the cloud config")
	says(ask(map[string]any{"resourceGroup": "elsewhere"}, ""), "check resourceGroup")
	sim.Calls()
	for code, want := range map[string]string{
		"AuthorizationFailed": "give the identity", "InvalidAuthenticationTokenTenant": "check tenantId", "OperationNotAllowed": "OperationNotAllowed",
	} {
		sim.Fail(simhttp.Fault{Status: http.StatusForbidden, Code: code})
		says(ask(nil, id), want)
		sim.Heal()
	}
	sim.Calls()
	sim.Fail(simhttp.Fault{Status: http.StatusTooManyRequests, Code: "TooManyRequests", RetryAfter: "17"})
	err := ask(nil, id)
	if outcome := cloud.Classify(err); outcome != cloud.OutcomeThrottled || len(sim.Calls()) != 1 {
		t.Errorf("throttled, the outcome is %s of %v", outcome, err)
	}
}

// TestTheCredentialsOfASecret are those of a directory over TLS, and no error shows them.
func TestTheCredentialsOfASecret(t *testing.T) {
	sim := start(t, azuresim.Options{})
	id := sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})
	ask := func(secret string) error {
		made, err := azure.Open(sim.Config(map[string]any{
			"useManagedIdentityExtension": false, "aadClientId": azuresim.ClientID, "aadClientSecret": secret,
		}), azure.Options{})
		if err != nil {
			return err
		}
		_, err = made.InstanceExists(t.Context(), node("one", id))
		return err
	}
	if err := ask(azuresim.Secret); err != nil {
		t.Error(err)
	}
	for _, call := range sim.Calls() {
		if call.Identity != azuresim.ClientID {
			t.Errorf("%s is of %q", call, call.Identity)
		}
	}
	err := ask("mistyped-secret")
	if err == nil || strings.Contains(err.Error(), "mistyped-secret") || !strings.Contains(err.Error(), "AADSTS7000215") {
		t.Errorf("with another secret: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, sim, azure.Options{}, nil).Probe(ctx); err == nil {
		t.Error("after its context has ended, a probe has no error")
	}
}

// inTenant are the settings of a cloud of Azure's own, with a tenant and a secret. The addresses of the public one are those of another test by now.
func inTenant(tenant string) map[string]any {
	return map[string]any{
		"cloud": "AzureChinaCloud", "resourceManagerEndpoint": nil, "tenantId": tenant, "useManagedIdentityExtension": false,
		"aadClientId": azuresim.ClientID, "aadClientSecret": azuresim.Secret,
	}
}

// TestAnotherTenant is one that the directory does not know, under the directory's own name. The error says which setting has it.
func TestAnotherTenant(t *testing.T) {
	sim := start(t, azuresim.Options{})
	id := sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})
	ask := func(tenant string) error {
		_, err := open(t, sim, azure.Options{}, inTenant(tenant)).InstanceExists(t.Context(), node("one", id))
		return err
	}
	if err := ask(azuresim.Tenant); err != nil {
		t.Error(err)
	}
	const another = "00000000-9999-8888-7777-666666666666"
	err := ask(another)
	says := `the directory knows no tenant "` + another + `" (400 Bad Request, AADSTS90002); check tenantId and cloud in the cloud config`
	if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), azuresim.Secret) {
		t.Errorf("the error is %v", err)
	}
	if outcome := cloud.Classify(err); outcome != cloud.OutcomeAuth {
		t.Errorf("the outcome is %s", outcome)
	}
}

// TestAMachineInStateFailed is there, and runs or not as its power says. Its addresses and load balancers are as before: the state is that of the last change.
func TestAMachineInStateFailed(t *testing.T) {
	for _, vmType := range []string{"standard", "vmss"} {
		for _, power := range []string{"running", "stopped", "deallocated", ""} {
			for _, hasFailedInterface := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/power %s/failed interface %v", vmType, power, hasFailedInterface), func(t *testing.T) {
					sim := start(t, azuresim.Options{})
					provider := open(t, sim, azure.Options{}, map[string]any{"vmType": vmType})
					nodes := machinesOf(sim, vmType, 2)
					id := nodes[1].Spec.ProviderID
					ask := func(want cloud.Want) cloud.InstanceState {
						states, err := provider.ListInstances(t.Context(), nodes, want)
						if err != nil {
							t.Fatal(err)
						}
						return states[1]
					}
					before := ask(cloud.WantMetadata)
					sim.SetProvisioning(id, "Failed")
					sim.SetPower(id, power)
					if hasFailedInterface {
						nic := id + "/networkInterfaces/nic"
						if vmType == "standard" {
							nic = strings.Replace(id, "Microsoft.Compute/virtualMachines", "Microsoft.Network/networkInterfaces", 1) + "-nic"
						}
						sim.SetProvisioning(nic, "Failed")
					}
					if state := ask(cloud.WantExists); state.Err != nil || !state.Exists {
						t.Errorf("it is not there: %+v", state)
					}
					isStopped := power == "stopped" || power == "deallocated"
					if state := ask(cloud.WantShutdown); (state.Err != nil) != (power == "") || state.Shutdown != isStopped {
						t.Errorf("its shutdown is %v (%v)", state.Shutdown, state.Err)
					}
					if diff := cmp.Diff(before, ask(cloud.WantMetadata)); diff != "" || before.Err != nil {
						t.Errorf("metadata (-before +after), error %v:\n%s", before.Err, diff)
					}
					lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", nil)
					if _, err := lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes); err != nil {
						t.Fatal(err)
					}
					hasLeft := vmType == "vmss" && isStopped // upstream gives no stopped machine of a scale set traffic
					if members := membersIn(sim); members != 2 && !hasLeft || members != 1 && hasLeft {
						t.Errorf("%d machines get traffic: %v", members, sim.Objects())
					}
				})
			}
		}
	}
}

// membersIn is how many machines are in backend pools.
func membersIn(sim *azuresim.Cloud) (members int) {
	for _, name := range sim.Objects() {
		isMachine := strings.HasPrefix(name, "networkinterfaces/") || strings.Contains(name, "/virtualmachines/")
		if isMachine && strings.Contains(name, " in ") {
			members++
		}
	}
	return members
}
