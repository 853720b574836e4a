package cloudprovider

import (
	"path"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
)

// providers. The last minors are those whose source still imports the code. That is pkg/cloudprovider/providers and the
// directories of k8s.io/legacy-cloud-providers of v1.20.0 to v1.31.0. (Removals: kubernetes/kubernetes #67782
// openstack, #115838 aws, #121355 azure, #122937 vsphere, #124519 gce.) Volume plugins are by
// cmd/kube-controller-manager/app/plugins_providers.go, the kubelet's credentials by pkg/credentialprovider. Where
// binaries come from is by pkg/nodemodel/fileassets.go of kubernetes/kops and .github/workflows/release.yaml of
// kubernetes-sigs/cloud-provider-azure. Node names, loops and the metadata service by the packages of
// legacy-cloud-providers and of each external provider.
//
// What they do without a cloud config is by readAWSCloudConfig, generateCloudConfig of gce, and NewCloud and
// InitializeCloudFromConfig of azure. For the others it is by ReadConfig of openstack and the registration in
// vsphere.go. They were read in legacy-cloud-providers v0.20 to v0.30 and in each external provider.
var providers = []Provider{
	{
		Name:           "aws",
		Title:          "Amazon Web Services",
		LastInTree:     26,
		Routes:         true,
		LoadBalancers:  true,
		ConfigFormat:   "ini",
		ExternalFormat: "ini",
		NeedsClusterID: true,
		ConfigOptional: true,
		WithoutConfig:  "each manager takes its region, zone and VPC from the metadata service of its instance, and the cluster from that instance's tags",
		Plugins: []VolumePlugin{
			{
				Name:           "kubernetes.io/aws-ebs",
				Driver:         "ebs.csi.aws.com",
				MigrationGate:  "CSIMigrationAWS",
				UnregisterGate: "InTreePluginAWSUnregister",
				CompleteGate:   "CSIMigrationAWSComplete",
				LastInTree:     26,
				LimitResource:  "attachable-volumes-aws-ebs",
			},
		},
		Credentials: &CredentialProvider{
			Binary:     "ecr-credential-provider",
			LastInTree: 26,
			// The patterns of docs/credential_provider.md of cloud-provider-aws, and registries of the GovCloud and isolated
			// partitions that the in-tree provider matched (pkg/credentialprovider/aws/aws_credentials.go).
			MatchImages: []string{
				"*.dkr.ecr.*.amazonaws.com",
				"*.dkr.ecr.*.amazonaws.com.cn",
				"*.dkr.ecr-fips.*.amazonaws.com",
				"*.dkr.ecr.us-iso-east-1.c2s.ic.gov",
				"*.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
			},
			Source: "https://artifacts.k8s.io/binaries/cloud-provider-aws/<version>/linux/<arch>/ecr-credential-provider-linux-<arch>",
		},
		NodeName:       "the private DNS name of the instance, which a node keeps that has its providerID",
		Metadata:       "the kubelet reads its name, addresses, zone and type there, and each manager the zone and the VPC of its own instance",
		BalancerName:   "from the Service's uid; the cluster's name is of no account",
		KindAnnotation: "service.beta.kubernetes.io/aws-load-balancer-type",
		NoMetadata:     "AWS_EC2_METADATA_DISABLED",
		ProviderID:     "aws:///{zone}/{instance}",
		ClusterMark:    "the tag kubernetes.io/cluster/<id> (owned or shared), or KubernetesCluster, on instances, security groups, route tables and subnets",
	},
	{
		Name:           "azure",
		Title:          "Microsoft Azure",
		LastInTree:     29,
		Routes:         true,
		LoadBalancers:  true,
		ConfigFormat:   "json",
		ExternalFormat: "json",
		WithoutConfig:  "the in-tree manager reads Secret kube-system/azure-cloud-provider, which the external one does not do by itself",
		Plugins: []VolumePlugin{
			{
				Name:           "kubernetes.io/azure-disk",
				Driver:         "disk.csi.azure.com",
				MigrationGate:  "CSIMigrationAzureDisk",
				UnregisterGate: "InTreePluginAzureDiskUnregister",
				CompleteGate:   "CSIMigrationAzureDiskComplete",
				LastInTree:     26,
				LimitResource:  "attachable-volumes-azure-disk",
			},
			{
				Name:           "kubernetes.io/azure-file",
				Driver:         "file.csi.azure.com",
				MigrationGate:  "CSIMigrationAzureFile",
				UnregisterGate: "InTreePluginAzureFileUnregister",
				CompleteGate:   "CSIMigrationAzureFileComplete",
				LastInTree:     29,
			},
		},
		Credentials: &CredentialProvider{
			Binary:      "acr-credential-provider",
			LastInTree:  29,
			Args:        []string{"/etc/kubernetes/azure.json"},
			TakesConfig: true,
			MatchImages: []string{"*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"},
			Source:      "https://github.com/kubernetes-sigs/cloud-provider-azure/releases/download/<version>/azure-acr-credential-provider-linux-<arch>",
		},
		NodeName:    "the name of the virtual machine, or the computer name of an instance of a scale set, in lower case",
		Metadata:    "the kubelet reads its zone, type and addresses there when useInstanceMetadata is true, and every component its token when useManagedIdentityExtension is",
		Silent:      true,
		ServingPort: "10267",
		// Services with externalTrafficPolicy Local are followed by their endpoint slices (cloud-provider-azure
		// pkg/provider/azure_local_services.go).
		OfficialRights: []Right{{Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: reading}},
		NodeManager:    "cloud-node-manager, which takes the part of the cloud-node controller: without it new nodes keep the taint node.cloudprovider.kubernetes.io/uninitialized",
		BalancerName:   "the cluster's name (or the availability set's): with another --cluster-name every Service gets another load balancer and another address",
		ClusterMark:    "the tag k8s-azure-cluster-name on public addresses, and the resource group of the cloud config",
	},
	{
		Name: "cloudstack", Title: "Apache CloudStack", LastInTree: 15,
		Unsupported: "its in-tree provider left with Kubernetes 1.16, before any version that this tool migrates",
	},
	{
		Name:           "gce",
		Title:          "Google Compute Engine",
		LastInTree:     30,
		Routes:         true,
		LoadBalancers:  true,
		ConfigFormat:   "ini",
		ExternalFormat: "ini",
		ConfigOptional: true,
		WithoutConfig:  "each manager takes its project, zone and network from the metadata service of its instance",
		// pkg/controller/nodeipam/ipam: the three allocators that ask the cloud are built for GCE alone.
		Allocators: []string{component.CloudAllocator, "IPAMFromCluster", "IPAMFromCloud"},
		Plugins: []VolumePlugin{
			{
				Name:           "kubernetes.io/gce-pd",
				Driver:         "pd.csi.storage.gke.io",
				MigrationGate:  "CSIMigrationGCE",
				UnregisterGate: "InTreePluginGCEUnregister",
				CompleteGate:   "CSIMigrationGCEComplete",
				LastInTree:     27,
				LimitResource:  "attachable-volumes-gce-pd",
			},
		},
		Credentials: &CredentialProvider{
			// This project's own: upstream's auth-provider-gcp is no program of a module that can be had. It takes the same
			// argument, so that either binary can be given.
			Binary:      "gcr-credential-provider",
			Also:        []string{"auth-provider-gcp"},
			LastInTree:  30,
			Args:        []string{"get-credentials"},
			MatchImages: []string{"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"},
			Source:      "https://github.com/transplant-dev/transplant/releases/download/<version>/gcr-credential-provider-<version>-linux-<arch>.tar.gz",
		},
		NodeName:     "the name of the instance",
		Metadata:     "the kubelet reads its name and addresses there, and every component its token, its project and its zone where the cloud config names none",
		BalancerName: "from the Service's uid; the cluster's name is of no account",
		// It looks at this ConfigMap by its name (gce_clusterid.go) and would create with any name.
		SystemRights: []Right{
			{Resource: "configmaps", Verbs: append([]string{"update"}, reading...), Name: "ingress-uid"},
		},
		ShortNames:  true,
		Identity:    "ingress-uid",
		ClusterMark: "node-tags and node-instance-prefix of the cloud config, for firewall rules and instance groups",
	},
	{
		Name:           "openstack",
		Title:          "OpenStack",
		LastInTree:     25,
		Routes:         true,
		LoadBalancers:  true,
		ConfigFormat:   "ini",
		ExternalFormat: "ini",
		WithoutConfig:  "neither manager starts",
		Plugins: []VolumePlugin{
			{
				Name:           "kubernetes.io/cinder",
				Driver:         "cinder.csi.openstack.org",
				MigrationGate:  "CSIMigrationOpenStack",
				UnregisterGate: "InTreePluginOpenStackUnregister",
				CompleteGate:   "CSIMigrationOpenStackComplete",
				LastInTree:     25,
				LimitResource:  "attachable-volumes-cinder",
				Orphans:        "Cinder",
			},
		},
		NodeName:     "the name of the server, letter by letter, as long as the node has no providerID",
		Metadata:     "the kubelet reads its name, its server id and its zone there or on the config drive, in the order of [Metadata] search-order",
		BalancerName: "in tree from the Service's uid; outside from the cluster's name, namespace and name: the external manager finds the older ones by the uid",
		RouteKey:     "Route.router-id",
		OtherIDs:     "OS_CCM_REGIONAL",
		OldIDs:       "openstack:///",
		Balancers: Setting{
			Key: "LoadBalancer.use-octavia", Value: "true",
			Else: "they are Neutron's (use-octavia is not true in {file}), and the external provider knows Octavia's only",
		},
		ClusterMark: "the cluster's name in the description of load balancers and security groups",
	},
	{
		Name: "ovirt", Title: "oVirt", LastInTree: 15,
		Unsupported: "its in-tree provider left with Kubernetes 1.16, before any version that this tool migrates",
	},
	{
		Name: "photon", Title: "VMware Photon", LastInTree: 15,
		Unsupported: "its in-tree provider left with Kubernetes 1.16, and its platform was ended",
	},
	{
		Name:           "vsphere",
		Title:          "VMware vSphere",
		LastInTree:     29,
		ConfigFormat:   "ini",
		ExternalFormat: "yaml",
		WithoutConfig:  "the in-tree manager takes its machine for a worker and runs no cloud loop, and the external one does not start",
		Plugins: []VolumePlugin{
			{
				Name:           "kubernetes.io/vsphere-volume",
				Driver:         "csi.vsphere.vmware.com",
				MigrationGate:  "CSIMigrationvSphere",
				UnregisterGate: "InTreePluginvSphereUnregister",
				CompleteGate:   "CSIMigrationvSphereComplete",
				LastInTree:     28,
			},
		},
		NodeName:     "any: a virtual machine is found by the node's system UUID, or by its name as the guest's host name",
		BalancerName: "none: it has no load balancers",
		ReadsSecret:  true,
		ClusterMark:  "none; the CSI driver marks its disks with a cluster-id of its own config",
	},
}

