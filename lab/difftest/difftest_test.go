package difftest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/simcloud"
)

var program string // sim-cloud-controller-manager, built once

func TestMain(m *testing.M) { ccmtest.Main(m, "lab", "sim-cloud-controller-manager", &program) }

// newWorld starts an API server and a cloud.
func newWorld(t *testing.T, implementation string) *world {
	t.Helper()
	w := &world{implementation: implementation, dir: t.TempDir(), program: program}
	w.api, w.admin = ccmtest.API(t, apiserver.Options{Dir: w.dir, Audit: true})
	var err error
	if w.cloud, err = simcloud.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cloud.Close)
	if err := w.cloud.Set(simcloud.Settings{Latency: simcloud.Duration(5 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// run lets the scenarios happen.
func (w *world) run(ctx context.Context, t *testing.T) error {
	if err := Before.Run(w, ctx); err != nil {
		return fmt.Errorf("%s: %w", Before.Name, err)
	}
	if err := w.start(); err != nil {
		return err
	}
	for _, scenario := range Scenarios {
		begun := time.Now()
		if err := scenario.Run(w, ctx); err != nil {
			return fmt.Errorf("%s: %w", scenario.Name, err)
		}
		t.Logf("%8s: %s took %s", w.implementation, scenario.Name, time.Since(begun).Round(100*time.Millisecond))
	}
	return w.settle(ctx)
}

func TestOursDoesWhatUpstreamDoesWithoutMoreCalls(t *testing.T) {
	worlds := []*world{newWorld(t, "upstream"), newWorld(t, "ours")}
	snapshots, errs := make([]Snapshot, len(worlds)), make([]error, len(worlds))
	var runs sync.WaitGroup
	for i, w := range worlds {
		runs.Go(func() {
			errs[i] = w.run(t.Context(), t)
			if errs[i] == nil {
				snapshots[i], errs[i] = w.snapshot(t.Context())
			}
		})
	}
	runs.Wait()
	for _, w := range worlds {
		if w.manager != nil {
			w.manager.Kill()
			ccmtest.ShowLog(t, w.implementation, w.manager.Log)
		}
		if unknown := w.cloud.Unknown(); len(unknown) > 0 {
			t.Errorf("%s asked the simulated cloud for what it does not know: %q", w.implementation, unknown)
		}
	}
	for i, w := range worlds {
		if errs[i] == nil {
			continue
		}
		t.Errorf("%s: %v", w.implementation, errs[i])
	}
	if errors.Join(errs...) != nil {
		t.FailNow()
	}
	if diff := cmp.Diff(snapshots[0].without(omissions, snapshots[1]), snapshots[1].without(additions, snapshots[0])); diff != "" {
		t.Errorf("clusters and clouds at the end (-upstream +ours):\n%s", diff)
	}
	upstream, ours := worlds[0].counts(), worlds[1].counts()
	t.Logf("\n%s", table(upstream, ours))
	for i, class := range classes {
		if allowed := max(upstream[i], causes(class, ours)); ours[i] > allowed {
			t.Errorf("%s: ours made %d calls, upstream %d, and %d are allowed", class.name, ours[i], upstream[i], allowed)
		}
	}
}
