package drain

import (
	"context"
	"fmt"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// CheckInTreeVolumes refuses a node on which a pod that a drain leaves alone, such as a DaemonSet's, has a volume of an
// in-tree plugin mounted. The drain would wait for it until its timeout, with every other pod of the node gone.
func CheckInTreeVolumes(ctx context.Context, e *step.Env, node string) error {
	if used, err := inTreeVolumes(ctx, e, node); err != nil || used == "" {
		return err
	}
	pods, err := PodsOn(ctx, e, node)
	if err != nil {
		return err
	}
	var keep []string
	for i := range pods {
		p := &pods[i]
		if mustLeave(p) || IsTerminal(p) {
			continue
		}
		volume, err := inTreeVolumeOf(ctx, e, p)
		if apierrors.IsForbidden(err) {
			return nil // the drain finds out
		} else if err != nil {
			return err
		}
		if volume != "" {
			keep = append(keep, fmt.Sprintf("%s/%s (volume %s)", p.Namespace, p.Name, volume))
		}
	}
	if len(keep) == 0 {
		return nil
	}
	sort.Strings(keep)
	return fmt.Errorf(
		"node %s has to be drained, and a drain leaves %s alone, which %s an in-tree volume mounted that CSI could not unmount (KEP-625); keep %s away from the node, "+
			"for example by a nodeSelector in the DaemonSet, until it is migrated, and run the same command again; nothing was changed there",
		node,
		english.FirstOf(5, keep),
		english.Word(len(keep), "has", "have"),
		english.Word(len(keep), "it", "them"),
	)
}

// inTreeVolumeOf names the first volume of a pod that an in-tree plugin of a cloud mounts; empty for none.
func inTreeVolumeOf(ctx context.Context, e *step.Env, p *corev1.Pod) (string, error) {
	claims := map[string]string{} // to the names in the pod
	for _, v := range p.Spec.Volumes {
		switch {
		case v.AWSElasticBlockStore != nil,
			v.AzureDisk != nil,
			v.Cinder != nil,
			v.GCEPersistentDisk != nil,
			v.VsphereVolume != nil:
			return v.Name, nil
		case v.PersistentVolumeClaim != nil:
			claims[v.PersistentVolumeClaim.ClaimName] = v.Name
		case v.Ephemeral != nil:
			claims[p.Name+"-"+v.Name] = v.Name
		}
	}
	if len(claims) == 0 {
		return "", nil
	}
	bound, err := e.Kube.CoreV1().PersistentVolumeClaims(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing the PersistentVolumeClaims of namespace %s: %w", p.Namespace, err)
	}
	volumes, err := e.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	for _, c := range bound.Items {
		name, uses := claims[c.Name]
		if uses && slices.ContainsFunc(volumes.Items, func(v corev1.PersistentVolume) bool {
			return v.Name == c.Spec.VolumeName && isInTreeSource(v.Spec.PersistentVolumeSource)
		}) {
			return name + " of claim " + c.Name, nil
		}
	}
	return "", nil
}

// isInTreeSource reports whether a volume is of a plugin that was in the kubelet: the same as inTreePlugins.
func isInTreeSource(s corev1.PersistentVolumeSource) bool {
	return s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.Cinder != nil || s.GCEPersistentDisk != nil ||
		s.VsphereVolume != nil
}
