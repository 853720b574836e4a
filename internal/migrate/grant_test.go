package migrate

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// granting is a host that keeps what it was asked for.
type granting struct {
	host
	needs *[]hostaccess.Need
}

func (g granting) Grant(_ context.Context, n hostaccess.Need) (func(context.Context), error) {
	*g.needs = append(*g.needs, n)
	return func(context.Context) {}, nil
}

func TestAStepIsGrantedWhatItChangesAndNothingElse(t *testing.T) {
	t.Parallel()
	const manifest, backup = manifests + "kube-apiserver.yaml", layout.Dir + "/backup"
	planned := v1.Step{ID: "x", Kind: v1.StepEditManifest, Host: "cp-1", Component: component.KAS, Path: manifest}
	for _, c := range []struct {
		name    string
		change  func(*world)
		step    v1.Step
		write   []string
		service bool
	}{
		{"an API server, and the manager next to it that hands over before", nil, planned, []string{manifest, backup, manifests + "kube-controller-manager.yaml"}, false},
		{"whatever the manifests are called", func(w *world) {
			if err := os.Rename(w.at("cp-1", manifests+"kube-controller-manager.yaml"), w.at("cp-1", manifests+"10-managers.yaml")); err != nil {
				t.Fatal(err)
			}
		}, planned, []string{manifest, backup, manifests + "10-managers.yaml"}, false},
		{"a manager that is a unit", func(w *world) { w.asUnits() }, planned, []string{manifest, backup}, true},
		{"a manager", nil, v1.Step{ID: "x", Kind: v1.StepEditManifest, Host: "cp-1", Component: component.KCM, Path: manifests + "kube-controller-manager.yaml"},
			[]string{manifests + "kube-controller-manager.yaml", backup}, false},
		{"a kubelet with its files", nil, v1.Step{ID: "x", Kind: v1.StepKubelet, Host: "cp-1", Path: "/a", Files: []string{"/b"}}, []string{"/a", backup, "/b"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			if c.change != nil {
				c.change(w)
			}
			var needs []hostaccess.Need
			inner, ok := w.hosts[0].(host)
			if !ok {
				t.Fatalf("the world's host is a %T", w.hosts[0])
			}
			w.hosts[0] = granting{inner, &needs}
			release, err := New(step.Options{Kube: w.kube, Hosts: w.hosts, Clock: w.clock}, &journal.Journal{}).grant(t.Context(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			release(t.Context())
			if len(needs) != 1 || !slices.Equal(needs[0].Write, c.write) || needs[0].Service != c.service || needs[0].Purpose != "x" {
				t.Errorf("it was asked for %+v", needs)
			}
		})
	}
}

// TestTheLockLastsForAsLongAsAnAPIServerMayBeAway: asked for before, since nobody can be asked while it is.
func TestTheLockLastsForAsLongAsAnAPIServerMayBeAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	open, steps := 0, map[string]time.Duration{}
	at := ""
	err := w.engine(func(o *step.Options) {
		o.Hook = func(point, step string) {
			if point == "before" {
				at = step
			}
		}
		o.Extend = func(_ context.Context, away time.Duration) (func(), error) {
			if w.restarts[component.KAS+"@cp-1"] != 1 {
				t.Errorf("before %s: the API server was started %d times", at, w.restarts[component.KAS+"@cp-1"])
			}
			open++
			steps[at] = away
			return func() { open-- }, nil
		}
	}).Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "external/kube-apiserver@cp-1"; len(steps) != 1 || steps[want] != 3*time.Minute || open != 0 {
		t.Errorf("the lock was extended for %v, and %d times not restored; want 3m for %s", steps, open, want)
	}
}
