package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/boundtoken"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/tokenrequest"

	"github.com/spf13/cobra"
)

// withoutFormat are the commands that have no -o for programs, and why.
var withoutFormat = map[string]string{
	"fleet":                 "prints its help",
	"fleet rights":          "prints manifests, for kubectl apply -f -",
	"host-agent":            "prints its help",
	"host-agent serve":      "runs in a pod and prints nothing",
	"host-agent relay":      "speaks the protocol of the agent on its streams",
	"help":                  "prints a help",
	"completion":            "prints its help",
	"completion bash":       "prints a script",
	"completion fish":       "prints a script",
	"completion zsh":        "prints a script",
	"completion powershell": "prints a script",
}

func TestEveryCommandThatPrintsAnAnswerHasAFormatForPrograms(t *testing.T) {
	root := newRoot(console.Streams{}, "transplant")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "transplant ")
		if cmd != root {
			seen++
			format := cmd.Flags().Lookup("output")
			why, excepted := withoutFormat[name]
			switch {
			case format == nil && !excepted:
				t.Errorf("%s has no -o, and no reason for that", name)
			case format != nil && excepted:
				t.Errorf("%s has -o, and is said to have none: %s", name, why)
			case format != nil:
				f, ok := format.Value.(*printer.Format)
				if !ok || !slices.Contains(f.Allowed, "json") && !slices.Contains(f.Allowed, "jsonl") {
					t.Errorf("%s -o has no format for programs: %v", name, f)
				}
				if slices.Contains(f.Allowed, "json") != slices.Contains(f.Allowed, "yaml") {
					t.Errorf("%s -o has one of json and yaml alone: %v", name, f.Allowed)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if seen < 20 {
		t.Errorf("%d commands", seen)
	}
}

// decoded is the document that a command printed.
func decoded[T any](t *testing.T, r result) T {
	t.Helper()
	var doc T
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil {
		t.Fatalf("%v: %s", err, r.text(nil))
	}
	conforms(t, r.out)
	return doc
}

func TestExplainForPrograms(t *testing.T) {
	golden(t, "explain-json", transplant(t, "explain", "lm-001", "-o", "json"), nil)
	doc := decoded[v1.Explanation](t, transplant(t, "explain", "LM-001", "--from-snapshot", labSnapshot, "-o", "json"))
	if doc.Report == nil || len(doc.Report.Findings) != 1 || doc.Report.Findings[0].Code != "LM-001" ||
		doc.Report.Summary != (v1.CheckSummary{Skipped: 1}) {
		t.Errorf("the finding: %+v", doc.Report)
	}
	blocked := decoded[v1.Explanation](t, transplant(t, "explain", "GAP-001", "--from-snapshot", labSnapshot, "-o", "json"))
	if f := blocked.Report.Findings[0]; f.Outcome == v1.Pass || !strings.HasSuffix(f.Docs, "#gap-001") {
		t.Errorf("a finding that did not pass names no page: %+v", f)
	}
	list := decoded[v1.CheckList](t, transplant(t, "explain", "-o", "json"))
	if len(list.Checks) == 0 || list.Checks[0].Title == "" {
		t.Errorf("the list: %+v", list)
	}
	if r := transplant(t, "explain", "LM-001", "-o", "yaml"); !strings.HasPrefix(r.out, "apiVersion: ") {
		t.Error(r.text(nil))
	}
}

func TestTheVersionForPrograms(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		if kind := conforms(t, transplant(t, "version", "-o", format).out); kind != v1.KindVersion {
			t.Errorf("%s: %s", format, kind)
		}
	}
}

func TestDiffForPrograms(t *testing.T) {
	args := append([]string{"diff", "--from-snapshot", labSnapshot, "--until", "create/ServiceAccount/kube-system/transplant-observer"}, credentials...)
	r := transplant(t, append(args, "-o", "json")...)
	golden(t, "diff-json", r, nil)
	doc := decoded[v1.Diff](t, r)
	text := transplant(t, args...)
	whole := ""
	for _, d := range doc.Differences {
		whole += d.Unified
	}
	if r.code != exitcode.Different || text.code != exitcode.Different || whole != text.out {
		t.Errorf("exit %d and %d; the text is\n%s\nand the document has\n%s", r.code, text.code, text.out, whole)
	}
	t.Setenv(externalDiff, "/nonexistent/diff")
	if again := transplant(t, append(args, "-o", "json")...); again.out != r.out {
		t.Error("a program is asked to compare for a program")
	}
}

func TestPauseResumeAndUnlockForPrograms(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	o.lock(time.Second)
	first := decoded[v1.ChangeResult](t, o.run("pause", "--reason", "the shop is open", "-o", "json"))
	if !first.Changed || first.Command != "pause" || first.Run != o.doc.Run || first.Phase != v1.RunApplying || first.Paused == nil ||
		first.Paused.Reason != "the shop is open" || first.Lock == nil || first.Lock.PID != 4412 || first.Next != "transplant status --watch" {
		t.Errorf("pause: %+v", first)
	}
	if r := o.run("pause", "-o", "text"); r.out != "" || r.errOut == "" {
		t.Errorf("in text the answer is told: %s", r.text(nil))
	}
	o.unlock()
	back := decoded[v1.ChangeResult](t, o.run("resume", "-o", "json"))
	if !back.Changed || back.Paused == nil || back.Lock != nil || back.Next != "transplant apply" {
		t.Errorf("resume: %+v", back)
	}
	if again := decoded[v1.ChangeResult](t, o.run("resume", "-o", "json")); again.Changed || again.Paused != nil {
		t.Errorf("resuming twice: %+v", again)
	}
	if free := decoded[v1.ChangeResult](t, o.run("unlock", "-o", "json")); free.Changed || free.Lock != nil {
		t.Errorf("unlocking what is free: %+v", free)
	}
	o.lock(95 * time.Second)
	gone := decoded[v1.ChangeResult](t, o.unlocking(func() {}, "--yes", "-o", "json"))
	if !gone.Changed || gone.Lock == nil || gone.Lock.Host != "bastion" || gone.Next != "transplant apply, or transplant rollback" {
		t.Errorf("unlock: %+v", gone)
	}
	o.lock(95 * time.Second)
	if r := o.unlocking(func() {}, "-o", "json"); r.code != exitcode.NotApproved || r.out != "" {
		t.Errorf("what was not approved has no answer: %s", r.text(nil))
	}
}

func TestPausingTwiceSaysThatNothingChanged(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	o.paused()
	if r := decoded[v1.ChangeResult](t, o.run("pause", "-o", "json")); r.Changed || r.Paused == nil {
		t.Errorf("%+v", r)
	}
}

func TestRenewForPrograms(t *testing.T) {
	c := newLive(t)
	none := decoded[v1.TokenList](t, c.run("renew", "--host=cp-1", "-o", "json"))
	if len(none.Tokens) != 0 {
		t.Errorf("tokens: %+v", none)
	}
	c.token("cp-1")
	for state, args := range map[string][]string{v1.TokenValid: nil, v1.TokenRenewed: {"--all"}} {
		r := c.run(append([]string{"renew", "--host=cp-1", "-o", "json"}, args...)...)
		doc := decoded[v1.TokenList](t, r)
		if len(doc.Tokens) != 1 || doc.Tokens[0].Host != "cp-1" || doc.Tokens[0].State != state || doc.Tokens[0].Expires.IsZero() {
			t.Errorf("%s: %+v", state, doc)
		}
		if strings.Contains(r.text(nil), apitest.TokenMark) {
			t.Error("the token is printed")
		}
	}
}

// token gives a host the token of a manager, and its kubeconfig.
func (c *live) token(host string) {
	c.t.Helper()
	c.api.Put(c.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: planlayout.CCMAccount, Namespace: component.Namespace}})
	kube, _ := c.api.Clients(c.t)
	old, _, err := tokenrequest.Create(c.t.Context(), kube, component.Namespace, planlayout.CCMAccount, boundtoken.RenewingLifetime)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(host, planlayout.CCMToken, old)
	c.write(host, planlayout.CCMKubeconfig, "apiVersion: v1\nkind: Config\n")
}
