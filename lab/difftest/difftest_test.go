package difftest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/simcloud"
)

var program string // sim-cloud-controller-manager, built once

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "difftest")
	if err == nil && !testing.Short() {
		program, err = buildProgram(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

func buildProgram(dir string) (string, error) {
	root, err := build.FindRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sim-cloud-controller-manager")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/sim-cloud-controller-manager")
	cmd.Dir = filepath.Join(root, "lab")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building sim-cloud-controller-manager: %w\n%s", err, output)
	}
	return path, nil
}

// newWorld starts an API server and a cloud.
func newWorld(t *testing.T, implementation string) *world {
	t.Helper()
	w := &world{implementation: implementation, dir: t.TempDir(), program: program}
	var err error
	if w.api, err = apiserver.Start(t.Context(), apiserver.Options{Dir: w.dir, Audit: true, Progress: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.api.Stop)
	if w.cloud, err = simcloud.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cloud.Close)
	if err := w.cloud.Set(simcloud.Settings{Latency: simcloud.Duration(5 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	config, err := w.api.Config("admin")
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.CloseIdleConnections)
	if w.admin, err = kubernetes.NewForConfigAndClient(config, web); err != nil {
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
	if testing.Short() {
		t.Skip("starts two API servers")
	}
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
		}
		if unknown := w.cloud.Unknown(); len(unknown) > 0 {
			t.Errorf("%s asked the simulated cloud for what it does not know: %q", w.implementation, unknown)
		}
	}
	for i, w := range worlds {
		if errs[i] == nil {
			continue
		}
		log, err := os.ReadFile(filepath.Join(w.dir, "manager.log"))
		t.Errorf("%s: %v\n%s", w.implementation, errs[i], log[max(0, len(log)-8000):])
		if err != nil {
			t.Error(err)
		}
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
