package processlab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/poll"
)

// stateOf is the state of a process, as the kernel shows it: S, T, Z.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func isInState(t *testing.T, pid int, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := poll.Until(ctx, time.Millisecond, "state "+want, func(context.Context) error {
		if got := stateOf(t, pid); got != want {
			return errors.New("its state is " + got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFrozenProcessesGoOnWhenTheyAreHealed(t *testing.T) {
	var pids []int
	var cmds []*exec.Cmd
	for range 2 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		pids, cmds = append(pids, cmd.Process.Pid), append(cmds, cmd)
	}
	heal, err := freeze(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		isInState(t, pid, "T")
	}
	if err := errors.Join(cmds[0].Process.Kill(), ignore(cmds[0].Wait())); err != nil { // as a kubelet does that has waited for long enough
		t.Fatal(err)
	}
	if err := heal(t.Context()); err != nil {
		t.Errorf("healing, when one of them has ended: %v", err)
	}
	isInState(t, pids[1], "S")
	if _, err := freeze(nil); !errors.Is(err, faults.ErrNotHere) {
		t.Errorf("where no manager runs, it says: %v", err)
	}
}

// ignore is for the error of a process that was killed.
func ignore(error) error { return nil }

// TestTheCloudKnowsEachOfItsFaults, and each kind is said how it is made.
func TestTheCloudKnowsEachOfItsFaults(t *testing.T) {
	for _, kind := range faults.OfTheSurroundings {
		if (&Lab{}).How(kind) == "" {
			t.Errorf("it is not said how %q is made", kind)
		}
	}
	for kind, fault := range cloudFaults {
		text, err := fault.MarshalJSON()
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		var back awssim.Fault
		if err := back.UnmarshalJSON(text); err != nil {
			t.Errorf("%s: the cloud does not take %s: %v", kind, text, err)
		}
		for _, component := range []string{cluster.ControllerManager, cluster.CloudControllerManager} {
			if ok, err := filepath.Match(fault.Key, cluster.AccessKey("cp-3", component)); err != nil || !ok {
				t.Errorf("%s does not hit the %s of cp-3", kind, component)
			}
		}
		for _, key := range []string{cluster.KeyCLI, cluster.KeyLab, cluster.KeyKubelet} {
			if ok, err := filepath.Match(fault.Key, key); err != nil || ok {
				t.Errorf("%s hits %s, which is no manager's", kind, key)
			}
		}
	}
}
