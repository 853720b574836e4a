package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/poll"
)

const (
	beforeMigration = "v1.24.17" // the last minor whose gate of CSI migration can be off
	gateOff         = "CSIMigrationAWS=false"
	driverName      = "ebs.csi.aws.com"
	driverProgram   = "aws-ebs-csi-driver"
	inTreeName      = "kubernetes.io/aws-ebs"
	driverMinor     = 36 // whose driver the lab can build
)

// TestVolumesGoToCSIAndBack has a cluster that was kept from CSI migration, as they were when its gate was new. kube-controller-manager with the in-tree
// provider makes the volume of a claim and attaches it. The migration leaves it to the real CSI driver: control plane first, then kubelet by kubelet, each on a
// drained node. The volume stays the same one, with what is in it, and so it does on the way back.
func TestVolumesGoToCSIAndBack(t *testing.T) {
	long(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: volumes are formatted and mounted, in mount namespaces of their own")
	}
	// Worker 1 and 3 are in the same zone: the pod of a drained node has another one.
	lab := ownLab(t, Options{ControlPlanes: 1, Workers: 3, Version: beforeMigration, Gates: gateOff, Volumes: true})
	op := newOperator(t, lab)
	op.awaitLeader(t, cluster.ControllerManager, cluster.ControllerManager)
	installDriver(t, lab)
	db := newDatabase(t, lab)
	db.write(t, "kept")
	db.attachedInTree(t)
	before, cloud, objects := factsWithoutPlace(t, lab), db.cloud(t), db.objects(t)
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(objects, db.objects(t)); diff != "" {
			t.Errorf("%s: claims and volumes are others (-before +after):\n%s", when, diff)
		}
		if diff := cmp.Diff(cloud, db.cloud(t)); diff != "" {
			t.Errorf("%s: the cloud is not as it was, apart from where volumes are attached (-before +after):\n%s", when, diff)
		}
		db.holds(t, "kept")
		for _, action := range []string{"CreateVolume", "DeleteVolume"} {
			want := map[string]int{"CreateVolume": 1}[action]
			if calls := lab.AWS().Audit().Calls(awssim.Filter{Actions: []string{action}}); len(calls) != want {
				t.Errorf("%s: %d calls of %s, want %d: %+v", when, len(calls), action, want, calls)
			}
		}
	}
	same("before")

	flags := append(MigrationFlags(), "--cloud", Cloud, "--strategy", planstep.Downtime)
	cli(t, lab, 0, nil, append([]string{"check"}, flags...)...)
	flags = append(flags, "--volumes", "csi", "--drain-timeout", "5m")
	watched(t, lab, func() {
		t.Log(cli(t, lab, 0, nil, append([]string{"apply", "--yes"}, flags...)...).Stderr)
	})
	db.attachedByDriver(t)
	same("after the migration")
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)

	watched(t, lab, func() { t.Log(cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud).Stderr) })
	op.awaitLeader(t, cluster.ControllerManager, cluster.ControllerManager)
	db.attachedInTree(t)
	same("after the rollback")
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	if diff := cmp.Diff(before, factsWithoutPlace(t, lab)); diff != "" {
		t.Errorf("the cluster is not as it was before (-before +after):\n%s", diff)
	}
}

// awaitVolumes polls until f finds nothing missing. The driver and its sidecars elect and time out by themselves: on a machine without time to spare they take
// minutes, and an error of the API is one that passes.
func awaitVolumes(t *testing.T, what string, f func(context.Context) (missing string, err error)) {
	t.Helper()
	err := poll.Within(t.Context(), 200*time.Millisecond, 10*time.Minute, what, func(ctx context.Context) error {
		missing, err := f(ctx)
		if err == nil && missing != "" {
			err = errors.New(missing)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// installDriver installs the CSI driver, as its operator does, and waits until it is on every node.
func installDriver(t *testing.T, lab *Trial) {
	t.Helper()
	objects, err := parts.Manifests("aws", driverMinor)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "transplant-csi-credentials"},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": cluster.KeyCSI, "AWS_SECRET_ACCESS_KEY": "lab-only"},
	}
	if _, err := lab.Client().CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "driver.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := exec.CommandContext(t.Context(), lab.Kubectl(), "--kubeconfig", lab.Kubeconfig(), "apply", "-f", file)
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	awaitVolumes(t, "the CSI driver on every node, with its controller", func(ctx context.Context) (string, error) {
		d, err := lab.Client().AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "ebs-csi-controller", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Sprintf("%d controllers are available", d.Status.AvailableReplicas), nil
		}
		nodes, err := lab.Client().StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		has := 0
		for _, n := range nodes.Items {
			if slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driverName }) {
				has++
			}
		}
		if has != len(lab.Hosts()) {
			return fmt.Sprintf("%d of %d nodes have it", has, len(lab.Hosts())), nil
		}
		return "", nil
	})
}

