package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// world is a seed of fakes in a bubble of time, and an operator on it.
type world struct {
	t        *testing.T
	kube     *fake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient
	recorder *record.FakeRecorder
	*user
	*Operator
	lead context.CancelFunc
	led  chan struct{}
}

// user is what the operator does to user clusters, and what it finds there.
type user struct {
	mu sync.Mutex
	// clusters by name; one that was not named does at once what it is told.
	clusters map[string]*userCluster
	active   map[string]int
	most     int // runs at a time
	twice    bool
	runs     []string // "cluster part", in the order in which they began
	closed   map[string]bool
	repaired []string
	restarts map[string]bool   // clusters whose machines may be restarted now
	atMost   int               // such clusters at a time
	renewed  []string          // clusters whose manager's token was looked at
	unwanted []string          // clusters whose owners were said not to want it
	refuses  func(name string) // called when the rules are asked; nil for nothing
	cut      []string          // clusters whose connections were closed during a run
	seen     int               // looks of any sort
}

// userCluster is how one cluster behaves.
type userCluster struct {
	journal state.Journal
	// noJournal is what reading the journal gets.
	noJournal error
	owners    state.Owners
	// run is what a run does instead of succeeding.
	run func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error
	// down is what every look and question gets.
	down     error
	hangs    bool
	panics   bool
	machines *state.Machines
	parts    *PartsSeen // nil: all of them are ready
	took     time.Duration
}

var loops = []string{"service", "route", "cloud-node-lifecycle"}

func (u *user) of(name string) *userCluster {
	c := u.clusters[name]
	if c == nil {
		c = &userCluster{owners: state.Owners{InTree: loops}, took: time.Second}
		u.clusters[name] = c
	}
	return c
}

// change changes how a cluster behaves.
func (u *user) change(name string, f func(*userCluster)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u.of(name))
}

func (u *user) look(ctx context.Context, name string) (userCluster, error) {
	u.mu.Lock()
	u.seen++
	c := *u.of(name)
	u.mu.Unlock()
	if c.panics {
		panic("a look")
	}
	if c.hangs {
		<-ctx.Done()
		return c, context.Cause(ctx)
	}
	return c, c.down
}

func (u *user) begin(name string, part state.Part) userCluster {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active[name]++
	u.twice = u.twice || u.active[name] > 1
	running := 0
	for _, n := range u.active {
		running += n
	}
	u.most = max(u.most, running)
	u.runs = append(u.runs, name+" "+string(part))
	return *u.of(name)
}

func (u *user) Run(ctx context.Context, t Target, part state.Part, back bool, tell func(step.Event), stop <-chan struct{}) error {
	c := u.begin(t.Name, part)
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.active[t.Name]--
	}()
	stage := func(s state.Stage) {
		u.change(t.Name, func(c *userCluster) {
			if part == state.Finish {
				c.journal.Finish = s
				return
			}
			c.journal.Handover, c.journal.Install = s, part == state.Install
		})
	}
	if c.run == nil {
		c.run = func(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
			for n := range 2 {
				stage(state.Begun)
				tell(step.Event{Step: v1.Step{Title: "a step"}, Kind: step.EventStarted, Number: n + 1, Total: 2})
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-stop:
					return step.ErrInterrupted
				case <-time.After(c.took):
				}
			}
			return nil
		}
	}
	if err := c.run(ctx, tell, stop); err != nil {
		return err
	}
	if back {
		stage(state.RolledBack)
		return nil
	}
	stage(state.Done)
	u.change(t.Name, func(c *userCluster) { c.owners = state.Owners{External: loops} })
	return nil
}

func (u *user) Journal(_ context.Context, t Target) (state.Journal, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen++
	return u.of(t.Name).journal, u.of(t.Name).noJournal
}

func (u *user) Owners(ctx context.Context, t Target) (state.Owners, error) {
	c, err := u.look(ctx, t.Name)
	return c.owners, err
}

