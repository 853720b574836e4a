package aws

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"
	"k8s.io/cloud-provider/app"
)

func TestControllersAreTheLibrarysAndTaggingOnRequest(t *testing.T) {
	c := NewControllers()
	for name := range app.DefaultInitFuncConstructors {
		if c.Constructors[name].Constructor == nil {
			t.Errorf("the library's %s is missing", name)
		}
	}
	if c.Constructors[tagging.TaggingControllerKey].Constructor == nil {
		t.Error("the tagging controller is missing")
	}
	if _, leaked := app.DefaultInitFuncConstructors[tagging.TaggingControllerKey]; leaked {
		t.Error("the tagging controller got into the library's own table")
	}
	if !app.ControllersDisabledByDefault.Has(tagging.TaggingControllerKey) {
		t.Error("the tagging controller runs without being asked for")
	}
	for alias, name := range c.Aliases {
		if c.Constructors[name].Constructor == nil {
			t.Errorf("the alias %s is of %s, which does not exist", alias, name)
		}
	}
	if c.Flags.FlagSet("tagging controller").Lookup("tags") == nil {
		t.Error("the tagging controller's flags are missing")
	}
}

func TestOverridesThatTheProviderDoesNotReadAreNamed(t *testing.T) {
	override := func(section, service string) string {
		return "[ServiceOverride \"" + section + "\"]\nService = " + service + "\nRegion = us-east-1\nURL = http://127.0.0.1:4566\nSigningRegion = us-east-1\n"
	}
	const global = "[Global]\nZone = us-east-1a\n"
	for _, c := range []struct {
		name string
		file string
		want []string
	}{
		{"no overrides", global, nil},
		{"the external provider's names", global + override("1", "EC2") + override("2", "Elastic Load Balancing") + override("3", "Elastic Load Balancing v2") +
			override("4", "KMS") + override("5", "ec2imds"), nil},
		{"the in-tree provider's names", global + override("1", "ec2") + override("2", "elasticloadbalancing"), []string{
			`[ServiceOverride "1"] for service "ec2" is not used: unless AWS_ENDPOINT_URL is set, its calls go to the real AWS endpoint; this name is the in-tree provider's, write an override for "EC2"`,
			`[ServiceOverride "2"] for service "elasticloadbalancing" is not used: unless AWS_ENDPOINT_URL is set, its calls go to the real AWS endpoint; ` +
				`this name is the in-tree provider's, write an override for "Elastic Load Balancing", "Elastic Load Balancing v2"`,
		}},
		{"both side by side, for a file that serves both managers", override("1", "ec2") + override("2", "EC2"), nil},
		{"half of both", override("1", "elasticloadbalancing") + override("2", "Elastic Load Balancing"), []string{
			`[ServiceOverride "1"] for service "elasticloadbalancing" is not used: unless AWS_ENDPOINT_URL is set, its calls go to the real AWS endpoint; ` +
				`this name is the in-tree provider's, write an override for "Elastic Load Balancing v2"`,
		}},
		{"a service that the provider does not override", override("1", "STS"), []string{
			`[ServiceOverride "1"] for service "STS" is not used: unless AWS_ENDPOINT_URL is set, its calls go to the real AWS endpoint; ` +
				`the services are "EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "KMS", "ec2imds"`,
		}},
		{"a file that is no cloud config", "{", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, unusedOverrides([]byte(c.file))); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewCloudSaysWhyItCannotStart(t *testing.T) {
	if _, err := newCloud("gce", "", false); err == nil || !strings.Contains(err.Error(), "--cloud-provider=gce is not a provider of this program; it has aws") {
		t.Errorf("error for another provider = %v", err)
	}
	if _, err := newCloud("aws", filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error for a cloud config that does not exist = %v", err)
	}
	bad := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(bad, []byte("[Global\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newCloud("aws", bad, false); err == nil || !strings.Contains(err.Error(), "starting the AWS provider with cloud config") {
		t.Errorf("error for a cloud config that cannot be read = %v", err)
	}
}