// Provider is a cloud provider that was in tree once.
type Provider struct {
	// Name is the value of --cloud-provider.
	Name string
	// Title is how people call it.
	Title string
	// LastInTree is the last minor whose kube-controller-manager, kubelet and kube-apiserver have it.
	LastInTree int
	// Unsupported says why a cluster on it cannot be migrated with this tool; empty when it can.
	Unsupported string
	// Routes and LoadBalancers tell which loops next to the node lifecycle loop the in-tree provider has.
	Routes, LoadBalancers bool
	// Allocators are the values of --cidr-allocator-type whose node IPAM asks this cloud.
	Allocators []string
	// Plugins are its in-tree volume plugins.
	Plugins []VolumePlugin
	// Credentials is its image credential provider; nil when the in-tree kubelet had none.
	Credentials *CredentialProvider
	// NodeName says which name the external manager wants a node to have, a clause.
	NodeName string
	// Metadata says what of the in-tree provider asks the machine's metadata service, a clause; empty when nothing does.
	Metadata string
	// NodeManager names the manager that has to run on every node next to the official cloud-controller-manager, and what
	// for; empty when none has to.
	NodeManager string
	// BalancerName says how load balancers get their names, a clause.
	BalancerName string
	// ClusterMark says by which tag, label or name objects of the cloud belong to a cluster, a clause.
	ClusterMark string
	// NeedsClusterID reports whether the kube-controller-manager refuses to start when the provider finds no cluster,
	// unless --allow-untagged-cloud is set.
	NeedsClusterID bool
	// ConfigFormat of the cloud config, in tree and outside: ini, json or yaml.
	ConfigFormat, ExternalFormat string
	// ConfigOptional reports whether the in-tree and the external manager both run without --cloud-config.
	ConfigOptional bool
	// ServingPort is where its official manager serves; empty for the library's port.
	ServingPort string
	// NoMetadata is the variable that keeps its SDK from the metadata service of the instance; empty for none.
	NoMetadata string
	// ProviderID is how it writes the providerID of an instance of an inventory, with {zone} and {instance}; empty where
	// an inventory does not tell enough.
	ProviderID string
	// OtherIDs is the variable that has its manager look for providerIDs of another form than those that begin with
	// OldIDs; both are empty for none.
	OtherIDs, OldIDs string
	// Silent reports whether its official manager does not say on its /metrics which loops it runs.
	Silent bool
	// ShortNames reports whether a node whose name has a domain is found by the first part of it.
	ShortNames bool
	// KindAnnotation is the annotation of a Service that asks for a network load balancer with "nlb"; empty where there is
	// one kind.
	KindAnnotation string
	// RouteKey is the key of the cloud config without which it starts no route loop; empty where it always does.
	RouteKey string
	// Balancers is what the cloud config has to say for the external provider to know the load balancers made in tree.
	Balancers Setting
	// OfficialRights are what its official manager asks the API for next to the loops, in the whole cluster. Ours has no
	// informers of upstream's.
	OfficialRights []Right
	// SystemRights are what its own code asks for in kube-system, in either manager.
	SystemRights []Right
	// Identity is the ConfigMap of kube-system that names the cluster in the cloud; empty for none.
	Identity string
	// ReadsSecret reports whether its config may name a Secret with its credentials.
	ReadsSecret bool
	// WithoutConfig says what the managers do without --cloud-config, a clause.
	WithoutConfig string
}

