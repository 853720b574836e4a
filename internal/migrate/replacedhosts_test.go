package migrate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestTheOwnersAreAskedOfTheHostsThatTookTheOthersPlace: a host that the plan has had taken down answers no more, and one that came later cannot be asked by
// the command that opened its hosts before.
func TestTheOwnersAreAskedOfTheHostsThatTookTheOthersPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.labelled("node-cp-1", "node-cp-2")
	p := w.given(v1.Step{ID: "await/out/node-cp-1", Phase: "p", Kind: v1.StepAwait, Await: &v1.Await{NodeGone: "node-cp-1"}})
	p.Options.ReplaceHosts = true
	e := w.engine()
	e.env.Plan = p
	owners := func(expect map[string]string) string {
		t.Helper()
		why, err := manager.CheckOwners(t.Context(), e.env, expect)
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	if why := owners(nil); why != "" {
		t.Fatalf("both hosts are there: %s", why)
	}
	w.lose("cp-1")
	if why := owners(nil); !strings.Contains(why, "on cp-1 did not answer") {
		t.Errorf("a host was lost that no step waits for: %q", why)
	}
	if err := e.env.Journal.Save(t.Context(), v1.StepRecord{ID: "await/out/node-cp-1", Result: v1.StepResultDone}); err != nil {
		t.Fatal(err)
	}
	if why := owners(nil); !strings.Contains(why, "on cp-1 did not answer") {
		t.Errorf("its Node is there again: %q", why)
	}
	w.api.Delete("/api/v1/nodes/node-cp-1")
	if why := owners(nil); why != "" {
		t.Errorf("it was taken down as the plan has it: %q", why)
	}
	w.api.Put(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: component.CCM + "-node-cp-3", Namespace: component.Namespace, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		},
		Spec: corev1.PodSpec{NodeName: "node-cp-3", Containers: []corev1.Container{{Name: component.CCM, Command: []string{"/" + component.CCM}}}},
	})
	if why := owners(nil); why != "" {
		t.Errorf("a pod of a node that is not of the control plane: %q", why)
	}
	w.labelled("node-cp-3")
	if why := owners(nil); !strings.Contains(why, "node node-cp-3 joined after this command had opened its hosts: run the same command again") {
		t.Errorf("a manager that was not asked may run the loops: %q", why)
	}

	e = w.engine(func(o *step.Options) { o.Hosts = nil })
	e.env.Plan = p
	expect := map[string]string{"service": component.CCM}
	if why := owners(expect); why != "" || !manager.ReachesNone(e.env) {
		t.Errorf("no host is reached: %q", why)
	}
	p.Options.ReplaceHosts = false
	if why := owners(expect); !strings.Contains(why, "no manager runs loop service") {
		t.Errorf("a plan that edits hosts asks them: %q", why)
	}
}
