package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

// cluster of a provider and version, and what a test makes of it.
func cluster(provider, version string, edits ...func(*kubermatic.Cluster)) *kubermatic.Cluster {
	c := &kubermatic.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "crh4xbxz5f"},
		Spec:       kubermatic.ClusterSpec{Version: version, Cloud: kubermatic.CloudSpec{ProviderName: provider}, Features: map[string]bool{}},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func feature(name string, on bool) func(*kubermatic.Cluster) {
	return func(c *kubermatic.Cluster) { c.Spec.Features[name] = on }
}

var (
	on        = feature(kubermatic.FeatureExternalCloudProvider, true)
	off       = feature(kubermatic.FeatureExternalCloudProvider, false)
	annotated = func(c *kubermatic.Cluster) {
		c.Annotations = map[string]string{kubermatic.CCMMigrationNeeded: "", kubermatic.CSIMigrationNeeded: ""}
	}
	completed = func(c *kubermatic.Cluster) {
		c.Status.Conditions = kubermatic.ClusterConditions{kubermatic.ConditionCSIKubeletMigrationCompleted: {Status: corev1.ConditionTrue}}
	}
	runs = func(v string) func(*kubermatic.Cluster) {
		return func(c *kubermatic.Cluster) { c.Status.Versions = &kubermatic.ClusterVersions{ControlPlane: v} }
	}
	noCSI   = func(c *kubermatic.Cluster) { c.Spec.DisableCSIDriver = true }
	octavia = func(use bool) func(*kubermatic.Cluster) {
		return func(c *kubermatic.Cluster) {
			c.Spec.Cloud.Openstack = &kubermatic.OpenstackSpec{UseOctavia: ptr.To(use)}
		}
	}
	network  = func(c *kubermatic.Cluster) { c.Spec.Cloud.Hetzner = &kubermatic.HetznerSpec{Network: "n"} }
	deleting = func(c *kubermatic.Cluster) { c.DeletionTimestamp = &metav1.Time{} }
	inUse    = func(status corev1.ConditionStatus) func(*kubermatic.Cluster) {
		return func(c *kubermatic.Cluster) {
			c.Status.Conditions = kubermatic.ClusterConditions{kubermatic.ConditionCSIAddonInUse: {Status: status, Reason: "PVs"}}
		}
	}
)