// Setting is a key of a cloud config whose value decides something.
type Setting struct {
	// Key is written as section.key; empty for none.
	Key, Value string
	// Else says what follows from another value, a clause, with {file} for the cloud config.
	Else string
}

// Right is one on objects of the API.
type Right struct {
	// Group is empty for the core group.
	Group, Resource string
	Verbs           []string
	// Name is the one object that it is limited to; empty for all.
	Name string
}

// reading are the verbs of a client that follows objects.
var reading = []string{"get", "list", "watch"}

// VolumePlugin is an in-tree volume plugin and what takes its place.
type VolumePlugin struct {
	// Name is the plugin, e.g. kubernetes.io/aws-ebs, which is also the provisioner of its storage classes; Driver the CSI
	// driver, e.g. ebs.csi.aws.com.
	Name, Driver string
	// MigrationGate and UnregisterGate are the feature gates of KEP-625. CompleteGate is the one that 1.20 had in place of
	// the latter (vSphere: 1.21 too).
	MigrationGate, UnregisterGate, CompleteGate string
	// LastInTree is the last minor that has the plugin's code; later ones hand everything to the driver.
	LastInTree int
	// LimitResource is the node's attach limit under the in-tree plugin, which a node shows in its allocatable resources;
	// empty when it has none.
	LimitResource string
	// Orphans is where the disk of a deleted volume stays, unless the volume names the driver as its provisioner; empty
	// where it goes.
	Orphans string
}

