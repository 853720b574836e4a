// Package volume reads volumes, claims, classes, CSI drivers and attachments.
package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherVolumes lists everything of storage that a migration of the cloud provider touches. What could not be listed is
// empty and among the errors.
func GatherVolumes(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("volumes", collect.NoAPI)
		return
	}
	out := &v1.Volumes{}
	collect.Together(ctx, g,
		func(ctx context.Context, g *collect.Collector) { out.PersistentVolumes = listPersistentVolumes(ctx, g) },
		func(ctx context.Context, g *collect.Collector) { out.Claims = listClaims(ctx, g) },
		func(ctx context.Context, g *collect.Collector) { out.StorageClasses = listStorageClasses(ctx, g) },
		func(ctx context.Context, g *collect.Collector) { out.CSIDrivers = listCSIDrivers(ctx, g) },
		func(ctx context.Context, g *collect.Collector) { out.CSINodes = listCSINodes(ctx, g) },
		func(ctx context.Context, g *collect.Collector) { out.Attachments = listAttachments(ctx, g) },
	)
	g.Snap.Volumes = out
}

func listPersistentVolumes(ctx context.Context, g *collect.Collector) []v1.PersistentVolume {
	items, ok := collect.List(
		ctx,
		g,
		"volumes/persistentvolumes",
		"persistentvolumes",
		g.Kube.CoreV1().PersistentVolumes().List,
		func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items },
	)
	if !ok {
		return nil
	}
	g.Count("persistentvolumes", len(items))
	var out []v1.PersistentVolume
	for i := range items {
		if pv, ok := PersistentVolume(&items[i]); ok {
			out = append(out, pv)
		}
	}
	slices.SortFunc(out, func(a, b v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// PersistentVolume returns the facts of a PersistentVolume; false for one that is of no cloud: NFS, a host's disk, ...
func PersistentVolume(pv *corev1.PersistentVolume) (v1.PersistentVolume, bool) {
	out := v1.PersistentVolume{
		Name:          pv.Name,
		StorageClass:  pv.Spec.StorageClassName,
		ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
		Phase:         string(pv.Status.Phase),
		ProvisionedBy: pv.Annotations["pv.kubernetes.io/provisioned-by"],
		MigratedTo:    pv.Annotations["pv.kubernetes.io/migrated-to"],
		Deleting:      pv.DeletionTimestamp != nil,
		Zones:         zonesOf(pv),
	}
	if c := pv.Spec.ClaimRef; c != nil {
		out.Claim = c.Namespace + "/" + c.Name
	}
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		out.Driver, out.Handle = s.CSI.Driver, s.CSI.VolumeHandle
	case s.AWSElasticBlockStore != nil:
		out.Plugin, out.Handle = "kubernetes.io/aws-ebs", s.AWSElasticBlockStore.VolumeID
	case s.AzureDisk != nil:
		out.Plugin, out.Handle = "kubernetes.io/azure-disk", s.AzureDisk.DataDiskURI
		if out.Handle == "" {
			out.Handle = s.AzureDisk.DiskName
		}
	case s.AzureFile != nil:
		out.Plugin, out.Handle = "kubernetes.io/azure-file", s.AzureFile.ShareName
	case s.GCEPersistentDisk != nil:
		out.Plugin, out.Handle = "kubernetes.io/gce-pd", s.GCEPersistentDisk.PDName
	case s.Cinder != nil:
		out.Plugin, out.Handle = "kubernetes.io/cinder", s.Cinder.VolumeID
	case s.VsphereVolume != nil:
		out.Plugin, out.Handle = "kubernetes.io/vsphere-volume", s.VsphereVolume.VolumePath
	default:
		return out, false
	}
	out.Handle = mask.Text(out.Handle)
	return out, true
}

// listClaims keeps the claims that have, or had, a volume: that of a volume which is gone says whether it was given up.
func listClaims(ctx context.Context, g *collect.Collector) []v1.VolumeClaim {
	items, ok := collect.List(
		ctx,
		g,
		"volumes/claims",
		"persistentvolumeclaims",
		g.Kube.CoreV1().PersistentVolumeClaims(corev1.NamespaceAll).List,
		func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items },
	)
	if !ok {
		return nil
	}
	g.Count("persistentvolumeclaims", len(items))
	var out []v1.VolumeClaim
	for i := range items {
		if c := &items[i]; c.Spec.VolumeName != "" {
			out = append(
				out,
				v1.VolumeClaim{Ref: c.Namespace + "/" + c.Name, Volume: c.Spec.VolumeName, Phase: string(c.Status.Phase)},
			)
		}
	}
	slices.SortFunc(out, func(a, b v1.VolumeClaim) int { return strings.Compare(a.Ref, b.Ref) })
	return out
}

