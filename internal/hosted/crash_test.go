package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

var whole = flag.Bool("hosted.all", false, "kill a handover before and after each of its steps, too, not only in its middle")

// killed runs f and ends its context at a point of a step, as a kill of the process would. It reports whether the point was reached.
func killed(w *world, point, step string, f func(context.Context, *Plane) error) bool {
	ctx, kill := context.WithCancel(w.t.Context())
	defer kill()
	p, hit := w.plane(), false
	p.Hook = func(at, of string) {
		if at == point && of == step {
			hit = true
			kill()
		}
	}
	if err := f(ctx, p); err == nil && hit && point != "after" {
		w.t.Errorf("killed %s %s, and it went on", point, step)
	}
	return hit
}

func stepsOf(t *testing.T, replicas int32) []v1.Step {
	t.Helper()
	w := newWorld(t, replicas, false)
	if err := w.plane().observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := w.plane().Plan(w.plane().Gather(t.Context()), Handover)
	if err != nil {
		t.Fatal(describe(err))
	}
	return p.Steps
}

func TestAHandoverThatIsKilledAnywhereGoesOn(t *testing.T) {
	for _, replicas := range []int32{1, 2} {
		for _, s := range stepsOf(t, replicas) {
			if s.Phase == planstep.PhasePrepare && !strings.HasPrefix(s.Ref, "Secret/") {
				continue
			}
			points := []string{"during"}
			if replicas == 1 && *whole {
				points = []string{"before", "during", "after"}
			}
			for _, point := range points {
				t.Run(s.ID+" "+point, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, replicas, false)
					run := func(ctx context.Context, p *Plane) error { return p.Run(ctx, Handover, nil, nil) }
					if !killed(w, point, s.ID, run) && s.Kind != v1.StepVerify {
						t.Fatalf("step %s has no point %q", s.ID, point)
					}
					w.run(Handover)
					w.owns(component.CCM)
				})
			}
		}
	}
}

func TestAHandoverGoesBackFromAnywhere(t *testing.T) {
	for _, replicas := range []int32{1, 2} {
		for _, s := range stepsOf(t, replicas) {
			if s.Phase == planstep.PhasePrepare && !strings.HasPrefix(s.Ref, "Secret/") || s.Kind == v1.StepVerify {
				continue
			}
			t.Run(s.ID, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, replicas, true)
				before := w.template(kcmRef)
				killed(w, "during", s.ID, func(ctx context.Context, p *Plane) error { return p.Run(ctx, Handover, nil, nil) })
				if err := w.plane().Rollback(t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
				w.fair()
				w.owns(component.KCM)
				if after := w.template(kcmRef); after != before {
					t.Errorf("the pod template is not as it was:\n%s\n%s", before, after)
				}
				for _, name := range []string{layout.SeedKubeconfig, layout.SeedCloudConfig} {
					if _, err := w.s.Kube.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
						t.Errorf("Secret %s is still there", name)
					}
				}
				w.run(Handover) // and it can be begun again
				w.owns(component.CCM)
			})
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (w *world) template(name string) string {
	w.t.Helper()
	d, err := w.s.Kube.AppsV1().Deployments(ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := d.Spec.Template.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func TestNoCredentialOfTheSeedStandsInAPlanAJournalOrASnapshot(t *testing.T) {
	w := newWorld(t, 2, true)
	kcm := func() *appsv1.Deployment {
		d, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const canary = "Canary7hunter2"
	planted := []string{`"--db-pass","` + canary + `"`, `"--api_key=` + canary + `"`, `"--endpoint=https://u:` + canary + `@cloud.example.com"`}
	d := kcm()
	args := d.Spec.Template.Spec.Containers[0].Args
	args[3] = strings.Replace(args[3], `"--allocate-node-cidrs"`, `"--allocate-node-cidrs",`+strings.Join(planted, ","), 1)
	d.Annotations = map[string]string{"example.com/api_key": canary}
	w.seed.Put(t, d)
	for range 8 {
		w.catchUp()
		w.clock.Step(2 * time.Second)
	}
	var told strings.Builder
	if err := w.plane().Run(t.Context(), Handover, func(e step.Event) { told.WriteString(e.Message) }, nil); err != nil {
		t.Fatal(describe(err))
	}
	j, err := w.plane().Location(Handover).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := w.plane().Location(Handover).Before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, value := range map[string]any{"journal": j.Doc(), "snapshot": before, "events": told.String()} {
		text := jsonOf(t, value)
		for _, secret := range []string{secretText, "kcm-token", "ccm-token", canary} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %q", what, secret)
			}
		}
	}
	for _, arg := range planted {
		if live := kcm().Spec.Template.Spec.Containers[0].Args[3]; !strings.Contains(live, arg) || strings.Contains(live, mask.Masked) {
			t.Errorf("the kube-controller-manager has not %s: %s", arg, live)
		}
	}
	d, err = w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), "aws-"+component.CCM, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	if len(c.Env) != 2 || c.Env[0].Value != secretText || c.Env[1].ValueFrom == nil {
		t.Errorf("the manager's environment is not that of the one before it: %d variables", len(c.Env))
	}
	var mounts []string
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	if got := strings.Join(mounts, " "); got != layout.SeedKubeconfig+" "+layout.SeedCloudConfig+" ca-bundle" {
		t.Errorf("the manager mounts %s", got)
	}
	if d.Spec.Template.Labels["cluster"] != "x" || d.Spec.Template.Labels["app"] != "aws-"+component.CCM {
		t.Errorf("its labels are %v", d.Spec.Template.Labels)
	}
}

func TestAManagerThatDoesNotAnswerIsNoProofThatItRunsNothing(t *testing.T) {
	w := newWorld(t, 1, false)
	started := false
	w.lookedAfter = func() {
		if _, err := w.s.Kube.AppsV1().Deployments(ns).Get(context.Background(), "aws-"+component.CCM, metav1.GetOptions{}); err == nil {
			started = true
		}
	}
	p := w.plane()
	p.Hook = func(at, of string) {
		if at == "during" && strings.HasPrefix(of, "loops-off/") {
			w.mu.Lock()
			w.deaf = func(string) bool { return true }
			w.mu.Unlock()
		}
	}
	err := p.Run(t.Context(), Handover, nil, nil)
	var verify *VerifyError
	if !errors.As(err, &verify) {
		t.Fatalf("it ended with %v", err)
	}
	if started {
		t.Error("a cloud-controller-manager was started although nobody knew what the pods run")
	}
	w.deaf = nil
	w.run(Handover)
	w.owns(component.CCM)
}

// A pod that was deleted by force is gone from the API, and its process may run.
func TestALeaseIsReleasedOnlyForAPodWhoseContainerWasSeenTerminated(t *testing.T) {
	path := func(pod string) string { return "/api/v1/namespaces/" + ns + "/pods/" + pod }
	for name, c := range map[string]struct {
		// with is called before the loops are taken off, with the pod that runs them.
		with     func(w *world, pod string)
		released bool
	}{
		"its kubelet says so":                      {func(*world, string) {}, true},
		"it was deleted by force, unseen":          {func(w *world, pod string) { w.seed.Delete(path(pod)) }, false},
		"it was deleted by force while it ended":   {func(w *world, pod string) { w.forced = func(p string) bool { return p == pod } }, false},
		"the seed called it failed and deleted it": {func(w *world, pod string) { w.forced = w.fail(pod) }, false},
		"its end cannot be watched":                {func(w *world, _ string) { w.seed.Deny("watch", "pods") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, false)
			p := w.plane()
			p.Hook = func(at, of string) {
				if at == "during" && strings.HasPrefix(of, "loops-off/") {
					holder, _ := w.lease(component.MigrationLease)
					c.with(w, strings.TrimSuffix(holder, "_id"))
				}
			}
			if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
			w.fair()
			j, err := p.Location(Handover).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			handovers := 0
			for _, r := range j.Doc().Records {
				for _, h := range r.Handovers {
					if !strings.HasPrefix(r.ID, "loops-off/") {
						continue
					}
					if handovers++; (h.Released != nil) != c.released || (h.Note == "") != c.released {
						t.Errorf("lease %s of pod %s: released %v, note %q", h.Lease, h.Host, h.Released, h.Note)
					}
				}
			}
			if handovers == 0 {
				t.Error("no lease was bound to the pod")
			}
		})
	}
}

