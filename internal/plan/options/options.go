// Package options decides which options of a plan can be used, and what holds where none was given.
package options

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// DefaultImage is the image of our cloud-controller-manager for AWS.
const DefaultImage = component.Registry + "/aws-" + component.CCM + ":v0.1.0"

// DefaultRetryPeriod is how often a standby reads its lease during a migration.
const DefaultRetryPeriod = "250ms"

// DefaultRenewDeadline is how long a leader tries to renew its lease during a migration.
const DefaultRenewDeadline = "5s"

// Defaults fills in what was not chosen and does not depend on the cluster; Make chooses strategy, image and shape by
// the snapshot.
func Defaults(o v1.Options) v1.Options {
	if o.LeaseName == "" {
		o.LeaseName = component.MigrationLease
	}
	if o.RetryPeriod == "" {
		o.RetryPeriod = DefaultRetryPeriod
	}
	if o.RenewDeadline == "" {
		o.RenewDeadline = DefaultRenewDeadline
	}
	return o
}

// Validate reports every option that cannot be used, at once.
func Validate(o v1.Options) error {
	var errs []error
	errs = append(errs, validateChoices(o)...)
	retry, err := time.ParseDuration(o.RetryPeriod)
	if err != nil || retry < 50*time.Millisecond {
		errs = append(
			errs,
			fmt.Errorf(
				"retry period %q: give a duration of at least 50ms; each standby reads its lease that often",
				o.RetryPeriod,
			),
		)
	}
	deadline, err := time.ParseDuration(o.RenewDeadline)
	if err != nil || deadline < time.Second || deadline >= 15*time.Second {
		errs = append(
			errs,
			fmt.Errorf("renew deadline %q: give a duration from 1s to below the lease duration of 15s", o.RenewDeadline),
		)
	} else if retry*6/5 >= deadline {
		errs = append(
			errs,
			fmt.Errorf(
				"retry period %s is too long for renew deadline %s: the managers refuse a deadline below 1.2 retry periods",
				o.RetryPeriod,
				o.RenewDeadline,
			),
		)
	}
	if !objectName.MatchString(o.LeaseName) {
		errs = append(
			errs,
			fmt.Errorf("lease name %q: an object is named with lower-case letters, digits, dots and dashes", o.LeaseName),
		)
	}
	if strings.ContainsAny(o.ClusterName, " \t\n\"'") {
		errs = append(
			errs,
			fmt.Errorf(
				"cluster name %q: it stands in a flag and in names of load balancers, give it without spaces and quotes",
				o.ClusterName,
			),
		)
	}
	for _, e := range o.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("environment %q: give NAME=VALUE", e))
			continue
		}
		if IsSecretName(name) {
			errs = append(
				errs,
				fmt.Errorf("environment variable %s is a secret, and a plan is kept in the cluster and printed; "+
					"put the credentials into a file on each host and name it, e.g. AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials", name),
			)
		}
	}
	return errors.Join(errs...)
}

// objectName is what the API server takes for the name of a Lease.
var objectName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// IsSecretName reports whether the name of a variable says that its value is a secret.
func IsSecretName(name string) bool {
	for _, s := range []string{"SECRET", "PASSWORD", "SESSION_TOKEN", "PRIVATE_KEY"} {
		if strings.Contains(strings.ToUpper(name), s) {
			return true
		}
	}
	return false
}
