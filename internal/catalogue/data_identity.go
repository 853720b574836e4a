package catalogue

import "regexp"

// idForms: mapToAWSInstanceID in cloud-provider-aws pkg/providers/v1/instances.go; azure_standard.go and azure_vmss.go of legacy-cloud-providers and
// their successors in cloud-provider-azure (resource groups differ in case); gce_util.go; instanceIDFromProviderID in cloud-provider-openstack
// pkg/openstack/instances.go, which takes a region before the id since OS_CCM_REGIONAL; GetUUIDFromProviderID in cloud-provider-vsphere.
var idForms = map[string]IDForm{
	"aws": {regexp.MustCompile(`^(aws:///([^/]*/)?)?i-[^/]+$`), "aws:///<zone>/<instance id>"},
	"azure": {
		regexp.MustCompile(`(?i)^azure:///subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/(virtualMachines/[^/]+|virtualMachineScaleSets/[^/]+/virtualMachines/[^/]+)$`),
		"azure:///subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/virtualMachines/<name>",
	},
	"gce":       {regexp.MustCompile(`^gce://[^/]+/[^/]+/[^/]+$`), "gce://<project>/<zone>/<instance>"},
	"openstack": {regexp.MustCompile(`^openstack://[^/]*/[^/]+$`), "openstack:///<server id>"},
	"vsphere":   {regexp.MustCompile(`(?i)^vsphere://[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`), "vsphere://<uuid of the virtual machine>"},
}

// balancersByCluster: getAzureLoadBalancerName; getLoadBalancerName of cloud-provider-openstack, kube_service_<cluster>_<namespace>_<name>. AWS and GCE
// take the Service's uid, as did OpenStack's in-tree provider.
var balancersByCluster = map[string]bool{"azure": true, "openstack": true}

// loadBalancerIP: the uses of Spec.LoadBalancerIP in the three external providers.
var loadBalancerIP = map[string]bool{"azure": true, "gce": true, "openstack": true}

// routeLimits: "Routes per route table" of the Amazon VPC quotas; "User-defined routes per route table" of the Azure subscription limits; static routes per VPC
// network of Google Cloud, which a project may have raised.
var routeLimits = map[string]struct {
	rows    int
	command string
}{
	"aws":   {50, "aws service-quotas get-service-quota --service-code vpc --quota-code L-93826ACB"},
	"azure": {400, "az network route-table list -o table"},
	"gce":   {250, "gcloud compute project-info describe"},
}

// nodeIPAM: cmd/cloud-controller-manager of cloud-provider-azure and cloud-provider-gcp register a node IPAM controller of their own.
var nodeIPAM = map[string]bool{"azure": true, "gce": true}

// routingCNIs by a part of the image's name, in the order in which they are looked for. Flannel is not one of them: told --kube-subnet-mgr with the backend
// "alloc" it leaves the routes to the cloud, which the image does not show.
var routingCNIs = []struct {
	image, name string
	// offFlag set to false leaves the routes to others.
	offFlag string
}{
	{"calico/node", "Calico", ""},
	{"calico-node", "Calico", ""},
	{"cilium/cilium", "Cilium", ""},
	{"weave-kube", "Weave Net", ""},
	{"weaveworks/weave", "Weave Net", ""},
	{"kube-router", "kube-router", "run-router"},
	{"antrea/antrea", "Antrea", ""},
	{"antrea-ubuntu", "Antrea", ""},
	{"kube-ovn", "Kube-OVN", ""},
	{"ovn-kubernetes", "OVN-Kubernetes", ""},
	{"amazon-k8s-cni", "the Amazon VPC CNI", ""},
	{"azure-cni", "the Azure CNI", ""},
}
