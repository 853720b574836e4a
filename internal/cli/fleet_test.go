package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
)

// seedWorld is a seed with the clusters of testdata/fleet.yaml.
type seedWorld struct {
	t          *testing.T
	api        *apitest.Server
	kubeconfig string
}

// seedFile holds recorded clusters, one of each sort.
const seedFile = "testdata/fleet.yaml"

// The API server of these tests lists, then watches.
func init() {
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		panic(err)
	}
}

func newSeed(t *testing.T) *seedWorld {
	t.Helper()
	w := &seedWorld{t: t, api: apitest.New(t)}
	w.api.Serve(kubermaticv1.GroupName+"/v1", kubermaticv1.LegacyGroupName+"/v1")
	w.kubeconfig = w.api.Kubeconfig(t)
	return w
}

// filled is a seed with the recorded clusters.
func filled(t *testing.T) *seedWorld {
	t.Helper()
	w := newSeed(t)
	data, err := os.ReadFile(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		w.put(&unstructured.Unstructured{Object: o})
	}
	return w
}

func (w *seedWorld) put(o *unstructured.Unstructured) {
	w.t.Helper()
	_, dyn := w.api.Clients(w.t)
	if _, err := dyn.Resource(objects.Resource(o.GroupVersionKind().Group)).Create(w.t.Context(), o, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// plain puts clusters that are not enabled, the first the oldest.
func (w *seedWorld) plain(names ...string) {
	w.t.Helper()
	for i, name := range names {
		w.put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubermatic.k8c.io/v1", "kind": "Cluster",
			"metadata": map[string]any{"name": name, "creationTimestamp": time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC).Format(time.RFC3339)},
			"spec":     map[string]any{"version": "1.26.0", "cloud": map[string]any{"providerName": "aws", "aws": map[string]any{"secretAccessKey": "planted-secret"}}},
		}})
	}
}

// patch merges into a cluster, as an operator or a person does.
func (w *seedWorld) patch(name, patch string) {
	_, dyn := w.api.Clients(w.t)
	if _, err := dyn.Resource(objects.Resource(kubermaticv1.GroupName)).
		Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Error(err)
	}
}

// phase puts a cluster into a phase.
func (w *seedWorld) phase(name, phase, message string) {
	status := "False"
	if phase == kubermaticv1.PhaseCompleted {
		status = "True"
	}
	at := time.Now().UTC().Format(time.RFC3339)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": map[string]any{string(kubermaticv1.ConditionMigration): map[string]any{
		"status": status, "reason": phase, "message": message, "lastTransitionTime": at, "lastHeartbeatTime": at}}}})
	if err != nil {
		w.t.Error(err)
		return
	}
	w.patch(name, string(patch))
}

func (w *seedWorld) run(args ...string) result {
	w.t.Helper()
	return w.as(transplant(w.t, append([]string{"fleet"}, append(args, "--kubeconfig", w.kubeconfig)...)...))
}

// as is a result without what differs from run to run.
func (w *seedWorld) as(r result) result {
	for i, a := range r.args {
		if a == w.kubeconfig {
			r.args[i] = "seed.yaml"
		}
	}
	r.out, r.errOut = strings.ReplaceAll(r.out, w.api.URL, "https://seed:6443"), strings.ReplaceAll(r.errOut, w.api.URL, "https://seed:6443")
	return r
}

func TestFleetHelp(t *testing.T) {
	for _, sub := range []string{"status", "plan", "apply"} {
		golden(t, "help-fleet-"+sub, transplant(t, "fleet", sub, "--help"), nil)
	}
}

func TestFleetStatusOutputs(t *testing.T) {
	w := filled(t)
	golden(t, "fleet-status", w.run("status"), nil)
	golden(t, "fleet-status-ascii", w.run("status", "--ascii", "-q"), nil)
	for _, format := range []string{"wide", "json", "yaml"} {
		golden(t, "fleet-status-"+format, w.run("status", "-o", format), nil)
	}
	golden(t, "fleet-status-selected", w.run("status", "-l", "env=staging", "--provider", "aws,openstack"), nil)
	golden(t, "fleet-status-one", w.run("status", "qm6wzt8rxk", "-o", "yaml"), nil)
}

