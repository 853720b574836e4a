package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/transplant-dev/transplant/lab/poll"
)

// PodOptions describe how the pods run that the API binds to a node.
type PodOptions struct {
	// HostNetwork gives pods on the host's network the host's address, and the first part of its Node's name for a host
	// name: by that a manager names itself in its lease. It needs the right to make UTS namespaces, see CanNameHosts.
	// Default: they get an address of their own like all others.
	HostNetwork bool
	// Address gives each pod its own loopback address. A process that listens on all addresses takes that of its pod, see
	// Program.
	Address func() (string, error)
	// Program finds what a container is run by. It is asked once for each pod.
	Program func(c *corev1.Container) (Program, error)
	// Env is added to every container, unless it says otherwise itself.
	Env []corev1.EnvVar
	// Variable may give a container's variable another value, once what it refers to was read: to tell the pods of one
	// Deployment apart by a credential, say. Default: the values stay.
	Variable func(pod *corev1.Pod, name, value string) string
	// Server is the URL of the API, for the kubeconfig that a pod gets in place of the in-cluster configuration, whose
	// paths no process can be given: a pod with a service account's token finds it in KUBECONFIG.
	Server string
	// Claims mounts what PersistentVolumeClaims stand for. Default: pods with claims wait.
	Claims Claims
}

// Claims mounts the volumes of PersistentVolumeClaims, and says in which order things happen: a pod's containers start
// when all its volumes are mounted, and the pod is gone from the API when all are unmounted.
type Claims interface {
	// Begin is told the flags of a kubelet that starts. The kubelet calls what it returns until that succeeds, and
	// reports the Node Ready after it.
	Begin(Flags) (announce func(context.Context) error)
	// InUse are the volumes that pods need or have mounted, sorted, for the Node's status.
	InUse() []corev1.UniqueVolumeName
	// Mount returns where on the host the volume of a pod's claim is. An error keeps the pod waiting, and it is asked
	// again.
	Mount(ctx context.Context, pod *corev1.Pod, claim string) (path string, err error)
	// Unmount takes away what Mount gave the pod. It is asked again after an error.
	Unmount(ctx context.Context, pod *corev1.Pod) error
}

// Program is what stands for a container's image.
type Program struct {
	Path string   // absolute
	Args []string // flags, as --name=value, that are added unless the container has them; $(NAME) is expanded
	Env  []corev1.EnvVar
	// Isolated gives the process namespaces of its own, in which its host has the name of the pod and its volumes lie
	// where the pod says: what it mounts there ends with it. It needs root, and RunContainer in the main of the lab's
	// program. Otherwise paths in its command line are rewritten to those of this machine.
	Isolated bool
}

// apiPods runs the pods of one node.
type apiPods struct {
	k        *Kubelet
	run      *run
	client   kubernetes.Interface
	nodeName string
	shown    *podStatuses
	changed  chan struct{}
	workers  map[types.UID]*apiWorker
}

// apiWorker is the life of one pod: first its volumes, then its processes.
type apiWorker struct {
	key   string
	ports []hostPort
	gone  chan struct{} // closed when the API wants it gone
	end   sync.Once
}

func (w *apiWorker) stop() { w.end.Do(func() { close(w.gone) }) }

// runAPIPods runs what the API binds to the node until ctx ends; the pods go on without it.
func (r *run) runAPIPods(ctx context.Context, k *Kubelet, client kubernetes.Interface, nodeName string) {
	a := &apiPods{
		k:        k,
		run:      r,
		client:   client,
		nodeName: nodeName,
		changed:  make(chan struct{}, 1),
		workers:  map[types.UID]*apiWorker{},
		shown: &podStatuses{
			client: client,
			delay:  k.opts.Profile.StatusDelay,
			log:    k.log,
			wake:   make(chan struct{}, 1),
			wanted: map[string]*podView{},
		},
	}
	mine := fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	factory := informers.NewSharedInformerFactoryWithOptions(
		client,
		0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = mine }),
	)
	informer := factory.Core().V1().Pods().Informer()
	poke := func() {
		select {
		case a.changed <- struct{}{}:
		default: // it will look anyway
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	})
	if err != nil { // only of an informer that was stopped
		k.log.Error("Pods cannot be watched", "err", err)
		return
	}
	factory.Start(ctx.Done())
	r.wg.Go(func() { a.shown.run(ctx) })
	r.wg.Go(func() {
		defer factory.Shutdown()
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return
		}
		for {
			a.sync(ctx, informer.GetStore())
			select {
			case <-ctx.Done():
				return
			case <-a.changed:
			}
		}
	})
}

