package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
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
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// namespace is where the Services of scenarios are.
const namespace = metav1.NamespaceDefault

// apiServer is an API server in memory. It honours resource versions, UIDs, finalizers and preconditions. It keeps
// status apart from the rest where an API server does, and does not write what changes nothing.
type apiServer struct {
	client  *fake.Clientset
	tracker clienttesting.ObjectTracker

	mu       sync.Mutex
	version  int
	made     int // Nodes and Services: their UIDs are the same in both runs
	history  []change
	changed  chan struct{} // closed with the next change, and then another one
	failures failures
	writes   map[string]int // those that changed something, by object: "nodes n"
	events   []string       // "Normal Synced n", each once, in the order in which it was first told
}

// change is what watches tell, each from the version on that it was asked for.
type change struct {
	watch.Event
	resource schema.GroupVersionResource
	version  int
}

func newAPIServer() *apiServer {
	a := &apiServer{
		client: &fake.Clientset{}, tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()),
		failures: failures{}, changed: make(chan struct{}), writes: map[string]int{},
	}
	a.client.AddReactor("*", "*", a.react)
	a.client.AddReactor("*", "*", clienttesting.ObjectReaction(a.tracker))
	a.client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		stream, err := a.watch(action)
		return true, stream, err
	})
	return a
}

func resourceOf(o runtime.Object) schema.GroupVersionResource {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource
}

func access(o runtime.Object) metav1.Object {
	object, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	return object
}

// react answers what the tracker would answer otherwise than an API server.
func (a *apiServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	resource, verb := action.GetResource().Resource, action.GetVerb()
	a.mu.Lock()
	defer a.mu.Unlock()
	if asked, ok := action.(clienttesting.ListActionImpl); ok {
		return a.list(asked)
	}
	if resource == "events" {
		return true, a.keepEvent(action), nil
	}
	if err := a.failures.next(verb + " " + resource); err != nil {
		return true, nil, err
	}
	switch asked := action.(type) {
	case clienttesting.CreateActionImpl:
		o := asked.GetObject().DeepCopyObject()
		return true, o, a.store(asked, o, nil)
	case clienttesting.UpdateActionImpl:
		return a.update(asked)
	case clienttesting.PatchActionImpl:
		return a.patch(asked)
	case clienttesting.DeleteActionImpl:
		return a.delete(asked)
	}
	return false, nil, nil
}

