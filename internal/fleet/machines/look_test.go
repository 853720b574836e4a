package machines

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/apitest"
)

// place is a seed and a user cluster with an API server each.
type place struct {
	t          *testing.T
	seed, user *apitest.Server
	clock      *clocktesting.FakePassiveClock
	restarter  Restarter
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, seed: apitest.New(t), user: apitest.New(t), clock: clocktesting.NewFakePassiveClock(changed)}
	p.user.Serve("apps/v1", "storage.k8s.io/v1", "cluster.k8s.io/v1alpha1")
	kube, _ := p.seed.Clients(t)
	l := Looker{Name: "x", Store: Store{Seed: kube, Namespace: "cluster-x"}, CCMReady: true, PartsReady: true, Clock: p.clock}
	l.Kube, l.Dynamic = p.user.Clients(t)
	p.restarter = Restarter{Looker: l, Policy: Policy{Wanted: true}}
	return p
}

// add makes an object of machine-controller; its uid is its name, and so is its owner's.
func (p *place) add(r schema.GroupVersionResource, kind, name, ownerKind, owner string, created time.Time, content map[string]any) {
	p.t.Helper()
	o := &unstructured.Unstructured{Object: content}
	o.SetAPIVersion(r.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace("kube-system")
	o.SetName(name)
	o.SetUID(types.UID(name))
	o.SetCreationTimestamp(metav1.NewTime(created))
	if owner != "" {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: r.GroupVersion().String(), Kind: ownerKind, Name: owner, UID: types.UID(owner), Controller: &yes}})
	}
	if _, err := p.restarter.Dynamic.Resource(r).Namespace("kube-system").Create(p.t.Context(), o, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) oneMachine() {
	status := map[string]any{
		"observedGeneration": int64(0),
		"replicas":           int64(1),
		"updatedReplicas":    int64(1),
		"availableReplicas":  int64(1),
		"readyReplicas":      int64(1),
	}
	p.add(DeploymentsResource, "MachineDeployment", "md", "", "", before, map[string]any{
		"spec": map[string]any{
			"replicas": int64(1),
			"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": int64(1), "maxUnavailable": "0%"}},
			"template": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"kept": "yes"}},
				"spec":     map[string]any{"unknown": "kept"},
			},
		}, "status": status,
	})
	p.add(
		SetsResource,
		"MachineSet",
		"set",
		"MachineDeployment",
		"md",
		before,
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{revisionAnnotation: "3"}}, "spec": map[string]any{"replicas": int64(1)}},
	)
	p.add(MachinesResource, "Machine", "machine", "MachineSet", "set", before, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{AnnotationExternal: "true"}}, "spec": map[string]any{"providerID": "aws:///z/i-1"},
		"status": map[string]any{"nodeRef": map[string]any{"name": "node", "uid": "node"}, "errorReason": "InvalidConfiguration", "errorMessage": "quota"},
	})
	p.user.Put(p.t, node("node", "kubelet", nil), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{migratedPlugins: "kubernetes.io/aws-ebs,kubernetes.io/cinder"}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com"}}},
	})
}

