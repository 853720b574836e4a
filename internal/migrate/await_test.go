package migrate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step/verify"
)

// labelled makes Nodes with the label of the control plane.
func (w *world) labelled(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
	}
}

// TestAPodOfAWorkerEndsNoWait: a kubelet may write a mirror pod of its own node with any flags, and the manager of a real host would go on next to the new one.
func TestAPodOfAWorkerEndsNoWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.labelled("node-cp-1", "node-cp-2")
	pod := func(node string, command ...string) {
		w.api.Put(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: component.KCM + "-" + node, Namespace: component.Namespace, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
				{Name: component.KCM, Image: "registry.k8s.io/kube-controller-manager:v1.27.4", Command: append([]string{component.KCM}, command...)},
			}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	missing := func(a v1.Await) string {
		t.Helper()
		why, err := verify.Await{Env: w.engineFor(t).env}.Missing(t.Context(), v1.Step{Await: &a})
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	external := v1.Await{Component: component.KCM, Nodes: 1, Version: "1.27", Flags: map[string]string{"cloud-provider": "external"}}
	pod("worker-1", "--cloud-provider=external")
	if why := missing(external); !strings.Contains(why, "0 of 1 nodes run") || !strings.Contains(why, "worker-1 does not count: no Node worker-1 is labelled as control plane") {
		t.Errorf("a worker's pod: %q", why)
	}
	pod("node-cp-3", "--cloud-provider=external")
	w.labelled("node-cp-3")
	if why := missing(external); why != "" {
		t.Errorf("a new host of the control plane: %q", why)
	}
	migrated := v1.Await{Component: component.KCM, Nodes: 1, Version: "1.27", Flags: map[string]string{"cloud-provider": "aws", "enable-leader-migration": "true"}}
	pod("node-cp-3", "--cloud-provider=aws", "--enable-leader-migration=true")
	if why := missing(migrated); !strings.Contains(why, "runs the loops under its own lease") {
		t.Errorf("next to managers that know no migration lease: %q", why)
	}
	for _, node := range []string{"node-cp-1", "node-cp-2"} {
		w.api.Delete("/api/v1/namespaces/kube-system/pods/" + component.KCM + "-" + node)
	}
	if why := missing(migrated); why != "" {
		t.Errorf("all of them know it: %q", why)
	}
}

// TestAManagerCountsUnderTheNameOfItsProvider: no image has a program of the plain name, and a wait for it would never end.
func TestAManagerCountsUnderTheNameOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/aws-" + component.CCM, "/bin/openstack-" + component.CCM, "/" + component.CCM} {
		w := newWorld(t, 1)
		w.labelled("node-cp-1")
		put := func(flags ...string) {
			w.api.Put(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: component.CCM + "-node-cp-1", Namespace: component.Namespace},
				Spec: corev1.PodSpec{NodeName: "node-cp-1", Containers: []corev1.Container{
					{Name: "manager", Image: "ghcr.io/x" + program + ":v0.1.0", Command: append([]string{program}, flags...)},
				}},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			})
		}
		on := v1.Step{Await: &v1.Await{Component: component.CCM, Nodes: 1, Flags: map[string]string{"enable-leader-migration": "true"}}}
		off := v1.Step{Await: &v1.Await{Component: component.CCM, Nodes: 1, Flags: map[string]string{"enable-leader-migration": ""}}}
		missing := func(s v1.Step) string {
			t.Helper()
			why, err := verify.Await{Env: w.engineFor(t).env}.Missing(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			return why
		}
		put("--enable-leader-migration=true")
		if why := missing(on); why != "" {
			t.Errorf("%s runs with leader migration: %q", program, why)
		}
		if why := missing(off); !strings.Contains(why, "runs with --enable-leader-migration=true") {
			t.Errorf("%s still runs with leader migration: %q", program, why)
		}
		put()
		if why := missing(on); !strings.Contains(why, "0 of 1 nodes run") {
			t.Errorf("%s runs without leader migration: %q", program, why)
		}
	}
}
