package openstackreal

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

var (
	real    = flag.Bool("openstack.real", false, "start and stop a real OpenStack, which needs root (make e2e-openstack)")
	running = flag.String("openstack.dir", "", "an OpenStack runs in this directory: this package starts no other one")
)

// What a machine lacks is in the error, and nothing of it is left running.
func TestAMachineThatCannotRunOpenStackSaysWhy(t *testing.T) {
	root, nothing := "echo 0", "exit 1"
	for name, test := range map[string]struct {
		programs map[string]string
		says     string
	}{
		"not root":   {map[string]string{"id": "echo 1000"}, "needs root"},
		"no apt-get": {map[string]string{"id": root}, "Debian 12"},
		"no package": {
			map[string]string{"id": root, "apt-get": nothing, "dpkg": nothing, "apt-cache": nothing}, "apt has no package python3-keystone",
		},
		"a full disk": {
			map[string]string{"id": root, "apt-get": "echo E: no space left; exit 100", "dpkg": nothing, "apt-cache": root}, "no space left",
		},
	} {
		test.programs["date"], test.programs["awk"], test.programs["tail"] = root, root, "/bin/cat $2"
		t.Run(name, func(t *testing.T) {
			dir, bin := t.TempDir(), t.TempDir()
			for program, script := range test.programs {
				if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil { //nolint:gosec // it is run
					t.Fatal(err)
				}
			}
			t.Setenv("OSTACK_PATH", bin)
			s, err := Start(t.Context(), Options{Dir: dir})
			if err == nil {
				s.Stop()
				t.Fatal("it has started")
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q in it", err, test.says)
			}
		})
	}
}

// narration is the test's log.
type narration struct{ t *testing.T }

func (n narration) Write(p []byte) (int, error) {
	n.t.Helper()
	n.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// The services end with the process that started them, also when that is killed: nothing tells the script of a SIGKILL.
func TestOpenStackEndsWithTheProcessThatStartedIt(t *testing.T) {
	if !*real || *running != "" {
		t.Skip("starts a real OpenStack (make e2e-openstack)")
	}
	if os.Getenv("OPENSTACKREAL_CHILD") != "" {
		s, err := Start(t.Context(), Options{Progress: narration{t}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("OPENSTACKREAL_CHILD"), []byte(s.dir), 0o600); err != nil {
			t.Fatal(err)
		}
		<-s.ended // the parent kills this process
		return
	}
	up := filepath.Join(t.TempDir(), "up")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0", "-openstack.real")
	child.Env = append(os.Environ(), "OPENSTACKREAL_CHILD="+up)
	child.Stdout, child.Stderr = narration{t}, narration{t}
	child.WaitDelay = time.Second
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = child.Process.Kill() // it may have ended
		<-ended
	})
	var dir string
	until(t, "OpenStack to run", func() error {
		select {
		case <-ended:
			t.Fatal("the child has ended")
		default:
		}
		data, err := os.ReadFile(up)
		dir = string(data)
		return err
	})
	pids := recorded(t, dir)
	if len(pids) < 12 {
		t.Fatalf("services %v", pids)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "all services to end", func() error {
		for name, pid := range pids {
			if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("%s runs, error %v", name, err) //nolint:errorlint // there may be none
			}
		}
		return nil
	})
}

// recorded are the process groups of services.
func recorded(t *testing.T, dir string) map[string]int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, "pids", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if pids[e.Name()], err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
			t.Fatal(err)
		}
	}
	return pids
}

func until(t *testing.T, what string, met func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) {
		last = met()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v: %v", what, err, last)
	}
}
