package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/diff"
)

func TestTextsAreComparedAsPatchReadsThem(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"a line is changed", "a\nb\nc\n", "a\nB\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"a file comes", "", "a\nb\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a file goes", "a\n", "", "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"},
		{"far apart", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n2\n3\n4\n5\n6\n7\n8\n0\n",
			"--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-1\n+0\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+0\n"},
		{"close to each other", "1\n2\n3\n4\n", "0\n2\n3\n0\n", "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-1\n+0\n 2\n 3\n-4\n+0\n"},
		{"only the end of the last line", "a\nb", "a\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, unified(diff.Difference{Name: "f", Before: c.before, After: c.after})); diff != "" {
				t.Errorf("(-want +have):\n%s", diff)
			}
		})
	}
}

func TestTheDifferencesOfASnapshot(t *testing.T) {
	args := append([]string{"diff", "--from-snapshot", labSnapshot}, credentials...)
	first := transplant(t, args...)
	golden(t, "diff-snapshot", first, nil)
	if again := transplant(t, args...); again.out != first.out {
		t.Error("the same snapshot gives another output")
	}
	if first.code != exitcode.Different {
		t.Errorf("exit code %d, want that of kubectl diff", first.code)
	}
	early := transplant(t, append(args, "--until", "leader-migration")...)
	if strings.Contains(early.out, "+--cloud-provider=external") || !strings.Contains(early.out, "+--enable-leader-migration=true") {
		t.Errorf("up to leader migration:\n%s", early.out)
	}
}

func TestANodeThatGetsAProviderIDIsADifference(t *testing.T) {
	const node = "ip-10-0-1-11.ec2.internal"
	without := changed(t, func(s *v1.Snapshot) {
		for i := range s.Nodes {
			if s.Nodes[i].Name == node {
				s.Nodes[i].ProviderID = ""
			}
		}
	})
	args := append([]string{"diff", "--from-snapshot", without}, credentials...)
	r := transplant(t, args...)
	for _, part := range []string{"--- a/Node/" + node + "\n+++ b/Node/" + node + "\n", "\n+  providerID: aws:///us-east-1a/i-0000000000a00010b\n", "\n+# the manager also writes "} {
		if !strings.Contains(r.out, part) {
			t.Errorf("it does not show %q", part)
		}
	}
	if n := strings.Count(r.out, "+++ b/Node/"); n != 1 || r.code != exitcode.Different {
		t.Errorf("%d nodes differ, exit code %d: %s", n, r.code, r.errOut)
	}
	if early := transplant(t, append(args, "--until", "kubelets")...); strings.Contains(early.out, "b/Node/") {
		t.Errorf("up to the kubelets, no node gets one:\n%s", early.out)
	}
}

func TestTheDifferencesOfALiveClusterAreThoseOfItsFiles(t *testing.T) {
	c := newLive(t)
	c.write("cp-1", "/etc/kubernetes/cloud.conf", "[Global]\n# kept\nVPC = vpc-1\n")
	accept := []string{"--accept", "CLOUD-001=no cloud in this test"}
	r := c.run(append([]string{"diff"}, accept...)...)
	for _, part := range []string{
		"--- a/cp-1" + manifestPath("kube-controller-manager"), "-    - --cloud-provider=aws\n+    - --cloud-provider=external\n", "--- /dev/null\n+++ b/cp-1" + manifestPath("cloud-controller-manager"),
		"-KUBELET_KUBEADM_ARGS=\"--cloud-provider=aws --hostname-override=node-cp-1\"\n+KUBELET_KUBEADM_ARGS=\"--cloud-provider=external", "+++ b/ClusterRole/", "+# kept",
	} {
		if !strings.Contains(r.out, part) {
			t.Errorf("it does not show %q", part)
		}
	}
	for _, part := range []string{"enable-leader-migration", "leader-migration-kcm.yaml"} {
		if strings.Contains(r.out, "+    - --"+part) || strings.Contains(r.out, "b/cp-1/etc/kubernetes/transplant/"+part) {
			t.Errorf("it shows %s, which the plan takes away again", part)
		}
	}
	if r.code != exitcode.Different {
		t.Errorf("exit code %d: %s", r.code, r.errOut)
	}
	if t.Failed() {
		t.Log(r.text(c.volatile()))
	}
	c.unchanged()
}

