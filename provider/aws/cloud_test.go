package aws

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNewCloudSaysWhyItCannotStart(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "cloud.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, provider, config, want string
	}{
		{"another provider", "gce", "", "--cloud-provider=gce is not a provider of this program; it has aws"},
		{"a cloud config that cannot be read", "aws", write("[Global\n"), "reading the cloud config: "},
		{"an override of a service that nobody knows", "aws", write(override("7", "Ec2")), `[ServiceOverride "7"] is for service "Ec2", which is not known`},
		{"an override without URL", "aws", write("[ServiceOverride \"1\"]\nService = ec2\nRegion = r\n"), "url is missing"},
		{"a role that is no ARN", "aws", write(away + "RoleARN = admin\n"), `reading RoleARN "admin" of the cloud config`},
		{"a pattern that is none", "aws", write(away + "SupportedTopologyInstanceTypePattern = (\n"), "SupportedTopologyInstanceTypePattern"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := newCloud(c.provider, c.config, false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := newCloud("aws", filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error for a cloud config that does not exist = %v", err)
	}
}

// away is the cloud config of a manager that runs outside of EC2: the provider asks for nothing when it starts.
const away = "[Global]\nZone = us-east-1a\nVPC = vpc-lab\nSubnetID = subnet-a\nKubernetesClusterID = lab\n"