// CredentialProvider is the kubelet's way to the provider's registry when the in-tree one is gone (KEP-2133).
type CredentialProvider struct {
	// Binary is the base name of the plugin, which is its name in the config.
	Binary string
	// Also are other programs that give the same credentials, by their names.
	Also []string
	// MatchImages are the patterns of images it has credentials for.
	MatchImages []string
	// Args are its arguments in the config.
	Args []string
	// TakesConfig reports whether the arguments are the path of the cloud config, which installers put elsewhere.
	TakesConfig bool
	// LastInTree is the last minor whose kubelet has its own.
	LastInTree int
	// Source is where official binaries come from.
	Source string
}

// Is reports whether a name in a kubelet's configuration is that of the binary, or of another one for the same.
func (c CredentialProvider) Is(name string) bool {
	return name == c.Binary || slices.Contains(c.Also, name)
}

// CoversRegistry reports whether it has credentials for the images of a registry.
func (c CredentialProvider) CoversRegistry(registry string) bool {
	return MatchesAnyImage(c.MatchImages, registry)
}

// MatchesAnyImage reports whether one of the patterns of matchImages matches a registry.
func MatchesAnyImage(patterns []string, registry string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return MatchesImage(pattern, registry) })
}

// MatchesImage reports whether the host of a pattern of matchImages matches a registry: part by part between the dots,
// as the kubelet does. A star stands for one part or some of one, never for a dot.
func MatchesImage(pattern, registry string) bool {
	pattern, _, _ = strings.Cut(strings.TrimPrefix(pattern, "https://"), "/")
	want, have := strings.Split(pattern, "."), strings.Split(registry, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// Providers are all former in-tree providers, sorted by name.
func Providers() []Provider { return slices.Clone(providers) }

// Lookup returns a provider by the value of --cloud-provider.
func Lookup(name string) (Provider, bool) {
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return providers[i], true
}

// PluginOf returns the in-tree volume plugin of a name, e.g. kubernetes.io/aws-ebs.
func PluginOf(name string) (VolumePlugin, Provider, bool) {
	for _, p := range providers {
		for _, v := range p.Plugins {
			if v.Name == name {
				return v, p, true
			}
		}
	}
	return VolumePlugin{}, Provider{}, false
}

// ProviderIDOf returns the providerID of an instance of an inventory; empty where that does not tell enough.
func (p Provider) ProviderIDOf(zone, instance string) string {
	if p.ProviderID == "" || instance == "" || zone == "" && strings.Contains(p.ProviderID, "{zone}") {
		return ""
	}
	return strings.NewReplacer("{zone}", zone, "{instance}", instance).Replace(p.ProviderID)
}
