package cloudprovider

import (
	"cmp"

	"github.com/transplant-dev/transplant/internal/english"
)

// Names of providers that a plan has to tell apart.
const (
	AWS       = "aws"
	Azure     = "azure"
	GCE       = "gce"
	OpenStack = "openstack"
	VSphere   = "vsphere"
)

// shortNames are what people call the clouds.
var shortNames = map[string]string{AWS: "AWS", Azure: "Azure", GCE: "GCE", OpenStack: "OpenStack", VSphere: "vSphere"}

// ShortName is what people call the cloud of a provider.
func ShortName(provider string) string { return cmp.Or(shortNames[provider], provider) }

// Enumerate joins the short names of providers with commas, and the last one with a word such as "or".
func Enumerate(word string, providers []string) string {
	var names []string
	for _, p := range providers {
		names = append(names, ShortName(p))
	}
	return english.Series(word, names)
}