// sync starts and stops what the API's pods ask for.
func (a *apiPods) sync(ctx context.Context, store cache.Store) {
	var pods []*corev1.Pod
	there := map[types.UID]bool{}
	for _, object := range store.List() {
		if pod, ok := object.(*corev1.Pod); ok && pod.Annotations[annotationMirror] == "" {
			pods = append(pods, pod)
			there[pod.UID] = true
		}
	}
	for uid, w := range a.workers {
		if !there[uid] { // deleted by force: the object is gone before the process
			w.stop()
			delete(a.workers, uid)
		}
	}
	for _, pod := range pods {
		w := a.workers[pod.UID]
		switch over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; {
		case pod.DeletionTimestamp != nil && w == nil && a.engineHas(pod) == nil:
			a.shown.forget(pod)
		case pod.DeletionTimestamp != nil && w != nil:
			w.stop()
		case w == nil && !over:
			a.admit(ctx, pod)
		}
	}
}

// admit starts the life of a pod, or rejects the pod.
func (a *apiPods) admit(ctx context.Context, pod *corev1.Pod) {
	if a.engineHas(pod) == nil && a.portsTaken(pod) {
		a.shown.reject(pod)
		return
	}
	w := &apiWorker{key: pod.Namespace + "/" + pod.Name, ports: hostPorts(pod), gone: make(chan struct{})}
	a.workers[pod.UID] = w
	if pod.DeletionTimestamp != nil { // it runs since an earlier life of this kubelet
		w.stop()
	}
	a.run.wg.Go(func() { a.live(ctx, w, pod.DeepCopy()) })
}

// engineHas is the pod as it runs already, for a kubelet that comes back.
func (a *apiPods) engineHas(pod *corev1.Pod) *staticPod {
	if p := a.k.engine.pod(pod.Namespace + "/" + pod.Name); p != nil && p.static.pod.UID == pod.UID {
		return p.static
	}
	return nil
}

// live is the whole life of one pod.
func (a *apiPods) live(ctx context.Context, w *apiWorker, pod *corev1.Pod) {
	a.shown.claim(pod)
	want := a.engineHas(pod)
	for want == nil {
		made, err := a.materialise(ctx, pod)
		if err == nil {
			want = made
			break
		}
		a.shown.waiting(pod, err)
		timer := time.NewTimer(a.k.opts.Profile.SetupRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.gone:
			timer.Stop()
			a.unmounting(ctx, pod).remove(w.key) // some of its volumes may be mounted
			return
		case <-timer.C:
		}
	}
	worker := &worker{
		key:     w.key,
		engine:  a.k.engine,
		mirrors: a.unmounting(ctx, pod),
		profile: a.k.opts.Profile,
		dice:    a.k.dice,
		log:     a.k.log,
		probing: map[*container]*process{},
		wake:    make(chan struct{}, 1),
		want:    want,
		once:    true,
	}
	done := make(chan struct{})
	defer close(done)
	a.run.wg.Go(func() {
		select {
		case <-w.gone:
			worker.set(nil)
		case <-done:
		}
	})
	worker.run(ctx)
}

// unmounting shows a pod's states in the API, and unmounts its claims before it is gone from there.
func (a *apiPods) unmounting(ctx context.Context, pod *corev1.Pod) publisher {
	claims := a.k.opts.Pods.Claims
	if claims == nil {
		return a.shown
	}
	return claimsEnd{a.shown, func() {
		for {
			err := claims.Unmount(ctx, pod)
			if err == nil || ctx.Err() != nil {
				return
			}
			a.k.log.Warn("Volumes cannot be unmounted", "pod", pod.Namespace+"/"+pod.Name, "err", err)
			if !poll.Pause(ctx, a.k.opts.Profile.SetupRetry) {
				return
			}
		}
	}}
}

