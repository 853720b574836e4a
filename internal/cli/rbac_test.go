package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// manifestsOf are files of deploy/rbac.
func manifestsOf(names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, filepath.Join("..", "..", "deploy", "rbac", n+".yaml"))
	}
	return out
}

// holds fails where roles lack what was needed.
func holds(t *testing.T, needed []apitest.Right, roles ...string) {
	t.Helper()
	if missing := apitest.Uncovered(apitest.Granted(t, manifestsOf(roles...)...), needed); len(missing) > 0 {
		t.Errorf("roles %v do not allow to\n  %s", roles, strings.Join(missing, "\n  "))
	}
}

// noMore fails where a role grants what nothing needs.
func noMore(t *testing.T, needed []apitest.Right, role string) {
	t.Helper()
	if unused := apitest.Unused(apitest.Granted(t, manifestsOf(role)...), needed); len(unused) > 0 {
		t.Errorf("role %s allows what nothing needs, to\n  %s", role, strings.Join(unused, "\n  "))
	}
}

func TestTheReadersRoleIsWhatLookingOnTakes(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	o.lock(time.Second)
	asked := o.api.Record()
	for _, command := range []string{"status", "timeline"} {
		if r := o.run(command); r.code != exitcode.OK {
			t.Error(r.text(nil))
		}
	}
	w := o.watch("status")
	w.out.shows(t, "applying")
	o.paused()
	w.out.shows(t, "paused by")
	w.stop()
	<-w.code
	needed := slices.Concat(asked.Rights(), toGet(journal.Names())) // as far as a journal has parts
	holds(t, needed, "reader")
	noMore(t, needed, "reader")

	before := asked.Rights()
	for _, command := range []string{"resume", "pause"} {
		if r := o.run(command); r.code != exitcode.OK {
			t.Error(r.text(nil))
		}
	}
	pausing := slices.DeleteFunc(asked.Rights(), func(r apitest.Right) bool { return slices.Contains(before, r) })
	holds(t, pausing, "reader", "pauser")
	noMore(t, pausing, "pauser")
}

func TestThePlannersRoleIsWhatPlanningTakes(t *testing.T) {
	c := newLive(t)
	asked := c.api.Record()
	for _, args := range [][]string{{"check"}, {"plan"}, {"snapshot"}, {"diff"}} {
		if r := c.run(args...); r.code == exitcode.Error && args[0] != "diff" {
			t.Error(r.text(nil))
		}
	}
	planning := asked.Rights()
	c.journal(v1.RunApplied, 1000, 0)
	asked = c.api.Record()
	for _, args := range [][]string{{"verify"}, {"report"}} {
		if r := c.run(args...); r.code == exitcode.Error {
			t.Error(r.text(nil))
		}
	}
	needed := slices.Concat(planning, asked.Rights())
	holds(t, needed, "reader", "planner")
	before := toGet(journal.BeforeNames()) // as far as the snapshot is in pieces
	holds(t, before, "planner")
	noMore(t, slices.Concat(needed, before, refs(planlayout.ObjectRefs())), "planner")
}

func TestTheBundlersRoleIsWhatABundleTakesNextToPlanning(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplying, 3, 1)
	asked := c.api.Record()
	if r, _ := c.bundle(); r.code != exitcode.OK {
		t.Error(r.text(nil))
	}
	holds(t, asked.Rights(), "reader", "planner", "bundler")
	noMore(t, asked.Rights(), "bundler")
}

// toGet are the rights to get ConfigMaps of kube-system.
func toGet(names []string) []apitest.Right {
	var out []apitest.Right
	for _, name := range names {
		out = append(out, apitest.Right{Verb: "get", Resource: "configmaps", Namespace: component.Namespace, Name: name})
	}
	return out
}

// refs are the rights to read objects that a plan may make.
func refs(objects []string) []apitest.Right {
	var out []apitest.Right
	for _, ref := range objects {
		out = append(out, asRights([]collect.Need{permission.About(ref, "get")})...)
	}
	return out
}

func asRights(needs []collect.Need) []apitest.Right {
	var out []apitest.Right
	for _, n := range needs {
		for _, verb := range n.Verbs {
			out = append(out, apitest.Right{Verb: verb, Group: n.Group, Resource: n.Resource, Namespace: n.Namespace, Name: n.Name})
		}
	}
	return out
}

// everyStep has one step of each kind whose needs differ.
func everyStep() []v1.Step {
	var steps []v1.Step
	for _, ref := range []string{
		"ServiceAccount/kube-system/x", "Role/kube-system/x", "RoleBinding/kube-system/x", "ClusterRole/x", "ClusterRoleBinding/x", "DaemonSet/kube-system/x",
		"Deployment/kube-system/x",
	} {
		object := `{"roleRef":{"kind":"ClusterRole","name":"x"}}` // of a binding
		steps = append(steps, v1.Step{Kind: v1.StepEnsureObject, Ref: ref, Object: object}, v1.Step{Kind: v1.StepDeleteObject, Ref: ref})
	}
	steps = append(steps, v1.Step{Kind: v1.StepDeleteObject, Ref: "Secret/kube-system/" + planlayout.TokenSecret}) // of an earlier version
	steps = append(steps, v1.Step{Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/x"})
	for _, kind := range []v1.StepKind{v1.StepEditWorkload, v1.StepScale} {
		steps = append(steps, v1.Step{Kind: kind, Ref: "Deployment/kube-system/x"}, v1.Step{Kind: kind, Ref: "DaemonSet/kube-system/x"})
	}
	steps = append(steps, v1.Step{Kind: v1.StepReplacePod, Host: "x", Ref: planlayout.CCMDaemonSet})
	// A manager that comes as a Deployment is tried in a pod.
	steps = append(steps, v1.Step{Kind: v1.StepEnsureObject, Component: "cloud-controller-manager", Ref: "Deployment/kube-system/ccm", Object: "{}"})
	return append(steps, v1.Step{Kind: v1.StepInitializeNode, Ref: "Node/x"}, v1.Step{Kind: v1.StepKubelet, Drain: true})
}

func TestTheMigratorsRoleIsWhatPlansNeed(t *testing.T) {
	p := transplant(t, "plan", "--from-snapshot", labSnapshot, "-o", "yaml")
	made, err := client.ReadPlan(file(t, "plan.yaml", p.out))
	if err != nil {
		t.Fatal(err)
	}
	needed := asRights(slices.Concat(permission.DefaultNeeds, permission.ReasonNeeds, permission.NeedsOf(made.Steps)))
	holds(t, needed, "reader", "planner", "pauser", "migrator")
	all := asRights(permission.NeedsOf(everyStep()))
	holds(t, all, "reader", "planner", "pauser", "migrator")
	noMore(t, slices.Concat(needed, all), "migrator")
}

// TestTheMigratorAsksForTokensOfTwoAccounts: a token of any other account of kube-system would be that account's rights.
func TestTheMigratorAsksForTokensOfTwoAccounts(t *testing.T) {
	granted := apitest.Granted(t, manifestsOf("reader", "planner", "pauser", "migrator")...)
	for name, want := range map[string]bool{planlayout.Observer: true, component.CCM: true, "clusterrole-aggregation-controller": false, "": false} {
		missing := apitest.Uncovered(
			granted,
			asRights([]collect.Need{{Verbs: []string{"create"}, Resource: "serviceaccounts/token", Namespace: component.Namespace, Name: name}}),
		)
		if has := len(missing) == 0; has != want {
			t.Errorf("account %q: %v", name, has)
		}
	}
}
