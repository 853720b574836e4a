// Package csi decides what a lab has of CSI next to the drivers and sidecars themselves, which are real programs: the
// kubelet's part of it, and stand-ins for two sidecars whose modules cannot be had.
//
//	node-driver-registrar, livenessprobe   stand-ins: they speak to the real driver, and to the kubelet as the originals do
//	kubelet                                Node: registers drivers (CSINode, the node's labels), waits for VolumeAttachments, stages and publishes volumes
package csi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

const (
	registryDir = "/var/lib/kubelet/plugins_registry"
	pluginsDir  = "/var/lib/kubelet/plugins/kubernetes.io/csi"
	podsDir     = "/var/lib/kubelet/pods"
	period      = 200 * time.Millisecond
	callTimeout = time.Minute
)

// MigratedPlugins is what a kubelet since v1.26 says about its node: the plugins whose volumes it takes to CSI drivers.
const MigratedPlugins = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/vsphere-volume"

// Node is what a kubelet does with CSI drivers on one host.
type Node struct {
	// Client has the rights of the node.
	Client kubernetes.Interface
	Name   string
	// HostDir is the host's file system root on this machine.
	HostDir string
	// Version is the kubelet's; empty for one that leaves the volumes of every plugin to CSI.
	Version string
	// Device sees to it that a volume that the cloud has attached to the host is in its /dev.
	Device func(volume string) error
	Log    *slog.Logger

	mu       sync.Mutex
	migrated string // plugins whose volumes are left to CSI
	drivers  map[string]*driver
	mounts   map[types.UID][]mounted
	used     map[types.UID][]corev1.UniqueVolumeName
	keepers  map[string]*keeper // of in-tree mounts, by target
}

// driver is one that has registered. Its socket is reached through its directory's descriptor: paths of sockets are
// short.
type driver struct {
	dir  *os.File
	conn *grpc.ClientConn
}

func (d *driver) close() {
	_ = d.conn.Close() // it is only read from
	_ = d.dir.Close()
}

// mounted is what a pod has of one volume. The in-tree plugin's has no driver.
type mounted struct {
	driver, handle, staging, target string
}

// connect dials a socket of the host.
func (n *Node) connect(socket string) (*driver, error) {
	dir, err := os.OpenFile(filepath.Join(n.HostDir, path.Dir(socket)), unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	conn, err := dial(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(socket)))
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &driver{dir, conn}, nil
}

// Prepare makes what a kubelet has before its first driver.
func (n *Node) Prepare() error {
	n.migrated = migratedOf(n.Version, nil)
	n.drivers, n.mounts = map[string]*driver{}, map[types.UID][]mounted{}
	n.used, n.keepers = map[types.UID][]corev1.UniqueVolumeName{}, map[string]*keeper{}
	return os.MkdirAll(filepath.Join(n.HostDir, registryDir), 0o755)
}

// Begin implements kubelet.Claims. A kubelet decides by its gates who mounts the volumes of in-tree plugins, and says
// so in its CSINode before its Node is Ready.
func (n *Node) Begin(flags kubelet.Flags) func(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.migrated = migratedOf(n.Version, flags.FeatureGates)
	return func(ctx context.Context) error { return n.csiNode(ctx, nil) }
}

// isMigrated reports whether the kubelet leaves the volumes of an in-tree plugin to CSI.
func (n *Node) isMigrated(plugin string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(strings.Split(n.migrated, ","), plugin)
}

// InUse implements kubelet.Claims.
func (n *Node) InUse() []corev1.UniqueVolumeName {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []corev1.UniqueVolumeName
	for _, names := range n.used {
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// use notes that a pod needs a volume.
func (n *Node) use(pod types.UID, name corev1.UniqueVolumeName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.used[pod], name) {
		n.used[pod] = append(n.used[pod], name)
	}
}

// has reports whether a pod has a volume mounted.
func (n *Node) has(pod types.UID, m mounted) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.mounts[pod], m)
}

