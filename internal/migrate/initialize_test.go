package migrate

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
)

func TestANodeIsInitialisedThroughEveryDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.api.Put(
		t,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}}},
	)
	node := func() (n corev1.Node) {
		w.api.Get(t, "/api/v1/nodes/old", &n)
		return n
	}
	tainted := 0
	w.more = func() { // the cloud-controller-manager
		n := node()
		if object.Uninitialized(&n) {
			tainted++
			n.Spec.ProviderID, n.Spec.Taints = "aws:///us-east-1a/i-old", slices.DeleteFunc(n.Spec.Taints, object.IsUninitialized)
			w.api.Put(t, &n)
		}
	}
	p := w.given(v1.Step{ID: "node/old", Phase: "p", Kind: v1.StepInitializeNode, Ref: "Node/old"})
	w.afterEveryDeath(p)
	if n := node(); n.Spec.ProviderID == "" || len(n.Spec.Taints) != 1 || tainted != 1 {
		t.Errorf("provider id %q, taints %v, tainted %d times", n.Spec.ProviderID, n.Spec.Taints, tainted)
	}
}

func TestATaintThatNobodyActsUponIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}})
	p := w.given(v1.Step{ID: "node/old", Phase: "p", Kind: v1.StepInitializeNode, Ref: "Node/old"})
	_, err := w.run(p)
	says(t, err, "node old still has the taint node.cloudprovider.kubernetes.io/uninitialized: the cloud-controller-manager has not initialised it")
	w.backAfterEveryDeath()
	var n corev1.Node
	w.api.Get(t, "/api/v1/nodes/old", &n)
	if len(n.Spec.Taints) > 0 {
		t.Errorf("the taint stays: %v", n.Spec.Taints)
	}
}

// TestATaintIsNotTakenOnTheWordOfARecord: a new node has the same taint from its kubelet, and takes no pods before it is initialised.
func TestATaintIsNotTakenOnTheWordOfARecord(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	const uid, line = "0a1b", "kubectl taint node old node.cloudprovider.kubernetes.io/uninitialized:NoSchedule-"
	for name, c := range map[string]struct {
		before string
		added  *metav1.Time
		taken  bool
	}{
		"ours":                            {`{"uid":"0a1b","taintAdded":"2026-03-01T12:00:00Z"}`, &at, true},
		"a kubelet's":                     {`{"uid":"0a1b","taintAdded":"2026-03-01T12:00:00Z"}`, nil, false},
		"a kubelet's, and a record of it": {`{"uid":"0a1b"}`, nil, false},
		"a record that says nothing":      {"", nil, false},
		"a record of another node":        {`{"uid":"other","taintAdded":"2026-03-01T12:00:00Z"}`, &at, false},
		"somebody else's":                 {`{"uid":"0a1b","taintAdded":"2026-03-01T12:00:01Z"}`, &at, false},
		"a record that is no JSON":        {"x", &at, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			taint := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule, TimeAdded: c.added}
			w.api.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", UID: uid}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}})
			w.given(v1.Step{ID: "node/old", Phase: "p", Kind: v1.StepInitializeNode, Ref: "Node/old"})
			w.plant(v1.StepRecord{ID: "node/old", Result: v1.StepResultStarted, Created: true, Before: c.before})
			var told []string
			w.rollBack(func(o *step.Options) { o.Tell = func(e step.Event) { told = append(told, e.Message) } })
			var n corev1.Node
			w.api.Get(t, "/api/v1/nodes/old", &n)
			if taken := len(n.Spec.Taints) == 0; taken != c.taken {
				t.Errorf("taken %v: %v", taken, n.Spec.Taints)
			}
			if said := strings.Contains(strings.Join(told, "\n"), line); said == c.taken {
				t.Errorf("said %v: %q", said, told)
			}
			if notes := strings.Join(w.engine().env.Journal.Record("undo/node/old").Notes, "\n"); strings.Contains(notes, line) == c.taken {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
