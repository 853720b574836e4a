package rules

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// annotationValues are the annotations of ours that have rules, each with what its value has to be. A value that no
// program understands would be noticed only when the migration is under way.
var annotationValues = []struct {
	key   string
	fits  func(value string) bool
	wants string
}{
	{
		kubermatic.AnnotationRestartMachines,
		func(v string) bool { return v == "true" || v == "false" },
		`has to be "true" or "false"`,
	},
	{
		kubermatic.AnnotationStrategy,
		func(v string) bool { return v == "downtime" || v == "leader-migration" },
		`has to be "downtime" or "leader-migration"`,
	},
	{kubermatic.AnnotationMaxUnavailable, isBudget, `has to be a number of machines, or a percentage up to "100%"`},
}

// isBudget reports whether internal/fleet/machines takes a value: empty for its default, and 0 for none.
func isBudget(value string) bool {
	value = strings.TrimSpace(value)
	percentage, isPercentage := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(percentage)
	return value == "" || err == nil && n >= 0 && (!isPercentage || n <= 100)
}

// ourAnnotations refuses values that were written now; before is nil for a new Cluster.
func ourAnnotations(before, after *kubermatic.Cluster, _ Facts) field.ErrorList {
	var out field.ErrorList
	for _, rule := range annotationValues {
		value, there := after.Annotations[rule.key]
		if !there || rule.fits(value) {
			continue
		}
		if before != nil {
			if was, had := before.Annotations[rule.key]; had && was == value {
				continue
			}
		}
		out = append(out, field.Invalid(annotationsPath.Key(rule.key), value, rule.wants))
	}
	return out
}