// zonesOf are the zones and regions of a volume's labels and node affinity.
func zonesOf(pv *corev1.PersistentVolume) []string {
	var out []string
	for _, key := range []string{
		corev1.LabelTopologyZone,
		corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion,
	} {
		if value, ok := pv.Labels[key]; ok {
			out = append(out, key+"="+value)
		}
	}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Operator != corev1.NodeSelectorOpIn || !strings.Contains(e.Key, "zone") && !strings.Contains(e.Key, "region") {
					continue
				}
				for _, value := range e.Values {
					out = append(out, e.Key+"="+value)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// defaultClass are the annotations that make a class the default, the old one included.
var defaultClass = []string{
	"storageclass.kubernetes.io/is-default-class",
	"storageclass.beta.kubernetes.io/is-default-class",
}

func listStorageClasses(ctx context.Context, g *collect.Collector) []v1.StorageClass {
	items, _ := collect.List(ctx, g, "volumes/storageclasses", "storageclasses", g.Kube.StorageV1().StorageClasses().List,
		func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items })
	var out []v1.StorageClass
	for i := range items {
		out = append(out, StorageClass(&items[i]))
	}
	slices.SortFunc(out, func(a, b v1.StorageClass) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// StorageClass returns the facts of a StorageClass, without parameters that hold a secret.
func StorageClass(c *storagev1.StorageClass) v1.StorageClass {
	out := v1.StorageClass{
		Name:           c.Name,
		Provisioner:    c.Provisioner,
		AllowExpansion: ptr.Deref(c.AllowVolumeExpansion, false),
	}
	if c.VolumeBindingMode != nil {
		out.BindingMode = string(*c.VolumeBindingMode)
	}
	out.Default = slices.ContainsFunc(defaultClass, func(a string) bool { return c.Annotations[a] == "true" })
	for name, value := range c.Parameters {
		if value = mask.Named(name, value); value == mask.Masked {
			continue
		}
		if out.Parameters == nil {
			out.Parameters = map[string]string{}
		}
		out.Parameters[name] = value
	}
	return out
}

func listCSIDrivers(ctx context.Context, g *collect.Collector) []string {
	items, _ := collect.List(ctx, g, "volumes/csidrivers", "csidrivers", g.Kube.StorageV1().CSIDrivers().List,
		func(l *storagev1.CSIDriverList) []storagev1.CSIDriver { return l.Items })
	var out []string
	for i := range items {
		out = append(out, items[i].Name)
	}
	slices.Sort(out)
	return out
}

// MigratedPlugins is where a kubelet lists the in-tree plugins that it leaves to CSI.
const MigratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"

func listCSINodes(ctx context.Context, g *collect.Collector) []v1.CSINode {
	items, _ := collect.List(ctx, g, "volumes/csinodes", "csinodes", g.Kube.StorageV1().CSINodes().List,
		func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items })
	var out []v1.CSINode
	for i := range items {
		n := v1.CSINode{Name: items[i].Name}
		for _, d := range items[i].Spec.Drivers {
			driver := v1.CSINodeDriver{Name: d.Name, TopologyKeys: d.TopologyKeys}
			if d.Allocatable != nil {
				driver.Limit = d.Allocatable.Count
			}
			n.Drivers = append(n.Drivers, driver)
		}
		slices.SortFunc(n.Drivers, func(a, b v1.CSINodeDriver) int { return strings.Compare(a.Name, b.Name) })
		for plugin := range strings.SplitSeq(items[i].Annotations[MigratedPlugins], ",") {
			if plugin = strings.TrimSpace(plugin); plugin != "" {
				n.MigratedPlugins = append(n.MigratedPlugins, plugin)
			}
		}
		slices.Sort(n.MigratedPlugins)
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b v1.CSINode) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func listAttachments(ctx context.Context, g *collect.Collector) []v1.VolumeAttachment {
	items, ok := collect.List(
		ctx,
		g,
		"volumes/attachments",
		"volumeattachments",
		g.Kube.StorageV1().VolumeAttachments().List,
		func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items },
	)
	if !ok {
		return nil
	}
	g.Count("volumeattachments", len(items))
	var out []v1.VolumeAttachment
	for i := range items {
		out = append(out, attachment(&items[i]))
	}
	slices.SortFunc(out, func(a, b v1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func attachment(a *storagev1.VolumeAttachment) v1.VolumeAttachment {
	out := v1.VolumeAttachment{
		Name:     a.Name,
		Attacher: a.Spec.Attacher,
		Node:     a.Spec.NodeName,
		Attached: a.Status.Attached,
		Deleting: a.DeletionTimestamp != nil,
		Created:  a.CreationTimestamp.UTC(),
	}
	switch {
	case a.Spec.Source.PersistentVolumeName != nil:
		out.Volume = *a.Spec.Source.PersistentVolumeName
	case a.Spec.Source.InlineVolumeSpec != nil:
		out.Volume = "inline"
	}
	for what, e := range map[string]*storagev1.VolumeError{"attaching": a.Status.AttachError, "detaching": a.Status.DetachError} {
		if e != nil && (out.Error == "" || what == "detaching") {
			out.Error = fmt.Sprintf("%s: %s", what, mask.Text(e.Message))
		}
	}
	return out
}
