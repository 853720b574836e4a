package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

var (
	servicesResource   = corev1.SchemeGroupVersion.WithResource("services")
	nodesResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// world is a cluster and a cloud in memory, within one bubble of fake time. The API honours resource versions, UIDs, finalizers, and that a patch
// which changes nothing writes nothing.
type world struct {
	t       *testing.T
	client  *fake.Clientset
	tracker clienttesting.ObjectTracker
	cloud   *fakeCloud
	// options of the next controller
	options     Options
	workers     int
	environment string
	lease       string
	adoptedAt   time.Time
	epoch       int64
	guard       *cloud.Options // of the guard that calls go through; nil for none
	dropsModes  bool           // the API server is older than the modes of addresses
	realEvents  bool           // events go to the API

	mu       sync.Mutex
	version  int
	writes   []string                                // "patch services default/a"
	refuse   func(verb, resource, name string) error // nil for never
	events   []string                                // "Normal EnsuredLoadBalancer default/a"
	messages []string                                // of the events
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Not fake.NewClientset: it manages fields, which takes most of a test's time with hundreds of Services.
		client, tracker := &fake.Clientset{}, clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
		client.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
		client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			stream, err := tracker.Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
			return true, stream, err
		})
		w := &world{t: t, client: client, tracker: tracker, cloud: newFakeCloud(), options: NewOptions(), workers: 10,
			lease: "cloud-controller-manager", adoptedAt: time.Now(), epoch: 1}
		w.client.PrependReactor("*", "*", w.react)
		test(w)
	})
}

// running is a controller that runs.
type running struct {
	w          *world
	controller *Controller
	fence      *election.Fence
	stop       func()
}

// start runs a controller. It is stopped, at the latest, when the test ends.
func (w *world) start() *running {
	w.t.Helper()
	fence := election.NewFence(w.lease, bubbleClock{})
	fence.Extend(bubbleClock{}.Now()+1000*time.Hour, election.Tenure{Epoch: w.epoch, AdoptedAt: w.adoptedAt})
	return w.startWith(fence)
}

func (w *world) startWith(fence *election.Fence) *running {
	w.t.Helper()
	factory := informers.NewSharedInformerFactory(w.client, 0)
	var events record.EventRecorder
	if !w.realEvents {
		events = recorder{w}
	}
	var provider cloudprovider.Interface = w.cloud
	if w.guard != nil {
		provider = cloud.New(provider, *w.guard).For(fence)
	}
	c, err := New(Config{
		Client: w.client, Cloud: provider, Services: factory.Core().V1().Services(), Nodes: factory.Core().V1().Nodes(),
		ClusterName: "kubernetes", Workers: w.workers, Environment: w.environment, Options: w.options, Recorder: events,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	informersCtx, stopInformers := context.WithCancel(w.t.Context())
	factory.StartWithContext(informersCtx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(election.NewContext(ctx, fence))
	}()
	r := &running{w: w, controller: c, fence: fence}
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		stopInformers()
		factory.Shutdown()
		fence.Revoke("the test is over")
	})
	w.t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

// bubbleClock is the time of the bubble.
type bubbleClock struct{}

func (bubbleClock) Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// settle lets what is under way end, and this much time pass.
func (w *world) settle(d time.Duration) {
	pass(d)
	synctest.Wait()
}

func pass(d time.Duration) { <-time.After(d) }

func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := action.GetResource()
	if action.GetVerb() == "list" || action.GetVerb() == "watch" {
		return false, nil, nil
	}
	name := nameOf(action)
	if w.refuse != nil {
		if err := w.refuse(action.GetVerb(), resource.Resource, name); err != nil {
			return true, nil, err
		}
	}
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		object, err := w.patch(a)
		return true, object, err
	case clienttesting.CreateActionImpl:
		object := a.GetObject().DeepCopyObject()
		err := w.put(resource, object, "create "+resource.Resource+" "+name, true)
		return true, object, err
	case clienttesting.UpdateActionImpl:
		object := a.GetObject().DeepCopyObject()
		old, err := w.tracker.Get(resource, a.GetNamespace(), access(object).GetName())
		if err != nil {
			return true, nil, err
		}
		if given, has := access(object).GetResourceVersion(), access(old).GetResourceVersion(); given != "" && given != has {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), name, errors.New("the object has been modified"))
		}
		err = w.put(resource, object, "update "+resource.Resource+" "+name, false)
		return true, object, err
	}
	return false, nil, nil
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case interface{ GetName() string }:
		return action.GetNamespace() + "/" + a.GetName()
	case interface{ GetObject() runtime.Object }:
		return action.GetNamespace() + "/" + access(a.GetObject()).GetName()
	}
	return ""
}

func access(object runtime.Object) metav1.Object {
	o, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return o
}

// put stores an object with the next resource version. The lock is held.
func (w *world) put(resource schema.GroupVersionResource, object runtime.Object, write string, fresh bool) error {
	w.version++
	o := access(object)
	o.SetResourceVersion(strconv.Itoa(w.version))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.version)))
	}
	var err error
	if fresh {
		err = w.tracker.Create(resource, object.DeepCopyObject(), o.GetNamespace())
	} else {
		err = w.tracker.Update(resource, object.DeepCopyObject(), o.GetNamespace())
	}
	if err != nil {
		return err
	}
	if write != "" {
		w.writes = append(w.writes, write)
	}
	return nil
}

