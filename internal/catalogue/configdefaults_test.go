package catalogue

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

func TestChangedDefaultsAreKeysThatBothProvidersRead(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
		for _, d := range ChangedDefaults(p.Name) {
			row, ok := ConfigKeyOf(p.Name, d.Section, d.Key)
			if !ok || !row.InTree || !row.External {
				t.Errorf("%s: %s.%s is not a key of both: %+v", p.Name, d.Section, d.Key, row)
			}
			if d.InTree == d.External || d.Why == "" {
				t.Errorf("%s: %s changes nothing", p.Name, d.Key)
			}
		}
	}
}

func TestKeysOfVolumesAreKnownAsSuch(t *testing.T) {
	if row, _ := ConfigKeyOf("openstack", "BlockStorage", "bs-version"); !row.OnlyVolumes() {
		t.Error("bs-version is not of volumes")
	}
	if row, _ := ConfigKeyOf("aws", "Global", "VPC"); row.OnlyVolumes() {
		t.Error("VPC is of volumes")
	}
	if ReadsEnvironment("openstack") != "OS_" || ReadsEnvironment("aws") != "" {
		t.Error("the environment of another provider is read")
	}
}

func TestKubeletsWaitForAddressesSince129(t *testing.T) {
	if WaitsForAddresses(28) || !WaitsForAddresses(29) {
		t.Error("the change came with 1.29")
	}
}
