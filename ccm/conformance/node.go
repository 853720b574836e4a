package conformance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
)

// newNode returns a Node as a kubelet registers it; changes make it another.
func newNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	return NewMember(name, append([]func(*corev1.Node){func(n *corev1.Node) {
		n.Spec.ProviderID = ""
		n.Spec.Taints = []corev1.Taint{
			{Key: "other", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "from-kubelet"}}
	}}, changes...)...)
}

func initialised(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }

func withNodeIP(ip string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: ip}
	}
}

func withLabels(labels ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i := 0; i < len(labels); i += 2 {
			metav1.SetMetaDataLabel(&n.ObjectMeta, labels[i], labels[i+1])
		}
	}
}

func withAddresses(addresses ...corev1.NodeAddress) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Addresses = addresses }
}

func address(kind corev1.NodeAddressType, value string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: kind, Address: value}
}

// newInstance returns what the cloud knows of a node; changes make it another.
func newInstance(name string, changes ...func(*Instance)) *Instance {
	i := &Instance{InstanceMetadata: cloudprovider.InstanceMetadata{
		ProviderID: "fake://" + name, InstanceType: "t1.micro", Zone: "us-west-1a", Region: "us-west",
		NodeAddresses: []corev1.NodeAddress{
			address(corev1.NodeInternalIP, "10.0.0.1"), address(corev1.NodeExternalIP, "132.143.154.163"),
		},
	}}
	for _, change := range changes {
		change(i)
	}
	return i
}

// has gives the cloud instances of the nodes n0, n1 and so on that are like the first.
func has(changes ...func(*Instance)) func(*Cloud) {
	return func(c *Cloud) { c.Instances = map[string]*Instance{"n0": newInstance("n0", changes...)} }
}

func firstGeneration(of func(*Cloud)) func(*Cloud) {
	return func(c *Cloud) {
		c.FirstGeneration = true
		of(c)
	}
}

func nothing(c *Cloud) { c.Instances = map[string]*Instance{} }

// told is what the cloud says of an instance otherwise.
func told(addresses ...corev1.NodeAddress) func(*Instance) {
	return func(i *Instance) { i.NodeAddresses = addresses }
}

