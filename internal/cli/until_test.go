package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// rightsOnly is a plan file with the first steps of a migration alone, those that make objects: they need no kubelets in the cluster.
func (c *live) rightsOnly(n int) (string, *v1.Plan) {
	c.t.Helper()
	p, err := client.ReadPlan(c.plan())
	if err != nil {
		c.t.Fatal(err)
	}
	p.Steps = p.Steps[:n]
	whole := run.FindDifferences
	run.FindDifferences = func(p *v1.Plan, _ *v1.Snapshot) (*v1.Plan, []string, error) { return p, nil, nil }
	c.t.Cleanup(func() { run.FindDifferences = whole })
	for _, s := range p.Steps {
		if s.Kind != v1.StepEnsureObject {
			c.t.Fatalf("step %s is of kind %s", s.ID, s.Kind)
		}
	}
	path := filepath.Join(c.t.TempDir(), "plan.yaml")
	if err := client.WritePlan(path, p); err != nil {
		c.t.Fatal(err)
	}
	return path, p
}

// TestAStepThatIsNotInThePlanIsRefusedBeforeTheClusterIsAsked: there is no cluster.
func TestAStepThatIsNotInThePlanIsRefusedBeforeTheClusterIsAsked(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	if r := transplant(t, append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out}, credentials...)...); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	fails(t, transplant(t, "apply", out, "--until", "nowhere"), exitcode.Error, `no step and no phase "nowhere"`)
	fails(t, transplant(t, "apply", out, "--until", "handover"), exitcode.Error, "reading the kubeconfig")
}

func TestAnApplyThatStopsAsItWasToldGoesOnWithTheSamePlan(t *testing.T) {
	c := newLive(t)
	path, p := c.rightsOnly(5)
	r := c.run("apply", path, "--yes", "--until", p.Steps[2].ID)
	if r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	for _, part := range []string{
		"stops after " + p.Steps[2].ID + " (3 of 5 steps); what remains: prepare (2)",
		"stopped after " + p.Steps[2].ID + ", as asked: 3 of 5 steps are done",
		"to go on: transplant apply",
	} {
		if !strings.Contains(r.errOut, part) {
			t.Errorf("it does not say %q:\n%s", part, r.errOut)
		}
	}
	status := c.run("status")
	for _, part := range []string{"· stopped · 3/5 steps", "stopped    after " + p.Steps[2].ID + ", as asked\n", "upcoming   " + p.Steps[3].ID + "\n", "next: transplant apply"} {
		if !strings.Contains(status.out, part) {
			t.Errorf("status does not say %q:\n%s", part, status.out)
		}
	}
	other, _ := c.rightsOnly(4)
	fails(t, c.run("apply", other, "--yes"), exitcode.Error, "was begun and is not finished: run transplant apply without a plan")

	before := len(c.api.Writes())
	if r = c.run(
		"apply",
		path,
		"--yes",
	); r.code != exitcode.OK || !strings.Contains(r.errOut, "3 of 5 steps are done") ||
		!strings.Contains(r.errOut, "applied: 5 steps") {
		t.Fatal(r.text(nil))
	}
	for _, write := range c.api.Writes()[before:] {
		for _, s := range p.Steps[:3] {
			if strings.HasPrefix(write, "POST") && strings.HasSuffix(write, "/"+s.Ref[strings.LastIndex(s.Ref, "/")+1:]) {
				t.Errorf("step %s was done again: %s", s.ID, write)
			}
		}
	}
	if status := c.run("status"); !strings.Contains(status.out, "· applied · 5/5 steps\n") || strings.Contains(status.out, "upcoming") {
		t.Errorf("status:\n%s", status.out)
	}
	if r = c.run("apply", path, "--yes"); r.code != exitcode.OK || !strings.Contains(r.errOut, "is applied: nothing to do") {
		t.Errorf("a third time: %s", r.text(nil))
	}
}

// A cluster of kubeadm has facts about objects, which need the dynamic client before the first step.
func TestApplyLooksAtTheFactsOfAKubeadmCluster(t *testing.T) {
	c := newLive(t)
	text := "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.26.0\ncontrollerManager:\n  extraArgs:\n    cloud-provider: aws\n    cloud-config: /etc/kubernetes/cloud.conf\n"
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config", Namespace: component.Namespace},
		Data:       map[string]string{"ClusterConfiguration": text},
	}
	c.api.Put(t, config)
	out := c.plan()
	p, err := client.ReadPlan(out)
	if err != nil {
		t.Fatal(err)
	}
	bound := false
	for _, f := range p.Facts {
		bound = bound || f.ID == planstep.KubeadmFact
	}
	if !bound {
		t.Fatal("the plan does not depend on kubeadm's configuration")
	}
	if r := c.run("apply", out, "--dry-run"); r.code != exitcode.OK {
		t.Errorf("nothing has changed: %s", r.text(nil))
	}
	config.Data["ClusterConfiguration"] = text + "clusterName: other\n"
	at := metav1.NewTime(p.Created.Add(90 * time.Second).Truncate(time.Second))
	config.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ClusterConfiguration":{}}}`),
	}}
	c.api.Put(t, config)
	r := c.run("apply", out, "--yes", "-o", "jsonl")
	fails(
		t,
		r,
		exitcode.Stale,
		"ClusterConfiguration of ConfigMap/kube-system/kubeadm-config was changed outside this migration",
		", last written by kubectl-edit at "+at.UTC().Format("2006-01-02 15:04 MST"),
		"nothing was changed; make the plan again with transplant plan --refresh ",
	)
	events := eventsOf(t, r.out)
	changed := events[len(events)-1].Changed
	if len(changed) != 1 || changed[0].Fact != planstep.KubeadmFact || changed[0].Object != "ConfigMap/kube-system/kubeadm-config" ||
		changed[0].ChangedBy != "kubectl-edit" || !changed[0].ChangedAt.Equal(at.Time) {
		t.Errorf("the last line has %+v", changed)
	}
	c.unchanged()
	r = c.run("plan", "--refresh", out)
	if said := planstep.KubeadmFact + ": was "; r.code != exitcode.OK || !strings.Contains(r.errOut, said) ||
		!strings.Contains(r.errOut, ", last written by kubectl-edit at "+at.UTC().Format("2006-01-02 15:04 MST")+"\n") {
		t.Errorf("a plan that is made again does not say who changed the fact:\n%s", r.text(nil))
	}
}
