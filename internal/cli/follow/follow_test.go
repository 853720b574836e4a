package follow

import (
	"bytes"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/status"
)

// aged is a status with something of each kind that has an age.
func aged() v1.Status {
	return v1.Status{
		State: v1.StateApplying, Lock: &v1.LockStatus{Holder: "ops"}, Current: []v1.StepStatus{{ID: "a", Waiting: "b"}},
		Nodes: []v1.NodeStatus{{Name: "n"}}, Health: []v1.Blocker{{Code: v1.BlockerStepSlow, Level: "warning", Message: "slow"}},
	}
}

func TestWhenAWatchedRunHasEnded(t *testing.T) {
	at := client.Now()
	working := v1.Status{State: v1.StateApplying, Lock: &v1.LockStatus{}}
	asked := v1.Status{State: v1.StateStopped, StoppedBehind: "a"}
	for _, c := range []struct {
		name   string
		states []v1.Status // one a second
		done   bool
		code   int
	}{
		{"it was not begun", []v1.Status{{State: v1.StateNotStarted}}, false, exitcode.OK},
		{"it is applied", []v1.Status{working, {State: v1.StateApplied}}, true, exitcode.OK},
		{"no command works on it, and nobody did", []v1.Status{{State: v1.StateStopped}, {State: v1.StateStopped}, {State: v1.StateStopped}, {State: v1.StateStopped}}, false, exitcode.OK},
		{"the lock went before the journal said that it was applied", []v1.Status{working, {State: v1.StateStopped}, {State: v1.StateApplied}}, true, exitcode.OK},
		{"its holder stopped", []v1.Status{working, {State: v1.StateStopped}, {State: v1.StateStopped}, {State: v1.StateStopped}, {State: v1.StateStopped}}, true, exitcode.Error},
		{"its holder stopped where it was told to", []v1.Status{working, asked, asked, asked, asked}, true, exitcode.OK},
		{"it failed and was begun again", []v1.Status{working, {State: v1.StateFailed}, {State: v1.StateFailed}, working, {State: v1.StateFailed}}, false, exitcode.OK},
		{"it is paused", []v1.Status{working, {State: v1.StatePaused}, {State: v1.StatePaused}, {State: v1.StatePaused}, {State: v1.StatePaused}}, false, exitcode.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e endDetector
			var done bool
			var err error
			for i, s := range c.states {
				done, err = e.observe(s, at.Add(time.Duration(i)*time.Second))
			}
			if done != c.done || exitcode.Of(err) != c.code {
				t.Errorf("done %v, exit %d; want %v, %d", done, exitcode.Of(err), c.done, c.code)
			}
		})
	}
}

func TestAFingerprintHasNoAges(t *testing.T) {
	a, b := aged(), aged()
	b.Time, b.ElapsedSeconds, b.Lock.AgeSeconds, b.Current[0].SinceSeconds, b.Nodes[0].SinceSeconds = client.Now(), 7, 7, 7, 7
	b.Health[0].SinceSeconds = &b.ElapsedSeconds
	var said string
	var out bytes.Buffer
	for _, s := range []v1.Status{a, b} {
		if err := console.JsonLine(&out, s, fingerprint(s), &said); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
	if statusLine(a, podreason.Cause) != statusLine(b, podreason.Cause) {
		t.Errorf("%s\n%s", statusLine(a, podreason.Cause), statusLine(b, podreason.Cause))
	}
	if s := status.Judge(status.Facts{}); statusLine(s, podreason.Cause) != "not-started 0/0" {
		t.Errorf("%s", statusLine(s, podreason.Cause))
	}
}

func TestALongMessageOfAKubeletIsSaidOnce(t *testing.T) {
	long := "pod kube-system/ccm-cp-1 on node cp-1: %s of image example.com/ccm:v1 (rpc error: code = Unknown desc = failed to pull and unpack image: " + strings.Repeat(
		"no route to host, ",
		20,
	) + ")"
	of := func(done int, waiting string) v1.Status {
		return v1.Status{State: v1.StateApplying, StepsDone: done, StepsTotal: 6, Current: []v1.StepStatus{{ID: "external/ccm@cp-1", Waiting: waiting}}}
	}
	pulls, backsOff := strings.Replace(long, "%s", "ErrImagePull", 1), strings.Replace(long, "%s", "ImagePullBackOff", 1)
	var p pipedStatus
	if line, changed := p.line(of(2, pulls)); !changed || line != "applying 2/6 · external/ccm@cp-1 waits: "+pulls {
		t.Errorf("the first time: %v %q", changed, line)
	}
	for _, again := range []string{pulls, backsOff, pulls} {
		if line, changed := p.line(of(2, again)); changed {
			t.Errorf("nothing new was said again: %q", line)
		}
	}
	line, changed := p.line(of(3, backsOff))
	if !changed || !strings.HasPrefix(line, "applying 3/6 · external/ccm@cp-1 waits: pod kube-system/ccm-cp-1 on node cp-1: ImagePullBackOff") || len(line) > 160 {
		t.Errorf("next to something new: %v %q", changed, line)
	}
	if line, changed := p.line(of(3, "another reason")); !changed || !strings.HasSuffix(line, "waits: another reason") {
		t.Errorf("another reason: %v %q", changed, line)
	}
	if line, changed := p.line(of(3, pulls)); !changed || !strings.HasSuffix(line, pulls) {
		t.Errorf("it comes back after another reason: %v %q", changed, line)
	}
}
