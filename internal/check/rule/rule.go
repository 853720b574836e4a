// Package rule says what a check is. It has a code that is never reused, what it needs, how bad its failure is, and the
// function that judges the facts.
package rule

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// Check is one rule. What readers are told about it is in explain/CODE.md of package check.
type Check struct {
	// Code is stable and never reused, e.g. LM-001.
	Code string
	// Reason is its CamelCase name.
	Reason string
	// Category groups checks in the order of the list.
	Category string
	// Level and Impact are one of the constants of this package.
	Level  string
	Impact string
	// Mandatory checks cannot be accepted by --accept when they fail.
	Mandatory bool
	// AcceptUnknown lets a mandatory check be accepted when it is unknown. A migration must be possible even if the
	// check's facts cannot be had.
	AcceptUnknown bool
	// DependsOn names the checks that have to be answered, with pass or warn, before this one can be.
	DependsOn []string

	// Retryable reports whether what the check waits for may come by itself, so that check --wait looks again; a wrong
	// flag does not repair itself.
	Retryable bool

	// LookFor is what to look for in the output of the command, where it is one that only reads.
	LookFor string
	// OnlyIf and Warning go with a command that deletes, drains or stops something: when it may be run, and what it does
	// then.
	OnlyIf, Warning string

	Judge func(facts.Facts) v1.Finding
}

// Advice is what a check says next to the commands of its findings, in paragraphs; empty when it says nothing.
func (c Check) Advice() string {
	var b strings.Builder
	if c.LookFor != "" {
		b.WriteString("\nIf the finding has a `look:` command, find in its output: " + c.LookFor + ".\n")
	}
	if c.OnlyIf != "" {
		b.WriteString("\nDelete, drain or stop something only if " + c.OnlyIf + ".\n" +
			"\nWarning: " + c.Warning + ".\n")
	}
	return b.String()
}

// OnAPI is what every check of objects depends on.
var OnAPI = []string{"API-001"}

// AsksBeyondAPI reports whether the check needs hosts, managers or the cloud to be asked, which takes longer than
// objects of the API.
func (c Check) AsksBeyondAPI() bool {
	return c.Category == findings.CategoryCloud || c.Category == findings.CategoryFacts ||
		slices.ContainsFunc(c.DependsOn, func(code string) bool { return slices.Contains(OnHosts, code) })
}

// OnHosts is what every check of manifests depends on.
var OnHosts = []string{"HOST-001", "CP-003"}

// OnVolumes is what every check of volumes depends on.
var OnVolumes = append([]string{"API-001"}, OnHosts...)

// About is the line under a check's title.
func (c Check) About() string {
	parts := []string{"Category: " + c.Category, "level: " + c.Level, "impact: " + c.Impact}
	switch {
	case c.Mandatory && c.AcceptUnknown:
		parts = append(parts, "a failure cannot be accepted, unknown can: --accept="+c.Code+"=\"reason\"")
	case c.Mandatory:
		parts = append(parts, "cannot be accepted")
	default:
		parts = append(parts, "can be accepted: --accept="+c.Code+"=\"reason\"")
	}
	if c.Retryable {
		parts = append(parts, "may pass by itself: check --wait")
	}
	if len(c.DependsOn) > 0 {
		parts = append(parts, "depends on "+strings.Join(c.DependsOn, ", "))
	}
	return strings.Join(parts, " · ")
}
