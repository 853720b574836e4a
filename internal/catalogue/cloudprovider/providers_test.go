package cloudprovider

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/component"
)

func TestProvidersAreSortedAndWhole(t *testing.T) {
	if !slices.IsSortedFunc(providers, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("providers are not sorted by name")
	}
	for _, p := range Providers() {
		if p.Title == "" || p.LastInTree == 0 {
			t.Errorf("%s: no title or no last minor", p.Name)
		}
		if (p.Unsupported != "") != (p.LastInTree < component.Oldest) {
			t.Errorf("%s left after 1.%d and is unsupported %q", p.Name, p.LastInTree, p.Unsupported)
		}
		if p.Unsupported != "" {
			continue
		}
		if p.NodeName == "" || p.BalancerName == "" || p.ClusterMark == "" || p.ConfigFormat == "" || p.ExternalFormat == "" || p.WithoutConfig == "" {
			t.Errorf("%s: a field is empty: %+v", p.Name, p)
		}
		if _, ok := ProviderIDForm(p.Name); !ok {
			t.Errorf("%s: no form of its providerIDs", p.Name)
		}
	}
}

// The README says first of all which version is the last one with each provider.
func TestTheReadmeNamesTheLastVersionOfEachProvider(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Providers() {
		if p.Unsupported != "" {
			continue
		}
		if want := fmt.Sprintf("%s 1.%d", ShortName(p.Name), p.LastInTree); ShortName(p.Name) == p.Name || !strings.Contains(string(readme), want) {
			t.Errorf("%s: the README does not say %q", p.Name, want)
		}
	}
}

func TestOurImageCoversWhatIsProven(t *testing.T) {
	first, last := proven.Minors()
	for provider, spans := range images {
		for _, s := range spans {
			if s.from != first || s.to != last || !s.Ours || !proven.Ours(s.Ref) {
				t.Errorf("%s: %+v, proven are 1.%d to 1.%d", provider, s, first, last)
			}
		}
	}
}

func TestOfficialImagesBelongToOneMinor(t *testing.T) {
	for provider, series := range official {
		last := 0
		for _, tag := range series.tags {
			if tag.minor <= last || !strings.HasPrefix(tag.tag, "v") {
				t.Errorf("%s: tag %+v is out of order", provider, tag)
			}
			last = tag.minor
			i, ok := OfficialImage(provider, tag.minor)
			if !ok || i.Ours || i.Minor != tag.minor || !strings.HasSuffix(i.Ref, ":"+tag.tag) || i.ReadyPath == "" {
				t.Errorf("%s 1.%d: %+v", provider, tag.minor, i)
			}
			if (provider == "azure") != (i.NodeManager != "") {
				t.Errorf("%s 1.%d: node manager %q", provider, tag.minor, i.NodeManager)
			}
			if HasNodeIPAM(provider) != i.NodeIPAM {
				t.Errorf("%s: two answers about node IPAM", provider)
			}
		}
	}
}