// database is a Deployment of one pod with a claim of the in-tree plugin's class.
type database struct {
	lab   *Trial
	claim string
}

func newDatabase(t *testing.T, lab *Trial) *database {
	t.Helper()
	db, ctx := &database{lab: lab, claim: "data"}, t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gp2"}, Provisioner: inTreeName, Parameters: map[string]string{"type": "gp2"},
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	_, err := lab.Client().StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	must(err)
	_, err = lab.Client().CoreV1().PersistentVolumeClaims(cluster.WorkloadNamespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: db.claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	must(err)
	labels := map[string]string{"app": "db"}
	_, err = lab.Client().AppsV1().Deployments(cluster.WorkloadNamespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "db", Image: "registry.k8s.io/pause:3.9", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: db.claim},
				}}},
			}},
		},
	}, metav1.CreateOptions{})
	must(err)
	return db
}

// pod waits until the database runs, and returns its pod.
func (db *database) pod(t *testing.T) (pod *corev1.Pod) {
	t.Helper()
	awaitVolumes(t, "the database", func(ctx context.Context) (string, error) {
		list, err := db.lab.Client().CoreV1().Pods(cluster.WorkloadNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
		if err != nil || len(list.Items) != 1 {
			return "it has no pod, or several", err
		}
		if pod = &list.Items[0]; pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			return fmt.Sprintf("its pod is %s on %q: %+v", pod.Status.Phase, pod.Spec.NodeName, pod.Status), nil
		}
		return "", nil
	})
	return pod
}

// letter is the file in the database's volume.
func (db *database) letter(t *testing.T) string {
	t.Helper()
	dir, err := db.lab.Files(db.pod(t), driverProgram)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "letter")
}

