package csi

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

func TestAKubeletLeavesVolumesToCSIByItsVersionAndGates(t *testing.T) {
	const fixed = "kubernetes.io/cinder"
	for _, c := range []struct {
		version, gates, want string
	}{
		{"", "", MigratedPlugins},
		{"v1.36.3", "", MigratedPlugins},
		{"v1.24.17", "", "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd"},
		{"v1.24.17", "CSIMigrationAWS=false", "kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd"},
		{"v1.24.17", "CSIMigration=false", fixed},
		{"v1.22.0", "", fixed},
		{"v1.22.0", "CSIMigrationAWS=true", "kubernetes.io/aws-ebs," + fixed},
		{"v1.22.0", "CSIMigration=false,CSIMigrationAWS=true", ""},
	} {
		gates := map[string]string{}
		for pair := range strings.SplitSeq(c.gates, ",") {
			name, value, _ := strings.Cut(pair, "=")
			gates[name] = value
		}
		if have := migratedOf(c.version, gates); have != c.want {
			t.Errorf("%s with %q: %s, want %s", c.version, c.gates, have, c.want)
		}
	}
}

// A kubelet that starts with other gates says so in its CSINode before its Node is Ready: the attach-detach controller attaches by what is said there.
func TestAKubeletThatStartsWithOtherGatesSaysSoInItsCSINode(t *testing.T) {
	n, client, _ := onHost(t)
	n.Version = "v1.22.0"
	for _, c := range []struct {
		gates map[string]string
		want  string
	}{
		{map[string]string{"CSIMigrationAWS": "true"}, "kubernetes.io/aws-ebs,kubernetes.io/cinder"},
		{map[string]string{"CSIMigration": "false"}, ""},
	} {
		if err := n.Begin(kubelet.Flags{FeatureGates: c.gates})(t.Context()); err != nil {
			t.Fatal(err)
		}
		have, err := client.StorageV1().CSINodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text, said := have.Annotations[migratedPlugins]; text != c.want || said != (c.want != "") {
			t.Errorf("with %v the CSINode says %q, want %q", c.gates, text, c.want)
		}
	}
}

// The in-tree plugin mounts what the node's status says is attached, and only after it says that the volume is in use: it is not detached under a mount then.
func TestTheInTreePluginWaitsUntilItsVolumeIsInUseAndAttached(t *testing.T) {
	const name = corev1.UniqueVolumeName("kubernetes.io/aws-ebs/aws://us-east-1a/vol-1")
	ebs := corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"}}
	n, client, r := onHost(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: ebs}})
	n.Version = "v1.24.17"
	n.Begin(kubelet.Flags{FeatureGates: map[string]string{"CSIMigrationAWS": "false"}})
	n.Device = func(volume string) error { return fmt.Errorf("this machine has no %s", volume) }
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	if err := client.Tracker().Add(claim); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "app"}}
	status := func(s corev1.NodeStatus) {
		t.Helper()
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err == nil {
			node.Status = s
			_, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(says string) {
		t.Helper()
		if _, err := n.Mount(t.Context(), pod, "data"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v, not %q", err, says)
		}
		if have := n.InUse(); len(have) != 1 || have[0] != name {
			t.Errorf("in use are %v", have)
		}
	}
	refused("is not in the list of VolumesInUse")
	status(corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{name}})
	refused("is not attached yet according to the node's status")
	status(corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{name}, VolumesAttached: []corev1.AttachedVolume{{Name: name}}})
	refused("this machine has no vol-1")
	if err := n.Unmount(t.Context(), pod); err != nil || len(n.InUse()) > 0 || len(r.calls) > 0 {
		t.Errorf("after the end of its pod: %v, in use %v, the driver was asked %v", err, n.InUse(), r.calls)
	}
}
