package migrate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// deployedOnHosts is a world whose kube-controller-managers are pods of a Deployment on the networks of its hosts. A template
// that changes is rolled out one pod at a time, as long as somebody leads, in the given order of the hosts.
func deployedOnHosts(t *testing.T, order ...string) *world {
	t.Helper()
	w := newWorld(t, len(order), func(w *world) {
		for _, h := range order {
			if err := os.Remove(w.at(h, kcmManifest)); err != nil {
				t.Fatal(err)
			}
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deployed(int32(len(order))) //nolint:gosec // a few
	var last time.Time
	w.more = func() {
		isDue := w.clock.Now().Sub(last) >= 2*time.Second
		if holder := w.holder(component.KCM); isDue && (last.IsZero() || slices.ContainsFunc(order, func(h string) bool {
			p := w.procs[component.KCM+"@"+h]
			return p != nil && p.identity() == holder
		})) {
			last = w.clock.Now()
			w.replacePod(order)
		}
	}
	for range order {
		w.replacePod(order)
	}
	w.replacePod(order)
	w.catchUp()
	if w.holder(component.KCM) == "" {
		t.Fatal("nobody leads")
	}
	return w
}

// replacePod goes one step on: a missing pod comes, else an old one ends, else the rollout is done.
func (w *world) replacePod(order []string) {
	d := w.deployment()
	command := slices.Concat(d.Spec.Template.Spec.Containers[0].Command, d.Spec.Template.Spec.Containers[0].Args)
	for _, h := range order {
		if key := component.KCM + "@" + h; w.procs[key] == nil {
			w.lastPID++
			w.procs[key] = &process{
				pid: w.lastPID, args: command, flags: commandline.FlagsOf(command), component: component.KCM, host: h, unit: true,
				called: fmt.Sprintf("node-%s_%d", h, w.lastPID),
			}
			spec := d.Spec.Template.Spec
			spec.NodeName, spec.HostNetwork = "node-"+h, true
			w.api.Put(w.t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "kcm-" + h, Namespace: component.Namespace, Labels: map[string]string{"app": "kcm"}}, Spec: spec,
				Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
					{Name: component.KCM, ContainerID: fmt.Sprint("c://", w.lastPID), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				}},
			})
			return
		}
	}
	for _, h := range order {
		if key := component.KCM + "@" + h; !slices.Equal(w.procs[key].args, command) {
			delete(w.procs, key)
			w.api.Delete("/api/v1/namespaces/kube-system/pods/kcm-" + h)
			return
		}
	}
	n := int32(len(order)) //nolint:gosec // a few
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n}
	w.api.Put(w.t, &d)
}

// TestTheLeaseOfAnEndedPodIsReleased in a rollout of managers on the networks of their hosts, whichever of them is replaced
// first: the next pod, which also has to replace the others, waits for no lease to run out.
func TestTheLeaseOfAnEndedPodIsReleased(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"cp-1", "cp-2"}, {"cp-2", "cp-1"}, {"cp-2", "cp-3", "cp-1"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			t.Parallel()
			w := deployedOnHosts(t, order...)
			ref := "Deployment/kube-system/" + component.KCM
			p := w.given(
				v1.Step{ID: "external/" + component.KCM, Phase: "p", Kind: v1.StepEditWorkload, Ref: ref, Component: component.KCM, Leases: []string{component.KCM},
					Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}},
			)
			w.expired = 0
			released := false
			if _, err := w.run(p, func(o *step.Options) {
				o.Tell = func(e step.Event) {
					released = released || strings.Contains(e.Message, "released lease "+component.KCM)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if !released {
				t.Error("no lease of an ended pod was released")
			}
			w.mu.Lock()
			holder := w.holder(component.KCM)
			isThere := slices.ContainsFunc(order, func(h string) bool { return w.procs[component.KCM+"@"+h].identity() == holder })
			w.mu.Unlock()
			if w.expired > 0 || !isThere {
				t.Errorf("%d leases ran out, and the lease is held by %s, which runs: %v", w.expired, holder, isThere)
			}
			if records := w.engine().env.Journal.Record(p.Steps[0].ID).Handovers; len(records) > 0 {
				t.Errorf("the journal, which others may write, has handovers of pods: %+v", records)
			}
		})
	}
}

// TestTheLeaseOfAPodThatIsNotSeenIsLeftAlone: a pod with a network of its own is no process of a host that could be seen.
func TestTheLeaseOfAPodThatIsNotSeenIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := deployedOnHosts(t, "cp-1", "cp-2")
	for _, h := range []string{"cp-1", "cp-2"} {
		var pod corev1.Pod
		w.api.Get(t, "/api/v1/namespaces/kube-system/pods/kcm-"+h, &pod)
		pod.Spec.HostNetwork = false
		w.api.Put(t, &pod)
	}
	p := w.given(
		v1.Step{
			ID:        "external/" + component.KCM,
			Phase:     "p",
			Kind:      v1.StepEditWorkload,
			Ref:       "Deployment/kube-system/" + component.KCM,
			Component: component.KCM,
			Leases:    []string{component.KCM},
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
		},
	)
	w.expired = 0
	var told []string
	if _, err := w.run(p, func(o *step.Options) { o.Tell = func(e step.Event) { told = append(told, e.Message) } }); err != nil {
		t.Fatal(err)
	}
	if w.expired == 0 || !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "is left to run out when its holder ends") }) {
		t.Errorf("%d leases ran out, and it was told: %q", w.expired, told)
	}
}
