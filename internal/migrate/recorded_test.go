package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// TestAManagerWhoseRecordWasCutStopsARollback: what records name is taken back, and this manager would stay where it is.
func TestAManagerWhoseRecordWasCutStopsARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	start := slices.IndexFunc(p.Steps, func(s v1.Step) bool {
		return s.Kind == v1.StepAddManifest && s.Component == component.CCM && s.Host == "cp-2"
	})
	if start < 0 {
		t.Fatal("the plan starts no manager on cp-2")
	}
	planned := p.Steps[start]
	recorded := func(cut string, o step.Options) error {
		doc := w.engine().env.Journal.Doc()
		doc.Records = slices.DeleteFunc(slices.Clone(doc.Records), func(r v1.StepRecord) bool { return r.ID == cut })
		o.Kube, o.Dynamic = w.kube, w.dyn
		return precondition.ManagersRecorded(t.Context(), o, journal.Of(doc))
	}
	if err := recorded("", step.Options{Hosts: w.hosts}); err != nil {
		t.Errorf("with all records: %v", err)
	}
	err := recorded(planned.ID, step.Options{Hosts: w.hosts})
	if !errors.As(err, new(*trust.UntrustedError)) || !strings.Contains(err.Error(), planned.Path+" on host cp-2 is live") {
		t.Errorf("without the record of %s: %v", planned.ID, err)
	}
	if err := recorded(planned.ID, step.Options{Hosts: w.hosts[:1]}); err == nil || !strings.Contains(err.Error(), "cp-2") {
		t.Errorf("when the host cannot be asked: %v", err)
	}
	w.remove("cp-2", planned.Path)
	if err := recorded(planned.ID, step.Options{Hosts: w.hosts}); err != nil {
		t.Errorf("when the manager was removed by hand: %v", err)
	}
}

// TestAManagerInAWorkloadIsLiveUnlessItHasNoPod: a Deployment without pods runs no loops next to the old manager.
func TestAManagerInAWorkloadIsLiveUnlessItHasNoPod(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Name: "m", Namespace: component.Namespace}
	deployment := func(want, have int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(want)}, Status: appsv1.DeploymentStatus{Replicas: have}}
	}
	for _, c := range []struct {
		name, ref, component string
		deployment           *appsv1.Deployment
		daemons              *appsv1.DaemonSet
		created, refused     bool
	}{
		{"a Deployment", "Deployment/kube-system/m", component.CCM, deployment(1, 1), nil, false, true},
		{"one that this migration made", "Deployment/kube-system/m", component.CCM, deployment(1, 1), nil, true, false},
		{"one whose pods still end", "Deployment/kube-system/m", component.CCM, deployment(0, 1), nil, false, true},
		{"one without pods", "Deployment/kube-system/m", component.CCM, deployment(0, 0), nil, false, false},
		{"none", "Deployment/kube-system/m", component.CCM, nil, nil, false, false},
		{"a DaemonSet", "DaemonSet/kube-system/m", component.CCM, nil, &appsv1.DaemonSet{ObjectMeta: meta}, false, true},
		{"what runs no loops", "Deployment/kube-system/m", "cloud-node-manager", deployment(1, 1), nil, false, false},
	} {
		w := newWorld(t, 1)
		if c.deployment != nil {
			w.api.Put(t, c.deployment)
		}
		if c.daemons != nil {
			w.api.Put(t, c.daemons)
		}
		p := &v1.Plan{
			Cluster: v1.Cluster{UID: "uid"},
			Steps:   []v1.Step{{ID: "start/" + component.CCM, Kind: v1.StepEnsureObject, Ref: c.ref, Component: c.component}},
		}
		doc := v1.Journal{Run: "run-1", Phase: v1.RunApplying, Plan: *p}
		if c.created {
			doc.Records = []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultDone, Created: true}}
		}
		err := precondition.ManagersRecorded(t.Context(), step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts}, journal.Of(doc))
		if errors.As(err, new(*trust.UntrustedError)) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
