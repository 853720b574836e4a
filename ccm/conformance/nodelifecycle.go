package conformance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
)

// lifecycleScenarios are those of upstream's tests of the node lifecycle controller.
func lifecycleScenarios() []Scenario {
	unready, unknown := withReady(corev1.ConditionFalse), withReady(corev1.ConditionUnknown)
	withoutID := withID("")
	one := func(changes ...func(*corev1.Node)) []runtime.Object {
		return []runtime.Object{NewMember("n0", changes...)}
	}
	shutdown := func(i *Instance) { i.Shutdown = true }
	both := []Scenario{
		{
			Meant: CarefulDeletion, Where: twoLooks, Name: "it is not Ready, and there is no instance", Cloud: nothing,
			Before: one(unready),
		},
		{
			Meant: CarefulDeletion, Where: twoLooks, Name: "it is not Ready, has no provider ID, and there is no instance",
			Cloud: nothing, Before: one(unready, withoutID),
		},
		{Name: "it is not Ready, and there is an instance", Cloud: has(), Before: one(unready)},
		{
			Name: "it is not Ready, has no provider ID, and there is an instance", Cloud: has(),
			Before: one(unready, withoutID),
		},
		{
			Meant: CarefulDeletion, Where: twoLooks, Name: "it is unknown, and there is no instance", Cloud: nothing,
			Before: one(unknown),
		},
		{Name: "it is unknown, and there is an instance", Cloud: has(), Before: one(unknown)},
		{
			Meant: CarefulDeletion, Where: twoLooks, Name: "it has no condition, and there is no instance", Cloud: nothing,
			Before: one(withoutConditions),
		},
		{Name: "it has no condition, and there is an instance", Cloud: has(), Before: one(withoutConditions)},
		{Name: "it is Ready, and the cloud says that there is no instance", Cloud: nothing, Before: one()},
		{Name: "it is not Ready, and shut down", Cloud: has(shutdown), Before: one(unready)},
		{
			Name: "it is not Ready, has no provider ID, and is shut down", Cloud: has(shutdown),
			Before: one(unready, withoutID),
		},
		{Name: "it is not Ready, and not shut down", Cloud: has(), Before: one(unready, withTaint("other"))},
		{Name: "it is Ready, and the cloud says that it is shut down", Cloud: has(shutdown), Before: one()},
		{
			Name: "it is Ready, and tainted as shut down", Cloud: has(),
			Before: one(withTaint(cloudproviderapi.TaintNodeShutdown)),
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"series"},
			Name: "it is not Ready, and tainted as shut down, but is not", Cloud: has(),
			Before: one(unready, withTaint(cloudproviderapi.TaintNodeShutdown)),
		},
		{
			Meant: ComparedWithWhatShouldBe, Where: []string{"series"},
			Name: "it is not Ready, shut down, and tainted already", Cloud: has(shutdown),
			Before: one(unready, withTaint(cloudproviderapi.TaintNodeShutdown)),
		},
		{Name: "it is shut down and started again", Cloud: has(shutdown), Before: one(unready), Steps: []func(*World){
			changeInstance(func(i *Instance) { i.Shutdown = false }), changeNode("n0", withReady(corev1.ConditionTrue)),
		}},
		{Name: "it is shut down, and then gone", Cloud: has(shutdown), Before: one(unready), Steps: []func(*World){
			func(w *World) { w.Cloud.Change(nothing) },
		}},
		{Name: "it is not Ready, and then the instance is gone", Cloud: has(), Before: one(unready), Steps: []func(*World){
			func(w *World) { w.Cloud.Change(nothing) },
		}},
		{
			Name: "it is not Ready any more", Cloud: has(), Before: one(),
			Steps: []func(*World){changeNode("n0", unready), pass(10 * time.Minute)},
		},
		{
			Meant: CarefulDeletion, Where: twoLooks, Name: "its deletion fails once", Cloud: nothing, Before: one(unready),
			Fails: failAPIOnce("delete nodes", errCloud),
		},
		{Name: "nodes that have no instance while half of them have one", Cloud: half, Before: ten(unready)},
		{
			Name: "no node has an instance", Cloud: nothing, Before: ten(unready), Meant: CarefulDeletion,
			Where: []string{"Instance", "objects", "events"},
		},
	}
	exists := map[bool]string{false: "InstanceExists", true: "InstanceExistsByProviderID"}
	down := map[bool]string{false: "InstanceShutdown", true: "InstanceShutdownByProviderID"}
	var all []Scenario
	for _, first := range []bool{false, true} {
		prefix, cloud := "a node: ", func(of func(*Cloud)) func(*Cloud) { return of }
		if first {
			prefix, cloud = "a node, Instances: ", firstGeneration
		}
		for _, s := range append(both,
			Scenario{
				Name: "InstanceExists fails", Cloud: has(), Before: one(unready), Fails: failCloud(exists[first], 0, errCloud),
				Endless: true,
			},
			Scenario{
				Name: "InstanceExists fails with InstanceNotFound", Cloud: has(), Before: one(unready), Endless: true,
				Fails: failCloud(exists[first], 0, fmt.Errorf("finding n0: %w", cloudprovider.InstanceNotFound)),
			},
			Scenario{
				Meant: CarefulDeletion, Where: twoLooks, Name: "InstanceExists fails once, and there is no instance",
				Cloud: nothing, Before: one(unready), Fails: failCloud(exists[first], 1, errCloud),
			},
			Scenario{
				Name: "InstanceShutdown fails", Cloud: has(), Before: one(unready), Fails: failCloud(down[first], 0, errCloud),
				Endless: true,
			},
			Scenario{
				Name: "InstanceShutdown is not implemented", Cloud: has(), Before: one(unready), Endless: true,
				Fails: failCloud(down[first], 0, cloudprovider.NotImplemented),
			},
			Scenario{
				Name: "InstanceShutdown fails with InstanceNotFound", Cloud: has(), Before: one(unready), Endless: true,
				Fails: failCloud(down[first], 0, cloudprovider.InstanceNotFound),
			},
			Scenario{
				Meant: CarefulDeletion, Where: twoLooks, Name: "InstanceShutdown fails, and there is no instance",
				Cloud: nothing, Before: one(unready),
				Fails: failCloud(down[first], 0, errCloud),
			},
		) {
			s.Name, s.Cloud = prefix+s.Name, cloud(s.Cloud)
			all = append(all, s)
		}
	}
	for _, workers := range []int32{0, -5} {
		all = append(all, Scenario{
			Name: fmt.Sprintf("%d workers", workers), Cloud: has(), Before: one(unready), Settings: func(c *config.Config) {
				c.ComponentConfig.NodeLifecycleController.ConcurrentNodeLifecycleSyncs = workers
			}, Meant: WorkOnlyWithALease, Where: []string{"events"},
		})
	}
	all = append(all,
		Scenario{
			Name: "a node, Instances: asking for the provider ID fails", Cloud: firstGeneration(has()),
			Before: one(unready, withoutID), Endless: true,
			Fails: failCloud("InstanceID", 0, errCloud),
		},
		Scenario{
			Meant: CarefulDeletion, Where: twoLooks, Name: "a node, Instances: asking for the provider ID finds no instance",
			Cloud: firstGeneration(has()), Before: one(unready, withoutID),
			Fails: failCloud("InstanceID", 0, cloudprovider.InstanceNotFound),
		},
	)
	return of(names.CloudNodeLifecycleController, all)
}

// twoLooks is what shows that an instance is looked for twice.
var twoLooks = []string{"InstanceExists", "InstanceID"}

// half gives instances to five of the nodes n0 to n9.
func half(c *Cloud) {
	c.Instances = map[string]*Instance{}
	for i := range 5 {
		name := fmt.Sprintf("n%d", i)
		c.Instances[name] = newInstance(name)
	}
}

func ten(changes ...func(*corev1.Node)) (all []runtime.Object) {
	for i := range 10 {
		all = append(all, NewMember(fmt.Sprintf("n%d", i), changes...))
	}
	return all
}
