package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// eventsOf are the lines that a run wrote on standard output, each compared with its schema.
func eventsOf(t *testing.T, out string) []v1.RunEvent {
	t.Helper()
	var events []v1.RunEvent
	for line := range strings.Lines(out) {
		var e v1.RunEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		conforms(t, line)
		events = append(events, e)
	}
	return events
}

// told are events in short: the type, the step and the result, a line each.
func told(events []v1.RunEvent) []string {
	var out []string
	for _, e := range events {
		line := string(e.Type)
		if e.Step != nil {
			line += " " + e.Step.ID
		}
		if e.Result != "" {
			line += " " + string(e.Result)
		}
		out = append(out, line)
	}
	return out
}

func TestTheEventsOfARunAreLinesForPrograms(t *testing.T) {
	c := newLive(t)
	path, p := c.rightsOnly(5)
	r := c.run("apply", path, "--yes", "--until", p.Steps[2].ID, "-o", "jsonl")
	events := eventsOf(t, r.out)
	want := []string{"version", "plan"}
	for _, s := range p.Steps[:2] {
		want = append(want, "step.started "+s.ID, "step.finished "+s.ID+" done")
	}
	want = append(want, "step.finished "+p.Steps[2].ID+" already-done") // the account is there
	if diff := cmp.Diff(append(want, "finished"), told(events)); diff != "" || r.code != exitcode.OK {
		t.Fatalf("exit %d: %s\n%s", r.code, diff, r.errOut)
	}
	if e := events[0]; e.Command != "apply" || e.Version != client.Version {
		t.Errorf("the first line: %+v", e)
	}
	if e := events[1]; e.Plan == nil || len(e.Plan.Steps) != 5 || e.PlanSHA256 != compare.Digest(p) {
		t.Errorf("the plan: %+v", e)
	}
	if s := events[2].Step; s.Number != 1 || s.Total != 5 || s.Phase != p.Steps[0].Phase || s.Title != p.Steps[0].Title {
		t.Errorf("the first step: %+v", s)
	}
	if e := events[len(events)-1]; e.ExitCode == nil || *e.ExitCode != 0 || e.Message != "" {
		t.Errorf("the last line: %+v", e)
	}
	for _, part := range []string{"stopped after " + p.Steps[2].ID, "[ 1/5] "} {
		if !strings.Contains(r.errOut, part) {
			t.Errorf("standard error does not say %q:\n%s", part, r.errOut)
		}
	}

	r = c.run("apply", path, "--yes", "-o", "jsonl")
	want = []string{"version"}
	for _, s := range p.Steps[:3] {
		want = append(want, "step.finished "+s.ID+" already-done")
	}
	for _, s := range p.Steps[3:] {
		want = append(want, "step.started "+s.ID, "step.finished "+s.ID+" done")
	}
	if diff := cmp.Diff(append(want, "finished"), told(eventsOf(t, r.out))); diff != "" || r.code != exitcode.OK {
		t.Errorf("it goes on: exit %d: %s\n%s", r.code, diff, r.errOut)
	}
	r = c.run("apply", "-o", "jsonl")
	if have := told(eventsOf(t, r.out)); !slices.Equal(have, []string{"version", "finished"}) {
		t.Errorf("nothing to do: %v", have)
	}
}

func TestTheEventsOfARunInAFile(t *testing.T) {
	c := newLive(t)
	path, p := c.rightsOnly(2)
	r := c.run("apply", path, "--yes", "-o", "jsonl")
	var lines []string
	for _, e := range eventsOf(t, r.out) {
		e.Time = client.Now()
		if e.Plan != nil {
			e.Plan, e.PlanSHA256 = nil, "(of the plan)"
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(data)+"\n")
	}
	if len(p.Steps) != 2 {
		t.Fatal("another plan")
	}
	r.out, r.errOut = strings.Join(lines, ""), ""
	golden(t, "apply-events", r, volatile{path: "plan.yaml", c.kubeconfig: "KUBECONFIG", c.dir: "HOSTS"})
}

