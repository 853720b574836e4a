package cloudprovider

// Inventory is how an administrator reads what transplant reads of a cloud.
type Inventory struct {
	// Flag is what has it read.
	Flag string
	// Credentials shows whether the credentials are good.
	Credentials string
	// Instances is where instances are from, and ExpectedInstance what a node needs there.
	Instances, ExpectedInstance string
	// Balancer shows a load balancer, whose name follows.
	Balancer string
	// NamedBalancers has load balancers whose name says which Service they are of.
	NamedBalancers bool
	// RemovesOrphans is that transplant remove-orphans can remove what is left of Services.
	RemovesOrphans bool
	// StaleRouteStops is that the external route loop ends at a route to an instance that is no node's.
	StaleRouteStops bool
}

var inventories = map[string]Inventory{
	AWS: {
		Flag:             "--cloud=aws",
		Credentials:      "aws sts get-caller-identity",
		Instances:        "ec2:DescribeInstances",
		ExpectedInstance: "a running instance whose private DNS name is the node's name",
		Balancer:         "aws elb describe-load-balancers --load-balancer-names ",
		StaleRouteStops:  true,
	},
	Azure: {
		Flag:             "--cloud=azure:config=FILE",
		Credentials:      "az vm list -o table",
		Instances:        "virtual machines and instances of scale sets",
		ExpectedInstance: "a machine with the resource ID of the node's providerID, or with its name where it has none",
		Balancer:         "az network lb list | grep -F ",
	},
	GCE: {
		Flag:             "--cloud=gce",
		Credentials:      "gcloud compute regions list",
		Instances:        "compute.instances.aggregatedList",
		ExpectedInstance: "an instance with the name and the zone of the node's providerID, or with its name where it has none",
		Balancer:         "gcloud compute forwarding-rules describe ",
	},
	"openstack": {
		Flag:             "--cloud=openstack",
		Credentials:      "openstack token issue -c project_id",
		Instances:        "Nova's servers",
		ExpectedInstance: "a server with the ID of the node's providerID, or with its name where it has none",
		Balancer:         "openstack loadbalancer status show ",
		NamedBalancers:   true,
		RemovesOrphans:   true,
	},
	"vsphere": {
		Flag:             "--cloud=vsphere:config=FILE",
		Credentials:      "govc about",
		Instances:        "vCenter's virtual machines",
		ExpectedInstance: "a virtual machine with the UUID of the node's providerID, or with its system UUID or name where it has none",
		Balancer:         "govc ls ", // there are none
	},
}

// InventoryOf returns how a provider's cloud is read; false when transplant does not read it.
func InventoryOf(provider string) (Inventory, bool) {
	i, ok := inventories[provider]
	return i, ok
}

// HasProgram reports whether there can be a program through which a provider is asked: ours, or that of a provider of
// the administrator's own. Of the other providers that were in tree there is none.
func HasProgram(provider string) bool {
	_, inTree := Lookup(provider)
	_, ours := inventories[provider]
	return ours || !inTree
}

// InventoryOrDefault is InventoryOf, with the words of AWS where no provider is known.
func InventoryOrDefault(provider string) Inventory {
	if i, ok := inventories[provider]; ok {
		return i
	}
	return inventories[AWS]
}