func TestAWordStandsForTheImageOfEachCluster(t *testing.T) {
	const own = "ghcr.io/transplant-dev/openstack-cloud-controller-manager:v0.1.0"
	for _, tt := range []struct {
		word, provider string
		minor          int
		want           string
	}{
		{Own, OpenStack, 26, own},
		{Own, OpenStack, 24, own},
		{Own, OpenStack, 23, ""},
		{Own, VSphere, 36, "ghcr.io/transplant-dev/vsphere-cloud-controller-manager:v0.1.0"},
		{Own, GCE, 30, "ghcr.io/transplant-dev/gce-cloud-controller-manager:v0.1.0"},
		{Own, Azure, 29, "ghcr.io/transplant-dev/azure-cloud-controller-manager:v0.1.0"},
		{Own, Azure, 23, ""},
		{Official, AWS, 26, "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.12"},
		{"", OpenStack, 26, "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.26.4"},
		{"", AWS, 26, "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
	} {
		got, ok, isWord := Chosen(tt.word, tt.provider, tt.minor)
		if got.Ref != tt.want || ok != (tt.want != "") || !isWord {
			t.Errorf("%q for %s 1.%d: %q", tt.word, tt.provider, tt.minor, got.Ref)
		}
		if tt.word != "" && ok && !StandsFor(tt.word, got.Ref) {
			t.Errorf("%q does not stand for %s", tt.word, got.Ref)
		}
	}
	if _, _, isWord := Chosen(own, OpenStack, 26); isWord || StandsFor(Official, own) || StandsFor(own, own) {
		t.Error("an image is taken for a word, or ours for an official one")
	}
}

func TestImages(t *testing.T) {
	tests := []struct {
		provider string
		minor    int
		want     string
	}{
		{"aws", 23, "registry.k8s.io/provider-aws/cloud-controller-manager:v1.23.20"},
		{"aws", 24, "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
		{"aws", 26, "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
		{"azure", 21, "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.0.23"},
		{"openstack", 23, "docker.io/k8scloudprovider/openstack-cloud-controller-manager:v1.23.0"},
		{"openstack", 25, "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.25.6"},
		{"vsphere", 30, "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.30.1"},
		{"gce", 30, "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v30.0.0"},
		{"gce", 25, ""},
		{"aws", 35, "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
		{"photon", 25, ""},
	}
	for _, tt := range tests {
		got, ok := ImageFor(tt.provider, tt.minor)
		if got.Ref != tt.want || ok != (tt.want != "") {
			t.Errorf("%s 1.%d: %q", tt.provider, tt.minor, got.Ref)
		}
	}
	if i, _ := OfficialImage(
		"azure",
		30,
	); i.NodeManager != "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.30.12" ||
		i.Controllers != "*,-cloud-node" {
		t.Errorf("azure: %+v", i)
	}
	if i, _ := OfficialImage("gce", 34); i.Command != nil {
		t.Errorf("gce 1.34 has the command %q of older images", i.Command)
	}
}

func TestAProviderIDOfAnInventory(t *testing.T) {
	for _, c := range []struct{ provider, zone, instance, want string }{
		{AWS, "us-east-1a", "i-1", "aws:///us-east-1a/i-1"},
		{AWS, "", "i-1", ""},
		{AWS, "us-east-1a", "", ""},
		{GCE, "z", "i", ""}, // the inventory does not tell the project
	} {
		p, ok := Lookup(c.provider)
		if got := p.ProviderIDOf(c.zone, c.instance); !ok || got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestPatternsOfImagesMatchAsInTheKubelet(t *testing.T) {
	for _, tc := range []struct {
		pattern, registry string
		want              bool
	}{
		{"*.dkr.ecr.*.amazonaws.com", "123.dkr.ecr.us-east-1.amazonaws.com", true},
		{"*.dkr.ecr.*.amazonaws.com", "123.dkr.ecr.cn-north-1.amazonaws.com.cn", false},
		{"*.dkr.ecr.*.amazonaws.com", "a.b.dkr.ecr.us-east-1.amazonaws.com", false},
		{"*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.amazonaws.com", false},
		{"*.azurecr.io", "acme.azurecr.io", true},
		{"*.azurecr.io/team", "acme.azurecr.io", true},
		{"https://gcr.io", "gcr.io", true},
		{"gcr.io", "gcr.io.example.com", false},
		{"*.gcr.io", "gcr.io", false},
		{"*.gcr.io", "a.eu.gcr.io", false},
		{"*-docker.pkg.dev/x", "europe-docker.pkg.dev", true},
		{"*-docker.pkg.dev/x", "-docker.pkg.dev", true},
		{"*-docker.pkg.dev/x", "europe.pkg.dev", false},
		{"[.io", "gcr.io", false},
	} {
		if got := MatchesImage(tc.pattern, tc.registry); got != tc.want {
			t.Errorf("%s matches %s: %t", tc.pattern, tc.registry, got)
		}
	}
}
