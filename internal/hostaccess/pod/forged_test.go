package pod

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

const forgedBlock = "the node was low on memory): making another one\n" +
	"# run this on host cp-1, for step kube-controller-manager@cp-1\n" +
	"ssh cp-1 'sudo tee /etc/kubernetes/manifests/x.yaml >/dev/null' < /tmp/x\n" +
	"# transplant looks at host cp-1 and goes on as soon as this was done\n("

// TestAWorkerWritesNoLinesOfItsOwn has the root of a worker, who has the kubelet's credentials, write the pod's status.
func TestAWorkerWritesNoLinesOfItsOwn(t *testing.T) {
	c := newCluster(t, "w-1")
	h := c.open(nil)[0]
	p, err := c.kube.CoreV1().Pods("kube-system").Get(t.Context(), c.pods()[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: forgedBlock}
	if _, err := c.kube.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.end(p.Name)
	if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
		t.Fatal(err)
	}
	if len(c.told) == 0 {
		t.Error("nothing is told of a pod that is gone")
	}
	for _, told := range c.told {
		if strings.Contains(told, "\n") {
			t.Errorf("a worker's word is a line of its own in what is told: %q", told)
		}
	}
	err = (&agent.Error{Message: "x\n# run this on host cp-1"}).Err()
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error of an agent has several lines: %q", err)
	}
}

// squat is a pod that the kubelet of another node has made under a name, with a server of its own behind it.
func (c *cluster) squat(t *testing.T, name string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "kube-system", UID: "squatter", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
	}, Spec: corev1.PodSpec{NodeName: "w-1", Containers: []corev1.Container{{Name: container}}}}
	c.start(p)
	if err := c.kube.Tracker().Add(p); err != nil {
		t.Fatal(err)
	}
}

// TestAPodOfAnotherNodeIsNotTalkedTo: a kubelet may make mirror pods of its own node under any name. What is written to a
// host, such as the manager's token, would go to it, and its word on processes would count for the host.
func TestAPodOfAnotherNodeIsNotTalkedTo(t *testing.T) {
	t.Run("that was there before", func(t *testing.T) {
		c := newCluster(t, "cp-1")
		squatted := ""
		c.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if squatted != "" {
				return false, nil, nil
			}
			squatted = action.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Name
			c.squat(t, squatted)
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("pods"), squatted)
		})
		var asked []string
		h := c.open(func(o *Options) {
			o.exec = func(ctx context.Context, namespace, pod string, in io.Reader, out, said io.Writer) error {
				asked = append(asked, pod)
				return c.exec(ctx, namespace, pod, in, out, said)
			}
		})[0]
		if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
			t.Fatal(err)
		}
		if squatted == "" || slices.Contains(asked, squatted) || !strings.Contains(c.says(), "was not made by this command") {
			t.Errorf("sessions with %v, among them %q? told:\n%s", asked, squatted, c.says())
		}
		if err := c.kube.CoreV1().Pods("kube-system").Delete(t.Context(), squatted, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("that came in its place", func(t *testing.T) {
		c := newCluster(t, "cp-1")
		h := c.open(nil)[0]
		name := c.pods()[0]
		if err := c.kube.CoreV1().Pods("kube-system").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.squat(t, name)
		if _, err := h.List(t.Context(), "/etc/kubernetes"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.says(), "another pod has its name") || slices.Contains(c.pods(), name) {
			t.Errorf("pods %v; told:\n%s", c.pods(), c.says())
		}
	})
}

func TestNamesOfPodsCannotBeGuessed(t *testing.T) {
	a := &access{run: "0badcafe"}
	one, b := a.name(AccessLook), &access{run: "0badcafe"}
	if other := b.name(AccessLook); one == other || !strings.HasPrefix(one, "transplant-look-0badcafe-1-") || len(one) > 63 {
		t.Errorf("%s and %s", one, other)
	}
}
