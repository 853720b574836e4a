package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestWhatGoingOnDoesIsShownFirst(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplying, 20, 1)
	golden(t, "apply-resume-dry-run", c.run("apply", "--dry-run"), c.volatile())
}

func TestAnAppliedMigration(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplied, 1000, 0)
	golden(t, "apply-applied", c.run("apply"), c.volatile())
	// The managers of this cluster are in-tree, so the journal promises what is not so.
	r := c.run("verify")
	fails(t, r, exitcode.Unverified, "the cluster was left as it is")
	if !strings.Contains(r.out, "✗ loop cloud-node-lifecycle runs in kube-controller-manager@cp-1, not in a cloud-controller-manager") {
		t.Errorf("the problem is not named:\n%s", r.out)
	}
	if r := c.run("report"); r.code != exitcode.OK || !strings.Contains(r.out, "20261121-120000") || !strings.Contains(r.errOut, "no ownership log of migration") {
		t.Errorf("report: %s", r.text(nil))
	}
	out := filepath.Join(t.TempDir(), "report.html")
	if r := c.run("report", "-o", "html", "--out", out); r.code != exitcode.OK {
		t.Errorf("report: %s", r.text(nil))
	}
	if page, err := os.ReadFile(out); err != nil || !strings.Contains(string(page), "<html") {
		t.Errorf("the page: %v", err)
	}
	golden(t, "rollback-dry-run", c.run("rollback", "--dry-run"), c.volatile())
}

func TestCommandsWithoutAMigration(t *testing.T) {
	c := newLive(t)
	fails(t, c.run("rollback"), exitcode.Error, "no migration was started on this cluster: there is nothing to roll back")
	fails(t, c.run("verify"), exitcode.Error, "no migration was started on this cluster: compare --context; transplant check begins one")
	fails(t, c.run("report"), exitcode.Error, "no migration was started on this cluster")
	c.journal(v1.RunRolledBack, 3, 0)
	if r := c.run("rollback"); r.code != exitcode.OK || !strings.Contains(r.errOut, "is rolled back: nothing to do") {
		t.Errorf("a second rollback: %s", r.text(nil))
	}
}

func TestASnapshotOfALiveCluster(t *testing.T) {
	c := newLive(t)
	out := filepath.Join(t.TempDir(), "snapshot.yaml")
	if r := c.run("snapshot", "--out", out); r.code != exitcode.OK || !strings.Contains(r.errOut, "saved "+out) {
		t.Fatal(r.text(nil))
	}
	// What is judged from the file is what is judged live.
	accept := []string{"--accept", "CLOUD-001=x"}
	live, saved := c.run(append([]string{"check"}, accept...)...), transplant(t, append([]string{"check", "--from-snapshot", out}, accept...)...)
	judged := func(r result) string { return r.out[:max(0, strings.LastIndex(r.out, "next: "))] } // a file has another next command
	if live.code != exitcode.OK || judged(live) == "" || judged(live) != judged(saved) {
		t.Errorf("live: %s\nfrom the file: %s", live.text(nil), saved.text(nil))
	}
	var s v1.Snapshot
	if err := json.Unmarshal([]byte(c.run("snapshot", "-o", "json").out), &s); err != nil || s.Kind != v1.KindSnapshot || len(s.Hosts) != 2 {
		t.Errorf("JSON: %d hosts, %v", len(s.Hosts), err)
	}
	if writes := c.api.Writes(); len(writes) > 0 {
		t.Errorf("looking wrote %v", writes)
	}
}

// lock lets somebody hold the lock.
func (c *live) lock(holder string) {
	now := metav1.NewMicroTime(time.Now())
	c.api.Put(
		c.t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: lock.LeaseName, Namespace: component.Namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: &now},
		},
	)
}

// unchanged fails when a command wrote anything.
func (c *live) unchanged() {
	c.t.Helper()
	if writes := c.api.Writes(); len(writes) > 0 {
		c.t.Errorf("something was written: %v", writes)
	}
	for _, h := range []string{"cp-1", "cp-2"} {
		if _, err := os.Stat(filepath.Join(c.dir, h, planlayout.Dir)); err == nil {
			c.t.Errorf("host %s was changed", h)
		}
	}
}

