package kubelet

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// newAPI is an API that gives each object a UID, as a real one does.
func newAPI(objects ...runtime.Object) *fake.Clientset {
	api := fake.NewClientset(objects...)
	var n atomic.Int64
	api.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		if o, err := meta.Accessor(create.GetObject()); err == nil {
			o.SetUID(types.UID("uid-" + strconv.FormatInt(n.Add(1), 10)))
		}
		return false, nil, nil
	})
	return api
}

func (h *host) mirror(api *fake.Clientset) *corev1.Pod {
	p, err := api.CoreV1().Pods("kube-system").Get(context.Background(), podKCM, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return p
}

func (h *host) node(api *fake.Clientset) *corev1.Node {
	h.t.Helper()
	var node *corev1.Node
	eventually(h.t, "the node", func() (bool, any) {
		n, err := api.CoreV1().Nodes().Get(context.Background(), testNode, metav1.GetOptions{})
		node = n
		return err == nil, err
	})
	return node
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func TestMirrorPodTellsTheTruth(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client = api })
	h.manifest(kcmFile, kcm("--v=1"))
	h.start()
	eventually(t, "a ready mirror pod", func() (bool, any) { return isReady(h.mirror(api)), h.mirror(api) })
	p, node, c := h.mirror(api), h.node(api), h.running()
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: testNode, UID: node.UID, Controller: &yes}}
	if d := cmp.Diff(owner, p.OwnerReferences); d != "" {
		t.Errorf("owner: %s", d)
	}
	for key, want := range map[string]string{annotationHash: h.hash(), annotationMirror: h.hash(), annotationSource: "file"} {
		if p.Annotations[key] != want {
			t.Errorf("annotation %s is %q, not %q", key, p.Annotations[key], want)
		}
	}
	s := p.Status.ContainerStatuses[0]
	if p.Spec.NodeName != testNode || p.Status.Phase != corev1.PodRunning || p.Status.PodIP != "127.0.0.1" || p.Status.HostIP != "127.0.0.1" ||
		!s.Ready || !*s.Started || s.RestartCount != 0 || s.State.Running.StartedAt.Unix() != c.Started.Unix() {
		t.Errorf("mirror pod: %+v", p)
	}
	if got := p.Spec.Containers[0].Command; !slices.Contains(got, "--v=1") {
		t.Errorf("command: %q", got)
	}
}

func TestMirrorPodShowsTheOldPodReadyUntilTheNewOneStarts(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) {
		o.Client, o.Profile.StartGap = api, Range{time.Second, time.Second}
	})
	h.manifest(kcmFile, kcm("--v=1"))
	h.start()
	eventually(t, "a ready mirror pod", func() (bool, any) { return isReady(h.mirror(api)), h.mirror(api) })
	old := h.mirror(api)
	h.manifest(kcmFile, kcm("--v=2"))
	eventually(t, "the end of the old process", func() (bool, any) { return len(h.Exits()) == 1, h.Pods() })
	throughout(t, 300*time.Millisecond, "the mirror pod changed at once", func() (bool, any) {
		p := h.mirror(api)
		return p.UID == old.UID && isReady(p) && p.Status.Phase == corev1.PodRunning, p
	})
	eventually(t, "the new mirror pod", func() (bool, any) {
		p := h.mirror(api)
		return p.UID != old.UID && isReady(p) && p.Annotations[annotationHash] == h.hash() && slices.Contains(p.Spec.Containers[0].Command, "--v=2"), p
	})
}

func TestMirrorPodShowsACrashLoop(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client = api })
	// As in kubeadm's manifests, a startup probe keeps a container that only just runs from being ready.
	h.manifest(kcmFile, kcm("--no-such-flag")+"    startupProbe: {httpGet: {path: /healthz, port: 1}, failureThreshold: 24}\n")
	h.start()
	eventually(t, "CrashLoopBackOff", func() (bool, any) {
		p := h.mirror(api)
		if len(p.Status.ContainerStatuses) == 0 {
			return false, p
		}
		s := p.Status.ContainerStatuses[0]
		if s.Ready || isReady(p) {
			t.Errorf("ready: %+v", p.Status)
		}
		return s.State.Waiting != nil && s.State.Waiting.Reason == reasonCrashLoop && s.LastTerminationState.Terminated.ExitCode == 1 &&
			s.RestartCount > 0 && p.Status.Phase == corev1.PodRunning, p.Status
	})
}

