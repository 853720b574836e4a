package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

// spool collects what a command writes while it runs.
type spool struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *spool) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// shows waits until something was written.
func (s *spool) shows(t *testing.T, what string) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(s.String(), what) {
		if time.Now().After(limit) {
			t.Fatalf("it never showed %q:\n%s", what, s.String())
		}
		<-tick.C
	}
}

// watched is a command that goes on next to the test.
type watched struct {
	out, errOut spool
	code        chan int
	stop        context.CancelFunc
}

func (o *onlooker) watch(args ...string) *watched {
	o.t.Helper()
	ctx, stop := context.WithCancel(o.t.Context())
	w := &watched{code: make(chan int, 1), stop: stop}
	args = append(args, "--watch", "--kubeconfig", o.kubeconfig, "--state-dir", o.t.TempDir())
	go func() {
		w.code <- Run(ctx, args, console.Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.errOut})
	}()
	o.t.Cleanup(stop)
	return w
}

func TestWatchingARunInAPipe(t *testing.T) {
	o := newOnlooker(t)
	w := o.watch("status")
	w.out.shows(t, "12:00:00 not-started 0/0\n")
	j := o.begin()
	o.lock(time.Second, o.waiting("kube-controller-manager on cp-2 is not ready"))
	steps := fmt.Sprintf("%d/%d", o.current, len(o.doc.Plan.Steps))
	w.out.shows(t, "12:00:00 applying "+steps+" · leader-migration/kube-controller-manager@cp-2 waits: kube-controller-manager on cp-2 is not ready\n")
	lines := strings.Count(w.out.String(), "\n")
	o.lock(0, o.waiting("kube-controller-manager on cp-2 is not ready")) // a renewal is no change
	o.paused()
	w.out.shows(t, "warning: the run waits after this step: it is paused by boss@desk at 11:58:00 UTC: the shop is open\n")
	if n := strings.Count(w.out.String(), "\n"); n != lines+1 {
		t.Errorf("%d lines for one change:\n%s", n-lines, w.out.String())
	}
	if err := j.SetPhase(t.Context(), v1.RunApplied, nil, nil); err != nil {
		t.Fatal(err)
	}
	if code := <-w.code; code != exitcode.OK {
		t.Errorf("exit %d: %s", code, w.errOut.String())
	}
	if !strings.HasSuffix(
		w.out.String(),
		"12:00:00 applied "+steps+" · leader-migration/kube-controller-manager@cp-2 waits: kube-controller-manager on cp-2 is not ready\n",
	) {
		t.Errorf("the last line:\n%s", w.out.String())
	}
}

func TestWatchingARunThatFails(t *testing.T) {
	o := newOnlooker(t)
	j := o.begin()
	o.lock(time.Second)
	w := o.watch("status", "-o", "json")
	w.out.shows(t, `"state":"applying"`)
	rec := o.doc.Records[o.current]
	rec.Error = "the disk of cp-2 is full"
	if err := j.Save(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	o.unlock()
	if code := <-w.code; code != exitcode.Error ||
		!strings.Contains(
			w.errOut.String(),
			"migration 20261121-115500 ended with an error: the disk of cp-2 is full\n  | next: repair the error, then transplant apply, or transplant rollback",
		) {
		t.Errorf("exit %d: %s", code, w.errOut.String())
	}
	for line := range strings.Lines(w.out.String()) {
		var s v1.Status
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Kind != v1.KindStatus {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func TestWatchingIsStopped(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	w := o.watch("timeline")
	w.out.shows(t, "migration 20261121-115500 was begun by ops")
	o.event("Node", "", "cp-1", "Warning", "NodeNotReady", "it is not", time.Second)
	w.out.shows(t, "Node/cp-1: NodeNotReady: it is not")
	w.stop()
	if code := <-w.code; code != exitcode.Interrupted {
		t.Errorf("exit %d: %s", code, w.errOut.String())
	}
	if n := strings.Count(w.out.String(), "was begun by ops"); n != 1 {
		t.Errorf("an entry was written %d times:\n%s", n, w.out.String())
	}
	for _, format := range []string{"yaml", "prometheus"} {
		fails(t, o.run("status", "--watch", "-o", format), exitcode.Error, "--watch writes text or json, not "+format)
	}
}

func TestATerminalIsDrawnAnewInPlace(t *testing.T) {
	var out bytes.Buffer
	v := &console.View{W: &out, Redraws: true, Size: func() (int, int) { return 80, 5 }}
	for _, text := range []string{"a\nb\nc\n", "x\n", "1\n2\n3\n4\n5\nlast\n"} {
		if err := v.Draw(text); err != nil {
			t.Fatal(err)
		}
	}
	want := "a\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J" + "\x1b[3A\rx\x1b[K\n\x1b[J" + "\x1b[1A\r1\x1b[K\n2\x1b[K\n3\x1b[K\nlast\x1b[K\n\x1b[J"
	if out.String() != want {
		t.Errorf("drawn %q, want %q", out.String(), want)
	}
	t.Setenv("TERM", "dumb")
	if console.New(console.Streams{}).NewView(&out).Redraws {
		t.Error("a pipe is redrawn")
	}
}