func (u *user) Reach(ctx context.Context, t Target) error {
	_, err := u.look(ctx, t.Name)
	return err
}

func (u *user) Close(t Target) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed[t.Name] = true
	if u.active[t.Name] > 0 {
		u.cut = append(u.cut, t.Name)
	}
}

func (u *user) Ensure(ctx context.Context, t Target) (PartsSeen, error) {
	c, err := u.look(ctx, t.Name)
	if c.parts != nil {
		return *c.parts, err
	}
	return PartsSeen{Parts: state.Parts{Ready: true, CSIReady: true}}, err
}

func (u *user) RenewToken(ctx context.Context, t Target) error {
	_, err := u.look(ctx, t.Name)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.renewed = append(u.renewed, t.Name)
	return err
}

func (u *user) Pass(ctx context.Context, t Target, asked MachinesAsked) (state.Machines, string, error) {
	c, err := u.look(ctx, t.Name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !asked.Wanted {
		u.unwanted = append(u.unwanted, t.Name)
	}
	if asked.Wanted && asked.Hold == "" && (c.machines == nil || c.machines.Regression == "") {
		u.restarts[t.Name] = true
		u.atMost = max(u.atMost, len(u.restarts))
	}
	if c.machines != nil {
		if c.machines.Done {
			delete(u.restarts, t.Name)
		}
		m := *c.machines
		m.Rolling = !m.Done && m.Regression == "" && u.restarts[t.Name]
		return m, "", err
	}
	return state.Machines{Total: 1, Migrated: 1, Done: true}, "", err
}

func (u *user) Refusals(_ context.Context, c *kubermaticv1.Cluster, _ bool) []string {
	u.mu.Lock()
	refuses := u.refuses
	u.mu.Unlock()
	if refuses != nil {
		refuses(c.Name)
	}
	if c.Spec.Cloud.ProviderName == "unsupported" {
		return []string{"external cloud-controller-manager is not supported for this cluster / provider combination"}
	}
	return nil
}

func (u *user) Repair(_ context.Context, _ string, c *kubermaticv1.Cluster) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.repaired = append(u.repaired, c.Name)
	return true, nil
}

// bubble runs f in a bubble, with an operator that leads.
func bubble(t *testing.T, prepare func(*Options), f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, prepare)
		ctx, end := context.WithCancel(t.Context())
		warm := make(chan struct{})
		go func() { defer close(warm); w.Warm(ctx) }()
		w.begin(ctx)
		defer func() { // also after a failure: a bubble waits for all of its goroutines
			w.end()
			end()
			<-warm
		}()
		f(w)
	})
}

