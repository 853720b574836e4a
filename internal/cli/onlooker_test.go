package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
)

// lockHolder is who executes a run that is looked at from elsewhere.
const lockHolder = "ops@bastion pid 4412 start 1"

// onlooker is a machine that reaches the API of a cluster and nothing else.
type onlooker struct {
	t          *testing.T
	api        *apitest.Server
	kubeconfig string
	doc        v1.Journal
	// current is the index of the step that is under way, in the plan and in the records.
	current int
}

// planOfLab is the plan that is made for the lab, with the steps of these hosts and those of no host.
func planOfLab(t *testing.T, hosts ...string) v1.Plan {
	t.Helper()
	p, err := client.ReadPlan(filepath.Join("..", "..", "internal", "plan", "testdata", "lab.plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s v1.Step) bool { return s.Host != "" && !slices.Contains(hosts, s.Host) })
	return *p
}

// newOnlooker looks at a cluster of two control-plane nodes and a few workers. No migration was started on it.
func newOnlooker(t *testing.T) *onlooker {
	t.Helper()
	o := &onlooker{t: t, api: apitest.New(t)}
	o.kubeconfig = o.api.Kubeconfig(t)
	for _, name := range []string{"cp-1", "cp-2", "worker-1", "worker-2", "worker-3"} {
		o.node(name, corev1.ConditionTrue)
	}
	o.lease(component.KCM, "cp-1_0b5e", time.Second)
	at := func(before time.Duration) *time.Time { return ptr.To(client.Now().Add(-before)) }
	o.doc = v1.Journal{
		Run: "20261121-115500", Started: *at(5 * time.Minute), Phase: v1.RunApplying, User: "ops",
		Plan: planOfLab(t, "cp-1", "cp-2", "worker-1", "worker-2"),
	}
	for i, f := range o.doc.Plan.Facts {
		if f.Value == o.doc.Plan.Cluster.UID {
			o.doc.Plan.Facts[i].Value = apitest.UID
		}
	}
	o.doc.Plan.Cluster = v1.Cluster{Name: "prod", UID: apitest.UID, Provider: o.doc.Plan.Cluster.Provider}
	for _, s := range o.doc.Plan.Steps {
		switch {
		case s.ID == "leader-migration/kube-controller-manager@cp-2":
			o.doc.Records = append(o.doc.Records, v1.StepRecord{ID: s.ID, Started: *at(20 * time.Second), Result: v1.StepResultStarted})
			o.current = len(o.doc.Records) - 1
			return o
		case s.ID == "leader-migration/kube-controller-manager@cp-1":
			o.doc.Records = append(o.doc.Records, v1.StepRecord{
				ID: s.ID, Started: *at(280 * time.Second), Ended: at(250 * time.Second), Result: v1.StepResultDone,
				Handovers: []v1.HandoverRecord{{
					Lease: component.KCM, Holder: "cp-1_0b5e", PID: 812, StartTicks: 4711, Component: component.KCM, Host: "cp-1", Ended: at(270 * time.Second),
					Released: at(269900 * time.Millisecond), NextHolder: "cp-2_77aa",
				}},
			})
		default:
			o.doc.Records = append(o.doc.Records, v1.StepRecord{ID: s.ID, Started: *at(290 * time.Second), Ended: at(289 * time.Second), Result: v1.StepResultDone})
		}
	}
	t.Fatal("the plan of the lab has no step that turns leader migration on on cp-2")
	return o
}

func (o *onlooker) node(name string, ready corev1.ConditionStatus) {
	o.api.Put(o.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, Reason: "KubeletNotReady", LastTransitionTime: metav1.NewTime(client.Now().Add(-90 * time.Second))},
	}}})
}

// begin writes the journal as it is.
func (o *onlooker) begin() *journal.Journal {
	o.t.Helper()
	kube, _ := o.api.Clients(o.t)
	o.api.Delete("/api/v1/namespaces/kube-system/configmaps/" + journal.Name)
	j, err := journal.Create(o.t.Context(), kube, o.doc, &v1.Snapshot{})
	if err != nil {
		o.t.Fatal(err)
	}
	return j
}

// lease lets somebody hold a lease, who renewed it so long ago.
func (o *onlooker) lease(name, holder string, age time.Duration) {
	o.t.Helper()
	o.api.Put(o.t, leaseObject(name, holder, age))
}

func leaseObject(name, holder string, age time.Duration) *coordinationv1.Lease {
	renewed, written := metav1.NewMicroTime(client.Now().Add(-age)), metav1.NewTime(client.Now().Add(-age))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: component.Namespace, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x", Time: &written}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &holder,
			RenewTime:            &renewed,
			AcquireTime:          ptr.To(metav1.NewMicroTime(client.Now().Add(-269 * time.Second))),
			LeaseDurationSeconds: ptr.To[int32](15),
		},
	}
}

// lock lets lockHolder hold the lock, and say what it does.
func (o *onlooker) lock(age time.Duration, steps ...v1.StepProgress) {
	o.t.Helper()
	l := leaseObject(lock.LeaseName, lockHolder, age)
	data, err := json.Marshal(v1.Progress{Run: o.doc.Run, Steps: steps, Disruption: "probes: 3 paths, no outage", Probes: &v1.ProbeTotals{
		Kinds: []v1.ProbeKindTotals{{Kind: v1.PathAPIRead, Paths: 2}, {Kind: v1.PathAPIWatch, Paths: 1}},
	}})
	if err != nil {
		o.t.Fatal(err)
	}
	l.Annotations = map[string]string{lock.ProgressAnnotation: string(data)}
	o.api.Put(o.t, l)
}

func (o *onlooker) unlock() {
	o.api.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lock.LeaseName)
}

// waiting is what the holder of the lock says of the step that is under way.
func (o *onlooker) waiting(what string) v1.StepProgress {
	return v1.StepProgress{
		ID:           o.doc.Plan.Steps[o.current].ID,
		Since:        client.Now().Add(-20 * time.Second),
		Waiting:      what,
		WaitingSince: client.Now().Add(-12 * time.Second),
	}
}

// paused lets somebody ask the run to wait.
func (o *onlooker) paused() {
	o.api.Put(o.t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: pause.ControlName, Namespace: component.Namespace}, Data: map[string]string{
		"run": o.doc.Run, "paused-by": "boss@desk", "paused-at": "2026-11-21T11:58:00Z", "reason": "the shop is open",
	}})
}

// event reports something about an object.
func (o *onlooker) event(kind, namespace, name, level, reason, message string, age time.Duration) {
	in := namespace
	if kind == "Node" {
		in = "default"
	}
	o.api.Put(o.t, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%s.%d", name, reason, age), Namespace: in}, Type: level, Reason: reason, Message: message, Count: 2,
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}, LastTimestamp: metav1.NewTime(client.Now().Add(-age)),
	})
}

func (o *onlooker) run(args ...string) result {
	o.t.Helper()
	return transplant(o.t, append(args, "--kubeconfig", o.kubeconfig)...)
}

func (o *onlooker) volatile() volatile {
	return volatile{o.api.URL: "https://api:6443", o.kubeconfig: "KUBECONFIG"}
}
