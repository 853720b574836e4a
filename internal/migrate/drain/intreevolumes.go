package drain

import (
	"context"
	"fmt"
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
	claims := newClaimed(e)
	for i := range pods {
		p := &pods[i]
		if mustLeave(p) || IsTerminal(p) {
			continue
		}
		volume, err := claims.inTreeVolumeOf(ctx, p)
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

// mountedInTree names what the pods of a node have of in-tree plugins, or will have when it is attached; empty for
// nothing. Which mounter they have is that of the kubelet: the plugin, or the CSI driver.
func mountedInTree(ctx context.Context, e *step.Env, node string) (string, error) {
	used, err := inTreeVolumes(ctx, e, node)
	if apierrors.IsNotFound(err) {
		return "", nil // a kubelet makes its Node when it starts
	}
	if err != nil || used != "" {
		return used, err
	}
	pods, err := PodsOn(ctx, e, node)
	if err != nil {
		return "", err
	}
	claims := newClaimed(e)
	for i := range pods {
		p := &pods[i]
		if IsTerminal(p) {
			continue
		}
		volume, err := claims.inTreeVolumeOf(ctx, p)
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Sprintf("what claims of pod %s/%s stand for cannot be read: %v", p.Namespace, p.Name, err), nil
		case err != nil:
			return "", err
		case volume != "":
			return fmt.Sprintf("volume %s of pod %s/%s", volume, p.Namespace, p.Name), nil
		}
	}
	return "", nil
}

// claimed reads what claims stand for, each list once.
type claimed struct {
	env     *step.Env
	claims  map[string][]corev1.PersistentVolumeClaim // by namespace
	volumes map[string]*corev1.PersistentVolume       // by name; nil before they are read
}

func newClaimed(e *step.Env) *claimed {
	return &claimed{env: e, claims: map[string][]corev1.PersistentVolumeClaim{}}
}

func (c *claimed) read(ctx context.Context, namespace string) error {
	if _, known := c.claims[namespace]; !known {
		list, err := c.env.Kube.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing the PersistentVolumeClaims of namespace %s: %w", namespace, err)
		}
		c.claims[namespace] = list.Items
	}
	if c.volumes != nil {
		return nil
	}
	list, err := c.env.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	c.volumes = map[string]*corev1.PersistentVolume{}
	for i := range list.Items {
		c.volumes[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// inTreeVolumeOf names the first volume of a pod that is of an in-tree plugin of a cloud; empty for none.
func (c *claimed) inTreeVolumeOf(ctx context.Context, p *corev1.Pod) (string, error) {
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
	if err := c.read(ctx, p.Namespace); err != nil {
		return "", err
	}
	for _, claim := range c.claims[p.Namespace] {
		name, uses := claims[claim.Name]
		pv := c.volumes[claim.Spec.VolumeName]
		if uses && pv != nil && isInTreeSource(pv.Spec.PersistentVolumeSource) {
			return name + " of claim " + claim.Name, nil
		}
	}
	return "", nil
}

// migratedAttachments names the VolumeAttachments of a node that stand for volumes of an in-tree plugin. A volume in a
// pod itself can be no other.
func migratedAttachments(ctx context.Context, e *step.Env, node string) (out []string, err error) {
	attached, err := e.Kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil // a rollback goes on without
	}
	if err != nil {
		return nil, fmt.Errorf("listing VolumeAttachments: %w", err)
	}
	for i := range attached.Items {
		a := &attached.Items[i]
		if a.Spec.NodeName != node {
			continue
		}
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			pv, err := e.Kube.CoreV1().PersistentVolumes().Get(ctx, *name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading PersistentVolume %s: %w", *name, err)
			}
			if !isInTreeSource(pv.Spec.PersistentVolumeSource) {
				continue
			}
		}
		out = append(out, "VolumeAttachment "+a.Name)
	}
	return out, nil
}

// isInTreeSource reports whether a volume is of a plugin that was in the kubelet: the same as inTreePlugins.
func isInTreeSource(s corev1.PersistentVolumeSource) bool {
	return s.AWSElasticBlockStore != nil || s.AzureDisk != nil || s.Cinder != nil || s.GCEPersistentDisk != nil ||
		s.VsphereVolume != nil
}
