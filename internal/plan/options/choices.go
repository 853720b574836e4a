package options

import (
	"fmt"
	"regexp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Strategies, Shapes, NodeIPAMChoices and VolumesChoices are what the options may say, for completion.
var (
	Strategies      = []string{planstep.LeaderMigration, planstep.Downtime}
	Shapes          = []string{v1.ShapeStaticPod, v1.ShapeDaemonSet}
	NodeIPAMChoices = []string{v1.IPAMKeep, v1.IPAMMove}
	VolumesChoices  = []string{v1.VolumesCSI, v1.VolumesInTree}
)

var release = regexp.MustCompile(`^v?1\.[0-9]+(\.[0-9]+)?$`)

// validateChoices reports the options that name none of their values, and those that contradict each other.
func validateChoices(o v1.Options) []error {
	var errs []error
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"strategy", o.Strategy, Strategies}, {"shape", o.Shape, Shapes}, {
			"node-ipam", o.NodeIPAM, NodeIPAMChoices,
		}, {"volumes", o.Volumes, VolumesChoices},
	} {
		if c.value != "" && !isKnown(c.value, c.known) {
			errs = append(errs, fmt.Errorf("%s %q is not known: use %s or %s", c.flag, c.value, c.known[0], c.known[1]))
		}
	}
	if o.TargetVersion != "" && !o.ReplaceHosts && !VersionTag.MatchString(o.TargetVersion) {
		errs = append(
			errs,
			fmt.Errorf("target version %q: images have tags of whole versions, so give one, e.g. v1.27.4", o.TargetVersion),
		)
	}
	if o.ReplaceHosts {
		switch {
		case o.TargetVersion == "":
			errs = append(
				errs,
				fmt.Errorf("hosts that are replaced need --target-version, the Kubernetes version of the new ones, e.g. v1.27.0"),
			)
		case !release.MatchString(o.TargetVersion):
			errs = append(errs, fmt.Errorf("target version %q: give a Kubernetes version, e.g. v1.27.0", o.TargetVersion))
		}
		if o.Strategy == planstep.Downtime {
			errs = append(
				errs,
				fmt.Errorf("hosts are replaced under leader migration: leave out --strategy %s", planstep.Downtime),
			)
		}
		if o.CredentialProvider != "" {
			errs = append(
				errs,
				fmt.Errorf(
					"hosts that are replaced get no files: put the image credential provider into the image of the new hosts and leave out --credential-provider",
				),
			)
		}
	}
	errs = append(errs, validateKubelets(o)...)
	if (o.CredentialProvider == "") != (o.CredentialProviderSHA256 == "") {
		errs = append(errs, fmt.Errorf("the image credential provider needs both its path and its SHA-256 in a plan"))
	}
	return errs
}

func isKnown(value string, values []string) bool {
	for _, v := range values {
		if v == value {
			return true
		}
	}
	return false
}

// VersionTag is a tag that says a version and nothing else.
var VersionTag = regexp.MustCompile(`^v?1\.([0-9]+)\.([0-9]+)$`)
