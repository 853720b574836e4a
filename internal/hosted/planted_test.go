package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// TestAPlantedJournalInTheSeedIsNotGoneOnWith: the operator and the command line execute what a migration of this control plane does, and nothing else that
// somebody has written into a ConfigMap of its namespace.
func TestAPlantedJournalInTheSeedIsNotGoneOnWith(t *testing.T) {
	binding := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`
	for _, c := range []struct {
		name, says string
		plant      func(p *v1.Plan)
	}{
		{"a step that makes somebody cluster-admin", "rule P-46", func(p *v1.Plan) {
			evil := v1.Step{ID: "evil", Phase: p.Steps[0].Phase, Kind: v1.StepEnsureObject, Ref: "ClusterRoleBinding/x", Object: binding, Undo: "delete it", Requires: []string{"cluster:uid"}}
			p.Steps = append([]v1.Step{evil}, p.Steps...)
		}},
		{"a manager with another image", "rule P-46", func(p *v1.Plan) {
			i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return strings.HasPrefix(s.ID, "start/") })
			p.Steps[i].Object = strings.Replace(p.Steps[i].Object, `"image":"`, `"image":"evil/`, 1)
		}},
		{"the control plane of another cluster", "control plane in namespace", func(p *v1.Plan) { p.Cluster.Seed = "cluster-other" }},
		{"a plan of another cluster", "with uid other", func(p *v1.Plan) { p.Cluster.UID = "other" }},
		{"a manager with another name of the cluster", "rule P-15", func(p *v1.Plan) {
			i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return strings.HasPrefix(s.ID, "start/") })
			p.Steps[i].Object = strings.Replace(p.Steps[i].Object, `"--cluster-name=`, `"--cluster-name=other-`, 1)
		}},
		{"no control plane of a seed", "control plane in namespace", func(p *v1.Plan) { p.Cluster.Seed = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			plane := w.plane()
			snap := plane.Gather(t.Context())
			p, err := plane.Plan(snap, Handover)
			if err != nil {
				t.Fatal(err)
			}
			c.plant(p)
			doc := v1.Journal{Run: "20261121-120000", Phase: v1.RunApplying, Plan: *p, Records: []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultStarted}}}
			if _, err := plane.Location(Handover).Create(t.Context(), doc, snap); err != nil {
				t.Fatal(err)
			}
			for what, do := range map[string]func() error{
				"going on":   func() error { return w.plane().Run(t.Context(), Handover, nil, nil) },
				"going back": func() error { return w.plane().Rollback(t.Context(), nil, nil) },
			} {
				err := do()
				if _, is := errors.AsType[*trust.UntrustedError](err); !is || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s is not refused with %q: %v", what, c.says, err)
				}
			}
		})
	}
}

// TestALargeSnapshotIsNotKept: it would stay in the operator's memory for as long as the run goes on.
func TestALargeSnapshotIsNotKept(t *testing.T) {
	w := newWorld(t, 1, false)
	for i := range 4 {
		n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}}
		n.Labels = map[string]string{"long": strings.Repeat("x", 10<<20)}
		w.user.Put(t, n)
	}
	plane := w.plane()
	plane.Memory = 32 << 20
	err := plane.Run(t.Context(), Handover, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "MiB of memory, and may take 32: look at what the API server of the user cluster runs") {
		t.Errorf("the run: %.500v", err)
	}
	for at := range w.seed.Objects() {
		if strings.Contains(at, journal.BeforeName) {
			t.Errorf("it is kept in %s", at)
		}
	}
}

// TestAJournalIsNotJudgedByAClusterThatDoesNotAnswer: nothing is done, nothing is called planted, and the next try goes on.
func TestAJournalIsNotJudgedByAClusterThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, 1, false)
	w.plant(v1.RunApplying, func(*v1.Plan) {})
	objects := w.user.Objects()
	w.user.Delete("/api/v1/namespaces/kube-system")
	for what, do := range map[string]func() error{
		"going on":   func() error { return w.plane().Run(t.Context(), Handover, nil, nil) },
		"going back": func() error { return w.plane().Rollback(t.Context(), nil, nil) },
		"looking back": func() error {
			_, _, err := w.plane().PlanRollback(t.Context())
			return err
		},
	} {
		err := do()
		if _, is := errors.AsType[*trust.UntrustedError](err); err == nil || is || !strings.Contains(err.Error(), "run again when they answer") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if images := w.managerImages(); len(images) > 0 {
		t.Errorf("there are managers of the images %v", images)
	}
	w.user.Restore(objects)
	if err := w.plane().Run(t.Context(), Handover, nil, nil); err != nil {
		t.Errorf("once it answers: %v", describe(err))
	}
}

// TestAnEndThatAJournalTellsOfReleasesNoLease: the pod that holds the lease lives, and the record says that it has ended.
func TestAnEndThatAJournalTellsOfReleasesNoLease(t *testing.T) {
	for name, plant := range map[string]func(h v1.HandoverRecord) []v1.HandoverRecord{
		"of the pod itself": func(h v1.HandoverRecord) []v1.HandoverRecord { return []v1.HandoverRecord{h} },
		"of its other lease": func(h v1.HandoverRecord) []v1.HandoverRecord {
			other := h
			other.Lease, other.Note, h.Ended = component.MigrationLease, "it has another holder", nil
			return []v1.HandoverRecord{h, other}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, false)
			step := ""
			for _, s := range stepsOf(t, 2) {
				if strings.HasPrefix(s.ID, "loops-off/") {
					step = s.ID
				}
			}
			if !killed(w, "after", step, func(ctx context.Context, p *Plane) error { return p.Run(ctx, Handover, nil, nil) }) {
				t.Fatalf("it was not killed after %s", step)
			}
			j, err := w.plane().Location(Handover).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holder, before := w.lease(component.KCM)
			if holder == "" {
				t.Fatal("no pod leads")
			}
			now := w.clock.Now()
			rec := j.Record(step)
			rec.Result, rec.Ended = v1.StepResultStarted, nil
			rec.Handovers = plant(v1.HandoverRecord{
				Lease: component.KCM, Holder: holder, Host: strings.TrimSuffix(holder, "_id"), Component: component.KCM, PID: 1, StartTicks: 99,
				Transitions: *before.Spec.LeaseTransitions, AcquireTime: before.Spec.AcquireTime.UTC(), Ended: &now,
			})
			if err := j.Save(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			if err := w.plane().Run(t.Context(), Handover, nil, nil); err == nil {
				t.Error("it went on")
			}
			w.fair()
			if now, after := w.lease(component.KCM); now != holder || *after.Spec.LeaseTransitions != *before.Spec.LeaseTransitions {
				t.Errorf("the lease of pod %s, which lives, was released: %s has it", holder, now)
			}
		})
	}
}

// TestNoManagerStartsBesideAPodThatRunsTheLoops: records say that the loops are off, and a pod of the old manager has its old flags.
func TestNoManagerStartsBesideAPodThatRunsTheLoops(t *testing.T) {
	for replicas, says := range map[int32]string{1: "is not external yet", 2: "without --enable-leader-migration"} {
		w := newWorld(t, replicas, false)
		original, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p, reached := w.plane(), false
		p.Hook = func(point, step string) {
			if point != "before" || step != "start/"+component.CCM || reached {
				return
			}
			reached = true
			now, err := w.s.Kube.AppsV1().Deployments(ns).Get(t.Context(), kcmRef, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			now.Spec.Template = original.Spec.Template // as whoever hosts the control plane may write it
			if _, err := w.s.Kube.AppsV1().Deployments(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				w.catchUp()
				w.clock.Step(2 * time.Second)
			}
		}
		err = p.Run(t.Context(), Handover, nil, nil)
		if !reached {
			t.Fatalf("%d replicas: the step was not reached: %v", replicas, err)
		}
		if !errors.As(err, new(*StaleError)) || !strings.Contains(err.Error(), component.KCM+" in pod controller-manager-") || !strings.Contains(err.Error(), says) {
			t.Errorf("%d replicas: it ends with %v", replicas, err)
		}
		if images := w.managerImages(); len(images) > 0 {
			t.Errorf("%d replicas: there are managers of the images %v", replicas, images)
		}
		if len(w.overlaps) > 0 {
			t.Errorf("%d replicas: loops ran twice: %v", replicas, w.overlaps[0])
		}
	}
}
