package gcesim_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/lab/simhttp"
	"github.com/transplant-dev/transplant/provider/gce"
)

// email is an account of another project than the cluster's.
const email = "manager@another-project.iam.gserviceaccount.com"

// keyed makes a service account of another project, and has this process find its key as Google's default credentials. The provider takes them.
func keyed(t *testing.T, change func(key map[string]any)) (*gcesim.Cloud, *gce.Cloud, []*corev1.Node) {
	t.Helper()
	sim, provider, nodes := cluster(t, 6, gcesim.Options{}, "token-url = nil")
	text, err := sim.AddAccount(email, "another-project")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		key := map[string]any{}
		if err := json.Unmarshal(text, &key); err != nil {
			t.Fatal(err)
		}
		change(key)
		if text, err = json.Marshal(key); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", ccmtest.WriteFile(t, t.TempDir(), "key.json", text))
	return sim, provider, nodes
}

// refusals are what the controllers are told while the credentials are not good for the project. None may be that a node is gone.
func refusals(t *testing.T, provider *gce.Cloud, nodes []*corev1.Node) map[string]error {
	t.Helper()
	all := map[string]error{"readiness": provider.Probe(t.Context())}
	_, all["many nodes"] = provider.ListInstances(t.Context(), nodes, cloud.WantExists)
	states, err := provider.ListInstances(t.Context(), nodes[:1], cloud.WantExists)
	if err != nil || len(states) != 1 {
		t.Fatalf("one node: %v, error %v", states, err)
	}
	all["one node"] = states[0].Err
	routes, _ := provider.Routes()
	_, all["routes"] = routes.ListRoutes(t.Context(), "lab")
	lb, web := ccmtest.LoadBalancers(t, provider), ccmtest.Service("web", nil)
	_, all["a load balancer"] = lb.EnsureLoadBalancer(t.Context(), "lab", web, nodes[:1])
	_, _, all["whether there is a load balancer"] = lb.GetLoadBalancer(t.Context(), "lab", web)
	all["the deletion of a load balancer"] = lb.EnsureLoadBalancerDeleted(t.Context(), "lab", web)
	return all
}

// TestTheKeyOfAnotherProject: each error names the project, the account and what to do.
func TestTheKeyOfAnotherProject(t *testing.T) {
	sim, provider, nodes := keyed(t, nil)
	sim.Calls()
	for what, err := range refusals(t, provider, nodes) {
		if err == nil || cloud.Classify(err) != cloud.OutcomeAuth {
			t.Errorf("%s: %s: %v", what, cloud.Classify(err), err)
			continue
		}
		for _, part := range []string{gcesim.Project, email, "of project another-project", "give it a role with this permission"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error %v does not say %q", what, err, part)
			}
		}
	}
	for _, call := range sim.Calls() {
		if call.Identity != email || call.Status != http.StatusForbidden {
			t.Errorf("%s is of %q", call, call.Identity)
		}
	}
	sim.Grant(email)
	for i, state := range list(t, provider, nodes...) {
		if state.Err != nil || !state.Exists {
			t.Errorf("with a role, node %d: %+v", i, state)
		}
	}
	sim.Fail(simhttp.Fault{Status: http.StatusForbidden, Code: "rateLimitExceeded"})
	if err := provider.Probe(t.Context()); cloud.Classify(err) != cloud.OutcomeThrottled || strings.Contains(err.Error(), "give it a role") {
		t.Errorf("throttled: %v", err)
	}
}

// TestAKeyThatGivesNoToken: the token service refuses it, and no error has a part of the key.
func TestAKeyThatGivesNoToken(t *testing.T) {
	private := ""
	for name, change := range map[string]func(key map[string]any){
		"of an account that is deleted": func(key map[string]any) { key["client_email"] = "gone@another-project.iam.gserviceaccount.com" },
		"of another key's number":       func(key map[string]any) { key["private_key_id"] = "deleted" },
	} {
		t.Run(name, func(t *testing.T) {
			_, provider, nodes := keyed(t, func(key map[string]any) {
				change(key)
				private, _ = key["private_key"].(string)
			})
			for what, err := range refusals(t, provider, nodes) {
				if err == nil || cloud.Classify(err) != cloud.OutcomeAuth {
					t.Errorf("%s: %s: %v", what, cloud.Classify(err), err)
					continue
				}
				for _, part := range []string{"400 Bad Request, invalid_grant", "@another-project.iam.gserviceaccount.com", "check that the account and the key still exist"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: the error %v does not say %q", what, err, part)
					}
				}
				for line := range bytes.Lines([]byte(private)) {
					if len(line) > 20 && !bytes.HasPrefix(line, []byte("---")) && strings.Contains(err.Error(), strings.TrimSpace(string(line))) {
						t.Errorf("%s: the error has a part of the key", what)
					}
				}
			}
		})
	}
}