// A container that ended is terminated until the kubelet looks at it again. That is a minute here: a busy machine does not write each state of a moment.
func TestMirrorPodShowsTheEndOfAContainer(t *testing.T) {
	api := newAPI()
	h := newHost(t, func(o *Options) { o.Client, o.Profile.ExitSeen = api, time.Minute })
	h.manifest(kcmFile, kcm("--no-such-flag"))
	h.start()
	eventually(t, "the end of the container", func() (bool, any) {
		p := h.mirror(api)
		if len(p.Status.ContainerStatuses) == 0 {
			return false, p
		}
		s := p.Status.ContainerStatuses[0]
		return s.State.Terminated != nil && s.State.Terminated.ExitCode == 1 && s.RestartCount == 0 && !s.Ready, p.Status
	})
}

func TestMirrorPodFollowsItsManifestAndItsNode(t *testing.T) {
	orphan := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "gone-" + testNode, Namespace: "kube-system", Annotations: map[string]string{annotationMirror: "x"}},
		Spec:       corev1.PodSpec{NodeName: testNode},
	}
	foreign := orphan.DeepCopy()
	foreign.Name, foreign.Spec.NodeName = "gone-other", "other"
	ordinary := orphan.DeepCopy()
	ordinary.Name, ordinary.Annotations = "ordinary", nil
	api := newAPI(orphan, foreign, ordinary)
	h := newHost(t, func(o *Options) { o.Client = api })
	h.manifest(kcmFile, kcm())
	h.start()
	ctx := context.Background()
	pods := api.CoreV1().Pods("kube-system")
	eventually(t, "a ready mirror pod", func() (bool, any) { return isReady(h.mirror(api)), h.mirror(api) })
	eventually(t, "the end of the orphan", func() (bool, any) {
		_, err := pods.Get(ctx, orphan.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	for _, p := range []*corev1.Pod{foreign, ordinary} {
		if _, err := pods.Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("pod %q is not this kubelet's mirror: %v", p.Name, err)
		}
	}
	first := h.mirror(api)
	if err := pods.Delete(ctx, podKCM, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mirror pod again", func() (bool, any) { p := h.mirror(api); return p.UID != first.UID && isReady(p), p })

	second, node := h.mirror(api), h.node(api)
	if err := api.CoreV1().Nodes().Delete(ctx, testNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	throughout(t, 4*quick().NodeStatus, "a running kubelet registered its node again", func() (bool, any) {
		_, err := api.CoreV1().Nodes().Get(ctx, testNode, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a mirror pod of the new node", func() (bool, any) {
		p, n := h.mirror(api), h.node(api)
		return n.UID != node.UID && p.UID != second.UID && len(p.OwnerReferences) == 1 && p.OwnerReferences[0].UID == n.UID && isReady(p), p
	})
	pid := h.running().PID
	h.remove(manifestDir + "/" + kcmFile)
	eventually(t, "the end of the mirror pod", func() (bool, any) { return h.mirror(api).Name == "" && !alive(pid), h.mirror(api) })
}

func TestUnreachableAPIStopsNothingAndIsCaughtUpWith(t *testing.T) {
	api := newAPI()
	var down atomic.Bool
	down.Store(true)
	api.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if down.Load() {
			return true, nil, apierrors.NewInternalError(context.DeadlineExceeded)
		}
		return false, nil, nil
	})
	h := newHost(t, func(o *Options) { o.Client = api })
	h.manifest(kcmFile, kcm("--v=1"))
	h.start()
	old := h.running()
	h.manifest(kcmFile, kcm("--v=2"))
	h.running(old.PID)
	down.Store(false)
	eventually(t, "a ready mirror pod", func() (bool, any) {
		p := h.mirror(api)
		return isReady(p) && p.Annotations[annotationHash] == h.hash(), p
	})
}

func TestStatusMergeKeepsForeignConditions(t *testing.T) {
	have := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}, {Type: "example.com/gate", Status: corev1.ConditionTrue},
	}}
	want := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	got, _ := json.Marshal(mergeStatus(have, want).Conditions)
	if string(
		got,
	) != `[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":null},{"type":"example.com/gate","status":"True","lastProbeTime":null,"lastTransitionTime":null}]` {
		t.Errorf("merged conditions: %s", got)
	}
}
