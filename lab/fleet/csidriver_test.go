package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/seed"
)

const (
	driverVersion = "v1.36.3" // of the user cluster: the driver that the operator installs there can be built
	driverName    = "ebs.csi.aws.com"
	inTreeName    = "kubernetes.io/aws-ebs"
	migratedTo    = "pv.kubernetes.io/migrated-to"
	driverProgram = "aws-ebs-csi-driver"
)

// The operator gives a new cluster the EBS CSI driver out of its catalogue, and the objects that it applies are run as they are: the driver's controller and
// node part, its provisioner, attacher and resizer are the real programs of those images, under the rights of their service accounts. They make a volume for a
// claim, attach, format, mount, enlarge, detach and delete it, and do the same with one that an in-tree provider has made.
func TestTheCSIDriverOfTheOperatorMovesVolumes(t *testing.T) {
	onlyWithAll(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: the driver mounts file systems, in a mount namespace of its own")
	}
	w := newWorld(t, "kube-apiserver-"+driverVersion, "kube-controller-manager-"+driverVersion, "ebs-csi-v1.63.1")
	begin, ctx := time.Now(), within(t)
	step := func(what string) { t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), what) }
	must(t, w.InstallOperator(ctx, quick...))
	programs, err := csi.Programs()
	must(t, err)
	c, err := w.AddCluster(ctx, seed.ClusterOptions{Name: "disks", External: true, Version: driverVersion, Programs: programs})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			explainDriver(t, c)
		}
	})
	step("the user cluster runs")
	o, err := w.Create(ctx, kv1.GroupName, "disks", map[string]any{"version": driverVersion})
	must(t, err)
	must(t, o.PatchStatus(ctx, map[string]any{"versions": map[string]any{
		"controlPlane": driverVersion, "apiserver": driverVersion, "controllerManager": driverVersion, "scheduler": driverVersion,
	}}))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
	must(t, c.AddMachines(ctx, "pool", 1))
	step("the operator has installed the driver, and a machine is there")
	must(t, seed.Await(ctx, "the driver", func(ctx context.Context) error { return driverRuns(ctx, c) }))
	step("the driver and its sidecars run and are registered")
	must(t, o.AwaitCondition(ctx, kv1.ConditionCSIReady, Condition{Status: "True"}))

	claim := createClaim(ctx, t, c, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimOf("1Gi")})
	pod := runPod(ctx, t, c, "first", claim)
	volume := boundVolume(ctx, t, c, claim)
	attachedTo(ctx, t, c, pod, volume.Spec.CSI.VolumeHandle)
	disk := c.AWS().State().EC2.Volumes[volume.Spec.CSI.VolumeHandle]
	if disk.Size != 1 || disk.Type != "gp3" || disk.Tags["kubernetes.io/cluster/disks"] != "owned" {
		t.Errorf("the volume is %+v", disk)
	}
	must(t, os.WriteFile(filepath.Join(volumeOf(t, c, pod), "letter"), []byte("kept"), 0o600))
	step("a claim is provisioned, attached, formatted and mounted")

	enlarge(ctx, t, c, claim, "2Gi")
	step("the claim is enlarged")

	endPod(ctx, t, c, pod)
	detached(ctx, t, c, volume.Spec.CSI.VolumeHandle)
	pod = runPod(ctx, t, c, "second", claim)
	if kept, err := os.ReadFile(filepath.Join(volumeOf(t, c, pod), "letter")); err != nil || string(kept) != "kept" {
		t.Errorf("behind a detachment the volume has %q, %v", kept, err)
	}
	hasGrown(t, volumeOf(t, c, pod), 3<<29) // a GiB and a half of two, of which the file system itself takes something
	endPod(ctx, t, c, pod)
	deleteClaim(ctx, t, c, claim, volume.Spec.CSI.VolumeHandle)
	step("the volume was detached, attached again and deleted")

	inTree(ctx, t, c)
	step("so was one of the in-tree provider's")
	nothingForbidden(t, c)
	oneOfTwoActs(t, c)
}

// driverRuns says what the driver lacks.
func driverRuns(ctx context.Context, c *seed.Cluster) error {
	d, err := c.Client().AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "ebs-csi-controller", metav1.GetOptions{})
	if err != nil {
		return err
	}
	set, err := c.Client().AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "ebs-csi-node", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.Status.AvailableReplicas != *d.Spec.Replicas || set.Status.NumberReady == 0 || set.Status.NumberReady != set.Status.DesiredNumberScheduled {
		return fmt.Errorf(
			"%d of %d controllers and %d of %d node parts run",
			d.Status.AvailableReplicas,
			*d.Spec.Replicas,
			set.Status.NumberReady,
			set.Status.DesiredNumberScheduled,
		)
	}
	nodes, err := c.Client().StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if !slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driverName && strings.HasPrefix(d.NodeID, "i-") }) {
			return fmt.Errorf("node %s has the drivers %+v", n.Name, n.Spec.Drivers)
		}
	}
	return nil
}

