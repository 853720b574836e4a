package cli

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

func TestAReportAsJUnit(t *testing.T) {
	failing := changed(t, func(s *v1.Snapshot) {
		s.Nodes[3].ProviderID = ""
		s.Hosts[0].Components[1].Flags["leader-elect"] = "false"
		s.Cloud = nil
		s.Errors = []v1.GatherError{{Fact: "cloud", Error: "403 from https://ec2.amazonaws.com"}}
	})
	r := transplant(t, "check", "--from-snapshot", failing, "-o", "junit", "--accept", "NODE-001=the node <worker> is about to be removed")
	if r.code != exitcode.Blocked {
		t.Errorf("exit %d", r.code)
	}
	var suites printer.JUnitSuites
	if err := xml.Unmarshal([]byte(r.out), &suites); err != nil {
		t.Fatal(err)
	}
	var failures, errs, skipped, tests int
	kinds := map[string]string{}
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			code, _, _ := strings.Cut(c.Name, " ")
			tests++
			switch {
			case c.Failure != nil:
				failures, kinds[code] = failures+1, "failure"
			case c.Error != nil:
				errs, kinds[code] = errs+1, "error"
			case c.Skipped != nil:
				skipped, kinds[code] = skipped+1, "skipped: "+c.Skipped.Message
			}
		}
	}
	if tests != len(check.List()) || suites.Tests != tests || suites.Failures != failures || suites.Errors != errs || suites.Skipped != skipped || failures == 0 ||
		errs == 0 {
		t.Errorf("%d cases of %d checks: %d failures, %d errors, %d skipped; the sums are %+v", tests, len(check.List()), failures, errs, skipped, suites)
	}
	for code, want := range map[string]string{"CP-002": "failure", "CLOUD-001": "error", "NODE-001": "skipped: accepted: the node <worker> is about to be removed"} {
		if kinds[code] != want {
			t.Errorf("%s is %q, want %q", code, kinds[code], want)
		}
	}
}

