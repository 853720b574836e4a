package migrationconfig

import (
	"fmt"
	"slices"

	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Minors at which the managers' reading of these files changed. Both managers read them with k8s.io/controller-manager
// of their own minor.
const (
	firstMinor        = 21 // leader migration exists, in v1alpha1
	firstV1Beta1Minor = 22 // v1beta1, and a default for managers without a file
	firstV1Minor      = 24 // v1
	firstStrictMinor  = 32 // unknown fields are errors
)

// firstMinorOf is the first minor that reads a version.
var firstMinorOf = map[string]int{V1Alpha1: firstMinor, V1Beta1: firstV1Beta1Minor, V1: firstV1Minor}

// HasDefault reports whether managers of 1.minor take a default when leader migration is on and they are given no file;
// before, they exit.
func HasDefault(minor int) bool { return minor >= firstV1Beta1Minor }

// versionFor returns the newest version that every manager of 1.minor reads.
func versionFor(minor int) string {
	switch {
	case minor >= firstV1Minor:
		return V1
	case minor >= firstV1Beta1Minor:
		return V1Beta1
	default:
		return V1Alpha1
	}
}

// Judge returns what a config would do wrong in component of version 1.minor (or 0.minor). First come problems of the
// file as a whole, then others in the file's order, then loops that are missing. None of them is an error to the
// manager; that is what makes them dangerous.
func Judge(component controllernames.Component, minor int, config Config) []Problem {
	j := judge{component: component, minor: minor, names: map[string]int{}}
	for i, leader := range config.Leaders {
		j.names[leader.Name] = i
	}
	j.file(config)
	listed := map[controllernames.Loop]bool{}
	for i, leader := range config.Leaders {
		at := fmt.Sprintf("controllerLeaders[%d]", i)
		if last := j.names[leader.Name]; last != i {
			j.block(
				DuplicateName,
				at+".name",
				"keep one",
				"%s is listed again as controllerLeaders[%d], and only the last one counts",
				leader.Name,
				last,
			)
		}
		if loop, ok := j.leader(at, leader); ok {
			listed[loop] = true
		}
	}
	for _, loop := range controllernames.CloudLoops {
		if !listed[loop] {
			name := controllernames.Name(component, minor, loop)
			j.block(MissingLoop, "controllerLeaders", "add "+name,
				"the %s loop is not listed: this manager runs it under its main lease, next to the other manager's", loop)
		}
	}
	return j.problems
}

// judge collects problems for one manager.
type judge struct {
	component controllernames.Component
	minor     int
	names     map[string]int // every listed name and where it is listed last
	problems  []Problem
}

func (j *judge) block(code Code, field, fix, format string, args ...any) {
	j.problems = append(
		j.problems,
		Problem{
			Code:     code,
			Field:    field,
			Summary:  fmt.Sprintf(format, args...),
			Fix:      fix,
			Blocking: true,
		},
	)
}

func (j *judge) warn(code Code, field, fix, format string, args ...any) {
	j.problems = append(j.problems, Problem{
		Code:    code,
		Field:   field,
		Summary: fmt.Sprintf(format, args...),
		Fix:     fix,
	})
}

// file judges everything but the leaders.
func (j *judge) file(config Config) {
	switch first := firstMinorOf[config.Version]; {
	case j.minor < firstMinor:
		j.block(
			NoLeaderMigration,
			"",
			"",
			"%s 1.%d has no leader migration: it came with 1.%d",
			j.component,
			j.minor,
			firstMinor,
		)
	case j.minor < first:
		j.block(VersionTooNew, "apiVersion", "write apiVersion: "+Group+"/"+versionFor(j.minor),
			"%s 1.%d does not know %s and exits at start: it came with 1.%d", j.component, j.minor, config.Version, first)
	}
	switch {
	case config.Version == V1 && config.ResourceLock != "" && j.minor >= firstStrictMinor:
		j.block(
			ResourceLockInV1,
			"resourceLock",
			"remove it",
			"v1 has no such field, and %s 1.%d exits at start because of it",
			j.component,
			j.minor,
		)
	case config.Version == V1 && config.ResourceLock != "":
		j.warn(
			ResourceLockInV1,
			"resourceLock",
			"remove it",
			"v1 has no such field; %s 1.%d ignores it, a manager of 1.%d or later exits at start",
			j.component,
			j.minor,
			firstStrictMinor,
		)
	case config.ResourceLock == lockEndpoints:
		j.block(BadResourceLock, "resourceLock", "write resourceLock: "+lockLeases,
			"locks on endpoints cannot be created any more: the manager exits as soon as it has its main lease")
	}
}

// leader judges one entry; it returns the loop that the entry means, true if it means one.
func (j *judge) leader(at string, leader Leader) (controllernames.Loop, bool) {
	loop, _, known := controllernames.Lookup(leader.Name)
	if !known {
		j.warn(
			UnknownName,
			at+".name",
			"",
			"%q is no cloud loop; if %s has a controller of this name, it runs only while this manager holds the migration lease",
			leader.Name,
			j.component,
		)
		return "", false
	}
	right := controllernames.Name(j.component, j.minor, loop)
	if _, both := j.names[right]; leader.Name != right && both {
		// one file with the names of both sides: the other side's match nothing here, and nothing depends on them
		return loop, true
	}
	if why := controllernames.Explain(j.component, j.minor, leader.Name); why != "" {
		j.block(WrongName, at+".name", "write "+right,
			"%q matches no controller of %s 1.%d, so that the %s loop runs under the main lease, next to the other manager's: %s",
			leader.Name, j.component, j.minor, loop, why)
	}
	j.runsIn(at, leader, loop)
	return loop, true
}

// runsIn judges who may run an entry's loop.
func (j *judge) runsIn(at string, leader Leader, loop controllernames.Loop) {
	switch {
	case leader.Runs(j.component):
	case !slices.Contains(controllernames.Components, controllernames.Component(leader.Component)):
		j.block(
			UnknownComponent,
			at+".component",
			fmt.Sprintf(`write component: %q`, AnyComponent),
			"there is no component %q: this manager never runs the %s loop",
			leader.Component,
			loop,
		)
	case slices.Contains(controllernames.CloudLoops, loop):
		j.block(
			OtherComponent,
			at+".component",
			fmt.Sprintf("write component: %s", j.component),
			"the %s loop is left to %s: this manager never runs it",
			loop,
			leader.Component,
		)
	}
}

// Agree returns why two managers would not exclude each other although each one's config is right in itself: they would
// contend for different leases.
func Agree(a, b Config) []Problem {
	if a.LeaderName == b.LeaderName {
		return nil
	}
	return []Problem{
		{
			Code:     DifferentLease,
			Field:    "leaderName",
			Fix:      "write the same leaderName in both",
			Blocking: true,
			Summary: fmt.Sprintf(
				"one file names the lease %s, the other %s: each manager leads its own, and both run the loops",
				a.LeaderName,
				b.LeaderName,
			),
		},
	}
}

// Blocking returns the blocking ones among problems.
func Blocking(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return !p.Blocking })
}
