// Package rules decides what a Cluster may say and what that means. It judges whether its provider and version have an
// external cloud provider, which changes are refused and why, and what enabling the feature adds.
//
// It is pure, and called in three places: the webhook that completes a Cluster, the one that refuses it, and the
// operator before each migration. The webhooks may be away; what slips past them is refused by the operator then, in
// the same words. Data is in data.go, each row with its source.
package rules

import (
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
)

// Facts are what the rules look at next to the Cluster itself. The zero value means that nothing is known; no rule
// refuses anything for what is not known.
type Facts struct {
	// Datacenter of the cluster; nil when it is not known.
	Datacenter *Datacenter
	// OtherGroups in which a Cluster of the same name exists, "kubermatic.k8s.io" for example.
	OtherGroups []string
	// VSphereCSI is the version of vSphere's CSI driver that clusters get, v2.3.0 for example. Empty means any release
	// that is known to support the minor.
	VSphereCSI string
	// Driver reports whether a release of the CSI driver of a provider, as --cloud-provider names it, is known for a
	// minor. It is nil if that is not known.
	Driver func(provider string, minor int) bool
	// RunsInTree reports whether the control plane of the cluster was seen with an in-tree cloud provider.
	RunsInTree bool
}

// Datacenter is what a seed says of a datacenter, as far as the rules go.
type Datacenter struct {
	// DisableCSIDriver keeps the CSI driver out of every cluster there.
	DisableCSIDriver bool
	// OpenStackAuthURL is the address of the identity service.
	OpenStackAuthURL string
	// HetznerNetwork is the network of clusters that name none.
	HetznerNetwork string
}

// Supported is an answer with its reason.
type Supported struct {
	Yes bool
	// Unknown reports whether the Cluster says too little to be judged, as one without any cloud does. Yes is false then.
	Unknown bool
	// Why not, or why it is not known: a clause.
	Why string
}

// ProviderOf names the cloud of a Cluster: its providerName, or else the one provider that has settings; empty when it
// names none, or several.
func ProviderOf(cloud kubermatic.CloudSpec) string {
	if cloud.ProviderName != "" {
		return cloud.ProviderName
	}
	if given := configuredProviders(cloud); len(given) == 1 {
		return given[0]
	}
	return ""
}

// configuredProviders are the providers that have settings, sorted.
func configuredProviders(cloud kubermatic.CloudSpec) []string {
	var out []string
	for _, p := range []struct {
		name  string
		given bool
	}{
		{"anexia", cloud.Anexia != nil}, {"aws", cloud.AWS != nil}, {"azure", cloud.Azure != nil}, {
			"digitalocean", cloud.Digitalocean != nil,
		},
		{"gcp", cloud.GCP != nil}, {"hetzner", cloud.Hetzner != nil}, {"kubevirt", cloud.Kubevirt != nil}, {
			"openstack", cloud.Openstack != nil,
		},
		{"vsphere", cloud.VSphere != nil},
	} {
		if p.given {
			out = append(out, p.name)
		}
	}
	return out
}

