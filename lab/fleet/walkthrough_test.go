package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/seed"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

// The published guide, step by step, on two user clusters at once: the guide's own example under its group with plain commands, and one of today's group
// whose components http-prober starts and whose controller-manager has two replicas.
func TestTheGuideStepByStep(t *testing.T) {
	w := newWorld(t)
	must(t, w.InstallOperator(within(t), quick...))
	t.Cleanup(func() { leastPrivilege(t, w) }) // when both have ended
	for _, walk := range []struct {
		name, group string
		options     seed.ClusterOptions
	}{
		{"the guide's example", kv1.LegacyGroupName, seed.ClusterOptions{Name: "crh4xbxz5f"}},
		{"wrapped, with two replicas", kv1.GroupName, seed.ClusterOptions{Name: "today", Wrapped: true, Managers: 2}},
	} {
		t.Run(walk.name, func(t *testing.T) {
			t.Parallel()
			walkThrough(t, w, walk.group, walk.options)
		})
	}
}

func walkThrough(t *testing.T, w *World, group string, options seed.ClusterOptions) {
	begin := time.Now()
	step := func(what string) { t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), what) }
	ctx := within(t)
	c := w.addCluster(t, options, 2)
	step("the in-tree manager serves load balancers and routes")
	o, err := w.Create(ctx, group, options.Name, map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	x, err := w.Watch(t.Context(), c)
	must(t, err)
	defer x.Close()
	stop := load(t, c)
	defer stop()
	must(t, o.AwaitPhase(ctx, kv1.PhaseNotNeeded))
	notExternalYet(ctx, t, w, c)
	oldNodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)

	must(t, o.Feature(ctx, true))
	enabled(ctx, t, o)
	step("the feature is enabled and the annotations are there")

	must(t, o.AwaitCondition(ctx, kv1.ConditionCCMReady, Condition{Status: "True"}))
	step("a cloud-controller-manager runs every loop")
	must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
	step("the parts are patched; machines are waited for")
	handedOver(t, x, c)
	keptName(t, x)
	timed(ctx, t, o)
	must(t, o.AwaitCondition(ctx, kv1.ConditionCSIKubeletMigrationCompleted, Condition{"False", kv1.ReasonMigrationInProgress, kv1.MessageMigrationInProgress}))
	must(t, o.AwaitCondition(ctx, kv1.ConditionMachines, Condition{Status: "False", Message: "0 of 2 machines"}))

	must(t, c.RestartMachines(ctx, "pool"))
	must(t, c.AwaitMachines(ctx, "pool", 2))
	step("the MachineDeployment is rolled out")
	must(t, o.AwaitCondition(ctx, kv1.ConditionCSIKubeletMigrationCompleted, Condition{"True", kv1.ReasonMigrationSuccess, kv1.MessageMigrationSuccess}))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
	step("the migration is completed")
	stop()

	completed(ctx, t, c, o)
	for _, n := range oldNodes.Items {
		if _, err := c.Client().CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{}); err == nil {
			t.Errorf("node %s of the time before is still there", n.Name)
		}
	}
	j := Judge(c)
	t.Logf("%s: %d changes by the in-tree manager, %d by the external one, %d overlapping, %s between them",
		options.Name, j.InTree, j.External, len(j.Overlapping), j.Gap.Round(10*time.Millisecond))
	if j.InTree == 0 || j.External == 0 {
		t.Error("one of the managers changed nothing: that nothing overlaps proves nothing")
	}
	for _, call := range j.Overlapping {
		t.Errorf("%s of %s at %s, when the external manager acted already", call.Action, call.Key, call.Arrived)
	}
	leaks(ctx, t, w, c)
}

