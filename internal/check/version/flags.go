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
	DependsOn: rule.OnHosts,
	Title:     "every component starts again with the flags and feature gates of its manifest",
	Explain: []string{
		"Kubernetes components exit at start when they get a flag or a feature gate that their version does not know, or a gate that is locked to another value. A component that runs with such a manifest was started before the line was written, or with another image; " +
			"its next restart is its last, and a migration restarts every one of them.",
		"The catalogue holds the flags that came or went between 1.20 and today and the feature gates of every minor. Flags that it does not hold are not judged.",
	},
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
	DependsOn: rule.OnHosts,
	Title:     "every component would start with its flags and feature gates in the next minor version",
	Explain: []string{
		"Most clusters are migrated because they have to be upgraded next. A flag or feature gate that the next minor version does not know keeps the component from starting there, and with kubeadm the upgrade is rolled back after a timeout of five minutes for each host.",
		"Gates of KEP-625 such as CSIMigrationAWS, which a migration may set where the version has them off, are removed a few versions after they are locked. So is DisableCloudProviders, which no migration sets: where it stands as false, " +
			"the plan takes it out together with the in-tree provider. Gates that are left have to go from the manifests and from kubeadm-config before that upgrade. Nothing has to be done for the migration itself, so this check warns.",
	},
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
			bad.Finding(outcome, "%s %s", findings.Plural(len(bad.Lines), "component"), what),
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