func claimOf(size string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}
}

func createClaim(ctx context.Context, t *testing.T, c *seed.Cluster, claim *corev1.PersistentVolumeClaim) string {
	t.Helper()
	_, err := c.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{})
	must(t, err)
	return claim.Name
}

// runPod runs a pod with a claim, and waits until its volume is mounted.
func runPod(ctx context.Context, t *testing.T, c *seed.Cluster, name, claim string) *corev1.Pod {
	t.Helper()
	pods := c.Client().CoreV1().Pods(metav1.NamespaceDefault)
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	var pod *corev1.Pod
	must(t, seed.Await(ctx, "pod "+name, func(ctx context.Context) error {
		var err error
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s on %q: %+v", pod.Status.Phase, pod.Spec.NodeName, pod.Status.ContainerStatuses)
		}
		return nil
	}))
	return pod
}

func endPod(ctx context.Context, t *testing.T, c *seed.Cluster, pod *corev1.Pod) {
	t.Helper()
	pods := c.Client().CoreV1().Pods(pod.Namespace)
	must(t, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	must(t, seed.Await(ctx, "the end of pod "+pod.Name, func(ctx context.Context) error {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	}))
}

// volumeOf is where a pod's files are.
func volumeOf(t *testing.T, c *seed.Cluster, pod *corev1.Pod) string {
	t.Helper()
	dir, err := c.Volume(pod, driverProgram)
	must(t, err)
	return dir
}

// boundVolume is the volume that the provisioner made for a claim.
func boundVolume(ctx context.Context, t *testing.T, c *seed.Cluster, claim string) *corev1.PersistentVolume {
	t.Helper()
	pvc, err := c.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Get(ctx, claim, metav1.GetOptions{})
	must(t, err)
	pv, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	must(t, err)
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != driverName || pv.Annotations["pv.kubernetes.io/provisioned-by"] != driverName || pv.Spec.NodeAffinity == nil {
		t.Fatalf("the claim's volume is %+v", pv)
	}
	return pv
}

// attachedTo checks that a volume is attached to the node of a pod: in the API, and in the account, by a controller of the driver's.
func attachedTo(ctx context.Context, t *testing.T, c *seed.Cluster, pod *corev1.Pod, volume string) {
	t.Helper()
	node, err := c.Client().CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	must(t, err)
	list, err := c.Client().StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Spec.Attacher != driverName || list.Items[0].Spec.NodeName != node.Name || !list.Items[0].Status.Attached {
		t.Errorf("the attachments are %+v", list.Items)
	}
	v := c.AWS().State().EC2.Volumes[volume]
	if v == nil || v.Attachment == nil || !strings.HasSuffix(node.Spec.ProviderID, "/"+v.Attachment.Instance) {
		t.Fatalf("the account's volume is %+v, on node %s", v, node.Spec.ProviderID)
	}
	for _, call := range c.AWS().Audit().Calls(awssim.Filter{Actions: []string{"AttachVolume"}}) {
		if !strings.HasPrefix(call.Key, "ebs-csi-controller-") {
			t.Errorf("%s attached a volume", call.Key)
		}
	}
}

func detached(ctx context.Context, t *testing.T, c *seed.Cluster, volume string) {
	t.Helper()
	must(t, seed.Await(ctx, "the detachment of "+volume, func(ctx context.Context) error {
		list, err := c.Client().StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if v := c.AWS().State().EC2.Volumes[volume]; len(list.Items) > 0 || v == nil || v.Attachment != nil {
			return fmt.Errorf("there are %d VolumeAttachments, and the volume is %+v", len(list.Items), v)
		}
		return nil
	}))
}

// enlarge asks for a larger claim, and waits until its volume is one.
func enlarge(ctx context.Context, t *testing.T, c *seed.Cluster, claim, size string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	pvc, err := c.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Patch(ctx, claim, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	want := resource.MustParse(size)
	must(t, seed.Await(ctx, "a volume of "+size, func(ctx context.Context) error {
		pv, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if have := pv.Spec.Capacity[corev1.ResourceStorage]; have.Cmp(want) != 0 {
			return fmt.Errorf("it has %s", have.String())
		}
		if v := c.AWS().State().EC2.Volumes[pv.Spec.CSI.VolumeHandle]; int64(v.Size)<<30 != want.Value() {
			return fmt.Errorf("the account's volume has %d GiB", v.Size)
		}
		if pvc, err = c.Client().CoreV1().PersistentVolumeClaims(pvc.Namespace).Get(ctx, claim, metav1.GetOptions{}); err != nil {
			return err
		}
		if !slices.ContainsFunc(pvc.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending // the node's part is left, which it does when it mounts the volume again
		}) {
			return fmt.Errorf("the claim's conditions are %+v", pvc.Status.Conditions)
		}
		return nil
	}))
}

// hasGrown checks that the node part has enlarged a mounted file system. The kernel lets only who may use more than its share of resources.
func hasGrown(t *testing.T, dir string, atLeast int64) {
	t.Helper()
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	must(t, unix.Capget(&header, &data[0]))
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		t.Log("without CAP_SYS_RESOURCE no mounted file system can be enlarged here: that it is was not checked")
		return
	}
	var files unix.Statfs_t
	must(t, unix.Statfs(dir, &files))
	if size := int64(files.Blocks) * files.Bsize; size < atLeast { //nolint:gosec // sizes of files fit
		t.Errorf("the enlarged volume's file system has %d bytes", size)
	}
}