func TestWhichProvidersAndVersionsHaveAnExternalProvider(t *testing.T) {
	telekom := Facts{Datacenter: &Datacenter{OpenStackAuthURL: "https://iam.eu-de.otc.t-systems.com/v3"}}
	for name, test := range map[string]struct {
		cluster *kubermatic.Cluster
		facts   Facts
		yes     bool
		unknown bool
		why     string
	}{
		"aws":                                        {cluster: cluster("aws", "v1.26.0"), yes: true},
		"azure without a v":                          {cluster: cluster("azure", "1.26.0"), yes: true},
		"vsphere":                                    {cluster: cluster("vsphere", "1.24.0"), yes: true},
		"google before it had an image":              {cluster: cluster("gcp", "1.24.0"), why: "no cloud-controller-manager for Google Cloud was published for Kubernetes 1.24"},
		"google, upgrading to one that has":          {cluster: cluster("gcp", "1.26.0", runs("1.25.4")), why: "for Kubernetes 1.25"},
		"google":                                     {cluster: cluster("gcp", "1.26.0"), yes: true},
		"newer than the catalogue":                   {cluster: cluster("aws", "1.60.0"), yes: true},
		"openstack":                                  {cluster: cluster("openstack", "1.25.0"), yes: true},
		"open telekom cloud":                         {cluster: cluster("openstack", "1.25.0"), facts: telekom, why: "#960"},
		"vsphere in a datacenter of telekom's":       {cluster: cluster("vsphere", "1.24.0"), facts: telekom, yes: true},
		"hetzner with its network":                   {cluster: cluster("hetzner", "1.26.0", network), yes: true},
		"hetzner with its datacenter's":              {cluster: cluster("hetzner", "1.26.0"), facts: Facts{Datacenter: &Datacenter{HetznerNetwork: "n"}}, yes: true},
		"hetzner without":                            {cluster: cluster("hetzner", "1.26.0"), facts: Facts{Datacenter: &Datacenter{}}, why: "names a network"},
		"hetzner in a datacenter that nobody knows":  {cluster: cluster("hetzner", "1.26.0"), unknown: true, why: "datacenter known"},
		"never in tree":                              {cluster: cluster("kubevirt", "1.26.0"), yes: true},
		"no such thing":                              {cluster: cluster("baremetal", "1.26.0"), why: `provider "baremetal"`},
		"no cloud at all":                            {cluster: cluster("", "1.26.0"), unknown: true, why: "spec.cloud.providerName"},
		"the one provider with settings":             {cluster: cluster("", "1.26.0", func(c *kubermatic.Cluster) { c.Spec.Cloud.AWS = &kubermatic.ProviderSpec{} }), yes: true},
		"no version":                                 {cluster: cluster("aws", ""), yes: true},
		"the guide's: vsphere 1.22 with driver 2.3":  {cluster: cluster("vsphere", "1.22.0"), facts: Facts{VSphereCSI: "v2.3.0"}, why: "release 2.3 of the vSphere CSI driver supports Kubernetes 1.19 to 1.21, not 1.22"},
		"vsphere 1.21 with driver 2.3":               {cluster: cluster("vsphere", "1.21.3"), facts: Facts{VSphereCSI: "v2.3.0"}, yes: true},
		"vsphere 1.22 with driver 2.4":               {cluster: cluster("vsphere", "1.22.0"), facts: Facts{VSphereCSI: "v2.4.1"}, yes: true},
		"vsphere too old for its driver":             {cluster: cluster("vsphere", "1.20.0"), facts: Facts{VSphereCSI: "2.7.0"}, why: "1.23 to 1.25, not 1.20"},
		"vsphere 1.22, driver 2.3 left out":          {cluster: cluster("vsphere", "1.22.0", noCSI), facts: Facts{VSphereCSI: "v2.3.0"}, yes: true},
		"vsphere on its way to 1.22 with driver 2.3": {cluster: cluster("vsphere", "1.22.0", runs("1.21.9")), facts: Facts{VSphereCSI: "v2.3.0"}, why: "not 1.22"},
		"vsphere, the newest that a driver supports": {cluster: cluster("vsphere", "1.36.1"), yes: true},
		"vsphere beyond every driver":                {cluster: cluster("vsphere", "1.37.0"), why: "no release of the vSphere CSI driver is known here that supports Kubernetes 1.37 (release 3.8 of the vSphere CSI driver supports Kubernetes 1.34 to 1.36)"},
		"vsphere on its way beyond every driver":     {cluster: cluster("vsphere", "1.37.0", runs("1.36.1")), why: "supports Kubernetes 1.37"},
		"vsphere beyond every driver, left out":      {cluster: cluster("vsphere", "1.37.0", noCSI), yes: true},
		"vsphere beyond every driver, by datacenter": {cluster: cluster("vsphere", "1.37.0"), facts: Facts{Datacenter: &Datacenter{DisableCSIDriver: true}}, yes: true},
		"a release that nobody knows":                {cluster: cluster("vsphere", "1.30.0"), facts: Facts{VSphereCSI: "v3.1.2"}, yes: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := External(test.cluster, test.facts)
			if got.Yes != test.yes || got.Unknown != test.unknown || !strings.Contains(got.Why, test.why) || got.Yes == (got.Why != "") {
				t.Errorf("%+v, want yes %t, unknown %t, why ...%s...", got, test.yes, test.unknown, test.why)
			}
		})
	}
}