// Run registers the drivers that say that they are there, until ctx ends.
func (n *Node) Run(ctx context.Context) {
	seen := map[string]os.FileInfo{} // sockets, by name
	for {
		if err := n.look(ctx, seen); err != nil && ctx.Err() == nil {
			n.Log.Info("Drivers of the node", "node", n.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, d := range n.drivers {
				d.close()
			}
			for _, k := range n.keepers {
				if err := k.end(); err != nil {
					n.Log.Info("Volumes of the node", "node", n.Name, "err", err)
				}
			}
			return
		case <-time.After(period):
		}
	}
}

func (n *Node) look(ctx context.Context, seen map[string]os.FileInfo) error {
	if err := n.csiNode(ctx, nil); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(n.HostDir, registryDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode()&fs.ModeSocket == 0 || seen[e.Name()] != nil && os.SameFile(seen[e.Name()], info) {
			continue
		}
		if err := n.register(ctx, path.Join(registryDir, e.Name())); err != nil {
			return fmt.Errorf("registering %s: %w", e.Name(), err)
		}
		seen[e.Name()] = info
	}
	return nil
}

// register takes one driver up: it is asked who the node is for it, and that is written into the node's CSINode and
// labels.
func (n *Node) register(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	registrar, err := n.connect(socket)
	if err != nil {
		return err
	}
	defer registrar.close()
	info, err := registration.NewRegistrationClient(registrar.conn).GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return fmt.Errorf("asking the registrar: %w", err)
	}
	if info.GetType() != registration.CSIPlugin {
		return fmt.Errorf("a plugin of type %q", info.GetType())
	}
	d, err := n.connect(info.GetEndpoint())
	if err != nil {
		return err
	}
	node, err := spec.NewNodeClient(d.conn).NodeGetInfo(ctx, &spec.NodeGetInfoRequest{})
	if err == nil {
		err = n.announce(ctx, info.GetName(), node)
	}
	if err != nil {
		d.close()
		return err
	}
	n.mu.Lock()
	if old := n.drivers[info.GetName()]; old != nil {
		old.close()
	}
	n.drivers[info.GetName()] = d
	n.mu.Unlock()
	_, err = registration.NewRegistrationClient(registrar.conn).
		NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
	return err
}

func (n *Node) announce(ctx context.Context, name string, node *spec.NodeGetInfoResponse) error {
	entry := &storagev1.CSINodeDriver{Name: name, NodeID: node.GetNodeId()}
	labels := map[string]string{}
	for key, value := range node.GetAccessibleTopology().GetSegments() {
		entry.TopologyKeys = append(entry.TopologyKeys, key)
		labels[key] = value
	}
	slices.Sort(entry.TopologyKeys)
	if limit := node.GetMaxVolumesPerNode(); limit > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(limit, 1000)))} //nolint:gosec // it fits
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return fmt.Errorf("encoding labels: %w", err)
	}
	if _, err := n.Client.CoreV1().
		Nodes().
		Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling node %q: %w", n.Name, err)
	}
	return n.csiNode(ctx, entry)
}

// csiNode makes the node's CSINode, with a driver that it did not have, or with another one of that name.
func (n *Node) csiNode(ctx context.Context, entry *storagev1.CSINodeDriver) error {
	nodes := n.Client.StorageV1().CSINodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		have, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			have, err = n.createCSINode(ctx)
		}
		if err != nil {
			return err
		}
		isSame := n.mark(&have.ObjectMeta)
		if entry != nil {
			isSame = false
			have.Spec.Drivers = append(
				slices.DeleteFunc(have.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == entry.Name }),
				*entry,
			)
		}
		if isSame {
			return nil
		}
		_, err = nodes.Update(ctx, have, metav1.UpdateOptions{})
		return err
	})
}

// mark says in a CSINode which plugins' volumes the kubelet leaves to CSI, and reports whether it did already.
func (n *Node) mark(o *metav1.ObjectMeta) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o.Annotations[migratedPlugins] == n.migrated {
		return true
	}
	if n.migrated == "" {
		delete(o.Annotations, migratedPlugins)
		return false
	}
	metav1.SetMetaDataAnnotation(o, migratedPlugins, n.migrated)
	return false
}

