// Package check decides whether what a snapshot says of a cluster allows a migration.
//
// A check is a pure rule: it takes the facts of a snapshot and returns one finding. It talks to no cluster, host or cloud and looks at no
// clock, so the same snapshot and options give the same report, byte for byte, wherever they are judged.
//
//	snapshot ──> Checks, in order ──> pass │ warn │ fail │ skip(reason) │ unknown(error)
//	                                                └──────── block ────────┘
//
// What could not be gathered is unknown, never absent, and unknown blocks an apply exactly as fail does. A check whose ground is missing
// (a host that cannot be read, a cloud that was not asked) is skipped and names the check that reports the cause, so that one cause is one
// line and not twenty.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Levels of a finding: how bad it is when the check does not pass.
const (
	LevelInfo     = "info"
	LevelWarning  = "warning"
	LevelError    = "error"
	LevelCritical = "critical"
)

// Impacts of a finding: what suffers when the check does not pass and the migration goes on.
const (
	ImpactNone          = "none"
	ImpactNodeDeletion  = "node deletion"
	ImpactNoLoops       = "no cloud loops"
	ImpactTwoOwners     = "two owners"
	ImpactLoadBalancers = "load balancer traffic"
	ImpactRoutes        = "routes"
	ImpactAPI           = "API"
	ImpactGap           = "gap"
	ImpactNodeJoin      = "node join"
	ImpactScheduling    = "scheduling"
	ImpactVolumes       = "volume attach"
	ImpactImagePulls    = "image pulls"
	ImpactDataLoss      = "data loss"
)

// Check is one rule with everything a reader needs to know about it.
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
	// AcceptUnknown lets a mandatory check be accepted when it is unknown: where what it asks cannot be had, the migration must not be out of reach.
	AcceptUnknown bool
	// Title says in one line what holds when the check passes.
	Title string
	// Explain is what explain prints and what the documentation shows, a paragraph each.
	Explain []string
	// DependsOn names the checks that have to be answered, with pass or warn, before this one can be.
	DependsOn []string

	// Retryable tells that what the check waits for may come by itself, so that check --wait looks again; a wrong flag does not mend itself.
	Retryable bool

	judge func(facts) v1.Finding
}

// Options are what a check needs to know beside the snapshot. The zero value judges a cluster before a leader migration with this tool's
// own cloud-controller-manager.
type Options struct {
	// Strategy is leader-migration or downtime; empty means leader-migration.
	Strategy string
	// Shape, NodeIPAM and Volumes are the choices of the plan of the same names; empty means that the plan chooses.
	Shape, NodeIPAM, Volumes string
	// ReplaceHosts tells that new hosts take the place of the old ones instead of edits.
	ReplaceHosts bool
	// TargetVersion is the version that the plan takes the control plane to, e.g. v1.27.4; empty means that no version changes.
	TargetVersion string
	// Image of the cloud-controller-manager that the migration brings in; empty means this project's own.
	Image string
	// CCMMinor is the minor version (37 for v1.37) of the library in that image; 0 means: what the tag of a foreign image says, DefaultCCMMinor
	// for our own.
	CCMMinor int
	// LeaseName is the migration lease; empty means DefaultLeaseName.
	LeaseName string
	// CCMEnv are the names of the environment variables that the new manager gets.
	CCMEnv []string
	// CCMFiles are those of them whose value is the path of a file, by name; {host} stands for the host's name.
	CCMFiles map[string]string
	// RenewDeadline is the --leader-elect-renew-deadline that the plan gives the managers during the migration, e.g. 3s; empty means unknown.
	RenewDeadline string
	// Part is that of the migration of a hosted control plane, handover, finish or install, and Provider what its owner says the cloud is; empty where nobody says.
	Part, Provider string
	// InProgress tells that a journal of an unfinished run exists: states between the two ends are what that run left, and do not block its
	// continuation.
	InProgress bool
	// Accept maps codes to the reason for which a finding that would block is accepted. A mandatory check that fails ignores it.
	Accept map[string]string
	// AcceptedBy and AcceptedAt say who gave Accept and when; both are copied to the findings that are accepted. The zero time is left out.
	AcceptedBy string
	AcceptedAt time.Time
}

