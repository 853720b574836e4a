package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/lab/seed"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

var everything = flag.Bool("fleet.all", false, "try everything else, too, which takes minutes: the holes of the original, bad inputs, webhooks, CSI drivers")

func onlyWithAll(t *testing.T) {
	t.Helper()
	if !*everything {
		t.Skip("takes minutes: make fleet, or -fleet.all")
	}
}

// Where the original stops in silence, calls unfinished work completed, or forgets a cluster. The rest of its known holes is part of TestTheGuideStepByStep:
// flags behind http-prober, a feature that is explicitly false, the cluster's name, conditions without a time, machine parts that are told too early.
func TestHolesOfTheOriginal(t *testing.T) {
	onlyWithAll(t)
	w := newWorld(t)
	must(t, w.InstallOperator(within(t), append(quick, "--stuck-handover=5s")...))
	for name, test := range map[string]func(*testing.T, *World){
		"machines that are deleted come back with old kubelets, whatever their annotations say": holeDeletedMachines,
		"a rollout of controller-manager that hangs is said":                                    holeStuckRollout,
		"a cluster without machines is completed":                                               holeNoMachines,
		"the last machine's end is not the migration's":                                         holeLastMachine,
		"a cluster whose network needs no routes gets none":                                     holeNoRoutes,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// migrating adds a cluster and takes it as far as the phase in which machines are waited for.
func migrating(t *testing.T, w *World, name string, machines int) (*seed.Cluster, *Object) {
	t.Helper()
	ctx := within(t)
	c := w.addCluster(t, seed.ClusterOptions{Name: name}, machines)
	o, err := w.Create(ctx, kv1.GroupName, name, map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	must(t, o.Feature(ctx, true))
	must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
	return c, o
}

func notCompleted(ctx context.Context, t *testing.T, o *Object, why string) {
	t.Helper()
	all, err := o.Conditions(ctx)
	must(t, err)
	if c := all[kv1.ConditionCSIKubeletMigrationCompleted]; c.Status == "True" {
		t.Errorf("%s, and the migration is called completed; the machines: %+v", why, all[kv1.ConditionMachines])
	}
}

func holeDeletedMachines(t *testing.T, w *World) {
	ctx := within(t)
	c, o := migrating(t, w, "deleted", 1)
	before := c.Kubelets()
	must(t, c.DeleteMachines(ctx))
	must(t, seed.Await(ctx, "another machine", func(context.Context) error {
		for node := range c.Kubelets() {
			if _, old := before[node]; !old {
				return nil
			}
		}
		return errors.New("only the old ones are there")
	}))
	must(t, c.AwaitMachines(ctx, "pool", 1))
	machines, err := c.Dynamic().Resource(component.Machines).Namespace(component.MachineNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	name := machines.Items[0].GetName()
	if got := machines.Items[0].GetAnnotations()[component.AnnotationExternal]; got != "true" {
		t.Fatalf("machine %s is annotated %q: the trap is not set", name, got)
	}
	must(t, seed.Await(ctx, "the new machine to be judged", func(ctx context.Context) error {
		all, err := o.Conditions(ctx)
		if err == nil && !strings.Contains(all[kv1.ConditionMachines].Message, name) {
			err = fmt.Errorf("the condition says %+v", all[kv1.ConditionMachines])
		}
		return err
	}))
	notCompleted(ctx, t, o, "the kubelet of the new machine is not external")
	must(t, c.RestartMachines(ctx, "pool"))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
}

func holeStuckRollout(t *testing.T, w *World) {
	ctx := within(t)
	c := w.addCluster(t, seed.ClusterOptions{Name: "stuck"}, 1)
	o, err := w.Create(ctx, kv1.GroupName, "stuck", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	w.Hold(c.Namespace, string(InTree))
	must(t, o.Feature(ctx, true))
	must(t, o.AwaitCondition(ctx, kv1.ConditionStuck, Condition{Status: "True"}))
	all, err := o.Conditions(ctx)
	must(t, err)
	t.Logf("stuck: %s: %s", all[kv1.ConditionStuck].Reason, all[kv1.ConditionStuck].Message)
	must(t, w.Release(ctx, c.Namespace, string(InTree)))
	must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
	if j := Judge(c); len(j.Overlapping) > 0 {
		t.Errorf("both managers acted: %v", j.Overlapping)
	}
}

func holeNoMachines(t *testing.T, w *World) {
	ctx := within(t)
	_, err := w.AddCluster(ctx, seed.ClusterOptions{Name: "empty"})
	must(t, err)
	o, err := w.Create(ctx, kv1.GroupName, "empty", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	must(t, o.Feature(ctx, true))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
	must(t, o.AwaitCondition(ctx, kv1.ConditionCCMReady, Condition{Status: "True"}))
}

func holeNoRoutes(t *testing.T, w *World) {
	ctx := within(t)
	c := w.addCluster(t, seed.ClusterOptions{Name: "unrouted", NoRoutes: true}, 1)
	o, err := w.Create(ctx, kv1.GroupName, "unrouted", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	t.Cleanup(load(t, c))
	must(t, o.Feature(ctx, true))
	goesOn(ctx, t, c, o)
	must(t, c.RestartMachines(ctx, "pool"))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
	must(t, inLine(ctx, c, 0))
}

func holeLastMachine(t *testing.T, w *World) {
	ctx := within(t)
	c, o := migrating(t, w, "last", 1)
	scale := func(replicas int) {
		_, err := w.Client().AppsV1().Deployments(c.Namespace).Patch(ctx, "machine-controller", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		must(t, err)
		must(t, w.AwaitRollout(ctx, c.Namespace, "machine-controller"))
	}
	scale(0) // nobody makes the next machine
	machines := c.Dynamic().Resource(component.Machines).Namespace(component.MachineNamespace)
	list, err := machines.List(ctx, metav1.ListOptions{})
	must(t, err)
	for _, m := range list.Items {
		_, err := machines.Patch(ctx, m.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
		must(t, machines.Delete(ctx, m.GetName(), metav1.DeleteOptions{}))
	}
	must(t, c.Client().CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(t, seed.Await(ctx, "the operator to see no machine", func(ctx context.Context) error {
		all, err := o.Conditions(ctx)
		if err == nil && !strings.Contains(all[kv1.ConditionMachines].Message, "0 of 0 machines") {
			err = fmt.Errorf("the condition says %+v", all[kv1.ConditionMachines])
		}
		return err
	}))
	notCompleted(ctx, t, o, "the MachineDeployment still wants a machine")
	must(t, c.RestartMachines(ctx, "pool"))
	scale(1)
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
}

// vSphere's CSI driver has a webhook that must not be deployed half: the original left the configuration without what answers it.
func TestTheWebhookOfVSpheresDriverIsWholeOrNotThere(t *testing.T) {
	for minor := 20; minor <= 30; minor++ {
		objects, err := parts.Manifests("vsphere", minor)
		if err != nil {
			continue // no driver for that version, which the rules refuse
		}
		kinds := map[string]bool{}
		for _, o := range objects {
			switch kind := o.GetKind(); kind {
			case "ValidatingWebhookConfiguration":
				kinds[kind] = true
			case "Deployment", "Service", "Secret":
				kinds[kind] = kinds[kind] || strings.Contains(o.GetName(), "webhook")
			}
		}
		if kinds["ValidatingWebhookConfiguration"] != (kinds["Deployment"] && kinds["Service"]) {
			t.Errorf("v1.%d: of the webhook there is %v", minor, kinds)
		}
	}
}
