package operator

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// external is a Cluster as the webhook completes a new one: the feature is on, and there are no annotations.
func external(u *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(u.Object, true, "spec", "features", kubermaticv1.FeatureExternalCloudProvider)
}

// deploy makes a Deployment of a control plane that is ready.
func (w *world) deploy(cluster, name string, labels map[string]string, args ...string) {
	w.t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-" + cluster, Name: name, Labels: labels},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Command: args[:1], Args: args[1:]}}
	if _, err := w.kube.AppsV1().Deployments(d.Namespace).Create(w.t.Context(), d, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestANewClusterThatIsExternalGetsItsPartsWithoutAnnotations(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.object(kubermaticv1.GroupName, "new", external)
		w.until("new", kubermaticv1.PhaseQueued, time.Second)
		<-time.After(time.Minute)
		if got := w.began(); len(got) != 0 {
			t.Errorf("before there is a control plane, the runs were %v", got)
		}
		w.deploy("new", apiserver, nil, "/usr/local/bin/kube-apiserver")
		w.deploy("new", controllerManager, nil, "/usr/local/bin/kube-controller-manager", "--cloud-provider=external")
		w.until("new", kubermaticv1.PhaseCompleted, time.Minute)
		if got := w.began(); !slices.Equal(got, []string{"new install"}) {
			t.Errorf("the runs were %v", got)
		}
		c := w.read("new")
		for _, key := range []string{kubermaticv1.CCMMigrationNeeded, kubermaticv1.CSIMigrationNeeded} {
			if _, there := c.Annotations[key]; there {
				t.Errorf("it has the annotation %s", key)
			}
		}
		for _, condition := range []kubermaticv1.ClusterConditionType{
			kubermaticv1.ConditionCCMReady, kubermaticv1.ConditionCSIReady, kubermaticv1.ConditionMachines,
		} {
			if c.Status.Conditions[condition].Status != corev1.ConditionTrue {
				t.Errorf("condition %s is %+v", condition, c.Status.Conditions[condition])
			}
		}
	})
}

func TestANewClusterWithAManagerOfAnotherProgramIsLeftAlone(t *testing.T) {
	for name, args := range map[string][]string{
		"plain":   {"/bin/aws-cloud-controller-manager", "--cloud-provider=aws"},
		"wrapped": {"/http-prober-bin/http-prober", "-command", `{"command":"/bin/aws-cloud-controller-manager","args":["--cloud-provider=aws"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(w *world) {
				w.deploy("theirs", apiserver, nil, "/usr/local/bin/kube-apiserver")
				w.deploy("theirs", controllerManager, nil, "/usr/local/bin/kube-controller-manager")
				w.deploy("theirs", "aws-cloud-controller-manager", nil, args...)
				w.object(kubermaticv1.GroupName, "theirs", external)
				w.until("theirs", kubermaticv1.PhaseNotNeeded, time.Minute)
				<-time.After(time.Minute)
				message := w.read("theirs").Status.Conditions[kubermaticv1.ConditionMigration].Message
				if got := w.began(); len(got) != 0 || !strings.Contains(message, "Deployment aws-cloud-controller-manager") {
					t.Errorf("the runs were %v: %s", got, message)
				}
			})
		})
	}
}

// What this operator made in an earlier life, whose memory and journal are gone, is not another program's.
func TestOurOwnManagerIsNotTakenForAnotherProgramsOne(t *testing.T) {
	bubble(t, nil, func(w *world) {
		w.deploy("ours", apiserver, nil, "/usr/local/bin/kube-apiserver")
		w.deploy("ours", controllerManager, nil, "/usr/local/bin/kube-controller-manager")
		w.deploy("ours", "aws-cloud-controller-manager", map[string]string{managedBy: managedByUs}, "/aws-cloud-controller-manager")
		w.object(kubermaticv1.GroupName, "ours", external)
		w.until("ours", kubermaticv1.PhaseCompleted, time.Minute)
	})
}
