package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/poll"
)

// mirrors publishes the static pods in the API, as the node itself, which may only create and delete mirror pods that
// are bound to it and owned by it, and update their status. While the API cannot be reached the pods go on; what was
// missed is published later.
type mirrors struct {
	client   kubernetes.Interface // nil: a kubelet without an API
	nodeName string
	profile  Profile
	log      *slog.Logger

	changed chan struct{}
	mu      sync.Mutex
	views   map[string]*view // by namespace/name: claimed by a worker

	idle    bool // nothing is published and nothing shall be: a worker's kubelet does not ask again
	errText string
}

// view is what the API shall show of one pod name. Without a pod, what it shows already stays: an old pod, until its
// end.
type view struct {
	pod     *corev1.Pod
	status  corev1.PodStatus
	removed bool
}

func newMirrors(client kubernetes.Interface, nodeName string, profile Profile, log *slog.Logger) *mirrors {
	return &mirrors{
		client: client, nodeName: nodeName, profile: profile, log: log,
		changed: make(chan struct{}, 1), views: map[string]*view{},
	}
}

// claim says that a worker looks after the pod: its mirror is not an orphan.
func (m *mirrors) claim(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.views[key] = &view{}
}

// set publishes the pod as it is now.
func (m *mirrors) set(p *pod) {
	status := p.status()
	key := p.static.key()
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.views[key]
	if old != nil && old.pod != nil && !old.removed && old.pod.Annotations[annotationMirror] == p.static.hash() {
		if equality.Semantic.DeepEqual(old.status, status) {
			return
		}
		m.views[key] = &view{pod: old.pod, status: status}
	} else {
		mirror := p.static.pod.DeepCopy()
		mirror.UID = "" // the API gives its own
		mirror.Annotations[annotationMirror] = p.static.hash()
		m.views[key] = &view{pod: mirror, status: status}
	}
	m.signal()
}

// remove deletes the pod's mirror.
func (m *mirrors) remove(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.views[key]; v != nil && v.removed {
		return
	}
	m.views[key] = &view{removed: true}
	m.signal()
}

func (m *mirrors) signal() {
	select {
	case m.changed <- struct{}{}:
	default: // already told
	}
}

// run publishes changes, and compares with the API in between, until ctx ends.
func (m *mirrors) run(ctx context.Context) {
	if m.client == nil {
		return
	}
	tick := time.NewTicker(m.profile.MirrorSync)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if m.idle {
				continue
			}
		case <-m.changed:
			if !poll.Pause(ctx, m.profile.StatusDelay) {
				return
			}
		}
		m.report(ctx, m.reconcile(ctx))
	}
}

// report logs a trouble once, and its end.
func (m *mirrors) report(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == m.errText || ctx.Err() != nil {
		return
	}
	m.errText = text
	if err != nil {
		m.log.Error("Publishing mirror pods", "err", err)
	} else {
		m.log.Info("Mirror pods are published")
	}
}

// reconcile makes the API show what the views say. One pod's trouble does not keep the others from being published.
func (m *mirrors) reconcile(ctx context.Context) error {
	node, err := m.client.CoreV1().Nodes().Get(ctx, m.nodeName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading node %q: %w", m.nodeName, err)
	}
	noNode := err
	list, err := m.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", m.nodeName).String(),
	})
	if err != nil {
		return fmt.Errorf("listing pods of node %q: %w", m.nodeName, err)
	}
	live := m.mirrorsIn(list.Items)
	m.mu.Lock()
	views := maps.Clone(m.views)
	m.mu.Unlock()
	m.idle = len(live) == 0 && len(views) == 0

	var errs []error
	for _, key := range slices.Sorted(maps.Keys(live)) {
		v := views[key]
		stale := v == nil || v.removed || v.pod != nil && !isMirrorOf(live[key], v.pod, node)
		if !stale {
			continue
		}
		if err := m.drop(ctx, live[key]); err != nil {
			errs = append(errs, err)
			delete(views, key) // not before the old one is gone
		}
		delete(live, key)
	}
	for _, key := range slices.Sorted(maps.Keys(views)) {
		if v := views[key]; v.pod != nil {
			errs = append(errs, m.publish(ctx, live[key], v, node, noNode))
		}
	}
	return errors.Join(errs...)
}

// mirrorsIn returns the mirror pods of this node by namespace and name.
func (m *mirrors) mirrorsIn(pods []corev1.Pod) map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		if _, mirror := p.Annotations[annotationMirror]; mirror && p.Spec.NodeName == m.nodeName {
			out[p.Namespace+"/"+p.Name] = p
		}
	}
	return out
}

// isMirrorOf says whether the pod in the API is the mirror of the static pod, and of the node as it is now.
func isMirrorOf(have, want *corev1.Pod, node *corev1.Node) bool {
	if have.DeletionTimestamp != nil || have.Annotations[annotationMirror] != want.Annotations[annotationMirror] {
		return false
	}
	owner := metav1.GetControllerOf(have)
	return node == nil || node.UID == "" || owner != nil && owner.UID == node.UID
}

func (m *mirrors) drop(ctx context.Context, p *corev1.Pod) error {
	err := m.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(p.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting mirror pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// publish creates the mirror if there is none, and brings its status up to date.
func (m *mirrors) publish(ctx context.Context, have *corev1.Pod, v *view, node *corev1.Node, noNode error) error {
	api := m.client.CoreV1().Pods(v.pod.Namespace)
	if have == nil {
		if noNode != nil {
			return fmt.Errorf("creating mirror pod %s/%s: its owner is missing: %w", v.pod.Namespace, v.pod.Name, noNode)
		}
		mirror := v.pod.DeepCopy()
		controller := true
		mirror.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller,
		}}
		created, err := api.Create(ctx, mirror, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating mirror pod %s/%s: %w", v.pod.Namespace, v.pod.Name, err)
		}
		have = created
	}
	want := mergeStatus(have.Status, v.status)
	if equality.Semantic.DeepEqual(have.Status, want) {
		return nil
	}
	next := have.DeepCopy()
	next.Status = want
	if _, err := api.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating status of mirror pod %s/%s: %w", v.pod.Namespace, v.pod.Name, err)
	}
	return nil
}

// mergeStatus lays the kubelet's fields over the status in the API; conditions of others stay.
func mergeStatus(have, want corev1.PodStatus) corev1.PodStatus {
	merged := *have.DeepCopy()
	merged.Phase, merged.QOSClass = want.Phase, want.QOSClass
	merged.HostIP, merged.PodIP, merged.PodIPs = want.HostIP, want.PodIP, want.PodIPs
	merged.StartTime, merged.ContainerStatuses = want.StartTime, want.ContainerStatuses
	merged.Conditions = want.Conditions
	for _, c := range have.Conditions {
		if !slices.ContainsFunc(want.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type }) {
			merged.Conditions = append(slices.Clone(merged.Conditions), c)
		}
	}
	return merged
}
