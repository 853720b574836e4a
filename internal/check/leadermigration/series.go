package leadermigration

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// The KEP's objective: 99% of the work within a minute. The same share is asked of syncs without an error.
const objective = 0.99

// fewestSamples is how many samples a histogram needs before a share of them says anything.
const fewestSamples = 20

var loopErrors = rule.Check{
	Code:      "LM-014",
	Reason:    "LoopErrors",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "errors of the loop that the finding names, and what the cloud answers",
	DependsOn: []string{"HOST-001", "CP-003", "LM-006"},
	Retryable: true,
	Judge:     judgeSeries,
}

func judgeSeries(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var said []string
	for _, m := range f.Managers {
		if m.Error != "" || len(m.Series) == 0 || len(m.Loops) == 0 {
			continue
		}
		who := m.Component + "@" + m.Host
		for _, complaint := range seriesComplaints(m.Series) {
			bad.Add(who, "%s: %s", who, complaint)
		}
		for _, s := range m.Series {
			said = append(said, s.Name)
		}
	}
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(v1.Warn, "%s", bad[0].Text),
			"99% within 60 s, no more than 1% errors",
			"/metrics of the managers",
			"kubectl -n kube-system logs -l component="+component.KCM+" --tail=200 | grep -i 'error\\|failed'",
		)
	case len(said) == 0:
		return findings.Skip("no manager that runs a loop exposes metrics of its errors and delays")
	}
	slices.Sort(said)
	return findings.Pass(
		"%d series of the loops' owners are within the objective: %s",
		len(said),
		strings.Join(slices.Compact(said), ", "),
	)
}

func seriesComplaints(all []v1.Series) []string {
	var out []string
	var errors float64
	var syncs uint64
	for _, s := range all {
		switch s.Name {
		case objectives.SeriesErrors:
			errors = s.Sum
		case objectives.SeriesSyncs:
			syncs = s.Count
		}
		if s.Within60 != nil && s.Count >= fewestSamples && float64(*s.Within60) < objective*float64(s.Count) {
			out = append(out, fmt.Sprintf("%s: %d of %d took more than 60 s", s.Name, s.Count-*s.Within60, s.Count))
		}
	}
	if errors > 0 && errors > (1-objective)*float64(syncs) {
		out = append(out, fmt.Sprintf("%s is %.0f (of %d syncs)", objectives.SeriesErrors, errors, syncs))
	}
	return out
}

// monitoringGroup is the API group of the Prometheus operator's rules and monitors.
const monitoringGroup = "monitoring.coreos.com"

var seriesMove = rule.Check{
	Code:      "GAP-003",
	Reason:    "SeriesMove",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelInfo,
	Impact:    findings.ImpactNone,
	LookFor:   "the alerts and dashboards that select only kube-controller-manager by job or port",
	DependsOn: []string{"API-001", "HOST-001"},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("apigroups"); ok {
			return finding
		}
		if len(f.APIGroups) == 0 {
			return findings.Skip("the snapshot does not say which API groups are served")
		}
		if f.Stage() == facts.StageExternal {
			return findings.Skip("the loops have left %s", component.KCM)
		}
		i := slices.IndexFunc(f.APIGroups, func(g string) bool { return strings.HasPrefix(g, monitoringGroup) })
		if i < 0 {
			return findings.Pass("no API of a Prometheus operator is among %s", findings.Plural(len(f.APIGroups), "API group"))
		}
		return findings.With(v1.Finding{
			Outcome: v1.Warn,
			Objects: []string{f.APIGroups[i]},
			Found:   f.APIGroups[i],
			Summary: "the series of the cloud loops move to another port and job: rules and monitors for " + component.KCM + " have to be extended",
		},
			"rules that select both managers, and a monitor for port "+component.PortCCM,
			"/apis",
			"kubectl get prometheusrules,servicemonitors,podmonitors -A -o yaml | grep -n "+component.KCM,
		)
	},
}