// notExternalYet: a feature that is false is not had, and nothing of what it brings is there.
func notExternalYet(ctx context.Context, t *testing.T, w *World, c *seed.Cluster) {
	t.Helper()
	drivers, err := c.Client().StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(drivers.Items) > 0 {
		t.Errorf("there are %d CSI drivers, and the feature is false", len(drivers.Items))
	}
	deployments, err := w.Client().AppsV1().Deployments(c.Namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	for _, d := range deployments.Items {
		if strings.Contains(d.Name, string(External)) || strings.Contains(fmt.Sprint(words(&d.Spec.Template.Spec)), "external-cloud-provider") {
			t.Errorf("Deployment %s: %v, and the feature is false", d.Name, words(&d.Spec.Template.Spec))
		}
	}
}

func enabled(ctx context.Context, t *testing.T, o *Object) {
	t.Helper()
	have, err := o.Get(ctx)
	must(t, err)
	for _, key := range []string{kv1.CCMMigrationNeeded, kv1.CSIMigrationNeeded} {
		if value, ok := have.GetAnnotations()[key]; !ok || value != "" {
			t.Errorf("annotations are %v, want an empty %s", have.GetAnnotations(), key)
		}
	}
}

// handedOver judges the order in which the control plane was changed.
func handedOver(t *testing.T, x *Witness, c *seed.Cluster) {
	t.Helper()
	deployments := x.deployments()
	at := slices.IndexFunc(deployments, func(name string) bool { return strings.HasSuffix(name, string(External)) })
	if at < 0 {
		t.Fatalf("Deployments are %v: none is a cloud-controller-manager", deployments)
	}
	var first time.Time
	for _, change := range x.Changes() {
		if change.Name == deployments[at] && first.IsZero() {
			first = change.At
		}
	}
	if c.Managers == 1 { // otherwise the manager waits as a standby, which the account's log judges
		for _, p := range x.PodsOf(string(InTree)) {
			if RunsCloudLoops(p.Words) && (p.Gone.IsZero() || p.Gone.After(first)) {
				t.Errorf("pod %s ran cloud loops until %s; the cloud-controller-manager was deployed at %s", p.Name, p.Gone, first)
			}
		}
	}
	ready := time.Time{}
	for _, p := range x.PodsOf(deployments[at]) {
		if ready.IsZero() || !p.Ready.IsZero() && p.Ready.Before(ready) {
			ready = p.Ready
		}
	}
	if ready.IsZero() {
		t.Error("no pod of the cloud-controller-manager was ready")
	}
	for name, flag := range map[string]string{
		"machine-controller": "-node-external-cloud-provider", "machine-controller-webhook": "-node-external-cloud-provider",
		"operating-system-manager": "-external-cloud-provider",
	} {
		if told := x.Told(name, flag); told.IsZero() || told.Before(ready) {
			t.Errorf("%s got %s at %s; the cloud-controller-manager was ready at %s", name, flag, told, ready)
		}
	}
}

// keptName: load balancers are found by the cluster's name in some clouds; the in-tree manager was told none.
func keptName(t *testing.T, x *Witness) {
	t.Helper()
	for _, c := range x.Changes() {
		if strings.HasSuffix(c.Name, string(External)) && value(c.Words, "--cluster-name") != "" && value(c.Words, "--cluster-name") != "kubernetes" {
			t.Errorf("the cloud-controller-manager runs with %v; the in-tree manager's name was kubernetes", c.Words)
		}
	}
}

// timed: every condition says since when it is so.
func timed(ctx context.Context, t *testing.T, o *Object) {
	t.Helper()
	have, err := o.Get(ctx)
	must(t, err)
	conditions, _, err := unstructured.NestedMap(have.Object, "status", "conditions")
	must(t, err)
	for name, c := range conditions {
		at, _, _ := unstructured.NestedString(c.(map[string]any), "lastTransitionTime") //nolint:forcetypeassert // the schema says so
		if when, err := time.Parse(time.RFC3339, at); err != nil || when.IsZero() {
			t.Errorf("condition %s has lastTransitionTime %q", name, at)
		}
	}
}

// completed judges what is there at the end.
func completed(ctx context.Context, t *testing.T, c *seed.Cluster, o *Object) {
	t.Helper()
	for node, flags := range c.Kubelets() {
		if !slices.Contains(flags, "--cloud-provider=external") {
			t.Errorf("the kubelet of %s runs with %v", node, flags)
		}
	}
	pods, err := c.Pods(ctx, string(InTree))
	must(t, err)
	for i := range pods {
		if provider := value(words(&pods[i].Spec), "--cloud-provider"); provider != "external" && provider != "" {
			t.Errorf("pod %s runs with --cloud-provider=%s", pods[i].Name, provider)
		}
	}
	machines, err := c.Dynamic().Resource(component.Machines).Namespace(component.MachineNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	for _, m := range machines.Items {
		if m.GetAnnotations()[component.AnnotationExternal] != "true" {
			t.Errorf("machine %s has annotations %v", m.GetName(), m.GetAnnotations())
		}
	}
	must(t, seed.Await(ctx, "load balancers and routes of the new machines", func(ctx context.Context) error { return inLine(ctx, c, 2) }))
	if err := o.Feature(ctx, false); err == nil || !strings.Contains(err.Error(), "cannot be disabled once it's enabled") {
		t.Errorf("disabling the feature ends with %v", err)
	}
	if unknown := c.AWS().Unknown(); len(unknown) > 0 {
		t.Errorf("the simulated account does not know %v", unknown)
	}
}

// leaks looks for the cloud's secret where nobody may find it: ConfigMaps, events and Clusters of the seed.
func leaks(ctx context.Context, t *testing.T, w *World, c *seed.Cluster) {
	t.Helper()
	maps, err := w.Client().CoreV1().ConfigMaps(c.Namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	events, err := w.Client().CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	must(t, err)
	deployments, err := w.Client().AppsV1().Deployments(c.Namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	for what, text := range map[string]string{"ConfigMaps": fmt.Sprint(maps.Items), "events": fmt.Sprint(events.Items), "Deployments": fmt.Sprint(deployments.Items)} {
		if strings.Contains(text, seed.CloudSecret(c.Name)) {
			t.Errorf("the cloud's secret stands in %s", what)
		}
	}
}