func (n *Node) createCSINode(ctx context.Context) (*storagev1.CSINode, error) {
	node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	made := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            n.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}},
	}
	n.mark(&made.ObjectMeta)
	return n.Client.StorageV1().CSINodes().Create(ctx, made, metav1.CreateOptions{})
}

// source is what a PersistentVolume says of its volume, to its driver. A volume of an in-tree plugin is translated, as
// a kubelet does it.
func source(pv *corev1.PersistentVolume) (*corev1.CSIPersistentVolumeSource, error) {
	switch {
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI, nil
	case pv.Spec.AWSElasticBlockStore != nil:
		in := pv.Spec.AWSElasticBlockStore
		return &corev1.CSIPersistentVolumeSource{
			Driver:       "ebs.csi.aws.com",
			VolumeHandle: path.Base(in.VolumeID),
			FSType:       in.FSType,
		}, nil
	}
	return nil, fmt.Errorf("PersistentVolume %q is of a kind that the lab has no driver for", pv.Name)
}

// Mount mounts the volume of a pod's claim once it is bound and attached.
func (n *Node) Mount(ctx context.Context, pod *corev1.Pod, claim string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pvc, err := n.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if pvc.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("claim %q is %s", claim, pvc.Status.Phase)
	}
	pv, err := n.Client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	m, err := n.mount(ctx, pod, pv)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.mounts[pod.UID], m) {
		n.mounts[pod.UID] = append(n.mounts[pod.UID], m)
	}
	return m.target, nil
}

// mount has a volume mounted by the in-tree plugin, while the kubelet leaves none of its volumes to CSI, or else by its
// driver: it is staged and published.
func (n *Node) mount(ctx context.Context, pod *corev1.Pod, pv *corev1.PersistentVolume) (mounted, error) {
	if pv.Spec.AWSElasticBlockStore != nil && !n.isMigrated(inTreePlugin) {
		return n.mountInTree(ctx, pod, pv)
	}
	from, err := source(pv)
	if err != nil {
		return mounted{}, err
	}
	n.use(pod.UID, corev1.UniqueVolumeName("kubernetes.io/csi/"+from.Driver+"^"+from.VolumeHandle))
	attached, err := n.attachment(ctx, from)
	if err != nil {
		return mounted{}, err
	}
	n.mu.Lock()
	d := n.drivers[from.Driver]
	n.mu.Unlock()
	if d == nil {
		return mounted{}, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", from.Driver)
	}
	if err := n.Device(from.VolumeHandle); err != nil {
		return mounted{}, fmt.Errorf("device of %s: %w", from.VolumeHandle, err)
	}
	m := mounted{
		driver: from.Driver,
		handle: from.VolumeHandle,
		staging: path.Join(
			pluginsDir,
			from.Driver,
			fmt.Sprintf("%x", sha256.Sum256([]byte(from.VolumeHandle))),
			"globalmount",
		),
		target: path.Join(podsDir, string(pod.UID), "volumes/kubernetes.io~csi", pv.Name, "mount"),
	}
	return m, n.publish(ctx, d, m, from, attached)
}

// attachment waits for the VolumeAttachment that the controllers make, and returns what the driver said of it.
func (n *Node) attachment(ctx context.Context, from *corev1.CSIPersistentVolumeSource) (map[string]string, error) {
	name := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(from.VolumeHandle+from.Driver+n.Name)))
	va, err := n.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("volume %s is not attached yet: %w", from.VolumeHandle, err)
	case va.Status.AttachError != nil:
		return nil, fmt.Errorf("volume %s cannot be attached: %s", from.VolumeHandle, va.Status.AttachError.Message)
	case !va.Status.Attached:
		return nil, fmt.Errorf("volume %s is not attached yet", from.VolumeHandle)
	}
	return va.Status.AttachmentMetadata, nil
}

