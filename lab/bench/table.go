package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// group is what a result is compared within.
type group struct {
	scenario        string
	nodes, services int
	throttled       bool
}

func (r Result) group() group { return group{r.Scenario, r.Nodes, r.Services, r.Throttled} }

// String tells people which group it is.
func (g group) String() string {
	text := fmt.Sprintf("%s: %d nodes", g.scenario, g.nodes)
	if g.services > 0 {
		text += fmt.Sprintf(", %d services", g.services)
	}
	if g.throttled {
		text += ", throttled"
	}
	return text
}

// groups sorts results into groups, in the order of their first results.
func groups(results []Result) (order []group, members map[group][]Result) {
	members = map[group][]Result{}
	for _, r := range results {
		g := r.group()
		if _, ok := members[g]; !ok {
			order = append(order, g)
		}
		members[g] = append(members[g], r)
	}
	return order, members
}

// figure is a column of the table, and a panel of the chart.
type figure struct {
	title  string
	has    func(Result) bool // nil: every result has it
	value  func(Result) float64
	format func(Result) string
}

var figures = []figure{
	{
		title:  "seconds",
		has:    func(r Result) bool { return !r.watched() },
		value:  func(r Result) float64 { return r.Seconds },
		format: func(r Result) string { return bound(r, r.Complete, r.Seconds) },
	},
	{
		title:  "first s",
		has:    func(r Result) bool { return r.sampled() && r.Done > 0 },
		value:  func(r Result) float64 { return r.FirstSeconds },
		format: func(r Result) string { return decimal(r.FirstSeconds) },
	},
	{
		title:  "p50 s",
		has:    Result.sampled,
		value:  func(r Result) float64 { return r.P50Seconds },
		format: func(r Result) string { return bound(r, 2*r.Done >= r.Of, r.P50Seconds) },
	},
	{
		title:  "p99 s",
		has:    Result.sampled,
		value:  func(r Result) float64 { return r.P99Seconds },
		format: func(r Result) string { return bound(r, 100*r.Done >= 99*r.Of, r.P99Seconds) },
	},
	{
		title:  "cloud calls",
		value:  func(r Result) float64 { return float64(r.CloudCalls) },
		format: func(r Result) string { return strconv.Itoa(r.CloudCalls) },
	},
	{
		title:  "API writes",
		value:  func(r Result) float64 { return float64(r.APIWrites) },
		format: func(r Result) string { return strconv.Itoa(r.APIWrites) },
	},
	{
		title:  "CPU s",
		value:  func(r Result) float64 { return r.CPUSeconds },
		format: func(r Result) string { return decimal(r.CPUSeconds) },
	},
	{
		title:  "% of a core",
		has:    Result.watched,
		value:  func(r Result) float64 { return r.CorePercent },
		format: func(r Result) string { return decimal(r.CorePercent) },
	},
	{title: "RSS MiB",
		value:  func(r Result) float64 { return float64(r.MaxRSSBytes) / (1 << 20) },
		format: func(r Result) string { return strconv.FormatInt(r.MaxRSSBytes>>20, 10) }},
	{
		title:  "own MiB",
		has:    func(r Result) bool { return r.OwnBytes > 0 },
		value:  func(r Result) float64 { return float64(r.OwnBytes) / (1 << 20) },
		format: func(r Result) string { return strconv.FormatInt(r.OwnBytes>>20, 10) },
	},
	{
		title:  "most per load balancer",
		has:    func(r Result) bool { return r.Services > 0 },
		value:  func(r Result) float64 { return float64(r.MostPerObject) },
		format: func(r Result) string { return strconv.Itoa(r.MostPerObject) },
	},
}

// text writes the figure of a result.
func (f figure) text(r Result) string {
	switch {
	case f.has == nil || f.has(r):
		return f.format(r)
	case f.title == "seconds":
		return decimal(r.Seconds) + " watched"
	default:
		return "-"
	}
}

// of is the value of the figure, 0 where a result has none.
func (f figure) of(r Result) float64 {
	if f.has != nil && !f.has(r) {
		return 0
	}
	return f.value(r)
}

// bound writes a time, and that it was longer if the limit ended it.
func bound(r Result, exact bool, seconds float64) string {
	if !exact && !r.Complete {
		return "> " + decimal(seconds)
	}
	return decimal(seconds)
}

// decimal writes three digits, or all before the point.
func decimal(x float64) string {
	switch {
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

// WriteTable writes results as people read them: a block for each group, with the ratio to upstream behind each figure.
func WriteTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := []string{""}
	for _, f := range figures {
		header = append(header, f.title, "")
	}
	header = append(header, "done", "mutating", "429", "events")
	order, members := groups(results)
	for _, g := range order {
		fmt.Fprintf(t, "%s\n", g)
		fmt.Fprintln(t, strings.Join(header, "\t"))
		base := baseline(members[g])
		for _, r := range members[g] {
			cells := []string{"  " + r.Implementation}
			for _, f := range figures {
				cells = append(cells, f.text(r), ratio(f, r, base))
			}
			cells = append(cells,
				done(r), strconv.Itoa(r.MutatingCalls), strconv.Itoa(r.ThrottledCalls), strconv.Itoa(r.EventWrites))
			fmt.Fprintln(t, strings.Join(cells, "\t"))
		}
		fmt.Fprintln(t)
	}
	for _, line := range slices.Concat(growths(results), reached(results)) {
		fmt.Fprintln(t, line)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing table: %w", err)
	}
	return nil
}

// growths writes by how much the memory of a watched manager grows with each node, where it was measured with clusters
// of several sizes.
func growths(results []Result) (lines []string) {
	type series struct {
		scenario, implementation string
		services                 int
		throttled                bool
	}
	var order []series
	of := map[series][]Result{}
	for _, r := range results {
		if !r.watched() {
			continue
		}
		s := series{r.Scenario, r.Implementation, r.Services, r.Throttled}
		if of[s] == nil {
			order = append(order, s)
		}
		of[s] = append(of[s], r)
	}
	for _, s := range order {
		smaller := func(a, b Result) int { return cmp.Compare(a.Nodes, b.Nodes) }
		least, most := slices.MinFunc(of[s], smaller), slices.MaxFunc(of[s], smaller)
		if least.Nodes == most.Nodes {
			continue
		}
		kib := float64(most.MaxRSSBytes-least.MaxRSSBytes) / 1024 / float64(most.Nodes-least.Nodes)
		lines = append(lines, fmt.Sprintf("%s, %s: the memory grows by %s KiB a node, from %d to %d nodes",
			s.scenario, s.implementation, decimal(kib), least.Nodes, most.Nodes))
	}
	return lines
}

// done writes how many of how many samples there are.
func done(r Result) string {
	if r.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", r.Done, r.Of)
}

// baseline is upstream's result in a group, if it is there.
func baseline(results []Result) *Result {
	for i := range results {
		if results[i].Implementation != oursName {
			return &results[i]
		}
	}
	return nil
}

// ratio writes how a figure compares with upstream's; nothing where that cannot be said.
func ratio(f figure, r Result, base *Result) string {
	if base == nil || base.Implementation == r.Implementation || f.of(*base) == 0 {
		return ""
	}
	return strconv.FormatFloat(f.of(r)/f.of(*base), 'g', 2, 64) + "x"
}
