package cloudprovider

// Names of providers that a plan has to tell apart.
const (
	AWS       = "aws"
	Azure     = "azure"
	GCE       = "gce"
	OpenStack = "openstack"
	VSphere   = "vsphere"
)
