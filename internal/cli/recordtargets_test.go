package cli

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
)

// slowHost runs a cloud-controller-manager, unless it is silent, and takes its time for every answer.
type slowHost struct {
	hostaccess.Host
	name   string
	silent bool
	asked  int
}

func (h *slowHost) Name() string { return h.name }

func (h *slowHost) answer(ctx context.Context) error {
	h.asked++
	wait := 200 * time.Millisecond
	if h.silent {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return &hostaccess.UnreachableError{Host: h.name, Err: ctx.Err()}
	}
}

func (h *slowHost) List(ctx context.Context, _ string) ([]string, error) {
	if err := h.answer(ctx); err != nil {
		return nil, err
	}
	return nil, fs.ErrNotExist
}

func (h *slowHost) ReadFile(ctx context.Context, _ string) (hostaccess.File, error) {
	if err := h.answer(ctx); err != nil {
		return hostaccess.File{}, err
	}
	return hostaccess.File{}, fs.ErrNotExist
}

func (h *slowHost) Processes(ctx context.Context, manager string) ([]v1.Process, error) {
	if err := h.answer(ctx); err != nil || manager != component.CCM {
		return nil, err
	}
	return []v1.Process{{PID: 1, Args: []string{manager}}}, nil
}

func TestTheRecorderSeesTheManagersOfAClusterWithManyWorkersAndASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := &v1.Snapshot{}
		var hosts []hostaccess.Host
		var workers []*slowHost
		add := func(name string, controlPlane bool) *slowHost {
			h := &slowHost{name: name}
			hosts, before.Hosts = append(hosts, h), append(before.Hosts, v1.Host{Name: name, ControlPlane: controlPlane})
			return h
		}
		first, second := add("cp-1", true), add("cp-2", true)
		for range 30 {
			workers = append(workers, add("worker", false))
		}
		want := []recorder.Target{
			{Component: component.CCM, Host: first.name, Address: "127.0.0.1:10258"},
			{Component: component.CCM, Host: second.name, Address: "127.0.0.1:10258"},
		}
		m := run.NewManagerHosts(hosts, before)
		for _, silent := range []bool{false, true} {
			second.silent = silent
			if diff := cmp.Diff(want, m.Targets(t.Context())); diff != "" {
				t.Errorf("cp-2 silent: %v (-want +have):\n%s", silent, diff)
			}
		}
		for _, w := range workers {
			if w.asked > 0 {
				t.Fatal("a worker was asked")
			}
		}
		if m = run.NewManagerHosts(hosts, nil); len(m.Hosts) != len(hosts) {
			t.Errorf("without a snapshot %d of %d hosts are asked", len(m.Hosts), len(hosts))
		}
	})
}
