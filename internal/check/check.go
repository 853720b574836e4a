// Package check decides whether what a snapshot says of a cluster allows a migration.
//
// A check takes the facts of a snapshot and returns one finding. It talks to no cluster, host or cloud and reads no
// clock. All it leaves behind is which unknown facts it asked for: FACT-001, the last check, reports those that no
// check did. So the same snapshot and options always give the same report, byte for byte.
//
//	snapshot ──> Checks, in order ──> pass │ warn │ fail │ skip(reason) │ unknown(error)
//	                                                └──────── block ────────┘
//
// What could not be gathered is unknown, never absent, and unknown blocks an apply exactly as fail does. A check may
// lack its facts: a host that cannot be read, a cloud that was not asked. It is then skipped and names the check that
// reports the cause, so that one cause is one line and not twenty.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/hosted"
	"github.com/transplant-dev/transplant/internal/check/remedy"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Run judges a snapshot with every check of the list and returns the findings in the order of the list. It does not
// change the snapshot.
func Run(s *v1.Snapshot, opts facts.Options) v1.CheckReport {
	report := v1.CheckReport{
		TypeMeta:    v1.Type(v1.KindCheckReport),
		TakenAt:     s.TakenAt,
		ToolVersion: s.ToolVersion,
		Cluster:     s.Cluster,
		Findings:    make([]v1.Finding, 0, len(Checks)),
	}
	f := facts.New(s, opts)
	for _, c := range checksFor(s) {
		finding := runCheck(c, f)
		f.Outcomes[c.Code] = finding.Outcome
		if *f.Blocker == "" && (finding.Outcome == v1.Fail || finding.Outcome == v1.Unknown) {
			*f.Blocker = c.Code
		}
		report.Findings = append(report.Findings, finding)
		countFinding(&report.Summary, finding)
	}
	report.StaleAcceptances = staleCodes(f.Opts.Accept, report.Findings)
	return report
}

// staleCodes returns the codes whose acceptance was not needed, sorted: their checks do not block. An administrator
// should remove the waiver before the check fails for another reason than the accepted one.
func staleCodes(accept map[string]string, findings []v1.Finding) []string {
	var out []string
	for _, f := range findings {
		if _, named := accept[f.Code]; named && f.Outcome != v1.Fail && f.Outcome != v1.Unknown {
			out = append(out, f.Code)
		}
	}
	slices.Sort(out)
	return out
}

func runCheck(c rule.Check, f facts.Facts) v1.Finding {
	finding := v1.Finding{}
	if why := hosted.WhyNot(c, f); why != "" {
		finding = findings.Skip("%s", why)
	} else if on := unmetDependency(c, f); on != "" {
		finding = findings.Dependent(on)
	} else {
		finding = c.Judge(f)
	}
	finding.Fix = visible.Line(finding.Fix) // a line break in a command would begin another one
	finding.Code, finding.Reason, finding.Category = c.Code, c.Reason, c.Category
	finding.Level, finding.Impact = c.Level, c.Impact
	explainFix(&finding, c)
	if isBlocking(finding) && (!c.Mandatory || c.AcceptUnknown && finding.Outcome == v1.Unknown) {
		accept(&finding, f.Opts)
	}
	return finding
}

// explainFix says of which kind the command of a finding is, and what its reader has to know.
func explainFix(finding *v1.Finding, c rule.Check) {
	if finding.Fix == "" {
		return
	}
	finding.FixKind = remedy.KindOf(finding.Fix)
	switch {
	case finding.Fix == facts.RefusalLook:
		finding.LookFor = "the verb and the resource of the refusal; deploy/rbac/reader.yaml and deploy/rbac/planner.yaml grant what a check reads"
	case finding.FixKind == v1.FixLook:
		finding.LookFor = c.LookFor
	}
	if remedy.Destroys(finding.Fix) {
		finding.OnlyIf, finding.Warning = c.OnlyIf, c.Warning
	}
}

// accept records that a finding which would block was accepted, by whom and when.
func accept(finding *v1.Finding, opts facts.Options) {
	finding.Accepted = opts.Accept[finding.Code]
	if finding.Accepted == "" {
		return
	}
	finding.AcceptedBy = opts.AcceptedBy
	if !opts.AcceptedAt.IsZero() {
		at := opts.AcceptedAt
		finding.AcceptedAt = &at
	}
}

func unmetDependency(c rule.Check, f facts.Facts) string {
	for _, code := range c.DependsOn {
		if f.Cluster.Seed != "" && hosted.Elsewhere[code] != "" {
			continue // what it would say of hosts is said of the Deployments in the seed
		}
		if o := f.Outcomes[code]; o != v1.Pass && o != v1.Warn {
			return code
		}
	}
	return ""
}

func isBlocking(f v1.Finding) bool {
	return (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == ""
}

func countFinding(s *v1.CheckSummary, f v1.Finding) {
	switch f.Outcome {
	case v1.Pass:
		s.Passed++
	case v1.Warn:
		s.Warned++
	case v1.Fail:
		s.Failed++
	case v1.Skip:
		s.Skipped++
	case v1.Unknown:
		s.Unknown++
	}
	if f.Accepted != "" {
		s.Accepted++
	}
	if isBlocking(f) {
		s.Blocked = true
	}
}

// Only removes the findings of all checks but one from a report, and counts again.
func Only(r *v1.CheckReport, code string) {
	r.Findings = slices.DeleteFunc(
		r.Findings,
		func(f v1.Finding) bool { return !strings.EqualFold(f.Code, code) },
	)
	r.Summary = v1.CheckSummary{}
	for _, f := range r.Findings {
		countFinding(&r.Summary, f)
	}
}

// ValidateAccept refuses what --accept cannot mean: a code that no check has, a mandatory check, a reason that is
// empty.
func ValidateAccept(accept map[string]string) error {
	for _, code := range slices.Sorted(maps.Keys(accept)) {
		c, ok := Find(code)
		switch {
		case !ok:
			return fmt.Errorf("accepting %q: there is no such check; transplant check --list names them", code)
		case c.Mandatory && !c.AcceptUnknown:
			return fmt.Errorf("accepting %s: it is mandatory (%s); transplant explain %s says what to do", code, Title(c), code)
		case strings.TrimSpace(accept[code]) == "":
			return fmt.Errorf("accepting %s: give a reason, as in --accept %s=\"why it is safe here\"", code, code)
		}
	}
	return nil
}

// Find returns the check of a code, in whatever case it is written.
func Find(code string) (rule.Check, bool) {
	for _, c := range All() {
		if strings.EqualFold(c.Code, code) {
			return c, true
		}
	}
	return rule.Check{}, false
}

// checksFor are those of the list, and for a hosted control plane its own.
func checksFor(s *v1.Snapshot) []rule.Check {
	if s.Cluster.Seed == "" {
		return Checks
	}
	return All()
}
