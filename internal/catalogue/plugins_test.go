package catalogue

import (
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
)

func TestPluginsHaveTheirGatesAsLongAsTheirCode(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
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
			if got, of, ok := cloudprovider.PluginOf(v.Name); !ok || got != v || of.Name != p.Name {
				t.Errorf("PluginOf(%s) = %+v of %s", v.Name, got, of.Name)
			}
			if _, ok := csidriver.DriverOf(v.Driver); !ok {
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
		if p, ok := cloudprovider.Lookup(provider); !ok || p.LastInTree+1 != want {
			t.Errorf("%s leaves with 1.%d, want 1.%d", provider, p.LastInTree+1, want)
		}
	}
}