func TestFleetPlanOutputs(t *testing.T) {
	w := filled(t)
	golden(t, "fleet-plan", w.run("plan", "--details", "none"), nil)
	golden(
		t,
		"fleet-plan-held",
		w.run(
			"plan",
			"--details",
			"none",
			"--release-holds",
			"--waves",
			"2,100%",
			"--soak",
			"30m",
			"--until",
			"handover",
			"--max-failures",
			"2",
			"--restart-machines",
			"--ascii",
		),
		nil,
	)
	golden(t, "fleet-plan-json", w.run("plan", "--details", "none", "--except", "bare-metal1", "-o", "json"), nil)
	golden(t, "fleet-apply-dry-run", w.run("apply", "--dry-run"), nil)
	lookInto(t, func(o fleet.Object) (rollout.Plane, error) { return fakePlane{t: t, name: o.Cluster.Name}, nil })
	golden(t, "fleet-plan-short", w.run("plan", "--waves", "3"), nil)
	golden(t, "fleet-plan-whole", w.run("plan", "b7k2m9x4fp", "--details", "whole"), nil)
	golden(t, "fleet-plan-blocked", w.run("plan", "blocked-one", "--details", "whole"), nil)
	golden(t, "fleet-apply-blocked", w.run("apply", "blocked-one", "--details", "short", "--yes"), nil)
	lookInto(t, func(fleet.Object) (rollout.Plane, error) { return nil, errors.New("the user cluster does not answer") })
	golden(t, "fleet-plan-unknown", w.run("plan", "b7k2m9x4fp"), nil)
	if writes := writesOf(w); len(writes) > 0 {
		t.Errorf("looking wrote %v", writes)
	}
}

// writesOf are the writes of commands: those behind the objects that the test made.
func writesOf(w *seedWorld) (out []string) {
	for _, line := range w.api.Writes() {
		if !strings.HasPrefix(line, "create /apis/kubermatic") {
			out = append(out, line)
		}
	}
	return out
}

// lookInto lets commands look into these control planes.
func lookInto(t *testing.T, open func(fleet.Object) (rollout.Plane, error)) {
	t.Helper()
	was := rollout.OpenPlanes
	t.Cleanup(func() { rollout.OpenPlanes = was })
	rollout.OpenPlanes = func(*client.Client, *rollout.Options) rollout.Planes {
		return rollout.Planes{Close: func() {}, Open: func(_ context.Context, o fleet.Object) (rollout.Plane, error) { return open(o) }}
	}
}

// fakePlane is a control plane with a recorded plan; one whose name says so is blocked.
type fakePlane struct {
	t    *testing.T
	name string
}

func (p fakePlane) Gather(context.Context) *v1.Snapshot { return &v1.Snapshot{} }

func (p fakePlane) Check(*v1.Snapshot) v1.CheckReport {
	r := v1.CheckReport{TypeMeta: v1.Type(v1.KindCheckReport), Summary: v1.CheckSummary{Passed: 30, Warned: 1}, Findings: []v1.Finding{
		{Code: "CP-001", Category: "control plane", Level: "error", Outcome: v1.Pass, Summary: "all is well"},
		{
			Code:     "CP-004",
			Category: "control plane",
			Level:    "warning",
			Outcome:  v1.Warn,
			Summary:  "controller-manager has one replica: no manager runs the loops for a moment",
		},
	}}
	if strings.HasPrefix(p.name, "blocked") {
		r.Summary.Failed, r.Summary.Blocked = 1, true
		r.Findings = append(r.Findings, v1.Finding{Code: "NODE-001", Category: "nodes", Level: "critical", Impact: "node deletion", Outcome: v1.Fail,
			Summary: "1 of 3 nodes has no providerID", Objects: []string{"Node/worker-3"}, Expected: "aws:///", Found: `""`, Fix: "transplant explain NODE-001"})
	}
	return r
}