func TestApplyIsRefused(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	edited := func(change func(*v1.Plan)) string {
		p, err := client.ReadPlan(good)
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		return file(t, "plan.yaml", p)
	}
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name  string
		args  []string
		code  int
		words []string
	}{
		{
			"no terminal and no --yes",
			[]string{good},
			exitcode.NotApproved,
			[]string{
				"there is no terminal on which to ask whether to execute these", "--yes", "phase 1  prepare",
				"steps on cluster test (uid cluster-…, context test, server http://127.0.0.1:",
			},
		},
		{"findings that block", nil, exitcode.Blocked, []string{"? CLOUD-001", "blocked by 1 finding; nothing was changed"}},
		{"a plan for another cluster", []string{edited(func(p *v1.Plan) { p.Cluster.UID = "another" }), "--yes"}, exitcode.Stale,
			[]string{"was made for the cluster with uid another, this one has cluster-uid", "--context"}},
		{"a plan that is not there", []string{"/nonexistent/plan.yaml", "--yes"}, exitcode.Error, []string{"reading the plan: open /nonexistent/plan.yaml: no such file or directory"}},
		{"a plan that is no YAML", []string{file(t, "plan.yaml", "\tsteps: ["), "--yes"}, exitcode.Error, []string{"plan.yaml is no YAML or JSON", "yaml"}},
		{"a plan that is empty", []string{file(t, "plan.yaml", ""), "--yes"}, exitcode.Error, []string{"is no plan", "empty"}},
		{"a plan with a field that nobody knows", []string{file(t, "plan.yaml", strings.Replace(string(raw), "direction: forward", "direction: forward\nforce: true", 1)), "--yes"}, exitcode.Error,
			[]string{`unknown field "force"`}},
		{"a snapshot instead of a plan", []string{labSnapshot, "--yes"}, exitcode.Error, []string{"lab.yaml"}},
		{
			"a plan of another version",
			[]string{edited(func(p *v1.Plan) { p.APIVersion = "transplant.dev/v2" }), "--yes"},
			exitcode.Error,
			[]string{`is of "transplant.dev/v2"`, "transplant.dev/v1alpha1 only"},
		},
		{"the plan of a rollback", []string{edited(func(p *v1.Plan) { p.Direction = planstep.Rollback }), "--yes"}, exitcode.Error, []string{"is a rollback: apply executes migrations"}},
		{"a plan whose steps were damaged", []string{edited(func(p *v1.Plan) { p.Steps[4].Kind, p.Steps[5].Ref = "Reboot", "" }), "--yes"}, exitcode.Error,
			[]string{"cannot be executed; make it again with transplant plan --refresh", `kind "Reboot" is not known`, "ref is empty"}},
		{"two plans", []string{good, good}, exitcode.Error, []string{"transplant apply takes [PLAN], and was given"}},
	} {
		t.Run(r.name, func(t *testing.T) { fails(t, c.run(append([]string{"apply"}, r.args...)...), r.code, r.words...) })
	}
	c.unchanged()
	if r := c.run(
		"apply",
		"--dry-run",
		good,
	); r.code != exitcode.OK || strings.Contains(r.errOut, "phase") ||
		!strings.Contains(r.out, "irreversible  nothing: rollback reverts every step\n") {
		t.Errorf("a dry run: %s", r.text(nil))
	}
	c.unchanged()
}

func TestAStalePlan(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	for _, h := range []string{"cp-1", "cp-2"} {
		c.write(h, "/etc/kubernetes/cloud.conf", "[Global]\nVPC = vpc-2\n")
	}
	r := c.run("apply", good, "--yes")
	fails(
		t,
		r,
		exitcode.Stale,
		"the plan is stale: /etc/kubernetes/cloud.conf on host cp-1 was changed outside this migration",
		", last modified at ",
		"/etc/kubernetes/cloud.conf on host cp-2",
		"nothing was changed; make the plan again with transplant plan --refresh ",
	)
	c.unchanged()
}

func TestAManifestThatCannotBeUsed(t *testing.T) {
	for name, content := range map[string]string{
		"no YAML":              "spec: [",
		"no Pod":               "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: kube-controller-manager\n",
		"a command in a shell": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-controller-manager\nspec:\n  containers:\n  - name: kube-controller-manager\n    command: [sh, -c, kube-controller-manager --cloud-provider=aws]\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := newLive(t)
			c.write("cp-2", manifestPath("kube-controller-manager"), content)
			r := c.run("apply", "--yes", "--accept", "CLOUD-001=x")
			fails(t, r, exitcode.Blocked, "✗ CP-003", "cp-2:"+manifestPath("kube-controller-manager"), "nothing was changed")
			c.unchanged()
		})
	}
}

func TestFlagsInTwoWords(t *testing.T) {
	c := newLive(t)
	for _, h := range []string{"cp-1", "cp-2"} {
		path := filepath.Join(c.dir, h, manifestPath("kube-controller-manager"))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c.write(h, manifestPath("kube-controller-manager"), strings.Replace(string(data), "- --cluster-name=test", "- --cluster-name\n    - test", 1))
	}
	var p v1.Plan
	r := c.run("plan", "-o", "yaml", "-q")
	if err := yaml.Unmarshal([]byte(r.out), &p); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(
		p.Steps,
		func(s v1.Step) bool { return s.Kind == v1.StepAddManifest },
	); i < 0 ||
		!strings.Contains(p.Steps[i].Content, "--cluster-name=test") {
		t.Errorf("--cluster-name test is not carried over:\n%s", r.text(nil))
	}
}