func (w *world) patch(a clienttesting.PatchActionImpl) (runtime.Object, error) {
	name := a.GetNamespace() + "/" + a.GetName()
	old, err := w.tracker.Get(a.GetResource(), a.GetNamespace(), a.GetName())
	if err != nil {
		return nil, err
	}
	var head struct{ Metadata struct{ UID types.UID } }
	if err := json.Unmarshal(a.GetPatch(), &head); err != nil {
		return nil, err
	}
	if head.Metadata.UID == "" {
		w.t.Errorf("a patch of %s has no UID: %s", name, a.GetPatch())
	}
	if head.Metadata.UID != access(old).GetUID() {
		return nil, apierrors.NewConflict(a.GetResource().GroupResource(), name, errors.New("the UID in the precondition does not match"))
	}
	if a.GetSubresource() != "status" {
		w.t.Errorf("a patch of %s goes to the subresource %q", name, a.GetSubresource())
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, a.GetPatch(), old)
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{}
	if err := json.Unmarshal(after, service); err != nil {
		return nil, err
	}
	if w.dropsModes {
		for i := range service.Status.LoadBalancer.Ingress {
			service.Status.LoadBalancer.Ingress[i].IPMode = nil
		}
	} else {
		service.Status.LoadBalancer = *normal(&service.Status.LoadBalancer) // as the API server's defaults do
	}
	if equality.Semantic.DeepEqual(old, service) {
		w.writes = append(w.writes, "patch of nothing "+name)
		return service, nil
	}
	if service.DeletionTimestamp != nil && len(service.Finalizers) == 0 {
		w.writes = append(w.writes, "patch services "+name)
		return service, w.tracker.Delete(a.GetResource(), a.GetNamespace(), a.GetName())
	}
	return service, w.put(a.GetResource(), service, "patch services "+name, false)
}

// recorder keeps events.
type recorder struct{ w *world }

func (r recorder) Event(object runtime.Object, kind, reason, message string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.events = append(r.w.events, kind+" "+reason+" "+access(object).GetName())
	r.w.messages = append(r.w.messages, message)
}

func (r recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(object, kind, reason, format, args...)
}

// add creates objects, past the controller's client.
func (w *world) add(objects ...runtime.Object) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range objects {
		if err := w.put(resourceOf(o), o.DeepCopyObject(), "", true); err != nil {
			w.t.Fatal(err)
		}
	}
}

func resourceOf(o runtime.Object) schema.GroupVersionResource {
	switch o.(type) {
	case *corev1.Service:
		return servicesResource
	case *corev1.Node:
		return nodesResource
	}
	return configMapsResource
}

// changeService changes a Service as a user would.
func (w *world) changeService(name string, change func(*corev1.Service)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	old, err := w.tracker.Get(servicesResource, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	service := old.(*corev1.Service).DeepCopy()
	change(service)
	if err := w.put(servicesResource, service, "", false); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) changeNode(name string, change func(*corev1.Node)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	old, err := w.tracker.Get(nodesResource, "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	node := old.(*corev1.Node).DeepCopy()
	change(node)
	if err := w.put(nodesResource, node, "", false); err != nil {
		w.t.Fatal(err)
	}
}

// deleteService deletes a Service as a user would: it stays while it has finalizers.
func (w *world) deleteService(name string) {
	w.t.Helper()
	if service := w.service(name); len(service.Finalizers) > 0 {
		w.changeService(name, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		return
	}
	if err := w.tracker.Delete(servicesResource, "default", name); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	if err := w.tracker.Delete(nodesResource, "", name); err != nil {
		w.t.Fatal(err)
	}
}

// service returns a Service as it is in the API, or nil.
func (w *world) service(name string) *corev1.Service {
	w.t.Helper()
	o, err := w.tracker.Get(servicesResource, "default", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*corev1.Service)
}

// took returns the calls, events and writes of Services since the last time, and forgets them.
func (w *world) took() activity {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	a := activity{Events: w.events}
	for _, write := range w.writes {
		if !strings.Contains(write, "configmaps") {
			a.Writes = append(a.Writes, write)
		}
	}
	w.writes, w.events, w.messages = nil, nil, nil
	a.Calls = w.cloud.took()
	return a
}

type activity struct{ Calls, Events, Writes []string }

func (w *world) want(want activity) {
	w.t.Helper()
	got := w.took()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("activity (-want +got):\n%s", diff)
	}
}

// stateWrites counts the writes of the ConfigMap so far.
func (w *world) stateWrites() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, write := range w.writes {
		if strings.Contains(write, "configmaps") {
			n++
		}
	}
	return n
}

func service(name string, changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func withType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}

func withFinalizer(s *corev1.Service) {
	s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
}

func withAddress(address string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Status.LoadBalancer = statusOf(address) }
}

func withUID(uid types.UID) func(*corev1.Service) { return func(s *corev1.Service) { s.UID = uid } }

func beingDeleted(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

func withPort(port int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = port }
}

func statusOf(address string) corev1.LoadBalancerStatus {
	vip := corev1.LoadBalancerIPModeVIP
	return corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address, IPMode: &vip}}}
}

func node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: "fake://" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func withTaint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func withProviderID(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.ProviderID = id }
}

func withLabel(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func withReady(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

func nodeBeingDeleted(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// created is when a node joined: now.
func created(n *corev1.Node) { n.CreationTimestamp = metav1.Now() }

// sorted is a set as a list.
func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
