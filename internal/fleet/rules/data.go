package rules

import kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"

// Provider is a cloud that a Cluster can name, and what an external cloud provider means there.
type Provider struct {
	// Name is the value of spec.cloud.providerName.
	Name string
	// InTree is the name of the in-tree provider, as internal/catalogue has it; empty when there never was one, so that
	// there is nothing to migrate.
	InTree string
	// NewFeatures are what new clusters get next to the feature of the external provider. A cluster that has run without
	// one keeps to that: load balancers and volumes carry the names that it has given them.
	NewFeatures []string
	// Title is how people call it.
	Title string
}

var clusterName = []string{kubermatic.FeatureCCMClusterName}

// Providers are those with an external cloud-controller-manager, sorted by name: pkg/resources/cloudcontroller.go of
// kubermatic/kubermatic. All others (alibaba, baremetal, bringyourown, edge, nutanix, vmwareclouddirector, ...) have
// none.
var Providers = []Provider{
	{Name: "anexia", Title: "Anexia"},
	{Name: "aws", InTree: "aws", NewFeatures: clusterName, Title: "AWS"},
	{Name: "azure", InTree: "azure", NewFeatures: clusterName, Title: "Azure"},
	{Name: "digitalocean", Title: "DigitalOcean"},
	{Name: "gcp", InTree: "gce", NewFeatures: clusterName, Title: "Google Cloud"},
	{Name: "hetzner", Title: "Hetzner Cloud"},
	{Name: "kubevirt", NewFeatures: clusterName, Title: "KubeVirt"},
	{Name: "openstack", InTree: "openstack", NewFeatures: clusterName, Title: "OpenStack"},
	{Name: "vsphere", InTree: "vsphere", NewFeatures: []string{kubermatic.FeatureVSphereCSIClusterID}, Title: "vSphere"},
}

// InTreeEnd is the first minor of Kubernetes that a cluster without the external cloud provider cannot have.
type InTreeEnd struct {
	// Provider is the value of spec.cloud.providerName; empty for all that were in tree once.
	Provider string
	// Minor is the first one.
	Minor int
	// Why is a clause.
	Why string
}

// InTreeEnds are ProviderIncompatibilities of kubermatic/kubermatic (pkg/defaulting/configuration.go of releases 2.22
// to 2.30), with what Kubernetes changed.
var InTreeEnds = []InTreeEnd{
	{
		Provider: "vsphere",
		Minor:    25,
		Why:      "Kubernetes 1.25 hands vSphere's volumes to the CSI driver (CSIMigrationvSphere is on by default)",
	},
	{
		Provider: "openstack",
		Minor:    26,
		Why:      "Kubernetes 1.26 has no in-tree provider for OpenStack any longer (kubernetes/kubernetes #67782)",
	},
	{
		Provider: "aws",
		Minor:    27,
		Why:      "Kubernetes 1.27 has no in-tree provider for AWS any longer (kubernetes/kubernetes #115838)",
	},
	{Minor: 29, Why: "Kubernetes 1.29 switches in-tree providers off (DisableCloudProviders is on by default)"},
}

// telekomHost is the identity service of Open Telekom Cloud, where load balancers of the external OpenStack provider
// cannot be made (kubernetes/cloud-provider-openstack #960).
const telekomHost = "iam.eu-de.otc.t-systems.com"

// vSphereDriver is the CSI driver whose releases bound the minors of Kubernetes on vSphere; internal/catalogue has
// them.
const vSphereDriver = "csi.vsphere.vmware.com"
