package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/seed"
)

// What must not hurt: each on a cluster of its own in one seed.
func TestBadInput(t *testing.T) {
	onlyWithAll(t)
	w := newWorld(t)
	must(t, w.InstallOperator(within(t), quick...))
	for _, bad := range []struct {
		name string
		test func(*testing.T, *World)
	}{
		{"the user cluster's API goes away during the handover", badUserAPI},
		{"the seed's API goes away during the handover", badSeedAPI},
		{"the acting operator dies during the handover", badOperator},
		{"credentials are rotated", badCredentials},
		{"the cluster is edited while it is migrated", badEdits},
		{"the feature is flipped on and off", badFlips},
		{"the cloud refuses load balancers during the handover", badBalancers},
		{"the operator is installed a second time", badSecondOperator},
	} {
		t.Run(bad.name, func(t *testing.T) { bad.test(t, w) })
	}
}

// handingOver adds a cluster whose handover has begun.
func handingOver(t *testing.T, w *World, name string) (*seed.Cluster, *Object) {
	t.Helper()
	ctx := within(t)
	c := w.addCluster(t, seed.ClusterOptions{Name: name}, 1)
	o, err := w.Create(ctx, kv1.GroupName, name, map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	stop := load(t, c)
	t.Cleanup(stop)
	must(t, o.Feature(ctx, true))
	must(t, o.AwaitPhase(ctx, kv1.PhaseHandover))
	return c, o
}

// goesOn shows that a cluster comes as far as if nothing had happened, and that nobody acted next to anybody.
func goesOn(ctx context.Context, t *testing.T, c *seed.Cluster, o *Object) {
	t.Helper()
	must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
	if j := Judge(c); len(j.Overlapping) > 0 || j.InTree == 0 {
		t.Errorf("%d changes by the in-tree manager, %d by the external one, %d of them overlapping", j.InTree, j.External, len(j.Overlapping))
	}
}

func badUserAPI(t *testing.T, w *World) {
	ctx := within(t)
	c, o := handingOver(t, w, "useraway")
	c.Front().Cut()
	must(t, seed.Await(ctx, "the operator to say that it cannot reach the cluster", func(ctx context.Context) error {
		all, err := o.Conditions(ctx)
		if err != nil {
			return err
		}
		for _, condition := range all {
			if strings.Contains(condition.Message, "refused") || strings.Contains(condition.Message, "reach") || strings.Contains(condition.Message, "does not answer") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", all)
	}))
	must(t, c.Front().Heal())
	goesOn(ctx, t, c, o)
}

func badSeedAPI(t *testing.T, w *World) {
	ctx := within(t)
	c, o := handingOver(t, w, "seedaway")
	w.Front().Cut()
	// Long enough for the acting replica to lose its lease: it may not act any longer then.
	idleFor(ctx, 15*time.Second)
	must(t, w.Front().Heal())
	goesOn(ctx, t, c, o)
}

func badOperator(t *testing.T, w *World) {
	ctx := within(t)
	c, o := handingOver(t, w, "orphan")
	lease, err := w.Client().CoordinationV1().Leases(OperatorNamespace).Get(ctx, "transplant-operator", metav1.GetOptions{})
	must(t, err)
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	must(t, w.Client().CoreV1().Pods(OperatorNamespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	goesOn(ctx, t, c, o)
}

// The handover does not end while the new manager keeps no load balancer, so that no machine is replaced, and ends by itself once it does.
func badBalancers(t *testing.T, w *World) {
	ctx := within(t)
	c, o := handingOver(t, w, "refused")
	heal := c.AWS().Inject(awssim.Fault{Service: "elb", Mutating: ptr.To(true), Code: "UnauthorizedOperation"})
	defer heal()
	must(t, o.AwaitPhase(ctx, kv1.PhaseBlocked))
	all, err := o.Conditions(ctx)
	must(t, err)
	said := all[kv1.ConditionMigration].Message
	for _, want := range []string{"cannot be kept, first that of default/", "LoadBalancerFailed: ", "the handover goes on once they are kept"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	heal()
	goesOn(ctx, t, c, o)
}

func badCredentials(t *testing.T, w *World) {
	ctx := within(t)
	c, o := migrating(t, w, "rotated", 1)
	replace := func(data []byte) {
		s, err := w.Client().CoreV1().Secrets(c.Namespace).Get(ctx, "admin-kubeconfig", metav1.GetOptions{})
		must(t, err)
		s.Data["kubeconfig"] = data
		_, err = w.Client().CoreV1().Secrets(c.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		must(t, err)
	}
	fresh, err := c.Kubeconfig("another-admin")
	must(t, err)
	replace([]byte("this is no kubeconfig"))
	must(t, seed.Await(ctx, "the operator to say so", func(ctx context.Context) error {
		all, err := o.Conditions(ctx)
		if err != nil {
			return err
		}
		for _, condition := range all {
			if strings.Contains(condition.Message, "kubeconfig") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", all)
	}))
	replace(fresh)
	must(t, c.RestartMachines(ctx, "pool"))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
}

func badEdits(t *testing.T, w *World) {
	ctx := within(t)
	c, o := handingOver(t, w, "edited")
	for what, patch := range map[string]map[string]any{
		"switching the feature off":       {"spec": map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}}},
		"removing the feature":            {"spec": map[string]any{"features": nil}},
		"removing the annotation":         {"metadata": map[string]any{"annotations": map[string]any{kv1.CCMMigrationNeeded: nil}}},
		"going back to an older version":  {"spec": map[string]any{"version": "v1.25.0"}},
		"jumping two versions":            {"spec": map[string]any{"version": "v1.28.0"}},
		"moving to another cloud":         {"spec": map[string]any{"cloud": map[string]any{"providerName": "openstack"}}},
		"switching it off and on at once": {"spec": map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: nil}}},
	} {
		if err := o.Patch(ctx, patch); err == nil {
			t.Errorf("%s is accepted in the middle of a migration", what)
		}
	}
	must(t, o.Patch(ctx, map[string]any{"spec": map[string]any{"pause": true, "pauseReason": "a test"}}))
	must(t, o.AwaitPhase(ctx, kv1.PhaseHeld))
	must(t, o.Patch(ctx, map[string]any{"spec": map[string]any{"pause": false}}))
	goesOn(ctx, t, c, o)
}

// Once the feature is on, nothing takes it off again, however many try; the cluster is migrated once.
func badFlips(t *testing.T, w *World) {
	ctx := within(t)
	c := w.addCluster(t, seed.ClusterOptions{Name: "flipped"}, 1)
	o, err := w.Create(ctx, kv1.GroupName, "flipped", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	stop := load(t, c)
	t.Cleanup(stop)
	must(t, o.AwaitPhase(ctx, kv1.PhaseNotNeeded))
	var flipping sync.WaitGroup
	for range 4 {
		flipping.Go(func() {
			for range 20 {
				if err := o.Feature(ctx, true); err != nil {
					t.Error(err)
				}
				if err := o.Feature(ctx, false); err == nil || !strings.Contains(err.Error(), "cannot be disabled once it's enabled") {
					t.Errorf("switching it off ends with %v", err)
				}
			}
		})
	}
	flipping.Wait()
	goesOn(ctx, t, c, o)
}

// Two installations share nothing but the clusters: the lock in a cluster's namespace is what keeps one of them waiting.
func badSecondOperator(t *testing.T, w *World) {
	ctx := within(t)
	const second = "transplant-second"
	moved := func(o *unstructured.Unstructured) {
		switch o.GetKind() {
		case "Namespace":
			o.SetName(second)
			return
		case "ClusterRole", "ClusterRoleBinding":
			o.SetName(o.GetName() + "-second")
			if o.GetKind() == "ClusterRoleBinding" {
				must(t, unstructured.SetNestedField(o.Object, o.GetName(), "roleRef", "name"))
			}
		default:
			o.SetNamespace(second)
		}
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		must(t, err)
		for _, s := range subjects {
			s.(map[string]any)["namespace"] = second //nolint:forcetypeassert // of our own manifest
		}
		if len(subjects) > 0 {
			must(t, unstructured.SetNestedSlice(o.Object, subjects, "subjects"))
		}
	}
	must(t, w.installManifests(ctx, moved, quick...))
	must(t, w.AwaitRollout(ctx, second, "transplant-operator"))
	must(t, w.grantTo(ctx, second, "cluster-twice")) // who installs a second one gives it rights: any of the two may be the first to take the cluster
	c, o := handingOver(t, w, "twice")
	goesOn(ctx, t, c, o)
	must(t, c.RestartMachines(ctx, "pool"))
	must(t, o.AwaitPhase(ctx, kv1.PhaseCompleted))
	holders := map[string]bool{}
	for _, namespace := range []string{OperatorNamespace, second} {
		lease, err := w.Client().CoordinationV1().Leases(namespace).Get(ctx, "transplant-operator", metav1.GetOptions{})
		must(t, err)
		holders[*lease.Spec.HolderIdentity] = true
	}
	if len(holders) != 2 {
		t.Errorf("one operator alone was acting: %v", holders)
	}
	turns, last := 0, ""
	for _, user := range w.writers(t, o.Name, "status") {
		if strings.HasSuffix(user, ":transplant-operator") && user != last {
			turns, last = turns+1, user
		}
	}
	if turns > mostTurns {
		t.Errorf("the conditions were written by one operator and then the other %d times: the two overwrite each other", turns)
	}
}

// mostTurns is how often another operator than the one before may write the conditions of a cluster. The one that waits says so once, whenever it has begun to.
const mostTurns = 10

// Where nothing forbids it, as under the original's open schema with no webhook, a feature may really go on and off: a cluster is external or it is not.
func TestAFeatureThatFlipsUnderAnOpenSchemaLeavesNoClusterHalfWay(t *testing.T) {
	onlyWithAll(t)
	b := startBenchOfOriginal(t)
	ctx := within(t)
	const n = 8
	must(t, b.fill(ctx, n))
	b.lead(t)
	must(t, b.await(ctx, n, kv1.PhaseNotNeeded))
	for round := range 3 * n {
		must(t, b.enable(ctx, 0, n))
		for i := range n {
			if on := i%2 == 0 && round == 3*n-1; !on {
				must(t, b.object(i).Patch(ctx, map[string]any{"spec": map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}}}))
			}
		}
	}
	for i := range n {
		must(t, seed.Await(ctx, "cluster "+nameOf(i)+" to come to rest", func(ctx context.Context) error {
			have, err := b.object(i).Get(ctx)
			if err != nil {
				return err
			}
			b.sim.mu.Lock()
			external := b.sim.planes[nameOf(i)] != nil && b.sim.planes[nameOf(i)].handover == state.Done
			b.sim.mu.Unlock()
			phase := phaseOf(have)
			switch {
			case i%2 == 0 && phase == kv1.PhaseCompleted && external:
			case i%2 == 1 && phase == kv1.PhaseNotNeeded && !external:
			case i%2 == 1 && (phase == kv1.PhaseBlocked || phase == kv1.PhaseCompleted) && external:
			default:
				return fmt.Errorf("it is %s, and handed over: %t", phase, external)
			}
			return nil
		}))
	}
}

// The original's CRD is open where ours has a schema, and its objects have more than ours knows.
func TestTheOriginalsCRDWithObjectsInItIsTakenOver(t *testing.T) {
	onlyWithAll(t)
	b := startBenchOfOriginal(t)
	ctx := within(t)
	made, err := b.world.Create(ctx, kv1.GroupName, nameOf(0), map[string]any{
		"features":     map[string]any{kv1.FeatureExternalCloudProvider: false, "somethingElse": true},
		"auditLogging": map[string]any{"enabled": true, "policyPreset": "recommended"},
		"cloud":        map[string]any{"dc": "x", "providerName": "aws", "aws": map[string]any{"vpcId": "vpc-1", "roleName": "kept"}},
	})
	must(t, err)
	must(t, made.PatchStatus(ctx, map[string]any{
		"address": map[string]any{"externalName": "kept.example.com"},
		"conditions": map[string]any{"SeedResourcesUpToDate": map[string]any{
			"status": "True", "kubermaticVersion": "v2.22", "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}))
	must(t, b.world.InstallCRDs(ctx))
	for _, app := range []string{"apiserver", "controller-manager"} {
		must(t, b.world.grant(ctx, "cluster-"+nameOf(0)))
		must(t, b.deployment(ctx, "cluster-"+nameOf(0), app))
	}
	b.lead(t)
	must(t, b.await(ctx, 1, kv1.PhaseNotNeeded))
	must(t, b.enable(ctx, 0, 1))
	must(t, b.await(ctx, 1, kv1.PhaseCompleted))
	have, err := made.Get(ctx)
	must(t, err)
	for path, want := range map[string]any{
		"spec.auditLogging.policyPreset": "recommended", "spec.cloud.aws.roleName": "kept", "spec.features.somethingElse": true,
		"status.address.externalName": "kept.example.com", "status.conditions.SeedResourcesUpToDate.kubermaticVersion": "v2.22",
	} {
		got, ok, err := unstructured.NestedFieldNoCopy(have.Object, strings.Split(path, ".")...)
		if err != nil || !ok || got != want {
			t.Errorf("%s is %v (%t, %v) after the migration, want %v", path, got, ok, err, want)
		}
	}
}

// originalCRD has what the original's says, as far as it matters: its schema is open here.
func originalCRD() *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "clusters." + kv1.GroupName},
		"spec": map[string]any{
			"group": kv1.GroupName,
			"scope": "Cluster",
			"names": map[string]any{"kind": "Cluster", "plural": "clusters", "listKind": "ClusterList", "singular": "cluster"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": open, "status": open}}},
			}},
		},
	}}
}
