package plan

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// harmlessEnv are variables of a manager that decide neither to whom it talks, nor whom it trusts, nor which
// credentials or code it takes. Those that do are too many to name: each library of a cloud brings its own.
var harmlessEnv = []string{
	"AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED", "AWS_MAX_ATTEMPTS", "AWS_REGION", "AWS_RETRY_MODE",
	"GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "TZ",
}

// RiskyEnv returns the names of the variables in options that may decide where the cloud's credentials go.
func RiskyEnv(o v1.Options) []string {
	var out []string
	for _, e := range o.Env {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(harmlessEnv, name) {
			out = append(out, name)
		}
	}
	return out
}