func (db *database) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(db.letter(t), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holds fails the test unless the volume has what was written into it.
func (db *database) holds(t *testing.T, text string) {
	t.Helper()
	if have, err := os.ReadFile(db.letter(t)); err != nil || string(have) != text {
		t.Errorf("the volume of the database has %q, %v", have, err)
	}
}

// volume is the database's, and the name of its disk.
func (db *database) volume(t *testing.T) (pv *corev1.PersistentVolume, disk string) {
	t.Helper()
	pvc, err := db.lab.Client().CoreV1().PersistentVolumeClaims(cluster.WorkloadNamespace).Get(t.Context(), db.claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv, err = db.lab.Client().CoreV1().PersistentVolumes().Get(t.Context(), pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || pv.Spec.AWSElasticBlockStore == nil {
		t.Fatalf("the volume is none of the in-tree plugin's: %+v, %v", pv, err)
	}
	id := pv.Spec.AWSElasticBlockStore.VolumeID
	return pv, id[strings.LastIndexByte(id, '/')+1:]
}

// attachedInTree fails the test unless the in-tree plugin has attached the volume to the pod's node, and no VolumeAttachment says anything.
func (db *database) attachedInTree(t *testing.T) {
	t.Helper()
	pod := db.pod(t)
	pv, _ := db.volume(t)
	node, err := db.lab.Client().CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := corev1.UniqueVolumeName(inTreeName + "/" + pv.Spec.AWSElasticBlockStore.VolumeID)
	if !slices.Contains(node.Status.VolumesInUse, name) ||
		!slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name }) {
		t.Errorf("node %s has the volumes %v in use and %v attached, want %s", node.Name, node.Status.VolumesInUse, node.Status.VolumesAttached, name)
	}
	if list := db.attachments(t); len(list) > 0 {
		t.Errorf("there are VolumeAttachments in tree: %+v", list)
	}
	db.attachedTo(t, pod, cluster.ControllerManager)
}

// attachedByDriver fails the test unless the CSI driver has attached the volume to the pod's node.
func (db *database) attachedByDriver(t *testing.T) {
	t.Helper()
	pod := db.pod(t)
	pv, _ := db.volume(t)
	list := db.attachments(t)
	if len(list) != 1 || list[0].Spec.Attacher != driverName || list[0].Spec.NodeName != pod.Spec.NodeName || !list[0].Status.Attached ||
		list[0].Spec.Source.PersistentVolumeName == nil || *list[0].Spec.Source.PersistentVolumeName != pv.Name {
		t.Errorf("the VolumeAttachments are %+v, want one of %s, attached to %s", list, pv.Name, pod.Spec.NodeName)
	}
	db.attachedTo(t, pod, driverName)
}

func (db *database) attachments(t *testing.T) []storagev1.VolumeAttachment {
	t.Helper()
	list, err := db.lab.Client().StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// attachedTo fails the test unless the account has the volume at the instance of a pod's node, where the last one to attach it was a component.
func (db *database) attachedTo(t *testing.T, pod *corev1.Pod, by string) {
	t.Helper()
	keys := map[string]string{cluster.KeyCSI: driverName}
	for key, owner := range db.lab.Keys() {
		keys[key] = owner.Component
	}
	_, disk := db.volume(t)
	v := db.lab.AWS().State().EC2.Volumes[disk]
	for _, h := range db.lab.Hosts() {
		if h.NodeName == pod.Spec.NodeName && (v == nil || v.Attachment == nil || v.Attachment.Instance != h.InstanceID) {
			t.Errorf("the account's volume is %+v, want it at %s of %s", v, h.InstanceID, h.Name)
		}
	}
	calls := db.lab.AWS().Audit().Calls(awssim.Filter{Actions: []string{"AttachVolume"}})
	if len(calls) == 0 || keys[calls[len(calls)-1].Key] != by {
		t.Errorf("%s has not attached the volume: %+v", by, calls)
	}
}

// objects are what must stay of claims and volumes: identity and content, a line each.
func (db *database) objects(t *testing.T) (out []string) {
	t.Helper()
	claims, err := db.lab.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := db.lab.Client().CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, content ...any) {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, name+" "+string(data))
	}
	for _, c := range claims.Items {
		add("claim "+c.Name, c.UID, c.Spec, c.Status)
	}
	for _, v := range volumes.Items {
		add("volume "+v.Name, v.UID, v.Spec, v.Status.Phase)
	}
	return out
}

// cloud is what the account holds, apart from where its volumes are attached.
func (db *database) cloud(t *testing.T) string {
	t.Helper()
	state, err := db.lab.State()
	if err != nil {
		t.Fatal(err)
	}
	return withoutPlace(t, state)
}

// withoutPlace is the state of a cloud without what says where volumes are attached.
func withoutPlace(t *testing.T, state string) string {
	t.Helper()
	var all map[string]map[string]any
	if err := json.Unmarshal([]byte(state), &all); err != nil {
		t.Fatal(err)
	}
	volumes, ok := all["ec2"]["volumes"].(map[string]any)
	if !ok || len(volumes) == 0 {
		t.Fatal("the account has no volumes")
	}
	for _, v := range volumes {
		delete(v.(map[string]any), "attachment") //nolint:forcetypeassert // an ec2.Volume
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// factsWithoutPlace are the facts of a lab, apart from where its volumes are attached.
func factsWithoutPlace(t *testing.T, lab *Trial) []string {
	t.Helper()
	out := facts(t, lab)
	for i, line := range out {
		if state, ok := strings.CutPrefix(line, "cloud "); ok {
			out[i] = withoutPlace(t, state)
		}
	}
	return out
}