type claimsEnd struct {
	publisher
	unmount func()
}

func (c claimsEnd) remove(key string) {
	c.unmount()
	c.publisher.remove(key)
}

// podStatuses shows the pods' states in the API. While it cannot be reached the pods go on; what was missed is written
// later.
type podStatuses struct {
	client kubernetes.Interface
	delay  time.Duration
	log    *slog.Logger
	wake   chan struct{}

	mu     sync.Mutex
	wanted map[string]*podView // by namespace/name
}

type podView struct {
	namespace, name string
	uid             types.UID
	status          corev1.PodStatus
	dirty, removed  bool
}

func (s *podStatuses) claim(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[pod.Namespace+"/"+pod.Name] = &podView{namespace: pod.Namespace, name: pod.Name, uid: pod.UID}
}

// forget removes a pod of which nothing runs.
func (s *podStatuses) forget(pod *corev1.Pod) {
	s.claim(pod)
	s.remove(pod.Namespace + "/" + pod.Name)
}

func (s *podStatuses) set(p *pod) { s.show(p.static.key(), p.status()) }

func (s *podStatuses) show(key string, status corev1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.wanted[key]
	if v == nil || v.removed || equality.Semantic.DeepEqual(v.status, status) {
		return
	}
	v.status, v.dirty = status, true
	s.signal()
}

// reject shows that a pod is not admitted. Its Deployment makes another one.
func (s *podStatuses) reject(pod *corev1.Pod) {
	s.claim(pod)
	s.show(pod.Namespace+"/"+pod.Name, corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: reasonPorts, Message: "Pod was rejected: Predicate NodePorts failed",
	})
}

// waiting shows why nothing of a pod runs yet.
func (s *podStatuses) waiting(pod *corev1.Pod, err error) {
	status := corev1.PodStatus{Phase: corev1.PodPending}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: err.Error()}},
		})
	}
	s.show(pod.Namespace+"/"+pod.Name, status)
}

func (s *podStatuses) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.wanted[key]; v != nil {
		v.removed, v.dirty = true, true
		s.signal()
	}
}

func (s *podStatuses) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (s *podStatuses) run(ctx context.Context) {
	for {
		retry := s.write(ctx)
		var again <-chan time.Time
		if retry {
			timer := time.NewTimer(10 * s.delay)
			defer timer.Stop()
			again = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-again:
		}
		if !poll.Pause(ctx, s.delay) {
			return
		}
	}
}

// write sends what has changed and says whether some of it has to be tried again.
func (s *podStatuses) write(ctx context.Context) (retry bool) {
	s.mu.Lock()
	var todo []podView
	for _, v := range s.wanted {
		if v.dirty {
			v.dirty = false
			todo = append(todo, *v)
		}
	}
	s.mu.Unlock()
	for _, v := range todo {
		err := s.one(ctx, v)
		s.mu.Lock()
		now := s.wanted[v.namespace+"/"+v.name]
		switch {
		case apierrors.IsNotFound(err) || err == nil && v.removed:
			if now != nil && now.uid == v.uid {
				delete(s.wanted, v.namespace+"/"+v.name)
			}
		case err != nil:
			if now != nil && now.uid == v.uid {
				now.dirty = true
			}
			retry = true
			s.log.Info("Writing status of pod", "pod", v.namespace+"/"+v.name, "err", err)
		}
		s.mu.Unlock()
	}
	return retry
}

func (s *podStatuses) one(ctx context.Context, v podView) error {
	pods := s.client.CoreV1().Pods(v.namespace)
	// as a kubelet does: how the containers ended is said before the object goes
	if v.removed && len(v.status.ContainerStatuses) > 0 {
		if err := s.patch(ctx, v); err != nil {
			return err
		}
	}
	if v.removed {
		return pods.Delete(
			ctx,
			v.name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(v.uid))},
		)
	}
	return s.patch(ctx, v)
}

func (s *podStatuses) patch(ctx context.Context, v podView) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": v.uid}, "status": v.status})
	if err != nil {
		return fmt.Errorf("encoding status of pod %q: %w", v.name, err)
	}
	_, err = s.client.CoreV1().
		Pods(v.namespace).
		Patch(ctx, v.name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}