func TestAProgramOfTheUsersChoiceCompares(t *testing.T) {
	args := append([]string{"diff", "--from-snapshot", labSnapshot}, credentials...)
	script := filepath.Join(t.TempDir(), "compare")
	if err := os.WriteFile(
		script,
		[]byte(
			"#!/bin/sh\necho \"$1 $(ls \"$2\" | wc -l) $(ls \"$3\" | wc -l)\"\ngrep -l -- --cloud-provider=external \"$3\"/*kube-controller-manager* | wc -l\nexit 1\n",
		),
		0o700,
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv(externalDiff, script+" -x")
	r := transplant(t, args...)
	if r.code != exitcode.Different || !strings.HasPrefix(r.out, "-x ") || !strings.Contains(r.out, "\n3\n") {
		t.Errorf("exit code %d, output %q, %q", r.code, r.out, r.errOut)
	}
	t.Setenv(externalDiff, filepath.Join(t.TempDir(), "nowhere"))
	fails(t, transplant(t, args...), exitcode.DiffError, externalDiff)
}

func TestErrorsOfDiffAreNoDifferences(t *testing.T) {
	fails(t, transplant(t, "diff", "--from-snapshot", "nowhere.yaml"), exitcode.DiffError, "reading the snapshot")
	fails(t, transplant(t, "diff", "--from-snapshot", labSnapshot, "--until", "nowhere"), exitcode.DiffError, `no step and no phase "nowhere"`)
}

func TestAPlanThatStopsBehindAPhase(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	args := append([]string{"plan", "--from-snapshot", labSnapshot, "--until", "leader-migration", "--out", out}, credentials...)
	r := transplant(t, args...)
	if !strings.Contains(r.out, "-- apply stops here; the next one goes on with handover (") {
		t.Errorf("where it stops is not told:\n%s", r.out)
	}
	p, err := client.ReadPlan(out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Until, "leader-migration/") || p.Steps[len(p.Steps)-1].ID == p.Until {
		t.Errorf("the plan is whole, and stops behind %q", p.Until)
	}
	var b bytes.Buffer
	p.Findings = []v1.Finding{{Code: "GAP-001", Outcome: v1.Warn, Summary: "an owner that is paused | goes on", Accepted: "nobody pauses it"}}
	p.ToolVersion = "v1"
	if err := printer.PlanMarkdown(&b, p); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan-until-markdown", result{args: []string{"plan", "-o", "markdown"}, out: b.String()}, nil)
}

func TestApplySaysWhatRemainsBehindTheStepItStopsAt(t *testing.T) {
	p := replaced(t)
	var told bytes.Buffer
	c := console.New(console.Streams{Err: &told})
	n, err := run.StepsUntil(c.Client, p, "replace")
	if err != nil || p.Steps[n-1].Phase != "replace" || n == len(p.Steps) {
		t.Fatalf("%d steps, %v", n, err)
	}
	if want := "what remains: verify (1), finish (4)"; !strings.Contains(told.String(), want) {
		t.Errorf("it does not say %q: %s", want, told.String())
	}
	told.Reset()
	if n, err := run.StepsUntil(c.Client, p, ""); err != nil || n != len(p.Steps) || told.Len() > 0 {
		t.Errorf("without an end: %d steps, %v, %q", n, err, told.String())
	}
	if _, err := run.StepsUntil(c.Client, p, "nowhere"); err == nil {
		t.Error("an end that is none is taken")
	}
}

// replaced is a plan for the lab whose control-plane hosts are replaced.
func replaced(t *testing.T) *v1.Plan {
	t.Helper()
	s, err := client.ReadSnapshot(labSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(s, v1.Options{ReplaceHosts: true, TargetVersion: "v1.27.0"}, nil, client.Now())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPlanForHostsThatAreReplaced(t *testing.T) {
	for name, print := range map[string]func(w *bytes.Buffer, p *v1.Plan) error{
		"plan-replace": func(w *bytes.Buffer, p *v1.Plan) error {
			return printer.PrintPlan(w, p, printer.Layout{Width: printer.DefaultWidth})
		},
		"plan-replace-markdown": func(w *bytes.Buffer, p *v1.Plan) error { return printer.PlanMarkdown(w, p) },
	} {
		var b bytes.Buffer
		if err := print(&b, replaced(t)); err != nil {
			t.Fatal(err)
		}
		golden(t, name, result{args: []string{"plan", "--replace-hosts", "--target-version", "v1.27.0"}, out: b.String()}, nil)
	}
}

func TestAPlanThatIsMadeAnew(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	r := transplant(t, append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out}, credentials...)...)
	if r.code != exitcode.OK && r.code != exitcode.Blocked {
		t.Fatal(r.errOut)
	}
	r = transplant(t, "plan", "--from-snapshot", labSnapshot, "--refresh", out)
	if !strings.Contains(r.errOut, "every fact of "+out+" still holds") {
		t.Errorf("nothing has changed:\n%s", r.errOut)
	}
	other := changed(t, func(s *v1.Snapshot) {
		for i := range s.Hosts[0].Components {
			if c := &s.Hosts[0].Components[i]; c.Name == "kube-controller-manager" {
				c.SHA256, c.Command = strings.Repeat("ab", 32), append(c.Command, "--v=9")
				c.Flags["v"] = "9"
			}
		}
	})
	r = transplant(t, "plan", "--from-snapshot", other, "--refresh", out)
	for _, part := range []string{"1 fact of " + out + " changed:", manifestPath("kube-controller-manager") + ": was ", ", now abababababab... (+ --v=9)"} {
		if !strings.Contains(r.errOut, part) {
			t.Errorf("it does not say %q:\n%s", part, r.errOut)
		}
	}
	p, err := client.ReadPlan(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Options.Env) != 1 {
		t.Errorf("the options of the old plan count: %+v", p.Options)
	}
	was, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	another := changed(t, func(s *v1.Snapshot) { s.Cluster.UID = "another" })
	fails(t, transplant(t, "plan", "--from-snapshot", another, "--refresh", out), exitcode.Stale, "plan "+out+" was made for the cluster with uid", "has another")
	if is, err := os.ReadFile(out); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the plan of one cluster was written over with that of another: %v", err)
	}
}