// Strategies of a plan.
const (
	strategyLeaderMigration = "leader-migration"
	strategyDowntime        = "downtime"
)

// DefaultLeaseName is the migration lease of upstream's default configuration.
const DefaultLeaseName = "cloud-provider-extraction-migration"

// DefaultCCMMinor is the minor version of the library in this project's cloud-controller-manager.
const DefaultCCMMinor = 37

// Run judges a snapshot with every check of the list and returns the findings in the order of the list. It does not change the snapshot.
func Run(s *v1.Snapshot, opts Options) v1.CheckReport {
	report := v1.CheckReport{
		TypeMeta:    v1.Type(v1.KindCheckReport),
		TakenAt:     s.TakenAt,
		ToolVersion: s.ToolVersion,
		Cluster:     s.Cluster,
		Findings:    make([]v1.Finding, 0, len(Checks)),
	}
	f := newFacts(s, opts)
	for _, c := range checksFor(s) {
		finding := one(c, f)
		f.outcomes[c.Code] = finding.Outcome
		if *f.blocker == "" && (finding.Outcome == v1.Fail || finding.Outcome == v1.Unknown) {
			*f.blocker = c.Code
		}
		report.Findings = append(report.Findings, finding)
		count(&report.Summary, finding)
	}
	report.StaleAcceptances = staleCodes(f.opts.Accept, report.Findings)
	return report
}

// staleCodes returns the codes whose acceptance was not needed, sorted: their checks do not block. Somebody should take the waiver back before the
// check fails for another reason than the one that was accepted.
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

func one(c Check, f facts) v1.Finding {
	finding := v1.Finding{}
	if why := otherwiseInSeed(c, f); why != "" {
		finding = skip("%s", why)
	} else if on := unanswered(c, f); on != "" {
		finding = dependent(on)
	} else {
		finding = c.judge(f)
	}
	finding.Code, finding.Reason, finding.Category = c.Code, c.Reason, c.Category
	finding.Level, finding.Impact = c.Level, c.Impact
	if blocks(finding) && (!c.Mandatory || c.AcceptUnknown && finding.Outcome == v1.Unknown) {
		accept(&finding, f.opts)
	}
	return finding
}

// accept records that a finding which would block was accepted, by whom and when.
func accept(finding *v1.Finding, opts Options) {
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

func unanswered(c Check, f facts) string {
	for _, code := range c.DependsOn {
		if f.Cluster.Seed != "" && elsewhereInSeed[code] != "" {
			continue // what it would say of hosts is said of the Deployments in the seed
		}
		if o := f.outcomes[code]; o != v1.Pass && o != v1.Warn {
			return code
		}
	}
	return ""
}

func blocks(f v1.Finding) bool {
	return (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == ""
}

func count(s *v1.CheckSummary, f v1.Finding) {
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
	if blocks(f) {
		s.Blocked = true
	}
}

// ValidateAccept refuses what --accept cannot mean: a code that no check has, a mandatory check, a reason that is empty.
func ValidateAccept(accept map[string]string) error {
	for _, code := range slices.Sorted(maps.Keys(accept)) {
		c, ok := find(code)
		switch {
		case !ok:
			return fmt.Errorf("accepting %q: there is no such check; transplant check --list names them", code)
		case c.Mandatory && !c.AcceptUnknown:
			return fmt.Errorf("accepting %s: it is mandatory (%s); transplant explain %s says what to do", code, c.Title, code)
		case strings.TrimSpace(accept[code]) == "":
			return fmt.Errorf("accepting %s: give a reason, as in --accept %s=\"why it is safe here\"", code, code)
		}
	}
	return nil
}

func find(code string) (Check, bool) {
	for _, c := range slices.Concat(Checks, seedChecks) {
		if strings.EqualFold(c.Code, code) {
			return c, true
		}
	}
	return Check{}, false
}