func (n *Node) publish(
	ctx context.Context,
	d *driver,
	m mounted,
	from *corev1.CSIPersistentVolumeSource,
	attached map[string]string,
) error {
	capability := &spec.VolumeCapability{
		AccessMode: &spec.VolumeCapability_AccessMode{Mode: spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{FsType: from.FSType}},
	}
	for _, dir := range []string{m.staging, path.Dir(m.target)} {
		if err := os.MkdirAll(filepath.Join(n.HostDir, dir), 0o750); err != nil {
			return err
		}
	}
	_, err := spec.NewNodeClient(d.conn).NodeStageVolume(ctx, &spec.NodeStageVolumeRequest{
		VolumeId:          m.handle,
		PublishContext:    attached,
		StagingTargetPath: m.staging,
		VolumeCapability:  capability,
		VolumeContext:     from.VolumeAttributes,
	})
	if err != nil {
		return fmt.Errorf("staging volume %s: %w", m.handle, err)
	}
	_, err = spec.NewNodeClient(d.conn).NodePublishVolume(ctx, &spec.NodePublishVolumeRequest{
		VolumeId:          m.handle,
		PublishContext:    attached,
		StagingTargetPath: m.staging,
		TargetPath:        m.target,
		VolumeCapability:  capability,
		VolumeContext:     from.VolumeAttributes,
	})
	if err != nil {
		return fmt.Errorf("publishing volume %s: %w", m.handle, err)
	}
	return nil
}

// Unmount takes a pod's volumes away, each from the pod and then from the node: no other pod uses them in a lab.
func (n *Node) Unmount(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	n.mu.Lock()
	mounts := n.mounts[pod.UID]
	n.mu.Unlock()
	for _, m := range mounts {
		if err := n.unmount(ctx, m); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mounts, pod.UID)
	delete(n.used, pod.UID)
	return nil
}

func (n *Node) unmount(ctx context.Context, m mounted) error {
	if m.driver == "" {
		return n.unmountInTree(m)
	}
	n.mu.Lock()
	d := n.drivers[m.driver]
	n.mu.Unlock()
	if d == nil {
		return fmt.Errorf("driver name %s not found in the list of registered CSI drivers", m.driver)
	}
	client := spec.NewNodeClient(d.conn)
	if _, err := client.NodeUnpublishVolume(
		ctx,
		&spec.NodeUnpublishVolumeRequest{VolumeId: m.handle, TargetPath: m.target},
	); err != nil {
		return fmt.Errorf("unpublishing volume %s: %w", m.handle, err)
	}
	if _, err := client.NodeUnstageVolume(
		ctx,
		&spec.NodeUnstageVolumeRequest{VolumeId: m.handle, StagingTargetPath: m.staging},
	); err != nil {
		return fmt.Errorf("unstaging volume %s: %w", m.handle, err)
	}
	return nil
}

// Files is where on this machine the files of a pod's only volume are. They are mounted in a mount namespace, that of
// the CSI driver's node part or of the in-tree plugin's keeper, and are seen by way of its process.
func (n *Node) Files(k *kubelet.Kubelet, pod *corev1.Pod, driver string) (string, error) {
	target := n.Target(pod.UID)
	if target == "" {
		return "", fmt.Errorf("pod %q has no volume", pod.Name)
	}
	n.mu.Lock()
	kept := n.keepers[target]
	n.mu.Unlock()
	if kept != nil {
		return fmt.Sprintf("/proc/%d/root%s", kept.cmd.Process.Pid, filepath.Join(n.HostDir, target)), nil
	}
	for _, p := range k.Pods() {
		for _, container := range p.Containers {
			if container.Component == driver && container.PID > 0 && strings.Contains(p.Name, "node") {
				return fmt.Sprintf("/proc/%d/root%s", container.PID, target), nil
			}
		}
	}
	return "", fmt.Errorf("machine %q runs no %s", pod.Spec.NodeName, driver)
}

// Target is where a pod's volume is mounted, as the driver on the node sees it; empty when it has none.
func (n *Node) Target(pod types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, m := range n.mounts[pod] {
		out = append(out, m.target)
	}
	return strings.Join(out, " ")
}
