package admission

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

func TestAClusterOfTheOtherGroupIsFoundInTheSeedItself(t *testing.T) {
	server := apitest.New(t)
	_, dyn := server.Clients(t)
	there := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster", "metadata": map[string]any{"name": "there"}},
	}
	if _, err := dyn.Resource(objects.Resource(kubermatic.LegacyGroupName)).Create(t.Context(), there, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	look := Groups(dyn)
	for _, test := range []struct {
		group, name string
		want        []string
	}{
		{kubermatic.GroupName, "there", []string{kubermatic.LegacyGroupName}},
		{kubermatic.LegacyGroupName, "there", nil},
		{kubermatic.GroupName, "elsewhere", nil},
	} {
		got, err := look(t.Context(), test.group, test.name)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s %s: %v %s", test.group, test.name, err, diff)
		}
	}
	server.Deny("get", "clusters")
	if _, err := look(t.Context(), kubermatic.GroupName, "there"); err == nil {
		t.Error("a look that was refused found nothing, and said so without an error")
	}
}

func TestDatacentersAreReadFromSeedsAndKeptForAWhile(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(time.Unix(1e9, 0))
	_, dyn := server.Clients(t)
	d := &Datacenters{Client: dyn, Clock: clock}
	get := func(name string, want *rules.Datacenter) {
		t.Helper()
		got, err := d.Get(context.Background(), name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	get("stack", nil)
	seed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubermatic.k8c.io/v1", "kind": "Seed", "metadata": map[string]any{"name": "s", "namespace": "kubermatic"},
		"spec": map[string]any{"datacenters": map[string]any{
			"stack": map[string]any{"spec": map[string]any{"disableCsiDriver": true, "openstack": map[string]any{"authURL": "https://stack"}}},
			"h":     map[string]any{"spec": map[string]any{"hetzner": map[string]any{"network": "n"}}},
			"odd":   "text",
		}},
	}}
	if _, err := dyn.Resource(seeds).Namespace("kubermatic").Create(t.Context(), seed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	get("stack", nil)
	clock.Step(time.Minute)
	get("stack", &rules.Datacenter{DisableCSIDriver: true, OpenStackAuthURL: "https://stack"})
	get("h", &rules.Datacenter{HetznerNetwork: "n"})
	get("odd", nil)
	asked := 0
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/seeds") {
			asked++
			http.Error(w, "away", http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	clock.Step(time.Minute)
	got, err := d.Get(t.Context(), "h")
	if err == nil || got == nil || isNeverRead(err) {
		t.Errorf("what was known last is better than nothing: %v, %v", got, err)
	}
	first := asked
	if _, again := d.Get(t.Context(), "stack"); again == nil || asked != first {
		t.Errorf("a seed that has just not answered was asked %d times more; %v", asked-first, again)
	}
	server.Intercept = nil
	clock.Step(2 * datacentersRetry)
	get("h", &rules.Datacenter{HetznerNetwork: "n"})
}

func isNeverRead(err error) bool {
	_, is := errors.AsType[*NeverReadError](err)
	return is
}

// TestSeedsThatWereNeverReadAreNotTakenForNone: a datacenter that says nothing and one that was not seen differ.
func TestSeedsThatWereNeverReadAreNotTakenForNone(t *testing.T) {
	server, clock := apitest.New(t), clocktesting.NewFakeClock(time.Unix(1e9, 0))
	_, dyn := server.Clients(t)
	d := &Datacenters{Client: dyn, Clock: clock}
	answer := http.StatusForbidden
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "away", answer)
		return true
	}
	for range 2 { // the second answer is the first one's
		if got, err := d.Get(t.Context(), "stack"); got != nil || !isNeverRead(err) || !strings.HasPrefix(err.Error(), "listing seeds: ") {
			t.Errorf("%v, %v", got, err)
		}
	}
	answer = http.StatusNotFound // an installation without Seeds
	clock.Step(2 * datacentersRetry)
	if got, err := d.Get(t.Context(), "stack"); got != nil || err != nil {
		t.Errorf("where there are no Seeds: %v, %v", got, err)
	}
	answer = http.StatusForbidden
	clock.Step(2 * datacentersAge)
	if got, err := d.Get(t.Context(), "stack"); got != nil || err == nil || isNeverRead(err) {
		t.Errorf("where there were none: %v, %v", got, err)
	}
}
