package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/seed"
)

// A new Cluster says nothing of the feature. The webhook switches it on, and the operator gives its control plane, which has no in-tree provider, what a
// migration ends with.
func TestANewClusterGetsAManagerADriverAndExternalMachines(t *testing.T) {
	onlyWithAll(t)
	w, ctx := newWorld(t), within(t)
	must(t, w.InstallOperator(ctx, quick...))
	c, err := w.AddCluster(ctx, seed.ClusterOptions{Name: "new", Wrapped: true, External: true})
	must(t, err)
	object, err := w.Create(ctx, kv1.GroupName, "new", nil)
	must(t, err)
	have, err := object.Get(ctx)
	must(t, err)
	for _, feature := range []string{kv1.FeatureExternalCloudProvider, kv1.FeatureCCMClusterName} {
		if on, _, _ := unstructured.NestedBool(have.Object, "spec", "features", feature); !on {
			t.Errorf("the webhook did not switch %s on", feature)
		}
	}
	must(t, object.AwaitPhase(ctx, kv1.PhaseCompleted))
	have, err = object.Get(ctx)
	must(t, err)
	if _, annotated := have.GetAnnotations()[kv1.CCMMigrationNeeded]; annotated {
		t.Error("a new cluster has the annotation of a migration")
	}
	for _, condition := range []kv1.ClusterConditionType{kv1.ConditionCCMReady, kv1.ConditionCSIReady, kv1.ConditionMachines, kv1.ConditionLoopsOff} {
		must(t, object.AwaitCondition(ctx, condition, Condition{Status: "True"}))
	}
	manager, err := w.Client().AppsV1().Deployments("cluster-new").Get(ctx, "aws-cloud-controller-manager", metav1.GetOptions{})
	must(t, err)
	if !slices.Contains(manager.Spec.Template.Spec.Containers[0].Args, "--cluster-name=new") {
		t.Errorf("the manager runs with %q", manager.Spec.Template.Spec.Containers[0].Args)
	}
	must(t, c.AddMachines(ctx, "pool", 2))
	for _, s := range cluster.WorkloadServices()[:2] {
		_, err := c.Client().CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
		must(t, err)
	}
	must(t, seed.Await(ctx, "load balancers and routes", func(ctx context.Context) error { return inLine(ctx, c, 2) }))
	must(t, seed.Await(ctx, "nodes that the manager has initialised", func(ctx context.Context) error {
		nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if n.Spec.ProviderID == "" || n.Labels[corev1.LabelTopologyZone] == "" || len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has providerID %q, taints %v", n.Name, n.Spec.ProviderID, n.Spec.Taints)
			}
		}
		if len(nodes.Items) != 2 {
			return errors.New("not all nodes are there")
		}
		return nil
	}))
	for node, flags := range c.Kubelets() {
		if !slices.Contains(flags, "--cloud-provider=external") {
			t.Errorf("the kubelet of %s runs with %q", node, flags)
		}
	}
}
