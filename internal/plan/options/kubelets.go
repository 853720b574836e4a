package options

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Defaults of the options about kubelets; in a plan they stay empty.
const (
	DefaultMaxUnavailable = "1"
	DefaultSoak           = 10 * time.Second
	DefaultDrainTimeout   = 15 * time.Minute
)

// validateKubelets reports the options about kubelets that cannot be used.
func validateKubelets(o v1.Options) []error {
	var errs []error
	if o.MaxUnavailable != "" {
		number, percent := strings.CutSuffix(o.MaxUnavailable, "%")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || percent && n > 100 {
			errs = append(
				errs,
				fmt.Errorf(
					"max unavailable %q: give a number of nodes of at least 1, or a share of them from 1%% to 100%%",
					o.MaxUnavailable,
				),
			)
		}
	}
	if d, err := time.ParseDuration(o.Soak); o.Soak != "" && (err != nil || d < 0 || d > 24*time.Hour) {
		errs = append(errs, fmt.Errorf("soak %q: give a duration from 0s to 24h", o.Soak))
	}
	if d, err := time.ParseDuration(
		o.DrainTimeout,
	); o.DrainTimeout != "" &&
		(err != nil || d < time.Second || d > 24*time.Hour) {
		errs = append(errs, fmt.Errorf("drain timeout %q: give a duration from 1s to 24h", o.DrainTimeout))
	}
	return errs
}

// MaxUnavailable is how many of a cluster's nodes may be not Ready or under change at a time. At least one: else
// nothing could be changed.
func MaxUnavailable(o v1.Options, nodes int) int { return CountUnavailable(o.MaxUnavailable, nodes) }

// CountUnavailable returns how many of the nodes a value of --max-unavailable allows to be unavailable at a time.
func CountUnavailable(most string, nodes int) int {
	number, percent := strings.CutSuffix(most, "%")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 1
	}
	if percent {
		n = nodes * n / 100
	}
	return max(1, n)
}

// Soak is for how long the first worker of each kind is watched.
func Soak(o v1.Options) time.Duration { return durationOr(o.Soak, DefaultSoak) }

// Estimate is how many seconds a step of a plan takes by estimate, with the time for which a canary is watched.
func Estimate(o v1.Options, s v1.Step) float64 {
	if s.Canary {
		return s.EstimateSeconds + Soak(o).Seconds()
	}
	return s.EstimateSeconds
}

// DrainTimeout bounds the wait for the pods of a node that is drained.
func DrainTimeout(o v1.Options) time.Duration { return durationOr(o.DrainTimeout, DefaultDrainTimeout) }

func durationOr(text string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return otherwise
	}
	return d
}
