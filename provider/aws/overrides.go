package aws

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
)

// overridable are the services that this program calls, by the names that the external provider compares with, letter
// by letter. The provider itself does not look for STS, which a RoleARN needs; our clients do.
var overridable = []string{ec2.ServiceID, elb.ServiceID, elbv2.ServiceID, kms.ServiceID, imds.ServiceID, sts.ServiceID}

// inTree are the names by which the in-tree provider found an override, with the services that they stand for now.
var inTree = map[string][]string{
	"ec2":                  {ec2.ServiceID},
	"elasticloadbalancing": {elb.ServiceID, elbv2.ServiceID},
	"kms":                  {kms.ServiceID},
	"ec2metadata":          {imds.ServiceID},
	"sts":                  {sts.ServiceID},
}

// uncalled are services that in-tree cloud configs name, the provider's own example among them, and that neither
// provider calls.
var uncalled = []string{"autoscaling", "Auto Scaling", "s3", "S3"}

// understand rewrites the service overrides of a cloud config to the names that the provider looks for. To the
// provider, an override under another name is none, and no error: its calls go to the real AWS endpoint. The notes say
// how an override was read; the error names every override that cannot be read.
func understand(config *awsconfig.CloudConfig) (notes []string, err error) {
	if err := config.ValidateOverrides(); err != nil { // trims, and refuses what is incomplete or doubled
		return nil, err
	}
	var problems []error
	for _, section := range slices.Sorted(maps.Keys(config.ServiceOverride)) {
		service := config.ServiceOverride[section].Service
		switch {
		case slices.Contains(overridable, service):
		case inTree[service] != nil:
			notes = append(notes, rename(config, section))
		case slices.Contains(uncalled, service):
			notes = append(
				notes,
				fmt.Sprintf("[ServiceOverride %q] for service %q changes nothing: this program does not call it", section, service),
			)
		default:
			problems = append(
				problems,
				fmt.Errorf(
					"[ServiceOverride %q] is for service %q, which is not known: its calls would go to the real AWS endpoint. "+
						"The services are %s, or by the names of the in-tree provider %s",
					section,
					service,
					quoteNames(overridable),
					quoteNames(slices.Sorted(maps.Keys(inTree))),
				),
			)
		}
	}
	return notes, errors.Join(problems...)
}

// rename turns an override with an in-tree name into one for each service that the name stands for. An override in the
// new names goes before it, so that one file can serve both managers.
func rename(config *awsconfig.CloudConfig, section string) (note string) {
	old := config.ServiceOverride[section]
	delete(config.ServiceOverride, section)
	var used, taken []string
	for _, service := range inTree[old.Service] {
		if other := overrideOf(config, service, old.Region); other != "" {
			taken = append(taken, fmt.Sprintf("[ServiceOverride %q] is there for %q", other, service))
			continue
		}
		override := *old
		override.Service = service
		if override.SigningName == "" && service != imds.ServiceID {
			override.SigningName = old.Service // the in-tree provider signed with the service's own name when none was given
		}
		if service == imds.ServiceID {
			// The older SDK wanted the path in the URL, the newer one adds it.
			override.URL = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(override.URL), "/"), "/latest")
		}
		config.ServiceOverride[freeName(config, section+" for "+service)] = &override
		used = append(used, service)
	}
	note = fmt.Sprintf("[ServiceOverride %q] for service %q", section, old.Service)
	switch {
	case len(used) == 0:
		return note + " is left aside: " + strings.Join(taken, ", ")
	case len(taken) > 0:
		return note + " is read as " + quoteNames(used) + "; " + strings.Join(taken, ", ")
	default:
		return note + " is read as " + quoteNames(used)
	}
}

// overrideOf is the name of the section that overrides a service in a region; empty for none.
func overrideOf(config *awsconfig.CloudConfig, service, region string) string {
	for _, section := range slices.Sorted(maps.Keys(config.ServiceOverride)) {
		if o := config.ServiceOverride[section]; o.Service == service && (o.Region == region || service == imds.ServiceID) {
			return section
		}
	}
	return ""
}

func freeName(config *awsconfig.CloudConfig, name string) string {
	for config.ServiceOverride[name] != nil {
		name += "'"
	}
	return name
}

// unusedOverrides names the overrides that are not used because they are for another region. The metadata service has
// none.
func unusedOverrides(config *awsconfig.CloudConfig, region string) (notes []string) {
	for _, section := range slices.Sorted(maps.Keys(config.ServiceOverride)) {
		if o := config.ServiceOverride[section]; o.Region != region && o.Service != imds.ServiceID &&
			slices.Contains(overridable, o.Service) {
			notes = append(
				notes,
				fmt.Sprintf("[ServiceOverride %q] for service %q is not used: it is for region %q, and the cluster is in %q",
					section, o.Service, o.Region, region),
			)
		}
	}
	return notes
}

// stsEndpoint is where roles are assumed; empty for the SDK's own.
func stsEndpoint(config *awsconfig.CloudConfig, region string) string {
	if section := overrideOf(config, sts.ServiceID, region); section != "" {
		return strings.TrimSpace(config.ServiceOverride[section].URL)
	}
	return ""
}

func quoteNames(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}
