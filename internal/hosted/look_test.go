package hosted

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestTheStatusOfAPartIsReadFromTheSeedAlone(t *testing.T) {
	w := newWorld(t, 1, false)
	alone := &Plane{Name: "x", Namespace: ns, Seed: w.s, Clock: w.clock} // no way to the cluster
	status := func(part Part) v1.Status {
		t.Helper()
		s, err := alone.Status(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(Handover); s.State != v1.StateNotStarted {
		t.Errorf("before: %+v", s)
	}
	p := w.plane()
	p.Hook = func(at, of string) {
		if at == "during" && of == "start/"+component.CCM {
			s := status(Handover)
			if s.State != v1.StateApplying || s.Section != planstep.PhaseHandover || s.StepsDone == 0 || len(s.Current) != 1 || s.Current[0].ID != of || s.Lock == nil ||
				s.Lock.Holder != "test" {
				t.Errorf("during: %+v", s)
			}
		}
	}
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	if s := status(Handover); s.State != v1.StateApplied || s.StepsDone != s.StepsTotal || s.Lock != nil {
		t.Errorf("after: %+v", s)
	}
	if s := status(Finish); s.State != v1.StateNotStarted {
		t.Errorf("of the other part: %+v", s)
	}
}

func TestOwnersThatCannotBeAskedAreUnknownAndNotAbsent(t *testing.T) {
	w := newWorld(t, 2, false)
	w.deaf = func(string) bool { return true }
	o, err := w.plane().Owners(t.Context())
	if err != nil || len(o.Unknown) != 2 || o.Loops["service"].Component != "" || len(o.Leases) != 1 || o.Leases[0].Name != component.KCM {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestAHostedControlPlaneIsNotMigratedWhen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *world, *Plane)
		code   string
	}{
		"it is in another cloud than is said": {func(_ *testing.T, _ *world, p *Plane) { p.Provider = "openstack" }, "HCP-002"},
		"a manager runs already": {func(t *testing.T, w *world, _ *Plane) {
			w.seed.Put(t, deployment("ccm", 1, corev1.Container{Name: "c", Image: "x/aws-cloud-controller-manager:v1.26.0", Command: []string{"/bin/aws-cloud-controller-manager"}}))
		}, "HCP-006"},
		"its pods do not answer":             {func(_ *testing.T, w *world, _ *Plane) { w.deaf = func(string) bool { return true } }, "HCP-005"},
		"its namespace is another cluster's": {func(_ *testing.T, _ *world, p *Plane) { p.Namespace = "cluster-y" }, "HCP-001"},
		"its config is gone": {func(_ *testing.T, w *world, _ *Plane) {
			w.seed.Delete("/api/v1/namespaces/" + ns + "/configmaps/cloud-config")
		}, "HCP-004"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, false)
			p := w.plane()
			c.change(t, w, p)
			err := p.Run(t.Context(), Handover, nil, nil)
			var blocked *BlockedError
			if !errors.As(err, &blocked) || !strings.Contains(describe(err), c.code+" ") {
				t.Errorf("it ends with %v", err)
			}
			if _, err := w.s.Kube.CoreV1().ConfigMaps(p.Namespace).Get(t.Context(), "transplant-journal", metav1.GetOptions{}); err == nil {
				t.Error("a migration was begun")
			}
		})
	}
}

func TestThereIsNoWayBackFromFinishAndNoFinishBeforeTheHandover(t *testing.T) {
	w := newWorld(t, 1, false)
	if err := w.plane().Rollback(t.Context(), nil, nil); !errors.Is(err, ErrNothingBegun) {
		t.Errorf("rolling back what was not begun: %v", err)
	}
	var blocked *BlockedError
	if err := w.plane().Run(t.Context(), Finish, nil, nil); !errors.As(err, &blocked) || !strings.Contains(describe(err), "HCP-006") {
		t.Errorf("finishing before the handover: %v", err)
	}
	w.run(Handover)
	w.run(Finish)
	if err := w.plane().Rollback(t.Context(), nil, nil); !errors.Is(err, ErrTooLate) {
		t.Errorf("rolling back after finish: %v", err)
	}
	w.owns(component.CCM)
}
