package probe

import (
	"fmt"
	"math"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Row is a line of the table of paths: one path, or all paths of a kind that were never out.
type Row struct {
	Kind, Title string
	// Paths that the row stands for.
	Paths, Looks, Reconnects, Outages            int
	LongestSeconds, TotalSeconds, SlowestSeconds float64
	UnobservedSeconds                            float64
	Result                                       string
	// Of is the path, where the row stands for one.
	Of *v1.PathDisruption
}

// Rows are the lines of the table: paths of the API and paths that were out, or not looked at, have one of their own.
// The others share one for each kind, so that five hundred load balancers that never missed a connection are one line.
func Rows(d v1.Disruption) []Row {
	var out []Row
	for _, kind := range Kinds {
		rest := Row{Kind: kind, Result: v1.DisruptionMeasured}
		for i := range d.Paths {
			p := &d.Paths[i]
			switch {
			case p.Kind != kind:
			case kind == v1.PathAPIRead, kind == v1.PathAPIWatch, len(p.Outages) > 0:
				row := Row{
					Kind:   kind,
					Title:  Title(kind, p.Path),
					Of:     p,
					Result: p.Result,
				}
				row.add(p)
				out = append(out, row)
			default:
				rest.add(p)
				rest.Result = worse(rest.Result, p.Result)
			}
		}
		if rest.Paths > 0 {
			rest.Title = restTitle(kind, rest.Paths, rest.Paths < countPaths(d, kind))
			out = append(out, rest)
		}
	}
	return out
}

func (r *Row) add(p *v1.PathDisruption) {
	r.Paths++
	r.Looks, r.Reconnects, r.Outages = r.Looks+p.Looks, r.Reconnects+p.Reconnects, r.Outages+len(p.Outages)
	r.LongestSeconds, r.SlowestSeconds = max(r.LongestSeconds, p.LongestSeconds), max(r.SlowestSeconds, p.SlowestSeconds)
	r.TotalSeconds += p.TotalSeconds
	unobserved := 0.0
	for _, u := range p.Unobserved {
		unobserved += u.Seconds
	}
	r.UnobservedSeconds = max(r.UnobservedSeconds, unobserved)
}

// worse returns the result that says more.
func worse(a, b string) string {
	order := map[string]int{
		v1.DisruptionMeasured: 0,
		v1.DisruptionWithin:   1,
		v1.DisruptionUnknown:  2,
		v1.DisruptionOver:     3,
	}
	if order[b] > order[a] {
		return b
	}
	return a
}

func countPaths(d v1.Disruption, kind string) int {
	n := 0
	for _, p := range d.Paths {
		if p.Kind == kind {
			n++
		}
	}
	return n
}

// restTitle names the paths of a kind that share a row.
func restTitle(kind string, n int, others bool) string {
	what := map[string]string{
		v1.PathEndpoints: "Service with ready endpoints",
		v1.PathTCP:       "load balancer port",
		v1.PathTCPKept:   "kept connection",
		v1.PathHTTP:      "URL",
	}[kind]
	if kind == v1.PathEndpoints && n != 1 {
		what = "Services with ready endpoints"
	} else if n != 1 {
		what += "s"
	}
	if others {
		return fmt.Sprintf("%d other %s", n, what)
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Totals are the numbers of what was seen so far, by kind of path. They name no path: there are as many kinds in a
// cluster of five hundred load balancers as in one of two.
func Totals(d v1.Disruption) *v1.ProbeTotals {
	out := &v1.ProbeTotals{BudgetSeconds: d.BudgetSeconds}
	for _, kind := range Kinds {
		of := v1.ProbeKindTotals{Kind: kind}
		for _, p := range d.Paths {
			if p.Kind != kind {
				continue
			}
			of.Paths++
			of.LongestSeconds = max(of.LongestSeconds, p.LongestSeconds)
			of.TotalSeconds += p.TotalSeconds
		}
		if of.Paths > 0 {
			of.TotalSeconds = math.Round(1000*of.TotalSeconds) / 1000
			out.Kinds = append(out.Kinds, of)
		}
	}
	return out
}

// KnownTotals returns what is known in totals that another program wrote: those of kinds of paths that there are, each
// once. It returns nil for nil.
func KnownTotals(t *v1.ProbeTotals) *v1.ProbeTotals {
	if t == nil {
		return nil
	}
	out := &v1.ProbeTotals{BudgetSeconds: t.BudgetSeconds}
	for _, kind := range Kinds {
		if at := slices.IndexFunc(t.Kinds, func(of v1.ProbeKindTotals) bool { return of.Kind == kind }); at >= 0 {
			out.Kinds = append(out.Kinds, t.Kinds[at])
		}
	}
	return out
}

// lengthOf writes the length of an outage as a report does.
func lengthOf(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// kept are the figures of the kept connections.
type kept struct {
	paths, cuts, closedIdle int
	longest                 float64
	// open reports whether no new connection stands yet after a cut.
	open bool
}

func keptOf(d v1.Disruption) kept {
	var out kept
	for _, p := range d.Paths {
		if p.Kind != v1.PathTCPKept {
			continue
		}
		out.paths++
		out.cuts += len(p.Outages)
		out.closedIdle += p.Reconnects
		out.longest = max(out.longest, p.LongestSeconds)
		out.open = out.open || slices.ContainsFunc(p.Outages, func(o v1.Outage) bool { return o.Open })
	}
	return out
}

// KeptSummary says how often kept connections were cut, and how long it took at most until a new one stood. It is empty
// where none was kept.
func KeptSummary(d v1.Disruption) string {
	k := keptOf(d)
	if k.paths == 0 {
		return ""
	}
	s := "kept connections: none cut"
	switch {
	case k.open:
		s = fmt.Sprintf("kept connections: %d cut, longest %s or more until a new one", k.cuts, lengthOf(k.longest))
	case k.cuts > 0:
		s = fmt.Sprintf("kept connections: %d cut, longest %s until a new one", k.cuts, lengthOf(k.longest))
	}
	if k.closedIdle > 0 {
		s += fmt.Sprintf(" (%d closed while idle)", k.closedIdle)
	}
	return s
}

// Summary is the sentence for the end of a run. What it says of paths is of those that are asked again and again; kept
// connections have figures of their own.
func Summary(d v1.Disruption) string {
	outages, longest, where, paths := 0, 0.0, "", 0
	for _, p := range d.Paths {
		if p.Kind == v1.PathTCPKept {
			continue
		}
		paths++
		outages += len(p.Outages)
		if p.LongestSeconds > longest {
			longest, where = p.LongestSeconds, Title(p.Kind, p.Path)
		}
	}
	s := fmt.Sprintf("%d paths, ", paths)
	switch outages {
	case 0:
		s += "no outage"
	case 1:
		s += fmt.Sprintf("1 outage of %s (%s)", lengthOf(longest), where)
	default:
		s += fmt.Sprintf("%d outages, the longest %s (%s)", outages, lengthOf(longest), where)
	}
	if text := KeptSummary(d); text != "" {
		s += "; " + text
	}
	if n := len(d.NotProbed); n > 0 {
		s += fmt.Sprintf("; %d not probed", n)
	}
	switch {
	case d.BudgetSeconds == nil:
	case d.Result == v1.DisruptionWithin:
		s += fmt.Sprintf("; within the budget of %g s", *d.BudgetSeconds)
	case d.Result == v1.DisruptionOver:
		s += fmt.Sprintf("; OVER the budget of %g s", *d.BudgetSeconds)
	default:
		s += fmt.Sprintf("; whether it kept the budget of %g s is unknown: %s", *d.BudgetSeconds, d.Reasons[0])
	}
	return s
}