// Lookup returns a provider by the value of spec.cloud.providerName.
func Lookup(name string) (Provider, bool) {
	i := slices.IndexFunc(Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return Providers[i], true
}

// Installs reports whether the operator has a cloud-controller-manager for the provider of a Cluster: for those that
// were in tree once. A cluster of another provider that was made external gets its manager from elsewhere.
func Installs(c *kubermatic.Cluster) bool {
	p, _ := Lookup(ProviderOf(c.Spec.Cloud))
	return p.InTree != ""
}

// Enabled is the Cluster as it would be with the external provider enabled.
func Enabled(c *kubermatic.Cluster) *kubermatic.Cluster {
	c = c.DeepCopy()
	if c.Spec.Features == nil {
		c.Spec.Features = map[string]bool{}
	}
	c.Spec.Features[kubermatic.FeatureExternalCloudProvider] = true
	return c
}

// External reports whether a Cluster can be run by an external cloud provider.
func External(c *kubermatic.Cluster, facts Facts) Supported {
	name := ProviderOf(c.Spec.Cloud)
	if name == "" {
		return Supported{Unknown: true, Why: "the cluster does not say which cloud it is in (spec.cloud.providerName)"}
	}
	provider, ok := Lookup(name)
	if !ok {
		return Supported{Why: fmt.Sprintf("there is no external cloud-controller-manager for the provider %q", name)}
	}
	for _, rule := range []func(*kubermatic.Cluster, Provider, Facts) Supported{
		telekom, hetznerNetwork, controllerManager, driver,
	} {
		if answer := rule(c, provider, facts); !answer.Yes {
			return answer
		}
	}
	return Supported{Yes: true}
}

// telekom: load balancers cannot be made there by the external provider.
func telekom(_ *kubermatic.Cluster, p Provider, facts Facts) Supported {
	if p.Name != "openstack" || facts.Datacenter == nil {
		return Supported{Yes: true}
	}
	if u, err := url.Parse(facts.Datacenter.OpenStackAuthURL); err != nil || u.Host != telekomHost {
		return Supported{Yes: true}
	}
	return Supported{
		Why: "the external provider makes no load balancers in Open Telekom Cloud (kubernetes/cloud-provider-openstack #960)",
	}
}

// hetznerNetwork: the external provider of Hetzner Cloud needs one.
func hetznerNetwork(c *kubermatic.Cluster, p Provider, facts Facts) Supported {
	switch {
	case p.Name != "hetzner", c.Spec.Cloud.Hetzner != nil && c.Spec.Cloud.Hetzner.Network != "":
		return Supported{Yes: true}
	case facts.Datacenter == nil:
		return Supported{Unknown: true, Why: "neither the cluster names a network, nor is its datacenter known, which may"}
	case facts.Datacenter.HetznerNetwork != "":
		return Supported{Yes: true}
	}
	return Supported{
		Why: "neither the cluster nor its datacenter names a network, without which Hetzner's cloud-controller-manager does not start",
	}
}

// DriverWanted reports whether a cluster is to have its provider's CSI driver. It is, unless the cluster or its
// datacenter excludes it; the datacenter is nil when it is not known.
func DriverWanted(c *kubermatic.Cluster, d *Datacenter) bool {
	return !c.Spec.CSIDriverDisabled() && (d == nil || !d.DisableCSIDriver)
}

// driverMissing says why the volumes of a cluster could not be moved to a CSI driver. After the handover its machines
// would wait for one without end. It is no matter of clusters that never were in tree, whose drivers are their owners'.
func driverMissing(c *kubermatic.Cluster, facts Facts) string {
	p, ok := Lookup(ProviderOf(c.Spec.Cloud))
	if !ok || p.InTree == "" || facts.Driver == nil || !DriverWanted(c, facts.Datacenter) {
		return ""
	}
	for _, minor := range minors(c) {
		if !facts.Driver(p.InTree, minor) {
			return fmt.Sprintf(
				"no release of the CSI driver of %s is known here for Kubernetes 1.%d: install one yourself and set spec.disableCsiDriver",
				p.Title,
				minor,
			)
		}
	}
	return ""
}

// controllerManager: as long as a version has the in-tree provider, a migration needs a cloud-controller-manager of
// that version.
func controllerManager(c *kubermatic.Cluster, p Provider, _ Facts) Supported {
	if p.InTree == "" {
		return Supported{Yes: true}
	}
	for _, minor := range minors(c) {
		if _, ok := cloudprovider.ImageFor(p.InTree, minor); !ok && catalogue.InTree(p.InTree, minor) {
			return Supported{
				Why: fmt.Sprintf("no cloud-controller-manager for %s was published for Kubernetes 1.%d", p.Title, minor),
			}
		}
	}
	return Supported{Yes: true}
}

// driver: vSphere's is the only CSI driver that says up to which minor of Kubernetes it goes. Without its driver no
// volume of such a cluster is attached. Where the release is not given, any one counts that is known to support the
// minor.
func driver(c *kubermatic.Cluster, p Provider, facts Facts) Supported {
	if p.Name != "vsphere" || !DriverWanted(c, facts.Datacenter) {
		return Supported{Yes: true}
	}
	known, _ := csidriver.DriverOf(vSphereDriver)
	releases := known.Releases
	if facts.VSphereCSI != "" {
		release, ok := known.Release(facts.VSphereCSI)
		if !ok {
			return Supported{Yes: true}
		}
		releases = []csidriver.DriverRelease{release}
	}
	for _, minor := range minors(c) {
		if slices.ContainsFunc(releases, func(r csidriver.DriverRelease) bool { return r.Supports(minor) }) {
			continue
		}
		newest := releases[len(releases)-1]
		bounds := fmt.Sprintf(
			"release %s of the vSphere CSI driver supports Kubernetes 1.%d to 1.%d",
			newest.Series,
			newest.Oldest,
			newest.Newest,
		)
		if facts.VSphereCSI == "" {
			return Supported{
				Why: fmt.Sprintf(
					"no release of the vSphere CSI driver is known here that supports Kubernetes 1.%d (%s): install one yourself and set spec.disableCsiDriver",
					minor,
					bounds,
				),
			}
		}
		return Supported{Why: fmt.Sprintf("%s, not 1.%d", bounds, minor)}
	}
	return Supported{Yes: true}
}

// minors that the cluster has and is to have: spec.version may say 1.27 while the control plane is at 1.26 still.
func minors(c *kubermatic.Cluster) []int {
	var out []int
	wanted, running := MinorOf(c.Spec.Version), 0
	if c.Status.Versions != nil {
		running = MinorOf(c.Status.Versions.ControlPlane)
	}
	for _, minor := range []int{running, wanted} {
		if minor > 0 && !slices.Contains(out, minor) {
			out = append(out, minor)
		}
	}
	return out
}

// MinorOf is 26 for v1.26.3; 0 for what is no version of Kubernetes.
func MinorOf(v string) int {
	parsed, err := version.ParseGeneric(v)
	if err != nil || parsed.Major() != 1 {
		return 0
	}
	return int(parsed.Minor())
}

// inTreeEnd says from which minor on, and why, a cluster of a provider needs the external cloud provider. It is false
// when the minor is before that.
func inTreeEnd(p Provider, minor int) (InTreeEnd, bool) {
	if p.InTree == "" || minor == 0 {
		return InTreeEnd{}, false
	}
	i := slices.IndexFunc(
		InTreeEnds,
		func(e InTreeEnd) bool { return (e.Provider == "" || e.Provider == p.Name) && minor >= e.Minor },
	)
	if i < 0 {
		return InTreeEnd{}, false
	}
	return InTreeEnds[i], true
}

var featurePath = field.NewPath("spec", "features").Key(kubermatic.FeatureExternalCloudProvider)
