package aws

import (
	"strings"
	"testing"

	settings "k8s.io/cloud-provider/config"
)

func TestNewCloudSaysWhyItCannotStart(t *testing.T) {
	for _, c := range []struct {
		name, config, want string
	}{
		{"a cloud config that cannot be read", "[Global\n", "reading the cloud config: "},
		{"an override of a service that nobody knows", override("7", "Ec2"), `[ServiceOverride "7"] is for service "Ec2", which is not known`},
		{"an override without URL", "[ServiceOverride \"1\"]\nService = ec2\nRegion = r\n", "url is missing"},
		{"a role that is no ARN", away + "RoleARN = admin\n", `reading RoleARN "admin" of the cloud config`},
		{"a pattern that is none", away + "SupportedTopologyInstanceTypePattern = (\n", "SupportedTopologyInstanceTypePattern"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := openProgram(settings.KubeCloudSharedConfiguration{}, []byte(c.config)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q in it", err, c.want)
			}
		})
	}
}

// away is the cloud config of a manager that runs outside of EC2: the provider asks for nothing when it starts.
const away = "[Global]\nZone = us-east-1a\nVPC = vpc-lab\nSubnetID = subnet-a\nKubernetesClusterID = lab\n"
