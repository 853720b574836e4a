package version

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

var flagRefused = rule.Check{
	Code:      "VER-009",
	Reason:    "FlagRefused",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactAPI,
	LookFor:   "the flag or gate that the finding names: the version that runs does not know it",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		return judgeRefusals(f, 0, v1.Fail, "would not start again", "flags and gates of its own version")
	},
}

var nextVersion = rule.Check{
	Code:      "VER-008",
	Reason:    "NextVersionRefuses",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	LookFor:   "the flag or gate that the finding names: the next version does not know it",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		if handled, ok := handledByThePlan(f); ok {
			return handled
		}
		return judgeRefusals(
			f,
			1,
			v1.Warn,
			"would not start in the next minor version",
			"flags and gates that the next version knows",
		)
	},
}

// judgeRefusals judges the flags and gates of every component for the minor that is ahead of its own.
func judgeRefusals(f facts.Facts, ahead int, outcome v1.Outcome, what, expected string) v1.Finding {
	var bad findings.Problems
	var unclear []string
	n, command := 0, ""
	for _, name := range []string{component.KAS, component.KCM, component.Scheduler, component.CCM} {
		for _, p := range f.InstancesOf(name) {
			minor, ok := f.MinorOf(p)
			if !ok {
				unclear = append(unclear, p.Unversioned())
				continue
			}
			n++
			refused := facts.Refusals(p, minor+ahead)
			if len(refused) == 0 {
				continue
			}
			bad.Add(p.String(), "%s: 1.%d does not take %s", p, minor+ahead, strings.Join(refused, ", "))
			if command == "" {
				word := strings.TrimPrefix(refused[0], "feature gate ")
				word, _, _ = strings.Cut(word, "=")
				command = p.Grep(word)
			}
		}
	}
	const source = "manifests and images"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(outcome, "%s %s", findings.Plural(len(bad), "component"), what),
			expected,
			source,
			command,
		)
	case len(unclear) > 0:
		return findings.With(findings.Unknown("%s", strings.Join(unclear, "; ")), expected, source, "")
	case n == 0:
		return findings.Unknown("no manifest of the control plane could be read")
	}
	return findings.Pass(
		"the flags and feature gates of %s are known to 1.%d",
		findings.Plural(n, "component"),
		newestMinor(f)+ahead,
	)
}

// newestMinor is the highest minor among the control-plane components whose versions are known.
func newestMinor(f facts.Facts) int {
	newest := 0
	for _, name := range []string{component.KAS, component.KCM, component.Scheduler} {
		for _, p := range f.InstancesOf(name) {
			if m, ok := f.MinorOf(p); ok {
				newest = max(newest, m)
			}
		}
	}
	return newest
}