func newWorld(t *testing.T, prepare func(*Options)) *world {
	kinds := map[schema.GroupVersionResource]string{}
	w := &world{t: t, recorder: record.NewFakeRecorder(10_000), kube: fake.NewClientset()}
	for _, group := range groups {
		kinds[objects.Resource(group)] = "ClusterList"
		w.serve(group)
	}
	w.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	w.user = &user{clusters: map[string]*userCluster{}, active: map[string]int{}, closed: map[string]bool{}, restarts: map[string]bool{}}
	o := Options{Kube: w.kube, Dynamic: w.dynamic, Engine: w.user, Parts: w.user, Machines: w.user, Rules: w.user, Recorder: w.recorder}
	if prepare != nil {
		prepare(&o)
	}
	var err error
	if w.Operator, err = New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// begin makes the operator lead, end takes that from it and waits.
func (w *world) begin(ctx context.Context) {
	ctx, w.lead = context.WithCancel(ctx)
	w.led = make(chan struct{})
	go func() { defer close(w.led); w.Lead(ctx) }()
}

func (w *world) end() {
	w.t.Helper()
	w.lead()
	select {
	case <-w.led:
	case <-time.After(10 * time.Minute):
		w.t.Error("the operator does not end")
	}
}

func (w *world) serve(group string) {
	w.kube.Resources = append(
		w.kube.Resources,
		&metav1.APIResourceList{GroupVersion: group + "/v1", APIResources: []metav1.APIResource{{Name: "clusters", Kind: "Cluster"}}},
	)
}

// cluster makes a Cluster, with a control plane that runs in-tree.
func (w *world) cluster(name string, edits ...func(*unstructured.Unstructured)) {
	w.t.Helper()
	w.plane(name, 1)
	w.object(kubermaticv1.GroupName, name, edits...)
}

func (w *world) object(group, name string, edits ...func(*unstructured.Unstructured)) {
	w.t.Helper()
	u := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": group + "/v1", "kind": "Cluster", "metadata": map[string]any{"name": name, "uid": group + name},
			"spec": map[string]any{"version": "1.26.0", "cloud": map[string]any{"providerName": "aws", "aws": map[string]any{"secretAccessKey": "secret"}}}},
	}
	for _, edit := range edits {
		edit(u)
	}
	if _, err := w.dynamic.Resource(objects.Resource(group)).Create(w.t.Context(), u, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) plane(name string, replicas int32) {
	w.t.Helper()
	for _, component := range []string{apiserver, controllerManager} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-" + name, Name: component}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(replicas)}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Command: []string{"/usr/local/bin/kube-" + component}, Args: []string{"--cloud-provider", "aws"}}}
		_, err := w.kube.AppsV1().Deployments(d.Namespace).Create(w.t.Context(), d, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = w.kube.AppsV1().Deployments(d.Namespace).Update(w.t.Context(), d, metav1.UpdateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// enabled is a Cluster whose feature was switched on, as the webhook leaves it.
func enabled(u *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(u.Object, true, "spec", "features", kubermaticv1.FeatureExternalCloudProvider)
	u.SetAnnotations(map[string]string{kubermaticv1.CCMMigrationNeeded: "", kubermaticv1.CSIMigrationNeeded: ""})
}

// enable switches the feature of a Cluster on.
func (w *world) enable(name string) {
	w.t.Helper()
	w.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"",%q:""}},"spec":{"features":{%q:true}}}`,
		kubermaticv1.CCMMigrationNeeded, kubermaticv1.CSIMigrationNeeded, kubermaticv1.FeatureExternalCloudProvider))
}

func (w *world) patch(name, patch string) {
	w.t.Helper()
	_, err := w.dynamic.Resource(objects.Resource(kubermaticv1.GroupName)).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) *kubermaticv1.Cluster {
	return w.readIn(kubermaticv1.GroupName, name)
}

func (w *world) readIn(group, name string) *kubermaticv1.Cluster {
	w.t.Helper()
	u, err := w.dynamic.Resource(objects.Resource(group)).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := objects.Decode(u)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) phase(name string) string {
	w.t.Helper()
	return w.read(name).Status.Conditions[kubermaticv1.ConditionMigration].Reason
}

// until waits for a phase, and tells after how long it was there.
func (w *world) until(name, phase string, limit time.Duration) time.Duration {
	w.t.Helper()
	begun := time.Now()
	for {
		synctest.Wait()
		if w.phase(name) == phase {
			return time.Since(begun)
		}
		if time.Since(begun) >= limit {
			c := w.read(name).Status.Conditions[kubermaticv1.ConditionMigration]
			w.t.Fatalf("after %s cluster %s is %s (%s) and not %s", limit, name, c.Reason, c.Message, phase)
		}
		<-time.After(max(100*time.Millisecond, limit/400))
	}
}

// began are the runs that began, in order.
func (w *world) began() []string {
	w.user.mu.Lock()
	defer w.user.mu.Unlock()
	return slices.Clone(w.user.runs)
}

var errDown = fmt.Errorf("asking: %w", &downError{errors.New("connection refused")})

// downError is an error of the network.
type downError struct{ error }

func (*downError) Timeout() bool { return true }

func (*downError) Temporary() bool { return true }