func TestARunThatIsRefusedSaysSoInItsLastEvent(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	for _, tc := range []struct {
		name string
		args []string
		code int
		want []string
		says string
	}{
		{"no consent", []string{"apply", good}, exitcode.NotApproved, []string{"version", "plan", "finished"}, "there is no terminal on which to ask"},
		{"a plan that is none", []string{"apply", "nope.yaml"}, exitcode.Error, []string{"version", "finished"}, "reading the plan: open nope.yaml"},
		{"findings", []string{"apply", "--yes"}, exitcode.Blocked, nil, "blocked by 1 finding"},
		{"nothing to roll back", []string{"rollback", "--yes"}, exitcode.Error, []string{"version", "finished"}, "there is nothing to roll back"},
		{"a dry run", []string{"apply", good, "--dry-run"}, exitcode.OK, []string{"version", "plan", "finished"}, ""},
	} {
		r := c.run(append(tc.args, "-o", "jsonl")...)
		events := eventsOf(t, r.out)
		last := events[len(events)-1]
		if r.code != tc.code || last.Type != v1.EventFinished || last.ExitCode == nil || *last.ExitCode != tc.code || !strings.Contains(last.Message, tc.says) {
			t.Errorf("%s: exit %d, the last line is %+v", tc.name, r.code, last)
		}
		if tc.want != nil && !slices.Equal(told(events), tc.want) {
			t.Errorf("%s: %v", tc.name, told(events))
		}
		if tc.name == "findings" && !slices.ContainsFunc(events, func(e v1.RunEvent) bool {
			return e.Type == v1.EventFinding && e.Finding != nil && e.Finding.Code == "CLOUD-001" && e.Finding.Outcome == v1.Unknown
		}) {
			t.Errorf("the finding that blocks: %v", told(events))
		}
	}
	if r := c.run("apply", "-o", "json"); r.out != "" || r.code != exitcode.Error || !strings.Contains(r.errOut, "give text or jsonl") {
		t.Errorf("a format that it has not: %s", r.text(nil))
	}
	c.unchanged()
}

// brokenAfter is a pipe whose reader goes away after some lines.
type brokenAfter struct {
	w     io.Writer
	lines int
}

func (b *brokenAfter) Write(p []byte) (int, error) {
	if b.lines--; b.lines < 0 {
		return 0, syscall.EPIPE
	}
	return b.w.Write(p)
}

func TestARunWhoseEventsHaveNoReaderStopsAfterTheStep(t *testing.T) {
	c := newLive(t)
	path, p := c.rightsOnly(5)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out, narrated bytes.Buffer
	code := Run(
		t.Context(),
		[]string{"apply", path, "--yes", "-o", "jsonl", "--kubeconfig", c.kubeconfig, "--host-access", "local:" + c.dir},
		console.Streams{In: strings.NewReader(""), Out: &brokenAfter{w: &out, lines: 3}, Err: &narrated},
	)
	if code != exitcode.Interrupted || strings.Count(narrated.String(), "the events are incomplete") != 1 {
		t.Errorf("exit %d:\n%s", code, narrated.String())
	}
	if have := told(eventsOf(t, out.String())); !slices.Equal(have, []string{"version", "plan", "step.started " + p.Steps[0].ID}) {
		t.Errorf("the lines: %v", have)
	}
	if status := c.run("status"); !strings.Contains(status.out, "1/5 steps") {
		t.Errorf("the step that was under way was finished, and no other one begun:\n%s", status.out)
	}
}

// asking is a command that asks, with the streams of a test.
func asking(t *testing.T, s console.Streams) error {
	t.Helper()
	c := console.New(s)
	cmd := &cobra.Command{
		Use:           "apply",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(*cobra.Command, []string) error { return c.Approve(client.Question{What: "execute it"}) },
	}
	c.AddEventsFlag(cmd)
	cmd.SetArgs([]string{"-o", "jsonl"})
	return cmd.ExecuteContext(t.Context())
}

func TestAQuestionIsAskedOnStandardErrorAndToldOnStandardOutput(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	var out, asked bytes.Buffer
	err := asking(t, console.Streams{In: terminal, Out: &out, Err: &asked})
	if exitcode.Of(err) != exitcode.NotApproved || !strings.Contains(err.Error(), "standard error is no terminal, on which to ask") || asked.Len() > 0 {
		t.Errorf("asked where no person reads: %v, %s", err, asked.String())
	}
	if have := told(eventsOf(t, out.String())); !slices.Equal(have, []string{"version"}) {
		t.Errorf("the lines: %v", have)
	}
	out.Reset()
	if _, err := keyboard.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if err := asking(t, console.Streams{In: terminal, Out: &out, Err: terminal}); err != nil {
		t.Error(err)
	}
	events := eventsOf(t, out.String())
	if have := told(events); !slices.Equal(have, []string{"version", "question"}) || events[1].Message != "execute it" {
		t.Errorf("the lines: %v", have)
	}
}
