package migrate

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	node := func(name, role, ip string) {
		w.api.Put(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/" + role: ""}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			},
		})
	}
	label := func(role string) { node("cp-1", role, "10.0.0.9") }
	announce := func(addresses ...string) {
		w.api.Put(t, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}},
		})
	}
	refused := func(e *Engine, what string, why ...string) {
		t.Helper()
		e.env.Plan = p
		if len(why) == 0 {
			why = []string{`"kubectl label node cp-1 node-role.kubernetes.io/control-plane="`}
		}
		for _, s := range given {
			err := e.runStep(t.Context(), s)
			says(t, err, append(why, "host cp-1 would get what only the control plane has")...)
			if _, sum, _ := e.env.ReadFile(t.Context(), s.Host, s.Path); !trust.IsUntrusted(err) || sum != step.Absent {
				t.Errorf("%s: %s: %v, the file is %s", what, s.ID, err, sum)
			}
		}
	}
	refused(w.engine(func(o *step.Options) { o.HostsAreNodes = true }), "its Node is gone")
	label("worker")
	refused(w.engine(), "its Node is a worker")
	label("control-plane")
	node("other", "worker", "10.0.0.1")
	announce("10.0.0.1")
	refused(w.engine(), "its label was set by somebody", "Node cp-1 is labelled as control plane, and no API server announces", "10.0.0.9")
	announce("10.0.0.1", "10.0.0.9")
	node("other", "worker", "10.0.0.9")
	refused(w.engine(), "two Nodes have the address", "Nodes cp-1, other all have the address 10.0.0.9")

	node("other", "worker", "10.0.0.1")
	announce("10.0.0.1")
	var once sync.Once
	restarted := func(o *step.Options) {
		o.Tell = func(ev step.Event) {
			if ev.Kind == step.EventWaiting && strings.Contains(ev.Message, "no API server announces one of its addresses") {
				once.Do(func() { announce("10.0.0.1", "10.0.0.9") })
			}
		}
	}
	if err := w.engine(restarted).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
}

// TestAWorkerMayHaveAProviderNextToItsOwn: the plan's own text, and what the worker has already, are nothing that only the control plane has.
func TestAWorkerMayHaveAProviderNextToItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}})
	e := w.engine()
	e.env.Plan = p
	if err := e.env.ProvesControlPlane(t.Context(), addProviderStep(t)); err != nil {
		t.Error(err)
	}
}
