package migrate

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// TestAHostThatIsNoControlPlaneGetsNoToken: it is asked right before each write, whatever the plan and the snapshots say.
func TestAHostThatIsNoControlPlaneGetsNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	var given []v1.Step
	for _, s := range p.Steps {
		if s.Host == "cp-1" && (s.Derive != "" || s.Kind == v1.StepAddManifest) {
			given = append(given, s)
		}
	}
	if len(given) != 4 || !slices.ContainsFunc(given, planstep.IsToken) || given[3].Kind != v1.StepAddManifest {
		t.Fatalf("%d steps", len(given))
	}
	label := func(role string) {
		w.api.Put(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/" + role: ""}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
	}
	refused := func(e *Engine, what string) {
		t.Helper()
		e.env.Plan = p
		for _, s := range given {
			err := e.runStep(t.Context(), s)
			says(t, err, "host cp-1 would get what only the control plane has", `"kubectl label node cp-1 node-role.kubernetes.io/control-plane="`)
			if _, sum, _ := e.env.ReadFile(t.Context(), s.Host, s.Path); !trust.IsUntrusted(err) || sum != step.Absent {
				t.Errorf("%s: %s: %v, the file is %s", what, s.ID, err, sum)
			}
		}
	}
	refused(w.engine(func(o *step.Options) { o.HostsAreNodes = true }), "its Node is gone")
	label("worker")
	refused(w.engine(), "its Node is a worker")
	label("control-plane")
	if err := w.engine().Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
}
