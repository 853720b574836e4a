package kubelet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claims are volumes that are never mounted.
type claims struct {
	mu        sync.Mutex
	gates     []string
	announced int
	unmounted []string
}

func (c *claims) Begin(f Flags) func(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gates = append(c.gates, f.FeatureGates["CSIMigrationAWS"])
	return func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.announced++; c.announced == 1 {
			return errors.New("the API is not there")
		}
		return nil
	}
}

func (c *claims) InUse() []corev1.UniqueVolumeName {
	return []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/vol-1"}
}

func (c *claims) Mount(context.Context, *corev1.Pod, string) (string, error) {
	return "", errors.New("it is not attached")
}

func (c *claims) Unmount(_ context.Context, pod *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unmounted = append(c.unmounted, pod.Name)
	return nil
}

// A node shows the volumes that are in use when its kubelet has announced its plugins, and a pod that ends before its volume is mounted uses it no longer.
func TestAKubeletAnnouncesItsVolumePluginsAndShowsWhatIsInUse(t *testing.T) {
	api, c := newAPI(), &claims{}
	h := newHost(t, func(o *Options) {
		o.Client = api
		o.Pods = &PodOptions{
			Address: func() (string, error) { return "127.0.0.1", nil },
			Program: func(*corev1.Container) (Program, error) { return Program{Path: "/bin/sleep"}, nil },
			Claims:  c,
		}
	})
	h.write("var/lib/kubelet/kubeadm-flags.env", flagsFile("--feature-gates=CSIMigrationAWS=false"))
	h.start()
	eventually(t, "the volume is in use", func() (bool, any) {
		n, err := api.CoreV1().Nodes().Get(context.Background(), testNode, metav1.GetOptions{})
		return err == nil && slices.Equal(n.Status.VolumesInUse, c.InUse()), n
	})
	c.mu.Lock()
	if c.announced != 2 || !slices.Equal(c.gates, []string{"false"}) {
		t.Errorf("it announced its plugins %d times, with the gates %v", c.announced, c.gates)
	}
	c.mu.Unlock()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "app"},
		Spec: corev1.PodSpec{
			NodeName: testNode, Containers: []corev1.Container{{Name: "c", Image: "sleep", Command: []string{"sleep", "1000"}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}
	pods := api.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod waits for its volume", func() (bool, any) {
		p, err := pods.Get(context.Background(), "app", metav1.GetOptions{})
		return err == nil && len(p.Status.ContainerStatuses) == 1, p
	})
	if err := pods.Delete(t.Context(), "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod's volume is unmounted", func() (bool, any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Equal(c.unmounted, []string{"app"}), c.unmounted
	})
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has begun again", func() (bool, any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.announced == 3, c.announced
	})
}