func TestAnotherMigrationOfTheSameClusterIsKeptOut(t *testing.T) {
	w := newWorld(t, 1, false)
	var got error
	p := w.plane()
	p.Hook = func(at, of string) {
		if at == "before" && strings.HasPrefix(of, "loops-off/") {
			other := w.plane()
			other.Holder = "somebody else"
			got = other.Run(t.Context(), Handover, nil, nil)
		}
	}
	if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
		t.Fatal(describe(err))
	}
	var locked *LockedError
	if !errors.As(got, &locked) {
		t.Errorf("the other one ended with %v", got)
	}
}

func TestAStuckRolloutIsSaidAndNothingIsStarted(t *testing.T) {
	w := newWorld(t, 1, false)
	w.stuck[kcmRef] = true
	err := w.plane().Run(t.Context(), Handover, nil, nil)
	var blocked *BlockedError
	if err == nil || errors.As(err, &blocked) {
		w.catchUp()
	}
	if err == nil {
		t.Fatal("it went on")
	}
	w.owns(component.KCM)
	w.stuck[kcmRef] = false
	w.catchUp()
	w.run(Handover)
	w.owns(component.CCM)
}

// A node whose Machine is gone was taken down by its owner; one whose Machine stays was deleted by a manager.
func TestANodeThatIsGoneIsLostWhenItsMachineStays(t *testing.T) {
	for name, stays := range map[string]bool{"its Machine stays": true, "its Machine is gone, too": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, false)
			w.user.Put(
				t,
				&corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "n2"},
					Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-1a/i-2", PodCIDR: "172.25.2.0/24", PodCIDRs: []string{"172.25.2.0/24"}},
					Status: corev1.NodeStatus{
						Conditions: []corev1.NodeCondition{
							{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
						},
						NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.26.0", OperatingSystem: "linux"},
					},
				},
			)
			machine := func(node string) {
				w.user.Put(
					t,
					&unstructured.Unstructured{
						Object: map[string]any{
							"apiVersion": "cluster.k8s.io/v1alpha1",
							"kind":       "Machine",
							"metadata":   map[string]any{"name": "m-" + node, "namespace": "kube-system"},
							"status":     map[string]any{"nodeRef": map[string]any{"name": node, "uid": node}},
						},
					},
				)
			}
			machine("n1")
			if stays {
				machine("n2")
			}
			p := w.plane()
			p.Hook = func(at, of string) {
				if at == "before" && of == "start/"+component.CCM {
					w.user.Delete("/api/v1/nodes/n2")
				}
			}
			err := p.Run(t.Context(), Handover, nil, nil)
			var verify *VerifyError
			if stays != errors.As(err, &verify) || !stays && err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