// impatient is a clock on which looking at a lock takes no time; while is what happens meanwhile.
type impatient struct {
	clock.Clock
	while func()
}

func (i impatient) After(time.Duration) <-chan time.Time {
	i.while()
	passed := make(chan time.Time, 1)
	passed <- i.Now()
	return passed
}

func TestTwoAtOnce(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	const holder = "ops@bastion pid 4412 start=812 boot=x pidns=pid:[1] since=2026-11-22T12:00:00Z"
	was := client.LockClock
	client.LockClock = impatient{was, func() { c.lock(holder) }}
	defer func() { client.LockClock = was }()
	c.lock(holder)
	fails(t, c.run("apply", good, "--yes"), exitcode.Locked, "ops@bastion pid 4412 holds the lock on the cluster: looking for up to ", " whether it is renewed\n",
		"the cluster is locked by ops@bastion pid 4412, which is at work", "if it has ended: transplant unlock")
	c.unchanged()
	here := c.approvedHere(c.journal(v1.RunApplying, 2, 1))
	before := len(c.api.Writes())
	fails(
		t,
		c.run("apply", "--yes", here),
		exitcode.Locked,
		"migration 20261121-120000 was begun 2026-11-21T12:00:00Z by ops: its journal says that 2 of",
		"the cluster is locked by ops@bastion",
	)
	fails(t, c.run("rollback", "--yes", here), exitcode.Locked, "the cluster is locked by ops@bastion")
	if have := len(c.api.Writes()); have != before {
		t.Errorf("%d writes next to the holder of the lock", have-before)
	}
}

func TestAMigrationUnderWay(t *testing.T) {
	c := newLive(t)
	c.journal(v1.RunApplying, 2, 1)
	made := filepath.Join(t.TempDir(), "plan.yaml")
	transplant(t, append([]string{"plan", "--from-snapshot", labSnapshot, "--out", made}, credentials...)...)
	fails(t, c.run("apply", made, "--yes"), exitcode.Error, "migration 20261121-120000 was begun and is not finished: run transplant apply without a plan")
	fails(t, c.run("apply"), exitcode.NotApproved, "2 of ", "whether to go on with it on cluster ", ", context test, server http://127.0.0.1:")
	c.journal(v1.RunRollingBack, 2, 1)
	fails(t, c.run("apply", "--yes"), exitcode.Error, "a rollback of migration 20261121-120000 was begun and not finished: run transplant rollback")
}

func TestNoPermission(t *testing.T) {
	c := newLive(t)
	c.api.Deny("get", "configmaps")
	fails(t, c.run("resume"), exitcode.Error, `User "tester" cannot get resource "configmaps" in API group "" in the namespace "kube-system"`,
		"this command takes rights that you may not have. The roles in deploy/rbac: reader, pauser.\n")
	c.api.Deny("create", "clusterroles")
	c.api.Deny("update", "leases")
	r := c.run("check")
	if r.code != exitcode.Blocked || !strings.Contains(r.out, "✗ RBAC-001") {
		t.Fatal(r.text(nil))
	}
	for _, part := range []string{"get configmaps", "create clusterroles", "update leases"} {
		if !strings.Contains(r.out, part) {
			t.Errorf("the finding does not name %q:\n%s", part, r.out)
		}
	}
	c.api.Deny("list", "nodes")
	if r := c.run("check"); !strings.Contains(r.out, `cannot list resource "nodes"`) {
		t.Errorf("the finding does not say which verb on what:\n%s", r.out)
	}
}

func TestAMigrationThatSomebodyBeganMeanwhileIsNotOverwritten(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/configmaps/" + journal.Name
	for phase, words := range map[string]string{
		v1.RunApplying:    "ops has begun migration 20261121-120000 meanwhile: nothing was changed; transplant apply without a plan goes on with it",
		v1.RunRollingBack: "a rollback of migration 20261121-120000 was begun meanwhile: nothing was changed; transplant rollback goes on with it",
		v1.RunApplied:     "ops has applied migration 20261121-120000 meanwhile: nothing was changed",
	} {
		t.Run(phase, func(t *testing.T) {
			c := newLive(t)
			good := c.plan()
			c.journal(phase, 2, 1)
			var begun, left corev1.ConfigMap
			c.api.Get(t, path, &begun)
			c.api.Delete(path)
			c.api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces/kube-system/leases") && r.URL.Query().Get("dryRun") == "" {
					c.api.Put(t, &begun) // the other one said yes to its question first
				}
				return false
			}
			fails(t, c.run("apply", good, "--yes"), exitcode.Error, words)
			c.api.Get(t, path, &left)
			if !maps.EqualFunc(left.BinaryData, begun.BinaryData, bytes.Equal) {
				t.Error("the journal of the other one is gone")
			}
		})
	}
}
