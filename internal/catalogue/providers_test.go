package catalogue

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/ccm/proven"
)

func TestProvidersAreSortedAndWhole(t *testing.T) {
	if !slices.IsSortedFunc(providers, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("providers are not sorted by name")
	}
	for _, p := range Providers() {
		if p.Title == "" || p.LastInTree == 0 {
			t.Errorf("%s: no title or no last minor", p.Name)
		}
		if (p.Unsupported != "") != (p.LastInTree < Oldest) {
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

func TestPluginsHaveTheirGatesAsLongAsTheirCode(t *testing.T) {
	for _, p := range Providers() {
		for _, v := range p.Plugins {
			if v.LastInTree > p.LastInTree {
				t.Errorf("%s outlives its provider", v.Name)
			}
			for _, gate := range []string{v.MigrationGate, v.UnregisterGate, v.CompleteGate} {
				if !GateKnown(gate) {
					t.Errorf("%s: no minor has the gate %s", v.Name, gate)
				}
			}
			if g := GateAt(v.MigrationGate, v.LastInTree); !g.Known || !g.Default {
				t.Errorf("%s: %s in 1.%d, the last with its code, is %+v", v.Name, v.MigrationGate, v.LastInTree, g)
			}
			if GateAt(v.MigrationGate, v.LastInTree).Locked != GateAt(v.MigrationGate, v.LastInTree+1).Locked && GateAt(v.MigrationGate, v.LastInTree+1).Known {
				t.Errorf("%s: %s changes after its code went", v.Name, v.MigrationGate)
			}
			if got, of, ok := PluginOf(v.Name); !ok || got != v || of.Name != p.Name {
				t.Errorf("PluginOf(%s) = %+v of %s", v.Name, got, of.Name)
			}
			if _, ok := DriverOf(v.Driver); !ok {
				t.Errorf("%s: no driver %s", v.Name, v.Driver)
			}
		}
	}
}

func TestWhatComponentsStartWith(t *testing.T) {
	off := []GateValue{{DisableCloudProviders, false}, {DisableKubeletCloudCredentialProviders, false}}
	on := []GateValue{{DisableCloudProviders, true}, {DisableKubeletCloudCredentialProviders, true}}
	tests := []struct {
		component, value string
		minor            int
		starts           bool
		gates            []GateValue
	}{
		{"kube-controller-manager", "aws", 21, true, nil},
		{"kube-controller-manager", "aws", 26, true, off[:1]},
		{"kube-controller-manager", "aws", 27, false, nil},
		{"kube-controller-manager", "openstack", 25, true, off[:1]},
		{"kube-controller-manager", "openstack", 26, false, nil},
		{"kube-controller-manager", "gce", 30, true, off[:1]},
		{"kube-controller-manager", "gce", 31, false, nil},
		{"kube-controller-manager", External, 36, true, nil},
		{"kubelet", "azure", 29, true, off[:1]},
		{"kubelet", "azure", 30, false, nil},
		{"kubelet", "", 30, true, nil},
		{"kube-apiserver", "aws", 28, true, nil},
		{"kube-apiserver", "vsphere", 29, true, off},
		{"kube-apiserver", External, 28, true, nil},
		{"kube-apiserver", External, 29, true, on},
		{"kube-apiserver", External, 30, true, on},
		{"kube-apiserver", "openstack", 29, false, nil},
		{"kube-apiserver", External, 33, false, nil},
		{"kube-apiserver", "", 33, true, nil},
		{"kube-scheduler", "aws", 26, false, nil},
	}
	for _, tt := range tests {
		got := Accepts(tt.component, tt.value, tt.minor)
		if got.Starts != tt.starts || !slices.Equal(got.Gates, tt.gates) || (got.Why == "") != tt.starts {
			t.Errorf("%s 1.%d --cloud-provider=%s: %+v", tt.component, tt.minor, tt.value, got)
		}
	}
}

func TestUpgradesStopBeforeTheProviderGoes(t *testing.T) {
	for provider, want := range map[string]int{"openstack": 26, "aws": 27, "azure": 30, "vsphere": 30, "gce": 31} {
		if p, ok := Lookup(provider); !ok || p.LastInTree+1 != want {
			t.Errorf("%s leaves with 1.%d, want 1.%d", provider, p.LastInTree+1, want)
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

func TestImages(t *testing.T) {
	tests := []struct {
		provider string
		minor    int
		want     string
	}{
		{"aws", 25, "registry.k8s.io/provider-aws/cloud-controller-manager:v1.25.15"},
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
	if i, _ := OfficialImage("azure", 30); i.NodeManager != "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.30.12" || i.Controllers != "*,-cloud-node" {
		t.Errorf("azure: %+v", i)
	}
	if i, _ := OfficialImage("gce", 34); i.Command != nil {
		t.Errorf("gce 1.34 has the command %q of older images", i.Command)
	}
}

func TestCredentialConfigs(t *testing.T) {
	got, err := CredentialConfig("azure", 26)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- apiVersion: credentialprovider.kubelet.k8s.io/v1
  args:
  - /etc/kubernetes/azure.json
  defaultCacheDuration: 12h
  matchImages:
  - '*.azurecr.io'
  - '*.azurecr.cn'
  - '*.azurecr.de'
  - '*.azurecr.us'
  name: acr-credential-provider
`
	if string(got) != want {
		t.Errorf("config:\n%s", got)
	}
	for minor, version := range map[int]string{20: "v1alpha1", 23: "v1alpha1", 24: "v1beta1", 25: "v1beta1", 26: "v1", 30: "v1"} {
		for _, provider := range []string{"aws", "gce"} {
			data, err := CredentialConfig(provider, minor)
			var config credentialConfig
			if err != nil || yaml.UnmarshalStrict(data, &config) != nil || config.APIVersion != "kubelet.config.k8s.io/"+version ||
				config.Providers[0].APIVersion != "credentialprovider.kubelet.k8s.io/"+version {
				t.Errorf("%s 1.%d: %v\n%s", provider, minor, err, data)
			}
		}
	}
	for _, provider := range []string{"openstack", "vsphere", "nobody"} {
		if _, err := CredentialConfig(provider, 26); err == nil {
			t.Errorf("%s has a config", provider)
		}
	}
	if _, err := CredentialConfig("aws", 19); err == nil {
		t.Error("a kubelet of 1.19 gets a config")
	}
}