func node(name, manager string, taints []corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(before), Labels: map[string]string{ownedBy: "machine"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:podCIDR":{}}}`)},
				{Manager: "kubelet", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
				{Manager: manager, Time: &metav1.Time{Time: before}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}},"f:spec":{"f:providerID":{}}}`)},
			},
		},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///z/i-1", Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func (p *place) pass() Pass {
	p.t.Helper()
	out, err := p.restarter.Pass(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *place) md() Deployment {
	p.t.Helper()
	u, err := p.restarter.Dynamic.Resource(DeploymentsResource).Namespace("kube-system").Get(p.t.Context(), "md", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	if fieldText(u, "spec", "template", "spec", "unknown") != "kept" || fieldText(u, "spec", "template", "metadata", "annotations", "kept") != "yes" {
		p.t.Errorf("what nobody asked to change was changed: %v", u.Object["spec"])
	}
	return DeploymentOf(u)
}

func TestWhatIsReadOfAClusterIsWhatIsThere(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	f, err := Gather(t.Context(), p.restarter.Kube, p.restarter.Dynamic, changed)
	if err != nil {
		t.Fatal(err)
	}
	want := []Machine{
		{
			Namespace:  "kube-system",
			Name:       "machine",
			UID:        "machine",
			Created:    before,
			Owner:      "set",
			External:   "true",
			ProviderID: "aws:///z/i-1",
			NodeName:   "node",
			NodeUID:    "node",
			Error:      "InvalidConfiguration: quota",
		},
	}
	if diff := cmp.Diff(want, f.Machines); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		[]MachineSet{{Namespace: "kube-system", Name: "set", UID: "set", Created: before, Owner: "md", Replicas: 1, Revision: 3}},
		f.Sets,
	); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	wantNode := []Node{{
		Name: "node", UID: "node", ProviderID: "aws:///z/i-1", Created: before, Ready: true, ProviderIDBy: "kubelet", ProviderIDAt: before, OwnedBy: "machine",
		Drivers: []string{"ebs.csi.aws.com"}, Plugins: []string{"kubernetes.io/aws-ebs", "kubernetes.io/cinder"},
	}}
	if diff := cmp.Diff(wantNode, f.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if d := f.Deployments[0]; unavailable(d) != 0 || d.MaxSurge.IntValue() != 1 || len(f.Unknown) > 0 {
		t.Errorf("%+v, unknown %v", d, f.Unknown)
	}
}

// TestLittleIsKeptOfAUserCluster: its administrator writes texts of any length, and the memory of the operator is for all.
func TestLittleIsKeptOfAUserCluster(t *testing.T) {
	long := strings.Repeat("x", 120_000)
	p := newPlace(t)
	p.oneMachine()
	p.add(MachinesResource, "Machine", "long", "MachineSet", long, before, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{AnnotationExternal: long}}, "spec": map[string]any{"providerID": long},
		"status": map[string]any{"nodeRef": map[string]any{"name": long, "uid": long}, "errorReason": long, "errorMessage": long},
	})
	p.add(SetsResource, "MachineSet", "long", "MachineDeployment", long, before, map[string]any{"spec": map[string]any{}})
	p.add(DeploymentsResource, "MachineDeployment", "long", "", "", before, map[string]any{"spec": map[string]any{
		"strategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": long, "maxSurge": long}},
		"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"forceRestart": long}}},
	}})
	n, csi := node("long", long, nil), &storagev1.CSINode{}
	n.UID, n.Spec.ProviderID, n.Labels = types.UID(long), long, map[string]string{ownedBy: long}
	csi.Name, csi.Annotations = "long", map[string]string{migratedPlugins: strings.Repeat(long[:1000]+",", 1000)}
	for range 1000 {
		csi.Spec.Drivers = append(csi.Spec.Drivers, storagev1.CSINodeDriver{Name: long[:1000]})
	}
	p.user.Put(t, n, csi, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "long"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: long}})
	f, err := Gather(t.Context(), p.restarter.Kube, p.restarter.Dynamic, changed)
	if err != nil || len(f.Unknown) > 0 || len(f.Machines) != 2 || len(f.Sets) != 2 || len(f.Deployments) != 2 || len(f.Nodes) != 2 || len(f.Attachments) != 1 {
		t.Fatalf("%d machines, %d sets, %d deployments, %d nodes, %d attachments, unknown %.300v, %v",
			len(f.Machines), len(f.Sets), len(f.Deployments), len(f.Nodes), len(f.Attachments), f.Unknown, err)
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 32<<10 {
		t.Errorf("%d bytes are kept of a few objects", len(data))
	}
}

// TestMoreObjectsThanAreLookedAtAreUnknown.
func TestMoreObjectsThanAreLookedAtAreUnknown(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	for i := range maxObjects {
		p.user.Put(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
	}
	f, err := Gather(t.Context(), p.restarter.Kube, p.restarter.Dynamic, changed)
	want := []string{"listing csinodes: there are more than 10000: delete those that are not needed"}
	if diff := cmp.Diff(want, f.Unknown); err != nil || diff != "" {
		t.Errorf("%v, unknown (-want +got):\n%s", err, diff)
	}
}

// TestWhatIsKeptOfAllObjectsIsBounded: each of them may be within its bounds.
func TestWhatIsKeptOfAllObjectsIsBounded(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	long := strings.Repeat("x", maxName)
	for i := range 2500 {
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
		csi.Annotations = map[string]string{migratedPlugins: strings.Repeat(long+",", maxDrivers)}
		for range maxDrivers {
			csi.Spec.Drivers = append(csi.Spec.Drivers, storagev1.CSINodeDriver{Name: long})
		}
		p.user.Put(t, csi)
	}
	f, err := Gather(t.Context(), p.restarter.Kube, p.restarter.Dynamic, changed)
	if err != nil || len(f.Unknown) == 0 || !strings.Contains(f.Unknown[0], "listing csinodes: what is looked at of machines and nodes takes more than 16 MiB") {
		t.Errorf("%v, unknown %v", err, f.Unknown)
	}
	if n := answerlimit.Size(crowd(5000)); n > maxFacts/2 {
		t.Errorf("what is kept of 5,000 usual machines takes %d KiB of %d", n>>10, maxFacts>>10)
	}
}

func TestAPassRestartsAndRemembersItFirst(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	got := p.pass()
	if got.Did != "restarted MachineDeployment md" || got.Complete || got.Machines[0].Reason != AnnotationContradicted {
		t.Errorf("got %+v", got)
	}
	record, _, err := p.restarter.Store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	value := p.md().ForceRestart
	if value == "" || record.Restart.Began["kube-system/md"].Value != value || record.ExternalSince == nil || len(record.Nodes) != 1 {
		t.Errorf("template %q, record %+v", value, record)
	}
	writes := len(p.user.Writes())
	if got = p.pass(); got.Did != "" || len(p.user.Writes()) != writes || !strings.Contains(got.Waiting, "is being restarted") {
		t.Errorf("a second pass: %+v", got)
	}
}

func TestAPassThatWasCutOffIsDoneAgainWithItsValue(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	p.user.Deny("patch", "machinedeployments")
	if _, err := p.restarter.Pass(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	record, _, err := p.restarter.Store.Load(t.Context())
	if err != nil || record.Restart.Began["kube-system/md"].Value == "" {
		t.Fatalf("it was not remembered: %+v, %v", record, err)
	}
	p.clock.SetTime(p.clock.Now().Add(time.Minute))
	f, o, _, err := p.restarter.readAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := Next(f, o, p.restarter.Policy); s.Restart == nil || s.Value != record.Restart.Began["kube-system/md"].Value {
		t.Errorf("got %+v", s)
	}
}

func TestWithoutTheAnnotationNothingOfTheUserClusterIsWritten(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	p.restarter.Policy.Wanted = false
	if got := p.pass(); got.Did != "" || got.Waiting != "" || len(p.user.Writes()) != 3 { // the three that the test made
		t.Errorf("%+v, wrote %v", got, p.user.Writes())
	}
}

func TestTwoPassesAtOnceDoNotBothAct(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	raced := false
	p.seed.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if !raced && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, RecordName) {
			raced = true
			c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: RecordName, Namespace: "cluster-x"}, Data: map[string]string{recordKey: "{}"}}
			p.seed.Put(t, c) // somebody else was faster
		}
		return false
	}
	if _, err := p.restarter.Pass(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if p.md().ForceRestart != "" {
		t.Error("it was restarted although the record belongs to somebody else")
	}
}

func TestSinceWhenMachinesAreExternalIsNotedOnceAndOnlyWhenBothAreReady(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct{ ccm, parts, want bool }{{false, true, false}, {true, false, false}, {true, true, true}, {false, false, true}} {
		p.restarter.CCMReady, p.restarter.PartsReady = c.ccm, c.parts
		p.clock.SetTime(p.clock.Now().Add(time.Minute))
		o, err := p.restarter.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		record, _, err := p.restarter.Store.Load(t.Context())
		if err != nil || (record.ExternalSince != nil) != c.want {
			t.Errorf("%+v: %+v, %v", c, record, err)
		}
		if o.Complete != (c.ccm && c.parts) {
			t.Errorf("%+v: complete %t", c, o.Complete)
		}
		if c.want && !record.ExternalSince.Equal(changed.Add(3*time.Minute)) {
			t.Errorf("%+v: since %s", c, record.ExternalSince)
		}
	}
}

func TestAClusterWithoutMachinesAPIHasNoMachines(t *testing.T) {
	p := newPlace(t)
	p.user.Serve("apps/v1", "storage.k8s.io/v1")
	if got := p.pass(); !got.Complete || !got.Restarted {
		t.Errorf("got %+v", got)
	}
}

func TestWhatCannotBeListedIsUnknownAndForgetsNothing(t *testing.T) {
	for _, resource := range []string{"machines", "machinesets", "machinedeployments", "nodes", "csinodes", "volumeattachments"} {
		p := newPlace(t)
		p.oneMachine()
		p.pass()
		p.user.Deny("list", resource)
		got := p.pass()
		if got.Complete || len(got.Unknown) != 1 || !strings.Contains(got.Unknown[0], resource) || !strings.HasPrefix(got.Message(), "not known: ") {
			t.Errorf("%s: %+v", resource, got)
		}
		record, _, err := p.restarter.Store.Load(t.Context())
		if err != nil || len(record.Nodes) != 1 {
			t.Errorf("%s: %+v, %v", resource, record, err)
		}
	}
}

func TestAVolumeOfANodeThatIsGoneIsSeen(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	pv := "pv-1"
	p.user.Put(
		t,
		&storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: "gone", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
		},
	)
	got := p.pass()
	if got.Did != "" || !strings.Contains(got.Waiting, "volume pv-1") ||
		!slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "pv-1") }) {
		t.Errorf("got %+v", got)
	}
}

func TestTheRecordIsWrittenOnlyWhenItChanges(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	p.restarter.Policy.Wanted = false
	p.pass()
	writes := len(p.seed.Writes())
	p.clock.SetTime(p.clock.Now().Add(time.Hour))
	p.pass()
	if got := len(p.seed.Writes()); got != writes {
		t.Errorf("wrote %v", p.seed.Writes()[writes:])
	}
}

func TestARecordThatCannotBeReadSaysWhatToDo(t *testing.T) {
	p := newPlace(t)
	p.seed.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: RecordName, Namespace: "cluster-x"}, Data: map[string]string{recordKey: "{"}})
	if _, err := p.restarter.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("got %v", err)
	}
}

func TestARecordThatIsNotUnderstoodIsLeftAsItIs(t *testing.T) {
	for record, want := range map[string]string{
		`{"schema":99,"soon":true}`: "ConfigMap cluster-x/transplant-machines has schema 99, and this version of transplant knows no more than schema 2 of it: use a later version",
		`{"restart":{"soon":true}}`: `ConfigMap cluster-x/transplant-machines has the field "soon"`,
	} {
		p := newPlace(t)
		p.oneMachine()
		p.seed.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: RecordName, Namespace: "cluster-x"}, Data: map[string]string{recordKey: record}})
		_, err := p.restarter.Pass(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "delete it") {
			t.Errorf("%s: the error does not say %q: %v", record, want, err)
		}
		if writes := p.seed.Writes(); len(writes) > 0 {
			t.Errorf("%s: wrote %v", record, writes)
		}
	}
}

func TestARecordFromBeforeThereWereNumbersIsReadAndNumbered(t *testing.T) {
	p := newPlace(t)
	p.seed.Put(
		t,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: RecordName, Namespace: "cluster-x"},
			Data:       map[string]string{recordKey: `{"nodes":{"u":{"tainted":true}}}`},
		},
	)
	store := p.restarter.Store
	was, version, err := store.Load(t.Context())
	if err != nil || !was.Nodes["u"].Tainted {
		t.Fatalf("%+v, %v", was, err)
	}
	now := was.clone()
	now.External(changed)
	if _, err := store.Save(t.Context(), now, was, version); err != nil {
		t.Fatal(err)
	}
	if text := p.seed.Field(
		"/api/v1/namespaces/cluster-x/configmaps/"+RecordName,
		"data",
		recordKey,
	); !strings.HasPrefix(text, `{"schema":2,"externalSince":`) ||
		!strings.Contains(text, `"tainted":true`) {
		t.Errorf("wrote %s", text)
	}
}

func TestALookLetsAStoppedRestartBeginAnew(t *testing.T) {
	p := newPlace(t)
	p.oneMachine()
	p.pass()
	record, version, err := p.restarter.Store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped := record.clone()
	stopped.Restart.Stopped = &Stopped{Deployment: "kube-system/md", Machine: "machine", Reason: "it is not external", At: changed}
	if _, err := p.restarter.Store.Save(t.Context(), stopped, record, version); err != nil {
		t.Fatal(err)
	}
	if got := p.pass(); got.Stopped == nil {
		t.Fatalf("got %+v", got)
	}
	if _, err := p.restarter.Look(t.Context()); err != nil { // the annotation is off
		t.Fatal(err)
	}
	if got := p.pass(); got.Stopped != nil {
		t.Errorf("got %+v", got)
	}
}
