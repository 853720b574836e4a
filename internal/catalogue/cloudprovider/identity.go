// Package cloudprovider holds what is known of each cloud provider: its in-tree code and its external manager, their
// images, volume plugins and credentials. It also holds how they name things.
package cloudprovider

import (
	"regexp"
	"strings"
)

// idForms are as the providers' own code reads them:
//
//   - mapToAWSInstanceID in cloud-provider-aws pkg/providers/v1/instances.go
//   - azure_standard.go and azure_vmss.go of legacy-cloud-providers and their successors in cloud-provider-azure
//     (resource groups differ in case)
//   - gce_util.go
//   - instanceIDFromProviderID in cloud-provider-openstack pkg/openstack/instances.go, which takes a region before the
//     id since OS_CCM_REGIONAL
//   - GetUUIDFromProviderID in cloud-provider-vsphere
var idForms = map[string]IDForm{
	"aws": {regexp.MustCompile(`^(aws:///([^/]*/)?)?i-[^/]+$`), "aws:///<zone>/<instance id>"},
	"azure": {
		regexp.MustCompile(
			`(?i)^azure:///subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/(virtualMachines/[^/]+|virtualMachineScaleSets/[^/]+/virtualMachines/[^/]+)$`,
		),
		"azure:///subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/virtualMachines/<name>",
	},
	"gce":       {regexp.MustCompile(`^gce://[^/]+/[^/]+/[^/]+$`), "gce://<project>/<zone>/<instance>"},
	"openstack": {regexp.MustCompile(`^openstack://[^/]*/[^/]+$`), "openstack:///<server id>"},
	"vsphere": {
		regexp.MustCompile(`(?i)^vsphere://[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),
		"vsphere://<uuid of the virtual machine>",
	},
}

// balancersByCluster: getAzureLoadBalancerName; getLoadBalancerName of cloud-provider-openstack,
// kube_service_<cluster>_<namespace>_<name>. AWS and GCE take the Service's uid, as did OpenStack's in-tree provider.
var balancersByCluster = map[string]bool{"azure": true, "openstack": true}

// loadBalancerIP: the uses of Spec.LoadBalancerIP in the three external providers.
var loadBalancerIP = map[string]bool{"azure": true, "gce": true, "openstack": true}

// routeLimits: "Routes per route table" of the Amazon VPC quotas. "User-defined routes per route table" of the Azure
// subscription limits. Static routes per VPC network of Google Cloud, which a project may have raised.
var routeLimits = map[string]struct {
	rows    int
	command string
}{
	"aws":   {50, "aws service-quotas get-service-quota --service-code vpc --quota-code L-93826ACB"},
	"azure": {400, "az network route-table list -o table"},
	"gce":   {250, "gcloud compute project-info describe"},
}

// nodeIPAM: cmd/cloud-controller-manager of cloud-provider-azure and cloud-provider-gcp register a node IPAM controller
// of their own.
var nodeIPAM = map[string]bool{"azure": true, "gce": true}

// routingCNIs by a part of the image's name, in the order in which they are looked for. Flannel is not one of them:
// told --kube-subnet-mgr with the backend "alloc" it leaves the routes to the cloud, which the image does not show.
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

// IDForm is what a provider's providerIDs look like.
type IDForm struct {
	// Pattern matches a whole providerID that the external provider can read.
	Pattern *regexp.Regexp
	// Example for people.
	Example string
}

// ProviderIDForm returns the form of a provider's providerIDs; false when the table has none.
func ProviderIDForm(provider string) (IDForm, bool) {
	form, ok := idForms[provider]
	return form, ok
}

// NodeNameIn returns the name that a node with this providerID has to have, where the providerID says it; empty where
// only the cloud can. Names of Azure differ in case between its own answers.
func NodeNameIn(provider, providerID string) string {
	last := providerID[strings.LastIndex(providerID, "/")+1:]
	switch {
	case provider == "gce",
		provider == "azure" && !strings.Contains(strings.ToLower(providerID), "/virtualmachinescalesets/"):
		return last
	}
	return ""
}

// NamesBalancersByCluster reports whether the load balancers that a provider has made have the cluster's name in their
// names. Another name is another load balancer then. In tree, OpenStack named them by the Service's uid, and the
// external providers find them by it.
func NamesBalancersByCluster(provider string, inTree bool) bool {
	return balancersByCluster[provider] && (provider != OpenStack || !inTree)
}

// TakesLoadBalancerIP reports whether the external provider obeys spec.loadBalancerIP of a Service. The in-tree ones of
// the others ignored it, or, on AWS, refused the Service.
func TakesLoadBalancerIP(provider string) bool { return loadBalancerIP[provider] }

// RouteLimit is how many routes a route table of the cloud may have by default, and the command that shows the
// account's own limit. It is 0 when that is not known.
func RouteLimit(provider string) (rows int, command string) {
	l := routeLimits[provider]
	return l.rows, l.command
}

// HasNodeIPAM reports whether the official external manager of a provider can allocate pod CIDRs.
func HasNodeIPAM(provider string) bool { return nodeIPAM[provider] }

// RoutingCNI returns the name of the CNI plugin in an image. It is empty unless the plugin, with these flags, reaches
// pods on other nodes without routes in the cloud.
func RoutingCNI(image string, flags map[string]string) string {
	for _, cni := range routingCNIs {
		if strings.Contains(image, cni.image) {
			if cni.offFlag != "" && flags[cni.offFlag] == "false" {
				return ""
			}
			return cni.name
		}
	}
	return ""
}

// AWSInstanceID is the last element of aws:///<zone>/<instance id>; empty for anything else.
func AWSInstanceID(providerID string) string {
	id := providerID[strings.LastIndex(providerID, "/")+1:]
	if strings.HasPrefix(providerID, AWS+":") && strings.HasPrefix(id, "i-") {
		return id
	}
	return ""
}
