package catalogue

// providers: the last minors are those of the removals, kubernetes/kubernetes #67782 (openstack, 1.26), #115838 (aws, 1.27), #121355 (azure),
// #122937 (vsphere), #124519 (gce), each counted as the last minor that still has the code.
var providers = []Provider{
	{
		Name: "aws", Title: "Amazon Web Services", LastInTree: 26, Routes: true, LoadBalancers: true,
		Plugins: []VolumePlugin{
			{Name: "kubernetes.io/aws-ebs", Driver: "ebs.csi.aws.com", MigrationGate: "CSIMigrationAWS", UnregisterGate: "InTreePluginAWSUnregister"},
		},
		Credentials: &CredentialProvider{Binary: "ecr-credential-provider", MatchImages: []string{
			"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr.ecr.us-iso-east-1.c2s.ic.gov", "*.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
		}},
	},
	{
		Name: "azure", Title: "Microsoft Azure", LastInTree: 29, Routes: true, LoadBalancers: true,
		Plugins: []VolumePlugin{
			{Name: "kubernetes.io/azure-disk", Driver: "disk.csi.azure.com", MigrationGate: "CSIMigrationAzureDisk", UnregisterGate: "InTreePluginAzureDiskUnregister"},
			{Name: "kubernetes.io/azure-file", Driver: "file.csi.azure.com", MigrationGate: "CSIMigrationAzureFile", UnregisterGate: "InTreePluginAzureFileUnregister"},
		},
		Credentials: &CredentialProvider{Binary: "acr-credential-provider", MatchImages: []string{"*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"}, Args: []string{"/etc/kubernetes/azure.json"}},
	},
	{Name: "cloudstack", Title: "Apache CloudStack", LastInTree: 15, Unsupported: "its in-tree provider left with Kubernetes 1.16, before any version that this tool migrates"},
	{
		Name: "gce", Title: "Google Compute Engine", LastInTree: 30, Routes: true, LoadBalancers: true,
		Plugins: []VolumePlugin{
			{Name: "kubernetes.io/gce-pd", Driver: "pd.csi.storage.gke.io", MigrationGate: "CSIMigrationGCE", UnregisterGate: "InTreePluginGCEUnregister"},
		},
		Credentials: &CredentialProvider{Binary: "auth-provider-gcp", Args: []string{"get-credentials", "--v=3"}, MatchImages: []string{
			"container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev",
		}},
	},
	{
		Name: "openstack", Title: "OpenStack", LastInTree: 25, Routes: true, LoadBalancers: true,
		Plugins: []VolumePlugin{
			{Name: "kubernetes.io/cinder", Driver: "cinder.csi.openstack.org", MigrationGate: "CSIMigrationOpenStack", UnregisterGate: "InTreePluginOpenStackUnregister"},
		},
	},
	{Name: "ovirt", Title: "oVirt", LastInTree: 15, Unsupported: "its in-tree provider left with Kubernetes 1.16, before any version that this tool migrates"},
	{Name: "photon", Title: "VMware Photon", LastInTree: 15, Unsupported: "its in-tree provider left with Kubernetes 1.16, and its platform was ended"},
	{
		Name: "vsphere", Title: "VMware vSphere", LastInTree: 29,
		Plugins: []VolumePlugin{
			{Name: "kubernetes.io/vsphere-volume", Driver: "csi.vsphere.vmware.com", MigrationGate: "CSIMigrationvSphere", UnregisterGate: "InTreePluginvSphereUnregister"},
		},
	},
}