// list tells the version of what it gives, so that a watch goes on from there. The lock is held.
func (a *apiServer) list(asked clienttesting.ListActionImpl) (bool, runtime.Object, error) {
	if err := a.failures.next("list " + asked.GetResource().Resource); err != nil {
		return true, nil, err
	}
	list, err := a.tracker.List(asked.GetResource(), asked.GetKind(), asked.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	access, err := meta.ListAccessor(list)
	if err != nil {
		return true, nil, err
	}
	access.SetResourceVersion(strconv.Itoa(a.version))
	return true, list, nil
}

// watch tells every change after the version that is asked for, none left out and none twice. The tracker's own watches
// forget deletions between a list and its watch. An informer would keep the object then, as chance has it.
func (a *apiServer) watch(action clienttesting.Action) (watch.Interface, error) {
	asked, ok := action.(clienttesting.WatchActionImpl)
	if !ok {
		return nil, fmt.Errorf("a watch of the kind %T is not known here", action)
	}
	from, err := strconv.Atoi(asked.ListOptions.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("a watch of %s without a list before it: %w", asked.GetResource().Resource, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.failures.next("watch " + asked.GetResource().Resource); err != nil {
		return nil, err
	}
	told := make(chan watch.Event)
	stream := watch.NewProxyWatcher(told)
	go a.tell(told, stream.StopChan(), asked, from)
	return stream, nil
}

// tell sends changes until the watch is stopped.
func (a *apiServer) tell(
	told chan<- watch.Event, stopped <-chan struct{}, asked clienttesting.WatchActionImpl, from int,
) {
	for next := 0; ; {
		a.mu.Lock()
		changes, more := a.history[next:], a.changed
		a.mu.Unlock()
		next += len(changes)
		for _, c := range changes {
			isElsewhere := asked.GetNamespace() != "" && asked.GetNamespace() != access(c.Object).GetNamespace()
			if c.version <= from || c.resource != asked.GetResource() || isElsewhere {
				continue
			}
			select {
			case told <- watch.Event{Type: c.Type, Object: c.Object.DeepCopyObject()}:
			case <-stopped:
				return
			}
		}
		select {
		case <-more:
		case <-stopped:
			return
		}
	}
}

// keepEvent notes an event once, as an API server has one object for what happens repeatedly.
func (a *apiServer) keepEvent(action clienttesting.Action) runtime.Object {
	created, ok := action.(clienttesting.CreateActionImpl)
	if !ok {
		return &corev1.Event{}
	}
	event, ok := created.GetObject().(*corev1.Event)
	if !ok {
		return &corev1.Event{}
	}
	text := strings.Join([]string{event.Type, event.Reason, event.InvolvedObject.Name}, " ")
	for _, told := range a.events {
		if told == text {
			return event
		}
	}
	a.events = append(a.events, text)
	return event
}

func (a *apiServer) update(asked clienttesting.UpdateActionImpl) (bool, runtime.Object, error) {
	o := asked.GetObject().DeepCopyObject()
	old, err := a.tracker.Get(asked.GetResource(), asked.GetNamespace(), access(o).GetName())
	if err != nil {
		return true, nil, err
	}
	if given := access(o).GetResourceVersion(); given != "" && given != access(old).GetResourceVersion() {
		return true, nil, conflict(asked, access(o).GetName())
	}
	return true, o, a.store(asked, o, old)
}

func (a *apiServer) patch(asked clienttesting.PatchActionImpl) (bool, runtime.Object, error) {
	old, err := a.tracker.Get(asked.GetResource(), asked.GetNamespace(), asked.GetName())
	if err != nil {
		return true, nil, err
	}
	before, err := json.Marshal(old)
	if err != nil {
		return true, nil, err
	}
	var after []byte
	if asked.GetPatchType() == types.MergePatchType {
		after, err = jsonpatch.MergePatch(before, asked.GetPatch())
	} else {
		after, err = strategicpatch.StrategicMergePatch(before, asked.GetPatch(), old)
	}
	if err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	o := newLike(old)
	if err := json.Unmarshal(after, o); err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	if access(o).GetUID() != access(old).GetUID() || access(o).GetResourceVersion() != access(old).GetResourceVersion() {
		return true, nil, conflict(asked, asked.GetName())
	}
	return true, o, a.store(asked, o, old)
}

func newLike(o runtime.Object) runtime.Object {
	switch o.(type) {
	case *corev1.Node:
		return &corev1.Node{}
	case *corev1.Service:
		return &corev1.Service{}
	}
	return &corev1.ConfigMap{}
}

func conflict(action clienttesting.Action, name string) error {
	return apierrors.NewConflict(action.GetResource().GroupResource(), name, errors.New("the object has been modified"))
}

// store keeps what a client has written. The lock is held.
func (a *apiServer) store(action clienttesting.Action, o, old runtime.Object) error {
	if old != nil {
		keepWhatIsApart(action.GetSubresource() == "status", o, old)
		if equality.Semantic.DeepEqual(o, old) {
			return nil
		}
	}
	if !strings.Contains(action.GetResource().Resource, "configmaps") { // what a controller notes for itself
		a.writes[action.GetResource().Resource+" "+access(o).GetName()]++
	}
	return a.putObject(action.GetResource(), o, old == nil)
}

// keepWhatIsApart leaves a status to those who write the status, and the rest to the others.
func keepWhatIsApart(status bool, o, old runtime.Object) {
	switch object := o.(type) {
	case *corev1.Node:
		was := old.(*corev1.Node).DeepCopy()
		if !status {
			object.Status = was.Status
			return
		}
		was.Status = object.Status
		*object = *was
	case *corev1.Service:
		was := old.(*corev1.Service).DeepCopy()
		if !status {
			object.Status = was.Status
			return
		}
		// An API server lets those who write a Service's status write its metadata too: providers' libraries do.
		was.Status, was.ObjectMeta = object.Status, object.ObjectMeta
		*object = *was
	}
}

// putObject stores an object under the next resource version, or ends one that waited for its last finalizer. The lock
// is held.
func (a *apiServer) putObject(resource schema.GroupVersionResource, o runtime.Object, fresh bool) error {
	object := access(o)
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return a.erase(resource, o)
	}
	a.version++
	object.SetResourceVersion(strconv.Itoa(a.version))
	if object.GetUID() == "" {
		if resource.Resource != "configmaps" {
			a.made++
		}
		object.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", object.GetName(), a.made)))
	}
	if fresh {
		err := a.tracker.Create(resource, o.DeepCopyObject(), object.GetNamespace())
		return a.keepChange(watch.Added, resource, o, err)
	}
	err := a.tracker.Update(resource, o.DeepCopyObject(), object.GetNamespace())
	return a.keepChange(watch.Modified, resource, o, err)
}

// erase ends an object, which is a change as any other, with a version. The lock is held.
func (a *apiServer) erase(resource schema.GroupVersionResource, o runtime.Object) error {
	a.version++
	last := o.DeepCopyObject()
	access(last).SetResourceVersion(strconv.Itoa(a.version))
	err := a.tracker.Delete(resource, access(o).GetNamespace(), access(o).GetName())
	return a.keepChange(watch.Deleted, resource, last, err)
}

// keepChange keeps what watches have to tell, unless it has failed. The lock is held.
func (a *apiServer) keepChange(
	kind watch.EventType, resource schema.GroupVersionResource, o runtime.Object, err error,
) error {
	if err != nil {
		return err
	}
	event := watch.Event{Type: kind, Object: o.DeepCopyObject()}
	a.history = append(a.history, change{Event: event, resource: resource, version: a.version})
	close(a.changed)
	a.changed = make(chan struct{})
	return nil
}

func (a *apiServer) delete(asked clienttesting.DeleteActionImpl) (bool, runtime.Object, error) {
	old, err := a.tracker.Get(asked.GetResource(), asked.GetNamespace(), asked.GetName())
	if err != nil {
		return true, nil, err
	}
	if pre := asked.DeleteOptions.Preconditions; pre != nil {
		has := access(old)
		anotherObject := pre.UID != nil && *pre.UID != has.GetUID()
		if anotherObject || pre.ResourceVersion != nil && *pre.ResourceVersion != has.GetResourceVersion() {
			return true, nil, conflict(asked, asked.GetName())
		}
	}
	a.writes[asked.GetResource().Resource+" "+asked.GetName()]++
	return true, old, a.erase(asked.GetResource(), old)
}

// add creates an object, past clients.
func (a *apiServer) add(o runtime.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.putObject(resourceOf(o), o.DeepCopyObject(), true)
}

// changeObject changes an object, past clients.
func (a *apiServer) changeObject(resource schema.GroupVersionResource, ns, name string,
	change func(runtime.Object)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changeLocked(resource, ns, name, change)
}

func (a *apiServer) changeLocked(resource schema.GroupVersionResource, ns, name string,
	change func(runtime.Object)) error {
	old, err := a.tracker.Get(resource, ns, name)
	if err != nil {
		return err
	}
	o := old.DeepCopyObject()
	change(o)
	return a.putObject(resource, o, false)
}

// remove deletes an object as a user does: what has a finalizer waits for it.
func (a *apiServer) remove(resource schema.GroupVersionResource, ns, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.tracker.Get(resource, ns, name)
	if err != nil {
		return err
	}
	if len(access(o).GetFinalizers()) == 0 {
		return a.erase(resource, o)
	}
	return a.changeLocked(resource, ns, name, func(o runtime.Object) {
		now := metav1.NewTime(time.Now())
		access(o).SetDeletionTimestamp(&now)
	})
}

// failures are the errors that calls get, by what is called.
type failures map[string]*failure

type failure struct {
	err   error
	times int // that are left; forever if it was 0
	ever  bool
}

func (f failures) set(what string, times int, err error) {
	f[what] = &failure{err: err, times: times, ever: times == 0}
}

func (f failures) next(what string) error {
	failing := f[what]
	if failing == nil {
		return nil
	}
	if failing.ever {
		return failing.err
	}
	if failing.times == 0 {
		return nil
	}
	failing.times--
	return failing.err
}