func TestABlockedPlanIsFollowedByACheck(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	blocked := changed(t, func(s *v1.Snapshot) { s.Cloud = nil })
	r := transplant(t, append([]string{"plan", "--from-snapshot", blocked, "--out", out}, credentials...)...)
	if want := "saved " + out + "; next: transplant check, since the plan is blocked\n"; r.code != exitcode.Blocked || !strings.Contains(r.errOut, want) {
		t.Errorf("exit code %d, want %q:\n%s", r.code, want, r.errOut)
	}
	r = transplant(t, append([]string{"check", "--from-snapshot", blocked, "--accept", "CLOUD-001=no account"}, credentials...)...)
	if at := strings.Index(r.out, "accepted: they would block otherwise · cloud config and credentials\n"); at < 0 || !strings.Contains(r.out[at:], "CLOUD-001") {
		t.Errorf("what is accepted is not listed apart:\n%s", r.out)
	}
}

func TestAPlanThatWasEditedByHand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "plan.yaml")
	transplant(t, append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out}, credentials...)...)
	for _, c := range []struct {
		name string
		edit func(*v1.Plan)
		want []string
	}{
		{"a step is moved", func(p *v1.Plan) {
			last := len(p.Steps) - 1
			for i, s := range p.Steps {
				if strings.HasPrefix(s.ID, "start/") {
					p.Steps[0], p.Steps[i] = p.Steps[i], p.Steps[0]
					break
				}
			}
			_ = last
		}, []string{"rule P-", "start/cloud-controller-manager@"}},
		{"a mode that is none", func(p *v1.Plan) {
			for i := range p.Steps {
				if p.Steps[i].Mode != "" {
					p.Steps[i].Mode = "rw"
				}
			}
		}, []string{`mode "rw" is no octal file mode`, "steps["}},
		{"an operation that is none", func(p *v1.Plan) {
			for i := range p.Steps {
				for e := range p.Steps[i].Edits {
					p.Steps[i].Edits[e].Op = "rename"
				}
			}
		}, []string{"the operations are setFlag, unsetFlag"}},
		{"a path with a detour", func(p *v1.Plan) {
			for i := range p.Steps {
				if p.Steps[i].Path != "" {
					p.Steps[i].Path = "/etc/kubernetes/../shadow"
				}
			}
		}, []string{"is not an absolute path without detours"}},
		{"an end that is none", func(p *v1.Plan) { p.Until = "nowhere" }, []string{"until: the plan has no step and no phase"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p v1.Plan
			if err := yaml.Unmarshal([]byte(mustRead(t, out)), &p); err != nil {
				t.Fatal(err)
			}
			c.edit(&p)
			edited := file(t, "edited.yaml", p)
			fails(t, transplant(t, "diff", "--from-snapshot", labSnapshot, edited), exitcode.DiffError, append(c.want, "cannot be executed")...)
		})
	}
}
