package migrate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/manual"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// operator runs the commands that are printed, word for word: ssh runs them in a host's directory, in which it moves the paths.
type operator struct {
	w      *world
	bin    string
	blocks []string
}

func (w *world) operator() *operator {
	w.t.Helper()
	o := &operator{w: w, bin: w.t.TempDir()}
	for name, text := range map[string]string{
		"ssh":       "cd \"$HOSTS/$1\" || exit 255\nhost=$1; shift\nexec sh -c \"$(printf '%s' \"$*\" | sed \"s#\\(^\\|[ \\\"(=']\\)/\\(etc\\|var\\)/#\\1$HOSTS/$host/\\2/#g\")\"\n",
		"sudo":      "exec \"$@\"\n",
		"systemctl": "echo \"$1 $2 $(basename \"$PWD\")\" >> \"$TOLD\"\n",
	} {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	return o
}

func (o *operator) Write(p []byte) (int, error) {
	o.blocks = append(o.blocks, string(p))
	told := filepath.Join(o.bin, "told")
	if err := os.RemoveAll(told); err != nil {
		return 0, err
	}
	cmd := exec.Command("sh", "-c", string(p))
	cmd.Env = []string{"PATH=" + o.bin + ":" + os.Getenv("PATH"), "HOSTS=" + o.w.dir, "TOLD=" + told}
	if out, err := cmd.CombinedOutput(); err != nil {
		o.w.t.Errorf("running\n%s\n%v: %s", p, err, out)
	}
	data, err := os.ReadFile(told)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "restart kubelet ")
		for _, h := range o.w.hosts {
			if ok && h.Name() == name {
				if err := h.RestartKubelet(o.w.t.Context()); err != nil {
					return 0, err
				}
			}
		}
	}
	return len(p), nil
}

func TestAMigrationAndItsWayBackByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	files := w.files()
	o, state := w.operator(), t.TempDir()
	byHand := func(options *step.Options) {
		options.Hosts = manual.New(w.hosts, manual.Options{Out: o, StateDir: state, Clock: w.clock})
	}
	p, _ := w.begin()
	if err := w.engine(byHand).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.migrated(p)
	w.onlyTheNeededHandovers()
	forward := len(o.blocks)
	changed := map[string]bool{}
	for _, s := range p.Steps {
		if s.Host != "" {
			changed[s.ID] = true
		}
	}
	if owners := 2; forward > len(changed)+2*owners {
		t.Errorf("%d blocks for %d steps on hosts", forward, len(changed))
	}

	w.rollBack(byHand)
	w.rolledBack(files)
	for _, text := range o.blocks {
		if strings.Contains(text, "ccm-token") || strings.Contains(text, "VPC") {
			t.Errorf("contents are printed: %s", text)
		}
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}

func TestAStepByHandThatIsStoppedGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.operator()
	state := t.TempDir()
	p := w.given(v1.Step{ID: "write/cloud", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/kubernetes/cloud.conf", Content: "new", Mode: "0600"})
	stop := make(chan struct{})
	idle := &reader{then: func() { close(stop) }}
	err := w.engine(func(options *step.Options) {
		options.Hosts = manual.New(w.hosts, manual.Options{Out: idle, StateDir: state, Clock: w.clock})
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, hostaccess.ErrStopped) || w.engine().env.Journal.Record("write/cloud").Result != v1.StepResultStarted {
		t.Fatalf("error: %v, record %+v", err, w.engine().env.Journal.Record("write/cloud"))
	}
	if err := w.engine(func(options *step.Options) {
		options.Hosts = manual.New(w.hosts, manual.Options{Out: o, StateDir: state, Clock: w.clock})
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	rec := w.engine().env.Journal.Record("write/cloud")
	if have := w.read("cp-1", rec.Backup); rec.Result != v1.StepResultDone || have != "[Global]\nVPC = vpc-1\n" || w.read("cp-1", "/etc/kubernetes/cloud.conf") != "new" {
		t.Errorf("record %+v, backup %q", rec, have)
	}
}

// reader reads what is printed and does nothing about it.
type reader struct{ then func() }

func (r *reader) Write(p []byte) (int, error) {
	r.then()
	return len(p), nil
}