func (p fakePlane) Plan(*v1.Snapshot, hosted.Part) (*v1.Plan, error) {
	if strings.HasPrefix(p.name, "blocked") {
		return nil, &hosted.BlockedError{Report: p.Check(nil)}
	}
	return &v1.Plan{TypeMeta: v1.Type(v1.KindPlan), Strategy: "downtime", Direction: "forward", Steps: []v1.Step{
		{ID: "edit/controller-manager", Phase: "handover", Kind: v1.StepEditWorkload, Title: "controller-manager gives the cloud loops up", EstimateSeconds: 40,
			Changes: []v1.Change{{Field: "--controllers", Before: "*", After: "*,-cloud-node-lifecycle,-route,-service"}}},
		{ID: "ensure/ccm", Phase: "handover", Kind: v1.StepEnsureObject, Title: "Deployment aws-cloud-controller-manager", EstimateSeconds: 30},
	}, Effects: []string{"load balancers: 3 kept"}}, nil
}

func TestFleetsThatCannotBeRead(t *testing.T) {
	none := newSeed(t)
	none.api.Serve("apps/v1")
	fails(t, none.run("status"), exitcode.Error, "reading the fleet: the API server serves no Clusters", "deploy/crds")
	refused := filled(t)
	refused.api.Deny("list", "clusters")
	fails(t, refused.run("status"), exitcode.Error, `clusters is forbidden: User "tester" cannot list resource "clusters" in API group "kubermatic.k8c.io"`)
	one := filled(t)
	one.api.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, kubermaticv1.LegacyGroupName) && strings.HasSuffix(r.URL.Path, "/clusters") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"clusters.kubermatic.k8s.io is forbidden"}`)
			return true
		}
		return false
	}
	if r := one.run(
		"status",
	); r.code != exitcode.OK ||
		!strings.Contains(r.out, "not read   listing clusters of kubermatic.k8s.io: clusters.kubermatic.k8s.io is forbidden") {
		t.Error(r.text(nil))
	}
}

func TestWhatAFleetCommandIsNotAsked(t *testing.T) {
	w := filled(t)
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"status", "ghost"}, "there is no cluster ghost among those that were selected"},
		{[]string{"status", "-l", "a=b=c"}, "--selector \"a=b=c\""},
		{[]string{"status", "--watch", "-o", "yaml"}, "--watch writes a table or json, not yaml"},
		{[]string{"plan", "--waves", "0"}, `wave "0": give a number from 1`},
		{[]string{"plan", "--until", "later"}, `until "later" is not known`},
		{[]string{"plan", "--first", "ghost"}, "there is no cluster ghost"},
		{[]string{"apply", "--max-parallel", "0", "--yes"}, "max parallel 0"},
		{[]string{"plan", "--details", "all"}, "give none, short or whole"},
	} {
		fails(t, w.run(c.args...), exitcode.Error, c.words)
	}
	fails(t, w.run("apply", "b7k2m9x4fp"), exitcode.NotApproved, "not approved: there is no terminal on which to ask whether to start the migration of 1 cluster of the seed (context ",
		", wave by wave; the feature that starts it cannot be switched off again")
	if writes := writesOf(w); len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

func TestNoSecretOfAClusterIsPrinted(t *testing.T) {
	w := newSeed(t)
	w.plain("a")
	for _, args := range [][]string{{"status", "-o", "json"}, {"status", "-o", "wide"}, {"plan", "--details", "none", "-o", "yaml"}} {
		if r := w.run(args...); r.code != exitcode.OK || strings.Contains(r.out+r.errOut, "planted-secret") {
			t.Error(r.text(nil))
		}
	}
}
