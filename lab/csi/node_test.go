package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDriver = "ebs.csi.aws.com"

// recorder is a driver's node part that writes down what it is asked for.
type recorder struct {
	spec.UnimplementedNodeServer
	mu    sync.Mutex
	calls []string
	fails map[string]error // by call, once
}

func (r *recorder) note(call, volume string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call+" "+volume)
	err := r.fails[call]
	delete(r.fails, call)
	return err
}

func (r *recorder) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return &spec.NodeGetInfoResponse{
		NodeId:             "i-1",
		MaxVolumesPerNode:  26,
		AccessibleTopology: &spec.Topology{Segments: map[string]string{"topology.ebs.csi.aws.com/zone": "us-east-1a"}},
	}, nil
}

func (r *recorder) NodeStageVolume(_ context.Context, q *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	return &spec.NodeStageVolumeResponse{}, r.note("stage "+q.GetPublishContext()["devicePath"], q.GetVolumeId())
}

func (r *recorder) NodePublishVolume(_ context.Context, q *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	return &spec.NodePublishVolumeResponse{}, r.note("publish", q.GetVolumeId())
}

func (r *recorder) NodeUnpublishVolume(_ context.Context, q *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	return &spec.NodeUnpublishVolumeResponse{}, r.note("unpublish", q.GetVolumeId())
}

func (r *recorder) NodeUnstageVolume(_ context.Context, q *spec.NodeUnstageVolumeRequest) (*spec.NodeUnstageVolumeResponse, error) {
	return &spec.NodeUnstageVolumeResponse{}, r.note("unstage", q.GetVolumeId())
}

// onHost is a node with a driver that registers there.
func onHost(t *testing.T, objects ...*corev1.PersistentVolume) (*Node, *fake.Clientset, *recorder) {
	t.Helper()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}})
	for _, pv := range objects {
		if err := client.Tracker().Add(pv); err != nil {
			t.Fatal(err)
		}
	}
	n := &Node{
		Client:  client,
		Name:    "n1",
		HostDir: filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 12)),
		Device:  func(string) error { return nil },
		Log:     slog.New(slog.DiscardHandler),
	}
	if err := n.Prepare(); err != nil {
		t.Fatal(err)
	}
	r := &recorder{fails: map[string]error{}}
	const endpoint = "/var/lib/kubelet/plugins/" + testDriver + "/csi.sock"
	serve(t, n.HostDir, endpoint, func(s *grpc.Server) { spec.RegisterNodeServer(s, r) })
	serve(t, n.HostDir, registryDir+"/"+testDriver+"-reg.sock", func(s *grpc.Server) {
		registration.RegisterRegistrationServer(s, &registered{name: testDriver, endpoint: endpoint, refused: make(chan error, 1)})
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n, client, r
}

// serve listens on a socket of the host, whose path is longer than a socket's may be.
func serve(t *testing.T, hostDir, socket string, register func(*grpc.Server)) {
	t.Helper()
	at := filepath.Join(hostDir, socket)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(filepath.Dir(at))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(at)))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := errors.Join(<-served, dir.Close()); err != nil {
			t.Error(err)
		}
	})
}

// await asks until there is no error.
func await(t *testing.T, ask func() error) {
	t.Helper()
	var missing error
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		missing = ask()
		return missing == nil, nil
	})
	if err != nil {
		t.Fatal(missing)
	}
}

func TestADriverThatRegistersIsAnnounced(t *testing.T) {
	_, client, _ := onHost(t)
	await(t, func() error {
		have, err := client.StorageV1().CSINodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := []storagev1.CSINodeDriver{
			{
				Name:         testDriver,
				NodeID:       "i-1",
				TopologyKeys: []string{"topology.ebs.csi.aws.com/zone"},
				Allocatable:  &storagev1.VolumeNodeResources{Count: new(int32(26))},
			},
		}
		if diff := cmp.Diff(
			want,
			have.Spec.Drivers,
		); diff != "" ||
			!strings.Contains(have.Annotations["storage.alpha.kubernetes.io/migrated-plugins"], "kubernetes.io/aws-ebs") {
			return fmt.Errorf("%s, %v", diff, have.Annotations)
		}
		return nil
	})
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || node.Labels["topology.ebs.csi.aws.com/zone"] != "us-east-1a" {
		t.Errorf("the node has the labels %v, %v", node.Labels, err)
	}
}

// A volume is staged when its claim is bound and it is attached, not before; it is unpublished before it is unstaged, and what failed is done again.
func TestAVolumeIsMountedWhenItIsAttachedAndUnmountedInOrder(t *testing.T) {
	for name, from := range map[string]corev1.PersistentVolumeSource{
		"of the driver": {CSI: &corev1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "vol-1"}},
		"in tree":       {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, client, r := onHost(
				t,
				&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: from}},
			)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "app"}}
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			}
			va := &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%x", sha256.Sum256([]byte("vol-1"+testDriver+"n1")))},
				Spec:       storagev1.VolumeAttachmentSpec{Attacher: testDriver, NodeName: "n1"},
			}
			refused := func(says string) {
				t.Helper()
				if _, err := n.Mount(t.Context(), pod, "data"); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("it says %v, not %q", err, says)
				}
			}
			add := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			claim.Status.Phase = corev1.ClaimPending
			add(client.Tracker().Add(claim))
			refused("claim \"data\" is Pending")
			claim.Status.Phase = corev1.ClaimBound
			_, err := client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), claim, metav1.UpdateOptions{})
			add(err)
			refused("is not attached yet")
			va.Status.AttachError = &storagev1.VolumeError{Message: "no such instance"}
			add(client.Tracker().Add(va))
			refused("cannot be attached: no such instance")
			va.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"devicePath": "/dev/xvdaa"}}
			_, err = client.StorageV1().VolumeAttachments().Update(t.Context(), va, metav1.UpdateOptions{})
			add(err)
			var at string
			await(t, func() error { at, err = n.Mount(t.Context(), pod, "data"); return err })
			if want := "/var/lib/kubelet/pods/app/volumes/kubernetes.io~csi/pv/mount"; at != want || n.Target("app") != want {
				t.Errorf("it is mounted at %s, %s", at, n.Target("app"))
			}
			r.fails["unstage"] = errors.New("busy")
			if err := n.Unmount(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "unstaging volume vol-1") {
				t.Errorf("the end says %v", err)
			}
			add(n.Unmount(t.Context(), pod))
			add(n.Unmount(t.Context(), pod)) // nothing is left
			want := []string{"stage /dev/xvdaa vol-1", "publish vol-1", "unpublish vol-1", "unstage vol-1", "unpublish vol-1", "unstage vol-1"}
			if diff := cmp.Diff(want, r.calls); diff != "" || n.Target("app") != "" {
				t.Errorf("the driver was asked (-want +got):\n%s", diff)
			}
		})
	}
}