func TestWhatANewClusterGets(t *testing.T) {
	ext, name, id := kubermatic.FeatureExternalCloudProvider, kubermatic.FeatureCCMClusterName, kubermatic.FeatureVSphereCSIClusterID
	for title, test := range map[string]struct {
		cluster *kubermatic.Cluster
		facts   Facts
		want    Addition
		warns   bool
	}{
		"the default":               {cluster: cluster("aws", "1.26.0"), want: Addition{Features: []string{ext, name}}},
		"true":                      {cluster: cluster("aws", "1.26.0", on), want: Addition{Features: []string{name}}},
		"an explicit false":         {cluster: cluster("aws", "1.26.0", off)},
		"a cluster name of its own": {cluster: cluster("aws", "1.26.0", feature(name, false)), want: Addition{Features: []string{ext}}},
		"vsphere":                   {cluster: cluster("vsphere", "1.24.0"), want: Addition{Features: []string{ext, id}}},
		"hetzner":                   {cluster: cluster("hetzner", "1.26.0", network), want: Addition{Features: []string{ext}}},
		"no provider":               {cluster: cluster("", "")},
		"no provider, but true":     {cluster: cluster("", "", on), warns: true},
		"unsupported":               {cluster: cluster("nutanix", "1.26.0")},
		"a datacenter without CSI":  {cluster: cluster("nutanix", "1.26.0"), facts: Facts{Datacenter: &Datacenter{DisableCSIDriver: true}}, want: Addition{DisableCSIDriver: true}},
	} {
		t.Run(title, func(t *testing.T) {
			got := OnCreate(test.cluster, test.facts)
			if (len(got.Warnings) > 0) != test.warns {
				t.Errorf("warnings: %q", got.Warnings)
			}
			got.Warnings = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var both = []string{kubermatic.CCMMigrationNeeded, kubermatic.CSIMigrationNeeded}

func TestWhatEnablingTheFeatureAdds(t *testing.T) {
	for name, test := range map[string]struct {
		before, after *kubermatic.Cluster
		facts         Facts
		want          Addition
		warns         bool
	}{
		"for the first time":           {before: cluster("aws", "1.26.0"), after: cluster("aws", "1.26.0", on), want: Addition{Annotations: both}},
		"after an explicit false":      {before: cluster("azure", "1.26.0", off), after: cluster("azure", "1.26.0", on), want: Addition{Annotations: both}},
		"without the CSI driver, too":  {before: cluster("gcp", "1.26.0"), after: cluster("gcp", "1.26.0", on, noCSI), want: Addition{Annotations: both}},
		"on a provider never in tree":  {before: cluster("hetzner", "1.26.0"), after: cluster("hetzner", "1.26.0", on, network)},
		"where it is not supported":    {before: cluster("nutanix", "1.26.0"), after: cluster("nutanix", "1.26.0", on)},
		"where nobody knows the cloud": {before: cluster("", "1.26.0"), after: cluster("", "1.26.0", on), warns: true},
		"again":                        {before: cluster("aws", "1.26.0", on), after: cluster("aws", "1.26.0", on)},
		"with Octavia":                 {before: cluster("openstack", "1.25.0"), after: cluster("openstack", "1.25.0", on), want: Addition{Annotations: both, UseOctavia: true}},
		"with Octavia there already":   {before: cluster("openstack", "1.25.0"), after: cluster("openstack", "1.25.0", on, octavia(true)), want: Addition{Annotations: both}},
		"with Neutron": {
			before: cluster("openstack", "1.25.0"),
			after:  cluster("openstack", "1.25.0", on, octavia(false)),
			want:   Addition{Annotations: both, UseOctavia: true},
			warns:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := OnUpdate(test.before, test.after, test.facts)
			if (len(got.Warnings) > 0) != test.warns {
				t.Errorf("warnings: %q", got.Warnings)
			}
			got.Warnings = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFeatureThatWasEnabledPastTheWebhookIsRepairedOnEvidence(t *testing.T) {
	inTree := Facts{RunsInTree: true}
	for name, test := range map[string]struct {
		cluster *kubermatic.Cluster
		facts   Facts
		want    Addition
	}{
		"seen in tree":     {cluster: cluster("aws", "1.26.0", on), facts: inTree, want: Addition{Annotations: both}},
		"not seen in tree": {cluster: cluster("aws", "1.26.0", on)},
		"off":              {cluster: cluster("aws", "1.26.0", off), facts: inTree},
		"annotated":        {cluster: cluster("aws", "1.26.0", on, annotated), facts: inTree},
		"half annotated": {
			cluster: cluster("aws", "1.26.0", on, func(c *kubermatic.Cluster) { c.Annotations = map[string]string{kubermatic.CCMMigrationNeeded: ""} }),
			facts:   inTree,
			want:    Addition{Annotations: []string{kubermatic.CSIMigrationNeeded}},
		},
		"over":                    {cluster: cluster("aws", "1.26.0", on, completed), facts: inTree},
		"where it cannot be done": {cluster: cluster("gcp", "1.24.0", on), facts: inTree},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Repair(test.cluster, test.facts)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheProvidersAreThoseOfTheCatalogue(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Providers {
		if names[p.Name] {
			t.Errorf("%s is there twice", p.Name)
		}
		names[p.Name] = true
		if _, ok := cloudprovider.Lookup(p.InTree); p.InTree != "" && !ok {
			t.Errorf("%s was in tree as %s, which the catalogue does not know", p.Name, p.InTree)
		}
	}
	if !slices.IsSortedFunc(Providers, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the providers are not sorted")
	}
	for _, end := range InTreeEnds {
		p, ok := Lookup(end.Provider)
		if !ok && end.Provider != "" {
			t.Errorf("no provider %q", end.Provider)
		}
		if last, known := cloudprovider.Lookup(p.InTree); known && end.Minor > last.LastInTree+1 {
			t.Errorf("%s may go to 1.%d in tree, and 1.%d was the last with it", p.Name, end.Minor-1, last.LastInTree)
		}
	}
}
