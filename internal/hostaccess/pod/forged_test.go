package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