// nodeScenarios are those of upstream's tests of the node controller. Each is told of both generations of a
// provider's interface, where both have it.
func nodeScenarios() []Scenario {
	named := []corev1.NodeAddress{
		address(corev1.NodeHostName, "from-cloud"), address(corev1.NodeInternalIP, "10.0.0.1"),
		address(corev1.NodeExternalIP, "132.143.154.163"),
	}
	dual := []corev1.NodeAddress{
		address(corev1.NodeInternalIP, "10.0.0.1"), address(corev1.NodeInternalIP, "fd00::1"),
		address(corev1.NodeExternalIP, "132.143.154.163"),
	}
	one := func(changes ...func(*corev1.Node)) []runtime.Object {
		return []runtime.Object{newNode("n0", changes...)}
	}
	both := []Scenario{
		{Name: "it is initialised, with the cloud's host name", Cloud: has(told(named...)), Before: one()},
		{Name: "it is initialised, with the kubelet's host name", Cloud: has(), Before: one()},
		{Name: "it is initialised when it comes", Cloud: has(), Steps: []func(*World){putAll(newNode("n0"))}},
		{Name: "it has no addresses yet", Cloud: has(), Before: one(withAddresses())},
		{
			Name: "it is initialised already, and gets addresses", Cloud: has(),
			Before: one(initialised, withID("fake://n0"), withAddresses()),
		},
		{Name: "it has its provider ID already", Cloud: has(), Before: one(withID("fake://n0"))},
		{
			Name:  "it has a provider ID that is not the cloud's",
			Cloud: has(func(i *Instance) { i.ProviderID = "fake://other" }), Before: one(withID("fake://n0")),
		},
		{
			Name:  "the cloud has no type, zone and region",
			Cloud: has(func(i *Instance) { i.InstanceType, i.Zone, i.Region = "", "", "" }), Before: one(),
		},
		{Name: "the cloud has a zone and no region", Cloud: has(func(i *Instance) { i.Region = "" }), Before: one()},
		{Name: "the cloud has no addresses", Cloud: has(told()), Before: one()},
		{
			Name: "it has labels of another zone", Cloud: has(),
			Before: one(withLabels(corev1.LabelTopologyZone, "other", corev1.LabelFailureDomainBetaZone, "other")),
		},
		{Name: "the IP that it was given is the instance's", Cloud: has(), Before: one(withNodeIP("10.0.0.1"))},
		{
			Name: "the IP that it was given is the second of the instance", Cloud: has(told(dual...)),
			Before: one(withNodeIP("fd00::1")),
		},
		{
			Name: "the IPs that it was given are both families", Cloud: has(told(dual...)),
			Before: one(withNodeIP("fd00::1,10.0.0.1")),
		},
		{
			Name: "there is no instance", Cloud: nothing, Before: one(), Endless: true,
			Steps: []func(*World){pass(10 * time.Minute)},
		},
		{
			Name: "there is no instance at first", Cloud: nothing, Before: one(), Endless: true,
			Steps: []func(*World){
				func(w *World) {
					w.Cloud.Change(func(c *Cloud) { c.Instances = map[string]*Instance{"n0": newInstance("n0")} })
				},
				pass(20 * time.Minute),
			},
		},
		{
			Name: "it goes before it is initialised", Cloud: nothing, Before: one(), Endless: true,
			Steps: []func(*World){deleteNode("n0"), pass(10 * time.Minute)},
		},
		{
			Name: "its addresses change in the cloud", Cloud: has(), Before: one(),
			Steps: []func(*World){changeInstance(told(named...)), pass(6 * time.Minute)},
		},
		{
			Name: "an address is gone in the cloud", Cloud: has(), Before: one(),
			Steps: []func(*World){changeInstance(told(named[1])), pass(6 * time.Minute)},
		},
		{
			Name: "all addresses are gone in the cloud", Cloud: has(), Before: one(),
			Steps: []func(*World){changeInstance(told()), pass(6 * time.Minute)},
		},
		{Name: "its type changes in the cloud", Cloud: has(), Before: one(), Steps: []func(*World){
			changeInstance(func(i *Instance) { i.InstanceType = "t1.large" }), pass(6 * time.Minute),
		}},
		{Name: "the instance is gone, and addresses are refreshed", Cloud: has(), Before: one(), Steps: []func(*World){
			func(w *World) { w.Cloud.Change(nothing) }, pass(6 * time.Minute),
		}},
		{
			Name: "addresses are not refreshed while it is tainted", Cloud: has(), Before: one(withNodeIP("10.0.0.9")),
			Endless: true, Steps: []func(*World){pass(11 * time.Minute)},
		},
		{Name: "the IP that it was given changes", Cloud: has(
			told(dual...),
		), Before: one(withNodeIP("10.0.0.1")), Steps: []func(*World){
			changeNode("n0", withNodeIP("fd00::1")), pass(6 * time.Minute),
		}},
		{
			Name: "it is tainted again", Cloud: has(), Before: one(),
			Steps: []func(*World){changeNode("n0", withTaint(cloudproviderapi.TaintExternalCloudProvider))},
		},
		{Name: "stable labels are missing", Cloud: has(told()), Before: one(initialised, withID("fake://n0"), withLabels(
			corev1.LabelFailureDomainBetaZone, "foo", corev1.LabelFailureDomainBetaRegion, "bar", corev1.LabelInstanceType,
			"best"))},
		{Name: "stable labels are there", Cloud: has(told()), Before: one(initialised, withID("fake://n0"), withLabels(
			corev1.LabelFailureDomainBetaZone, "foo", corev1.LabelTopologyZone, "foo", corev1.LabelFailureDomainBetaRegion,
			"bar", corev1.LabelTopologyRegion, "bar",
			corev1.LabelInstanceType, "best", corev1.LabelInstanceTypeStable, "best"))},
		{Name: "stable labels say something else", Cloud: has(
			told(),
		), Before: one(initialised, withID("fake://n0"), withLabels(
			corev1.LabelFailureDomainBetaZone, "foo", corev1.LabelTopologyZone, "wrong", corev1.LabelFailureDomainBetaRegion,
			"bar", corev1.LabelTopologyRegion, "wrong",
			corev1.LabelInstanceType, "best", corev1.LabelInstanceTypeStable, "wrong"))},
		{
			Name: "stable labels have no beta pair", Cloud: has(told()),
			Before: one(initialised, withID("fake://n0"), withLabels(corev1.LabelTopologyZone, "foo")),
		},
		{
			Name: "a stable label is changed by another", Cloud: has(), Before: one(),
			Steps: []func(*World){changeNode("n0", withLabels(corev1.LabelTopologyZone, "wrong"))},
		},
		{
			Name: "a beta label is removed by another", Cloud: has(), Before: one(),
			Steps: []func(*World){changeNode("n0", withoutLabel(corev1.LabelFailureDomainBetaZone))},
		},
		{
			Name: "it cannot be written once", Cloud: has(), Before: one(), Fails: failNodeWrites(1, errCloud),
			Steps: []func(*World){pass(6 * time.Minute)},
		},
		{Name: "thirty nodes come together", Cloud: thirty, Before: manyNodes(30)},
	}
	var all []Scenario
	for _, s := range both {
		first := s
		s.Name, first.Name = "a node: "+s.Name, "a node, Instances: "+first.Name
		first.Cloud = firstGeneration(s.Cloud)
		all = append(all, s, first)
	}
	discarded := map[string]string{
		"topology.kubernetes.io/region": "other", "topology.k8s.io/region": "other", "kubernetes.io/region": "other",
		"k8s.io/region":       "other",
		"my.custom.label/foo": "bar", "my.custom.label/bar": "foo", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
	}
	all = append(all,
		Scenario{
			Meant: ComparedWithWhatShouldBe, Where: []string{"InstanceMetadata"}, Name: "a node: the cloud gives no metadata",
			Cloud: has(func(i *Instance) { i.NoMetadata = true }), Before: one(withID("fake://n0")),
		},
		Scenario{
			Name: "a node: the cloud gives no provider ID", Cloud: has(func(i *Instance) { i.ProviderID = "" }),
			Before: one(), Endless: true,
		},
		Scenario{
			Name:  "a node: the cloud gives no provider ID, and it has one",
			Cloud: has(func(i *Instance) { i.ProviderID = "" }), Before: one(withID("fake://n0")),
		},
		Scenario{Name: "a node: additional labels", Before: one(), Cloud: has(func(i *Instance) {
			i.AdditionalLabels = map[string]string{"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar"}
		})},
		Scenario{
			Name:   "a node: additional labels that are reserved or there already",
			Cloud:  has(func(i *Instance) { i.AdditionalLabels = discarded }),
			Before: one(withLabels("my.custom.label/foo", "fizz", "my.custom.label/bar", "foo")),
		},
		Scenario{
			Name: "a node: InstanceMetadata fails twice", Cloud: has(), Before: one(),
			Fails: failCloud("InstanceMetadata", 2, errCloud),
		},
		Scenario{
			Name: "a node: InstanceMetadata always fails", Cloud: has(), Before: one(), Endless: true,
			Fails: failCloud("InstanceMetadata", 0, errCloud),
		},
		Scenario{
			Name: "a node: the IP that it was given is none", Cloud: has(), Before: one(withNodeIP("invalid-ip")),
			Endless: true,
		},
		Scenario{
			Name: "a node: the IP that it was given is not the instance's", Cloud: has(), Before: one(withNodeIP("10.0.0.2")),
			Endless: true,
		},
		Scenario{
			Name: "a node, Instances: the IP that it was given is not the instance's", Cloud: firstGeneration(has()),
			Before: one(withNodeIP("10.0.0.2")), Endless: true,
		},
		Scenario{
			Name: "a node, Instances: the cloud has no provider IDs", Cloud: firstGeneration(has()), Before: one(),
			Fails: failCloud("InstanceID", 0, cloudprovider.NotImplemented),
		},
		Scenario{
			Name: "a node, Instances: the provider ID fails twice", Cloud: firstGeneration(has()), Before: one(),
			Fails: failCloud("InstanceID", 2, errCloud),
		},
		Scenario{
			Name: "a node, Instances: addresses are known by name only", Cloud: firstGeneration(has()), Before: one(),
			Fails: failCloud("NodeAddressesByProviderID", 0, errCloud),
		},
		Scenario{
			Name: "a node, Instances: types are known by name only", Cloud: firstGeneration(has()), Before: one(),
			Fails: failCloud("InstanceTypeByProviderID", 0, errCloud),
		},
		Scenario{
			Name: "a node, Instances: zones are known by name only", Cloud: firstGeneration(has()), Before: one(),
			Fails: failCloud("GetZoneByProviderID", 0, errCloud),
		},
		Scenario{
			Name: "a node, Instances: there are no zones", Before: one(),
			Cloud: firstGeneration(func(c *Cloud) { has()(c); c.Without = map[string]bool{"zones": true} }),
		},
	)
	for i := range all {
		if all[i].Settings == nil {
			all[i].Settings = func(c *config.Config) { c.ComponentConfig.NodeController.ConcurrentNodeSyncs = 5 }
		}
	}
	return of(names.CloudNodeController, all)
}

func changeInstance(change func(*Instance)) func(*World) {
	return func(w *World) {
		w.Cloud.Change(func(c *Cloud) {
			other := *c.Instances["n0"]
			change(&other)
			c.Instances["n0"] = &other
		})
	}
}

// failNodeWrites has the next writes of Nodes fail, however they are made.
func failNodeWrites(times int, err error) func(*World) {
	return func(w *World) {
		w.FailAPI("patch nodes", times, err)
		w.FailAPI("update nodes", times, err)
	}
}

func thirty(c *Cloud) {
	c.Instances = map[string]*Instance{}
	for i := range 30 {
		name := fmt.Sprintf("n%d", i)
		c.Instances[name] = newInstance(name)
	}
}

func manyNodes(n int, changes ...func(*corev1.Node)) (all []runtime.Object) {
	for i := range n {
		all = append(all, newNode(fmt.Sprintf("n%d", i), changes...))
	}
	return all
}
