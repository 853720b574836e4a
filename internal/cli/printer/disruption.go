package printer

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/probe"
)

// outagesShown are how many outages of a path are listed below the table; wide lists all.
const outagesShown = 5

// PrintDisruption prints the table of paths, then the outages one by one, then what was not looked at.
func PrintDisruption(w io.Writer, d v1.Disruption, l Layout) error {
	d = safe(d)
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "  \tPATH\tLOOKS\tOUTAGES\tLONGEST\tTOTAL\tBUDGET\n")
	for _, r := range probe.Rows(d) {
		fmt.Fprintf(
			table,
			"%s\t%s\t%d\t%d\t%s\t%s\t%s\n",
			l.Mark(disruptionMark(r)),
			r.Title,
			r.Looks,
			r.Outages,
			formatSeconds(r.LongestSeconds),
			formatSeconds(r.TotalSeconds),
			budgetWord(d, r),
		)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = l.Cut(strings.TrimRight(lines[i], " "))
	}
	text := strings.Join(append(lines, disruptionDetails(d, l)...), "\n") + "\n"
	_, err := io.WriteString(w, l.Plain(text))
	return err
}

// disruptionMark is never a cross without a budget: what no budget forbids is only reported.
func disruptionMark(r probe.Row) v1.Outcome {
	switch {
	case r.Result == v1.DisruptionOver:
		return v1.Fail
	case r.Result == v1.DisruptionUnknown:
		return v1.Unknown
	case r.Outages > 0:
		return v1.Warn
	}
	return v1.Pass
}

func budgetWord(d v1.Disruption, r probe.Row) string {
	switch {
	case d.BudgetSeconds == nil:
		return "-"
	case r.Result == v1.DisruptionOver:
		return fmt.Sprintf("over %g s", *d.BudgetSeconds)
	case r.Result == v1.DisruptionUnknown:
		return "unknown"
	}
	return "kept"
}

// formatSeconds writes the length of outages; none is a dash.
func formatSeconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f s", s)
}

func disruptionDetails(d v1.Disruption, l Layout) []string {
	var out []string
	if kept := probe.KeptSummary(d); kept != "" {
		out = append(out, l.Cut(kept))
	}
	for _, p := range d.Paths {
		if showsReconnects(p, l) {
			out = append(
				out,
				l.Cut(fmt.Sprintf("%s was opened again %s", probe.Title(p.Kind, p.Path), english.Count(p.Reconnects, "time"))),
			)
		}
		for i, o := range p.Outages {
			if i == outagesShown && !l.Wide {
				out = append(out, fmt.Sprintf("  %d more of %s (-o wide, -o json)", len(p.Outages)-i, probe.Title(p.Kind, p.Path)))
				break
			}
			out = append(out, l.Cut(outageLine(p, o)))
		}
		for _, u := range p.Unobserved {
			out = append(
				out,
				l.Cut(
					fmt.Sprintf(
						"%s %s was not looked at for %.1f s from %s: %s",
						l.Mark(v1.Unknown),
						probe.Title(p.Kind, p.Path),
						u.Seconds,
						timeOf(u.From),
						u.Why,
					),
				),
			)
			if !l.Wide && p.Kind == v1.PathEndpoints {
				break
			}
		}
		if !l.Wide && len(out) > 60 {
			out = append(out, "more of this: -o wide, -o json")
			break
		}
	}
	for _, u := range d.Unobserved {
		out = append(
			out,
			l.Cut(fmt.Sprintf("%s no probe ran for %.1f s from %s: %s", l.Mark(v1.Unknown), u.Seconds, timeOf(u.From), u.Why)),
		)
	}
	for _, n := range d.NotProbed {
		out = append(
			out,
			l.Cut(
				fmt.Sprintf(
					"%s not probed: %s: %s",
					l.Mark(v1.Skip),
					probe.Title(n.Kind, n.Path),
					strings.ReplaceAll(n.Why, "\n", "; "),
				),
			),
		)
	}
	return out
}

// showsReconnects reports whether a path has a line on its reconnects. Kept connections may be hundreds, each closed
// while idle; their sum is above.
func showsReconnects(p v1.PathDisruption, l Layout) bool {
	return p.Reconnects > 0 && (p.Kind != v1.PathTCPKept || l.Wide)
}

func outageLine(p v1.PathDisruption, o v1.Outage) string {
	s := fmt.Sprintf("  %s was %s: %s", probe.Title(p.Kind, p.Path), outageWords(p.Kind, o), o.Error)
	if len(o.Steps) > 0 {
		s += "; during " + strings.Join(o.Steps, ", ")
	}
	return strings.ReplaceAll(s, "\n", "; ")
}

func outageWords(kind string, o v1.Outage) string {
	begin, end := timeOf(o.Begin), timeOf(o.End)
	isKept := kind == v1.PathTCPKept
	switch {
	case isKept && o.Open:
		return fmt.Sprintf("cut at %s; no new one stood when it was looked at last, at %s, %.3f s later", begin, end, o.Seconds)
	case isKept:
		return fmt.Sprintf("cut at %s; a new one stood after %.3f s", begin, o.Seconds)
	}
	last := "to " + end
	if o.Open {
		last = "and still when it was looked at last, at " + end
	}
	return fmt.Sprintf("out for %.3f s (%.3f s for certain), from %s %s", o.Seconds, o.LeastSeconds, begin, last)
}

func timeOf(t time.Time) string { return t.UTC().Format("15:04:05.000") }
