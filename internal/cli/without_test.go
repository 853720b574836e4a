package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestHostsThatCannotBeTakenOut(t *testing.T) {
	c := newLive(t)
	fails(t, c.run("apply", "--yes", "--without-host=cp-1"), exitcode.Error, "--without-host excludes a host from a migration that was started, and none was")
	here := c.approvedHere(c.journal(v1.RunApplying, 20, 1))
	for _, command := range []string{"apply", "rollback"} {
		fails(t, c.run(command, "--yes", "--without-host=a b"), exitcode.Error, `--without-host="a b" names no host: give the name that the plan has for it`)
		fails(
			t,
			c.run(command, "--yes", here, "--without-host=cp-9"),
			exitcode.Error,
			"host cp-9 stays in the migration: the plan has no host of that name (it has cp-1",
			"nothing was changed",
		)
		fails(
			t,
			c.run(command, "--yes", here, "--without-host=cp-1"),
			exitcode.Error,
			"host cp-1 stays in the migration: it can be reached: run the same command without --without-host",
		)
	}
}

func TestAManualAccessThatCannotWork(t *testing.T) {
	kubeconfig := apitest.New(t).Kubeconfig(t)
	for access, says := range map[string]string{
		"manual:none": "never see their effect", "manual:manual:pod": "manual twice", "manual:": "does not say what hosts are read through", "manual:local:/nonexistent": "/nonexistent",
	} {
		fails(t, transplant(t, "check", "--kubeconfig", kubeconfig, "--host-access="+access), exitcode.Error, "--host-access: ", says)
	}
}

func TestWhatCanBeDoneAboutALostHostIsSaidAtLast(t *testing.T) {
	lost := &lostnode.Error{
		Hosts: []lostnode.Host{{Name: "cp-3", Why: "no answer", Evidence: []string{"its node is not Ready"}}},
		Err:   &step.StepError{Step: v1.Step{ID: "x"}, Err: errors.New("y")},
	}
	for direction, want := range map[string]string{
		planstep.Forward:  "to go on when cp-3 is back: transplant apply\nto go on without what is gone for good: transplant apply --without-host=cp-3\nto go back without it: transplant rollback --without-host=cp-3\n",
		planstep.Rollback: "to go on when cp-3 is back: transplant rollback\nto go on without what is gone for good: transplant rollback --without-host=cp-3\n",
	} {
		var out bytes.Buffer
		c := console.New(console.Streams{Err: &out})
		run.ExplainLostHosts(c.Client, fmt.Errorf("outer: %w", lost), direction)
		if out.String() != want {
			t.Errorf("%s: %s", direction, out.String())
		}
	}
	lost.Hosts = append(lost.Hosts, lostnode.Host{Name: "w-1", Why: "no session", Alive: "its node is Ready"})
	var both bytes.Buffer
	run.ExplainLostHosts((console.New(console.Streams{Err: &both})).Client, lost, planstep.Forward)
	if want := "host w-1 cannot be given up: its node is Ready\nto go on when cp-3, w-1 are back: transplant apply\n" +
		"to go on without what is gone for good: transplant apply --without-host=cp-3\nto go back without it: transplant rollback --without-host=cp-3\n"; both.String() != want {
		t.Errorf("one of them lives: %s", both.String())
	}
	lost.Hosts = lost.Hosts[1:]
	both.Reset()
	run.ExplainLostHosts((console.New(console.Streams{Err: &both})).Client, lost, planstep.Forward)
	if want := "host w-1 cannot be given up: its node is Ready\nto go on when w-1 is back: transplant apply\n"; both.String() != want {
		t.Errorf("the only one lives: %s", both.String())
	}
	lost.Hosts = []lostnode.Host{{Name: "cp-3", Why: "no answer", Evidence: []string{"its node is not Ready"}}}
	if want := "step x: y\nhost cp-3 is out of reach (no answer)\n    its node is not Ready"; lost.Error() != want {
		t.Errorf("the error: %s", lost)
	}
	var out bytes.Buffer
	run.ExplainLostHosts((console.New(console.Streams{Err: &out})).Client, errors.New("x"), planstep.Forward)
	if out.Len() > 0 {
		t.Errorf("said: %s", out.String())
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{lost, exitcode.Timeout},
		{&lostnode.Error{Err: &step.VerifyError{}}, exitcode.Unverified},
		{&step.StepError{Err: fmt.Errorf("waiting: %w", hostaccess.ErrStopped)}, exitcode.Interrupted},
		{&lostnode.StayError{}, exitcode.Error},
	} {
		if have := exitcode.Of(c.err); have != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, have, c.want)
		}
	}
	if !strings.Contains(exitCodes, "5    timed out") {
		t.Error(exitCodes)
	}
}