// deleteClaim deletes a claim, and waits until the account has lost its volume.
func deleteClaim(ctx context.Context, t *testing.T, c *seed.Cluster, claim, volume string) {
	t.Helper()
	must(t, c.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Delete(ctx, claim, metav1.DeleteOptions{}))
	must(t, seed.Await(ctx, "the end of volume "+volume, func(ctx context.Context) error {
		list, err := c.Client().CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if v := c.AWS().State().EC2.Volumes[volume]; v != nil || len(list.Items) > 0 {
			return fmt.Errorf("there are %d PersistentVolumes, and the account has %+v", len(list.Items), v)
		}
		return nil
	}))
}

// inTree gives a pod a volume that an in-tree provider has made, as clusters from before their migration have them, and has it deleted.
func inTree(ctx context.Context, t *testing.T, c *seed.Cluster) {
	t.Helper()
	nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
	zone := nodes.Items[0].Labels[corev1.LabelTopologyZone]
	must(t, c.AWS().Do("ec2", "CreateVolume", map[string]string{"AvailabilityZone": zone, "Size": "1", "VolumeType": "gp2"}))
	var disk *ec2.Volume
	for _, v := range c.AWS().State().EC2.Volumes {
		disk = v // the only one
	}
	spec := claimOf("1Gi")
	class := ""
	spec.StorageClassName, spec.VolumeName = &class, "old"
	_, err = c.Client().CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": inTreeName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: spec.AccessModes, Capacity: spec.Resources.Requests, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: "old"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://" + zone + "/" + disk.ID, FSType: "ext4"},
			},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	claim := createClaim(ctx, t, c, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{"volume.beta.kubernetes.io/storage-provisioner": inTreeName}}, Spec: spec,
	})
	pod := runPod(ctx, t, c, "old", claim)
	attachedTo(ctx, t, c, pod, disk.ID)
	must(t, os.WriteFile(filepath.Join(volumeOf(t, c, pod), "letter"), []byte("kept"), 0o600))
	pv, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, "old", metav1.GetOptions{})
	must(t, err)
	if pv.Annotations[migratedTo] != driverName {
		t.Errorf("kube-controller-manager has not handed the volume over: %v", pv.Annotations)
	}
	endPod(ctx, t, c, pod)
	detached(ctx, t, c, disk.ID)
	deleteClaim(ctx, t, c, claim, disk.ID)
}

// oneOfTwoActs checks that of two controllers one makes, attaches and deletes a volume: the sidecars elect their leaders.
func oneOfTwoActs(t *testing.T, c *seed.Cluster) {
	t.Helper()
	effects := map[string]int{}
	for _, call := range c.AWS().Audit().Calls(awssim.Filter{}) {
		if call.Effect != nil && strings.HasPrefix(call.Key, "ebs-csi-controller-") && strings.HasSuffix(call.Action, "Volume") {
			effects[call.Action]++
		}
	}
	want := map[string]int{"CreateVolume": 1, "AttachVolume": 3, "DetachVolume": 3, "ModifyVolume": 1, "DeleteVolume": 2}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Errorf("what the drivers did (-want +got):\n%s", diff)
	}
}

// logsOf are the outputs of the user cluster's containers, by file.
func logsOf(t *testing.T, c *seed.Cluster) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.HostDir("*"), "var/log/pods", "*", "*", "*.log"))
	must(t, err)
	out := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		must(t, err)
		out[strings.Join(strings.Split(f, "/")[len(strings.Split(f, "/"))-3:], "/")] = string(data)
	}
	return out
}

// nothingForbidden checks that the rights that the operator gives are enough, and that the account knew all that was asked of it.
func nothingForbidden(t *testing.T, c *seed.Cluster) {
	t.Helper()
	logs := logsOf(t, c)
	if len(logs) == 0 {
		t.Error("there are no logs")
	}
	for file, text := range logs {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "forbidden") {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
	if unknown := c.AWS().Unknown(); len(unknown) > 0 {
		t.Errorf("calls that the account does not know: %+v", unknown)
	}
}

func explainDriver(t *testing.T, c *seed.Cluster) {
	for file, text := range logsOf(t, c) {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		t.Logf("%s:\n%s", file, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}
