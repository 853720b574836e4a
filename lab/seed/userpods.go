package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/poll"
)

const userPodsPeriod = 500 * time.Millisecond

// runPods stands for the user cluster's scheduler and, unless its machines run pods themselves, its nodes' container
// runtimes, until ctx ends: each pod gets a node whose taints it tolerates and runs there, without a process; a CSI
// driver that runs on a node is registered there.
func (c *Cluster) runPods(ctx context.Context) {
	c.seed.running.Go(func() {
		for {
			// What fails is tried again: the API may be down, which is what some tests are about.
			if err := c.lookAtPods(ctx); err != nil && ctx.Err() == nil {
				c.seed.opts.Log.Debug("Pods of the user cluster", "cluster", c.Name, "err", err)
			}
			if !poll.Pause(ctx, userPodsPeriod) {
				return
			}
		}
	})
}

func (c *Cluster) lookAtPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	running := map[string][]*corev1.Pod{} // by node
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case c.Programs != nil && p.Spec.NodeName != "": // its kubelet runs it
		case p.DeletionTimestamp != nil:
			err = c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case p.Spec.NodeName == "":
			err = c.schedule(ctx, p, nodes.Items)
		case p.Status.Phase == corev1.PodPending:
			err = c.runPod(ctx, p)
		case p.Status.Phase == corev1.PodRunning:
			running[p.Spec.NodeName] = append(running[p.Spec.NodeName], p)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	if c.Programs != nil { // their kubelets register drivers
		return nil
	}
	return c.csiNodes(ctx, nodes.Items, running)
}

// csiNodes registers the drivers on all nodes, by the pods that run there.
func (c *Cluster) csiNodes(ctx context.Context, nodes []corev1.Node, running map[string][]*corev1.Pod) error {
	drivers, err := c.client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes {
		if err := c.csiNode(ctx, &nodes[i], drivers.Items, running[nodes[i].Name]); err != nil {
			return err
		}
	}
	return nil
}

// schedule binds a pod to the node that its DaemonSet wants, or to the first whose taints it tolerates.
func (c *Cluster) schedule(ctx context.Context, p *corev1.Pod, nodes []corev1.Node) error {
	wanted := ""
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range term.MatchFields {
				if f.Key == "metadata.name" && len(f.Values) == 1 {
					wanted = f.Values[0]
				}
			}
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if wanted != "" && n.Name != wanted || n.DeletionTimestamp != nil || !tolerates(p, n) {
			continue
		}
		if ready, err := c.chooseNode(ctx, p, n.Name); err != nil || !ready {
			return err
		}
		return c.client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace,
				Name:      p.Name,
				UID:       p.UID,
			},
			Target: corev1.ObjectReference{Kind: "Node", Name: n.Name},
		}, metav1.CreateOptions{})
	}
	return nil
}

// chooseNode says on a pod's claims which node the pod will be on, as a scheduler does for claims that are provisioned
// only then, and reports whether all are bound.
func (c *Cluster) chooseNode(ctx context.Context, p *corev1.Pod, node string) (bool, error) {
	const selected = "volume.kubernetes.io/selected-node"
	bound := true
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil || c.Programs == nil {
			continue
		}
		claims := c.client.CoreV1().PersistentVolumeClaims(p.Namespace)
		claim, err := claims.Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		bound = false
		if claim.Annotations[selected] == "" {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, selected, node)
			if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
				return false, err
			}
		}
	}
	return bound, nil
}

// tolerates reports whether a scheduler would put a pod on a node with its taints.
func tolerates(p *corev1.Pod, n *corev1.Node) bool {
	keepsOff := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	_, untolerated := schedulingv1.FindMatchingUntoleratedTaint(
		klog.Background(), n.Spec.Taints, p.Spec.Tolerations, keepsOff, false,
	)
	return !untolerated
}

func (c *Cluster) runPod(ctx context.Context, p *corev1.Pod) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.UID)) // a hash never returns an error
	n, now := h.Sum32(), metav1.Now().Rfc3339Copy()
	status := corev1.PodStatus{
		Phase:     corev1.PodRunning,
		PodIP:     fmt.Sprintf("10.200.%d.%d", n>>8&255, 1+n%254),
		StartTime: &now,
	}
	status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	for _, t := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		status.Conditions = append(
			status.Conditions,
			corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now},
		)
	}
	for _, container := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	data, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encoding status of pod %q: %w", p.Name, err)
	}
	_, err = c.client.CoreV1().
		Pods(p.Namespace).
		Patch(ctx, p.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// csiNode registers on a node the drivers whose node part runs there.
func (c *Cluster) csiNode(
	ctx context.Context,
	n *corev1.Node,
	drivers []storagev1.CSIDriver,
	pods []*corev1.Pod,
) error {
	want := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name, Annotations: map[string]string{"storage.alpha.kubernetes.io/migrated-plugins": csi.MigratedPlugins},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
	}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}}}
	for i := range drivers {
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return isNodePart(p, drivers[i].Name) }) {
			want.Spec.Drivers = append(
				want.Spec.Drivers,
				storagev1.CSINodeDriver{Name: drivers[i].Name, NodeID: n.Spec.ProviderID},
			)
		}
	}
	have, err := c.client.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.client.StorageV1().CSINodes().Create(ctx, want, metav1.CreateOptions{})
		return existing(err)
	case err != nil:
		return err
	case len(have.Spec.Drivers) == len(want.Spec.Drivers):
		return nil
	}
	have.Spec.Drivers = want.Spec.Drivers
	_, err = c.client.StorageV1().CSINodes().Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// isNodePart reports whether a pod of a DaemonSet speaks of the driver anywhere in its command lines or volumes.
func isNodePart(p *corev1.Pod, driver string) bool {
	if !slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" }) {
		return false
	}
	data, err := json.Marshal(p.Spec)
	return err == nil && strings.Contains(string(data), driver)
}
