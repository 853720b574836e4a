package startup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	settings "k8s.io/cloud-provider/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

type nimbus struct{ cloud.Partial }

func (nimbus) ProviderName() string { return "nimbus" }

func flags(provider, file string) settings.KubeCloudSharedConfiguration {
	return settings.KubeCloudSharedConfiguration{CloudProvider: settings.CloudProviderConfiguration{Name: provider, CloudConfigFile: file}}
}

func TestAProviderIsMadeOfItsFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte("region = north"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]struct{ needs, file, text string }{
		"with a cloud config":                      {"the region is in it", file, "region = north"},
		"without one, where none is needed":        {"", "", ""},
		"with one, though none would be necessary": {"", file, "region = north"},
	} {
		t.Run(name, func(t *testing.T) {
			var read string
			p := Program{
				Provider: "nimbus", Cloud: "Nimbus", NeedsConfig: given.needs,
				Open: func(_ settings.KubeCloudSharedConfiguration, text []byte) (cloudprovider.Interface, error) {
					read = string(text)
					return nimbus{}, nil
				},
			}
			made, err := p.Make(flags("nimbus", given.file))
			if err != nil || made.ProviderName() != "nimbus" || read != given.text {
				t.Errorf("the provider is %v of %q, error %v", made, read, err)
			}
		})
	}
}

func TestAProviderThatCannotBeMadeSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte("region = nowhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := errors.New("the region is not known")
	p := Program{
		Provider: "nimbus", Cloud: "Nimbus", NeedsConfig: "the region is in it",
		Open: func(settings.KubeCloudSharedConfiguration, []byte) (cloudprovider.Interface, error) {
			return nil, unknown
		},
	}
	for name, given := range map[string]struct {
		provider, file, says string
		is                   error
	}{
		"another provider": {"aws", file, "--cloud-provider=aws is not a provider of this program; it has nimbus", nil},
		"no config":        {"nimbus", "", "--cloud-config is missing: the region is in it", nil},
		"no file":          {"nimbus", file + ".old", "reading the file of --cloud-config: open " + file + ".old", fs.ErrNotExist},
		"the cloud's word": {"nimbus", file, "starting the Nimbus provider with cloud config \"" + file + `": the region is not known`, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := p.Make(flags(given.provider, given.file))
			if err == nil || !strings.Contains(err.Error(), given.says) || made != nil {
				t.Errorf("provider %v, error %v; it should have %q", made, err, given.says)
			}
			if given.is != nil && !errors.Is(err, given.is) {
				t.Errorf("error %v is not %v", err, given.is)
			}
		})
	}
}