func TestWhatAWaitingCheckWaitsFor(t *testing.T) {
	client.WaitPeriod = time.Millisecond
	t.Cleanup(func() { client.WaitPeriod = 2 * time.Second })
	retryable, lasting := "", ""
	for _, k := range check.List() {
		if k.Retryable && retryable == "" {
			retryable = k.Code
		} else if !k.Retryable && lasting == "" {
			lasting = k.Code
		}
	}
	if retryable == "" || lasting == "" {
		t.Fatal("there are no two kinds of checks")
	}
	failed := func(code string) v1.CheckReport {
		return v1.CheckReport{Summary: v1.CheckSummary{Blocked: true}, Findings: []v1.Finding{{Code: code, Outcome: v1.Fail, Summary: "it is not there"}}}
	}
	for _, tc := range []struct {
		name  string
		limit time.Duration
		looks []v1.CheckReport // the last one repeats
		want  error
		seen  int // at least
		says  string
	}{
		{"until nothing blocks", time.Minute, []v1.CheckReport{failed(retryable), failed(retryable), {}}, nil, 3, retryable + " (it is not there)"},
		{"not for what does not pass by itself", time.Minute, []v1.CheckReport{failed(lasting)}, nil, 1, ""},
		{"until the time is over", 20 * time.Millisecond, []v1.CheckReport{failed(retryable)}, client.ErrStillBlocked, 2, retryable},
		{"not at all without --wait", 0, []v1.CheckReport{failed(retryable)}, nil, 1, ""},
	} {
		var said strings.Builder
		c, looks := console.New(console.Streams{Err: &said}), 0
		_, err := c.WaitForCheck(t.Context(), tc.limit, false, func(context.Context) (v1.CheckReport, error) {
			looks++
			return tc.looks[min(looks, len(tc.looks))-1], nil
		})
		if !errors.Is(err, tc.want) || looks < tc.seen || !strings.Contains(said.String(), tc.says) || strings.Count(said.String(), "\n") > 1 {
			t.Errorf("%s: %v after %d looks, said %q", tc.name, err, looks, said.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := console.New(console.Streams{Err: &strings.Builder{}})
	_, err := c.WaitForCheck(ctx, time.Hour, false, func(context.Context) (v1.CheckReport, error) { cancel(); return failed(retryable), nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted wait ends with %v", err)
	}
}

func TestASnapshotIsNotWaitedFor(t *testing.T) {
	fails(t, transplant(t, "check", "--from-snapshot", labSnapshot, "--wait"), exitcode.Error, "a snapshot in a file does not change")
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	_, terminal := openTerminal(t)
	for _, tc := range []struct {
		name, flag, noColor, term string
		toTerminal, want          bool
	}{
		{"a terminal", "auto", "", "xterm", true, true},
		{"a pipe", "auto", "", "xterm", false, false},
		{"NO_COLOR is set", "auto", "1", "xterm", true, false},
		{"a dumb terminal", "auto", "", "dumb", true, false},
		{"a pipe that is asked to", "always", "1", "dumb", false, true},
		{"a terminal that is asked not to", "never", "", "xterm", true, false},
	} {
		t.Setenv("NO_COLOR", tc.noColor)
		t.Setenv("TERM", tc.term)
		c := &console.Console{Color: printer.Format{Value: tc.flag}}
		out, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if tc.toTerminal {
			out = terminal
		}
		if got := c.Colored(out); got != tc.want {
			t.Errorf("%s: coloured is %v", tc.name, got)
		}
	}
	r := transplant(t, "check", "--from-snapshot", labSnapshot, "--color=always", "--ascii", "-v")
	if !strings.Contains(r.out, "\x1b[32mok  \x1b[0m") || strings.Contains(transplant(t, "check", "--from-snapshot", labSnapshot).out, "\x1b") {
		t.Errorf("marks are not painted, or painted into a pipe:\n%s", r.out)
	}
	fails(t, transplant(t, "check", "--color=sometimes"), exitcode.Error, "auto, always or never")
}

func TestOnlyTheProblems(t *testing.T) {
	failing := changed(t, func(s *v1.Snapshot) { s.Nodes[3].ProviderID = "" })
	r := transplant(t, "check", "--from-snapshot", failing, "--problems")
	if strings.Contains(r.out, "✓") || !strings.Contains(r.out, "✗ NODE-001") || r.code != exitcode.Blocked {
		t.Errorf("exit %d:\n%s", r.code, r.out)
	}
}

func TestACheckIsExplainedForACluster(t *testing.T) {
	failing := changed(t, func(s *v1.Snapshot) { s.Nodes[3].ProviderID = "" })
	golden(t, "explain-snapshot", transplant(t, "explain", "node-001", "--from-snapshot", failing), volatile{failing: "snapshot.yaml"})
	fails(t, transplant(t, "explain", "node-001", "--from-snapshot", failing+".gone"), exitcode.Error, "reading the snapshot")
}

func TestATerminalObeysNothingThatAClusterSays(t *testing.T) {
	const evil = "worker\x1b[2J\x1b]0;owned\x07\r✓ API-001"
	s := changed(t, func(s *v1.Snapshot) {
		s.Nodes[3].Name, s.Nodes[3].ProviderID = evil, ""
		s.Errors = append(s.Errors, v1.GatherError{Fact: "webhooks", Error: "listing: " + evil})
	})
	for _, args := range [][]string{
		{"check", "--from-snapshot", s, "--color=always"},
		{"check", "--from-snapshot", s, "-o", "wide"},
		{"explain", "NODE-001", "--from-snapshot", s},
	} {
		r := transplant(t, args...)
		for _, text := range []string{r.out, r.errOut} {
			if strings.ContainsAny(text, "\x07\r") || strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\x1b]") {
				t.Errorf("%v: a sequence of the cluster's reaches the terminal: %q", args, text)
			}
		}
		if !strings.Contains(r.out, `worker\x1b[2J`) {
			t.Errorf("%v: what the name holds is not shown", args)
		}
	}
}
