package aws

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"gopkg.in/gcfg.v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
)

// overridable are the services whose [ServiceOverride] the external provider reads, by the names it compares with.
var overridable = []string{ec2.ServiceID, elb.ServiceID, elbv2.ServiceID, kms.ServiceID, imds.ServiceID}

// inTree are the names that the in-tree provider used for the same services.
var inTree = map[string][]string{
	"ec2":                  {ec2.ServiceID},
	"elasticloadbalancing": {elb.ServiceID, elbv2.ServiceID},
	"kms":                  {kms.ServiceID},
	"ec2metadata":          {imds.ServiceID},
}

// unusedOverrides says which service overrides of a cloud config the external provider does not read. It compares names letter by letter, so
// that an override written for the in-tree provider is left aside without an error, and calls go to the real AWS endpoint.
// A config that cannot be read gives no warnings: the provider reports that itself.
func unusedOverrides(cloudConfig []byte) []string {
	var config awsconfig.CloudConfig
	if gcfg.FatalOnly(gcfg.ReadInto(&config, bytes.NewReader(cloudConfig))) != nil {
		return nil
	}
	given := map[string]bool{}
	for _, override := range config.ServiceOverride {
		given[strings.TrimSpace(override.Service)] = true
	}
	var warnings []string
	for _, section := range slices.Sorted(maps.Keys(config.ServiceOverride)) {
		service := strings.TrimSpace(config.ServiceOverride[section].Service)
		if service == "" || slices.Contains(overridable, service) {
			continue
		}
		fix := fmt.Sprintf("the services are %s", quoted(overridable))
		if renamed, ok := inTree[strings.ToLower(service)]; ok {
			missing := slices.DeleteFunc(slices.Clone(renamed), func(name string) bool { return given[name] })
			if len(missing) == 0 {
				continue // one file for both managers
			}
			fix = fmt.Sprintf("this name is the in-tree provider's, write an override for %s", quoted(missing))
		}
		warnings = append(warnings, fmt.Sprintf("[ServiceOverride %q] for service %q is not used: unless AWS_ENDPOINT_URL is set, its calls go to the real AWS endpoint; %s", section, service, fix))
	}
	return warnings
}

func quoted(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}
