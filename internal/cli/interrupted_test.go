package cli

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
)

// buffer may be written to by a goroutine while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestTheFirstInterruptFinishesTheStepAndTheSecondStopsAtOnce(t *testing.T) {
	var said buffer
	hard, stop, done := console.Signals(t.Context(), console.New(console.Streams{Err: &said}))
	defer done()
	interrupt := func() {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	<-stop
	if hard.Err() != nil {
		t.Error("the first interrupt stops in the middle of a step")
	}
	interrupt()
	<-hard.Done()
	if cause := context.Cause(hard); !errors.Is(cause, context.Canceled) || !strings.Contains(cause.Error(), "stopped inside a step: run the same command again") {
		t.Errorf("cause: %v", cause)
	}
	if exitcode.Of(context.Cause(hard)) != exitcode.Interrupted || !strings.Contains(said.String(), "the run stops after this step; a second Ctrl-C stops inside it") {
		t.Errorf("exit %d: %s", exitcode.Of(context.Cause(hard)), said.String())
	}
}

func TestAnApplyThroughDirectoriesRestartsNoKubelet(t *testing.T) {
	r := newLive(t).run("apply", "--yes", "--accept", "CLOUD-001=no cloud in this test")
	fails(t, r, exitcode.Error, "nothing was changed: step external/kubelet@", "this access runs no programs of its host", "or manual to make the changes")
}

// TestNothingIsChangedWhereNoProcessIsSeen: the directory may be a disk of another machine, where the old manager goes on unseen.
func TestNothingIsChangedWhereNoProcessIsSeen(t *testing.T) {
	simulated := fault.HostProcesses
	fault.HostProcesses = func(string) bool { return false }
	t.Cleanup(func() { fault.HostProcesses = simulated })
	c := newLive(t)
	for _, access := range []string{"local:" + c.dir, "manual:local:" + c.dir} {
		r := transplant(t, "apply", "--yes", "--accept", "CLOUD-001=no cloud in this test", "--kubeconfig", c.kubeconfig, "--host-access", access, "--state-dir", t.TempDir())
		fails(t, r, exitcode.Blocked, "nothing was changed: what runs on host cp-1 is not seen", "--host-access=pod")
	}
	c.unchanged()
	fault.HostProcesses = simulated
	here := c.approvedHere(c.journal(v1.RunApplying, 2, 1))
	fault.HostProcesses = func(string) bool { return false }
	for _, command := range []string{"apply", "rollback"} {
		fails(t, c.run(command, "--yes", here), exitcode.Blocked, "nothing was changed: what runs on host cp-1 is not seen")
	}
}

func TestAnApplyThatFailsSaysHowToGoOnAndBack(t *testing.T) {
	c := newLive(t)
	c.api.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/rolebindings") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, err := w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
			`"message":"rolebindings is forbidden: admission plugin \"Strict\" does not want any"}`))
		return err == nil
	}
	accept := []string{"apply", "--yes", "--accept", "CLOUD-001=no cloud in this test"}
	r := transplant(t, append(accept, "--kubeconfig", c.kubeconfig, "--host-access", "manual:local:"+c.dir, "--state-dir", t.TempDir())...)
	fails(
		t,
		r,
		exitcode.Error,
		"[ 1/",
		"✓ create/ClusterRole/transplant-observer",
		"✗ create/RoleBinding/kube-system/transplant-leader-migration",
		"stopped. What was done stays; to go on: transplant apply; to go back: transplant rollback",
		"to ask for help: transplant bundle saves in one file what that takes, without secrets",
		`error: step create/RoleBinding/kube-system/transplant-leader-migration: creating RoleBinding/kube-system/transplant-leader-migration: rolebindings is forbidden: admission plugin "Strict" does not want any`,
	)
	status := c.run("status")
	for _, part := range []string{"· failed · 4/42 steps · 0/2 nodes · phase 1/6 prepare\n", "step       create/RoleBinding/kube-system/transplant-leader-migration · begun ", "error      creating RoleBinding"} {
		if !strings.Contains(status.out, part) {
			t.Errorf("status does not say %q:\n%s", part, status.out)
		}
	}
	kube, _ := c.api.Clients(t)
	if holder, err := lock.CurrentHolder(t.Context(), kube); err != nil || holder != "" {
		t.Errorf("the lock is left: %q, %v", holder, err)
	}
}
