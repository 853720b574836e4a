package conformance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// nodeScenariosOfServices are how nodes become members of load balancers, and how they cease to be.
func nodeScenariosOfServices(web []runtime.Object) (all []Scenario) {
	for _, change := range []struct {
		what    string
		before  []func(*corev1.Node)
		changes []func(*corev1.Node)
	}{
		{what: "it is not Ready", changes: []func(*corev1.Node){withReady(corev1.ConditionFalse)}},
		{what: "it is not known whether it is Ready", changes: []func(*corev1.Node){withReady(corev1.ConditionUnknown)}},
		{what: "it has no conditions", changes: []func(*corev1.Node){withoutConditions}},
		{
			what: "it is Ready again", before: []func(*corev1.Node){withReady(corev1.ConditionFalse)},
			changes: []func(*corev1.Node){withReady(corev1.ConditionTrue)},
		},
		{what: "it is excluded", changes: []func(*corev1.Node){withLabel(excluded, "")}},
		{what: "it is excluded by the word true", changes: []func(*corev1.Node){withLabel(excluded, "true")}},
		{what: "its label of exclusion says false", changes: []func(*corev1.Node){withLabel(excluded, "false")}},
		{
			what: "it is not excluded any more", before: []func(*corev1.Node){withLabel(excluded, "")},
			changes: []func(*corev1.Node){withoutLabel(excluded)},
		},
		{
			what: "it is excluded in other words", before: []func(*corev1.Node){withLabel(excluded, "true")},
			changes: []func(*corev1.Node){withLabel(excluded, "yes")},
		},
		{what: "it has another label", changes: []func(*corev1.Node){withLabel("team", "a")}},
		{what: "it has another taint", changes: []func(*corev1.Node){withTaint("other")}},
		{what: "it is cordoned", changes: []func(*corev1.Node){unschedulable}},
		{what: "the autoscaler marks it", changes: []func(*corev1.Node){withTaint(autoscalers)}},
		{
			what: "the autoscaler marks it and it is excluded", before: []func(*corev1.Node){withTaint(autoscalers)},
			changes: []func(*corev1.Node){withLabel(excluded, "")},
		},
		{
			what:    "the autoscaler marks it and it is excluded no more",
			before:  []func(*corev1.Node){withTaint(autoscalers), withLabel(excluded, "")},
			changes: []func(*corev1.Node){withoutLabel(excluded)},
		},
		{
			what: "it is excluded, and the autoscaler marks it", before: []func(*corev1.Node){withLabel(excluded, "")},
			changes: []func(*corev1.Node){withTaint(autoscalers)},
		},
		{
			what: "it is excluded, and is not Ready", before: []func(*corev1.Node){withLabel(excluded, "")},
			changes: []func(*corev1.Node){withReady(corev1.ConditionFalse)},
		},
		{
			what: "it is excluded, and has another provider ID", before: []func(*corev1.Node){withLabel(excluded, "")},
			changes: []func(*corev1.Node){withID("fake://other")},
		},
		{
			what: "it has a provider ID at last", before: []func(*corev1.Node){withID("")},
			changes: []func(*corev1.Node){withID("fake://b")},
		},
		{what: "it has another provider ID", changes: []func(*corev1.Node){withID("fake://other")}},
		{what: "it has no provider ID any more", changes: []func(*corev1.Node){withID("")}},
		{
			what: "it is not Ready, and has another provider ID", before: []func(*corev1.Node){withReady(corev1.ConditionFalse)},
			changes: []func(*corev1.Node){withID("fake://other")},
		},
		{
			what: "it is not Ready, and is excluded", before: []func(*corev1.Node){withReady(corev1.ConditionFalse)},
			changes: []func(*corev1.Node){withLabel(excluded, "")},
		},
		{what: "it has another taint no more", before: changes(withTaint("other")), changes: changes(withoutTaints)},
		{
			what: "it has another label no more", before: changes(withLabel("team", "a")),
			changes: changes(withoutLabel("team")),
		},
		{
			what: "it is not Ready, after it had no conditions", before: changes(withoutConditions),
			changes: changes(withConditions(corev1.ConditionFalse)),
		},
		{
			what: "it is not Ready, and has no conditions any more", before: changes(withReady(corev1.ConditionFalse)),
			changes: changes(withoutConditions),
		},
		{
			what: "it is Ready, and has memory pressure", changes: changes(withPressure(corev1.ConditionTrue)),
		},
		{
			what: "it is Ready, and has memory pressure no more", before: changes(withPressure(corev1.ConditionTrue)),
			changes: changes(withPressure(corev1.ConditionFalse)),
		},
		{
			what:    "it is not Ready, and has memory pressure",
			before:  changes(withReady(corev1.ConditionFalse)),
			changes: changes(withPressure(corev1.ConditionTrue)),
		},
		{
			what: "the autoscaler marks it, and it has a provider ID at last", before: changes(withTaint(autoscalers), withID("")),
			changes: changes(withID("fake://b")),
		},
		{
			what: "the autoscaler marks it, and it has no provider ID any more", before: changes(withTaint(autoscalers)),
			changes: changes(withID("")),
		},
		{
			what: "the autoscaler marks it, and it has another provider ID", before: changes(withTaint(autoscalers)),
			changes: changes(withID("fake://other")),
		},
		{
			what: "the autoscaler marks it, and it is not Ready", before: changes(withTaint(autoscalers)),
			changes: changes(withReady(corev1.ConditionFalse)),
		},
		{
			what:    "the autoscaler marks it, and it is Ready again",
			before:  changes(withTaint(autoscalers), withReady(corev1.ConditionFalse)),
			changes: changes(withReady(corev1.ConditionTrue)),
		},
		{
			what:    "it is excluded, and the autoscaler marks it no more",
			before:  changes(withLabel(excluded, ""), withTaint(autoscalers)),
			changes: changes(withoutTaints),
		},
		{
			what:    "it is excluded, and is Ready again",
			before:  changes(withLabel(excluded, ""), withReady(corev1.ConditionFalse)),
			changes: changes(withReady(corev1.ConditionTrue)),
		},
		{
			what: "it is excluded, and has a provider ID at last", before: changes(withLabel(excluded, ""), withID("")),
			changes: changes(withID("fake://b")),
		},
		{
			what: "it is excluded, and has no provider ID any more", before: changes(withLabel(excluded, "")),
			changes: changes(withID("")),
		},
		{
			what: "it is not Ready, and the autoscaler marks it", before: changes(withReady(corev1.ConditionFalse)),
			changes: changes(withTaint(autoscalers)),
		},
		{
			what:    "it is not Ready, and is excluded no more",
			before:  changes(withReady(corev1.ConditionFalse), withLabel(excluded, "")),
			changes: changes(withoutLabel(excluded)),
		},
		{
			what:    "it is not Ready, and has a provider ID at last",
			before:  changes(withReady(corev1.ConditionFalse), withID("")),
			changes: changes(withID("fake://b")),
		},
		{
			what: "it is not Ready, and has no provider ID any more", before: changes(withReady(corev1.ConditionFalse)),
			changes: changes(withID("")),
		},
		{
			what: "it has no provider ID, and is excluded", before: changes(withID("")),
			changes: changes(withLabel(excluded, "")),
		},
		{
			what: "it has no provider ID, and is excluded no more", before: changes(withID(""), withLabel(excluded, "")),
			changes: changes(withoutLabel(excluded)),
		},
		{
			what: "it has no provider ID, and is not Ready", before: changes(withID("")),
			changes: changes(withReady(corev1.ConditionFalse)),
		},
		{
			what:    "it has no provider ID, and is Ready again",
			before:  changes(withID(""), withReady(corev1.ConditionFalse)),
			changes: changes(withReady(corev1.ConditionTrue)),
		},
		{
			what: "it has no provider ID, and the autoscaler marks it", before: changes(withID("")),
			changes: changes(withTaint(autoscalers)),
		},
		{what: "its addresses change", changes: []func(*corev1.Node){func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}
		}}},
	} {
		all = append(all, Scenario{
			Name:   "a node changes: " + change.what,
			Before: []runtime.Object{NewMember("a"), NewMember("b", change.before...), NewService("web")},
			Steps:  []func(*World){changeNode("b", change.changes...)},
		})
	}
	local := NewService(
		"web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
	)
	many := []runtime.Object{NewMember("a")}
	for i := range 10 {
		many = append(many, NewService(fmt.Sprintf("web-%d", i)))
	}
	return append(all,
		Scenario{
			Name:   "a node changes: the autoscaler marks it no more",
			Before: []runtime.Object{NewMember("a"), NewMember("b", withTaint(autoscalers)), NewService("web")},
			Steps:  []func(*World){changeNode("b", withoutTaints)}, Meant: ComparedWithWhatShouldBe,
			Where: []string{"calls that change", "events", "series"},
		},
		Scenario{
			Name:   "a node changes: it has no provider ID, and the autoscaler marks it no more",
			Before: []runtime.Object{NewMember("a"), NewMember("b", withID(""), withTaint(autoscalers)), NewService("web")},
			Steps:  []func(*World){changeNode("b", withoutTaints)}, Meant: ComparedWithWhatShouldBe,
			Where: []string{"calls that change", "events", "series"},
		},
		Scenario{
			Name: "a node comes, is initialised, and gets its provider ID", Before: web, Meant: ComparedWithWhatShouldBe,
			Where: []string{"calls that change"},
			Steps: []func(*World){putAll(newNode("c")), changeNode("c", withoutTaints, withID("fake://c"))},
		},
		Scenario{
			Name: "the controller is restarted", Before: []runtime.Object{NewService("web")},
			Steps: []func(*World){func(w *World) { w.Restart() }},
		},
		Scenario{
			Name: "a load balancer is deleted in the cloud", Before: web, Meant: ComparedWithWhatShouldBe,
			Cloud: func(*Cloud) {},
			Where: []string{"GetLoadBalancer", "calls that change"},
			Steps: []func(*World){func(w *World) { w.Cloud.Change(func(c *Cloud) { c.balancers = nil }) }, pass(2 * time.Hour)},
		},
		Scenario{Name: "a node comes", Before: web, Steps: []func(*World){putAll(NewMember("c"))}},
		Scenario{
			Name: "a node comes that is not Ready", Before: web,
			Steps: []func(*World){putAll(NewMember("c", withReady(corev1.ConditionFalse)))},
		},
		Scenario{
			Name: "a node comes that is excluded", Before: web,
			Steps: []func(*World){putAll(NewMember("c", withLabel(excluded, "")))},
		},
		Scenario{Name: "a node goes", Before: web, Steps: []func(*World){deleteNode("b")}},
		Scenario{Name: "the last node goes", Before: web, Steps: []func(*World){deleteNode("b"), deleteNode("a")}},
		Scenario{
			Name: "a node goes and comes back", Before: web, Steps: []func(*World){deleteNode("b"), putAll(NewMember("b"))},
		},
		Scenario{
			// Both happen during a call: else chance decides whether the cloud is called between them.
			Name: "a node without provider ID goes, and another comes", Cloud: slowUpdates,
			Before: []runtime.Object{NewMember("a"), NewMember("b", withID("")), NewService("web")},
			Steps: []func(*World){
				putAll(NewMember("d")), func(w *World) { w.DeleteNode("b"); w.Put(NewMember("c", withID(""))) },
				pass(10 * time.Minute),
			},
		},
		Scenario{
			Name: "a node comes, and a Service keeps traffic local", Before: []runtime.Object{NewMember("a"), local},
			Steps: []func(*World){putAll(NewMember("b"))},
		},
		Scenario{
			Name:   "a node of a Service that keeps traffic local is not Ready",
			Before: []runtime.Object{NewMember("a"), NewMember("b"), local},
			Steps:  []func(*World){changeNode("b", withReady(corev1.ConditionFalse))},
		},
		Scenario{
			Name: "a node comes, and there are ten Services", Before: many, Steps: []func(*World){putAll(NewMember("b"))},
		},
		Scenario{
			Name: "a node is being deleted",
			Before: append(
				[]runtime.Object{NewMember("c", func(n *corev1.Node) { n.Finalizers = []string{"example.com/wait"} })}, web...,
			),
			Steps: []func(*World){deleteNode("c"), putAll(NewMember("d"))},
		},
		Scenario{
			Name:   "nodes come while a Service wants no load balancer",
			Before: []runtime.Object{NewMember("a"), NewService("web", withClass)},
			Steps:  []func(*World){putAll(NewMember("b")), deleteNode("a")},
		},
	)
}
