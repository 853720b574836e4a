package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// knownGates are the names of all gates of the catalogue, sorted.
var knownGates = sync.OnceValue(catalogue.Gates)

// refusals says which flags and gates of a component a minor refuses to start with, sorted. Flags that the catalogue does not hold are not judged.
func refusals(p placed, minor int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Flags)) {
		if flag, held := catalogue.FlagAt(p.Name, name, minor); held && !flag.Known {
			out = append(out, "--"+name)
		}
	}
	known := knownGates()
	for _, name := range p.sortedGates() {
		value := p.gates()[name]
		on, err := strconv.ParseBool(value)
		state := catalogue.GateFor(p.Name, name, minor)
		switch _, listed := slices.BinarySearch(known, name); {
		case err != nil:
			out = append(out, fmt.Sprintf("feature gate %s=%s (not a truth value)", name, value))
		case !listed:
			// a vendor's own gate, or one newer than the catalogue
		case !state.Known:
			out = append(out, "feature gate "+name)
		case state.Locked && on != state.Default:
			out = append(out, fmt.Sprintf("feature gate %s=%s (locked to %t)", name, value, state.Default))
		}
	}
	return out
}

var flagRefused = Check{
	Code: "VER-009", Reason: "FlagRefused", Category: categoryVersions, Level: LevelCritical, Impact: ImpactAPI, DependsOn: onHosts,
	Title: "every component starts again with the flags and feature gates of its manifest",
	Explain: []string{
		"Kubernetes components exit at start when they get a flag or a feature gate that their version does not know, or a gate that is locked to another value. A component that runs with such a manifest was started before the line was written, or with another image; " +
			"its next restart is its last, and a migration restarts every one of them.",
		"The catalogue holds the flags that came or went between 1.20 and today and the feature gates of every minor. Flags that it does not hold are not judged.",
	},
	judge: func(f facts) v1.Finding {
		return f.judgeRefusals(0, v1.Fail, "would not start again", "flags and gates of its own version")
	},
}

var nextVersion = Check{
	Code: "VER-008", Reason: "NextVersionRefuses", Category: categoryVersions, Level: LevelWarning, Impact: ImpactAPI, DependsOn: onHosts,
	Title: "every component would start with its flags and feature gates in the next minor version",
	Explain: []string{
		"Most clusters are migrated because they have to be upgraded next. A flag or feature gate that the next minor version does not know keeps the component from starting there, and with kubeadm the upgrade is rolled back after a timeout of five minutes for each host.",
		"Gates of KEP-625 such as CSIMigrationAWS, which a migration may set where the version has them off, are removed a few versions after they are locked. So is DisableCloudProviders, which no migration sets: where it stands as false, " +
			"the plan takes it out together with the in-tree provider. Gates that are left have to go from the manifests and from kubeadm-config before that upgrade. Nothing has to be done for the migration itself, so this check warns.",
	},
	judge: func(f facts) v1.Finding {
		if handled, ok := f.handledByThePlan(); ok {
			return handled
		}
		return f.judgeRefusals(1, v1.Warn, "would not start in the next minor version", "flags and gates that the next version knows")
	},
}

// judgeRefusals judges the flags and gates of every component for the minor that is ahead of its own.
func (f facts) judgeRefusals(ahead int, outcome v1.Outcome, what, expected string) v1.Finding {
	var bad complaints
	var unclear []string
	n, command := 0, ""
	for _, name := range []string{kas, kcm, scheduler, ccm} {
		for _, p := range f.all(name) {
			minor, ok := f.minorOf(p)
			if !ok {
				unclear = append(unclear, p.unversioned())
				continue
			}
			n++
			refused := refusals(p, minor+ahead)
			if len(refused) == 0 {
				continue
			}
			bad.add(p.String(), "%s: 1.%d does not take %s", p, minor+ahead, strings.Join(refused, ", "))
			if command == "" {
				word := strings.TrimPrefix(refused[0], "feature gate ")
				word, _, _ = strings.Cut(word, "=")
				command = p.grep(word)
			}
		}
	}
	const source = "manifests and images"
	switch {
	case !bad.empty():
		return with(bad.finding(outcome, "%s %s", plural(len(bad.lines), "component"), what), expected, source, command)
	case len(unclear) > 0:
		return with(unknown("%s", strings.Join(unclear, "; ")), expected, source, "")
	case n == 0:
		return unknown("no manifest of the control plane could be read")
	}
	return pass("the flags and feature gates of %s are known to 1.%d", plural(n, "component"), f.newestMinor()+ahead)
}

// newestMinor is the highest minor among the control-plane components whose versions are known.
func (f facts) newestMinor() int {
	newest := 0
	for _, name := range []string{kas, kcm, scheduler} {
		for _, p := range f.all(name) {
			if m, ok := f.minorOf(p); ok {
				newest = max(newest, m)
			}
		}
	}
	return newest
}
