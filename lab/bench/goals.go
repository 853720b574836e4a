package bench

import (
	"fmt"
	"slices"
)

// goal is what our manager is to reach in a scenario at a size, with a cloud that throttles nothing. Times depend on
// the machine, so that no test holds them: each run says which goals it has reached.
type goal struct {
	scenario        string
	nodes, services int // 0 is any number of services
	what            string
	figure          string // the title of the figure that is looked at
	isRatio         bool   // the figure counts in times of tuned upstream's
	limit           float64
}

var goals = []goal{
	{
		scenario: "join",
		nodes:    15000,
		what:     "seconds, in times of tuned upstream's",
		figure:   "seconds",
		isRatio:  true,
		limit:    1,
	},
	{
		scenario: "join",
		nodes:    15000,
		what:     "cloud calls",
		figure:   "cloud calls",
		limit:    60,
	},
	{
		scenario: oneNode,
		nodes:    500,
		services: 200,
		what:     "seconds until the last load balancer has the node",
		figure:   "seconds",
		limit:    0.5,
	},
	{
		scenario: twentyNodes,
		nodes:    500,
		services: 200,
		what:     "seconds until the last load balancer has all nodes",
		figure:   "seconds",
		limit:    11,
	},
	{
		scenario: twentyNodes,
		nodes:    500,
		services: 200,
		what:     "changes of one load balancer",
		figure:   "most per load balancer",
		limit:    2,
	},
	{
		scenario: oneNode,
		nodes:    15000,
		services: 2000,
		what:     "seconds until the first load balancer has the node",
		figure:   "first s",
		limit:    1,
	},
	{
		scenario: newServices,
		nodes:    15000,
		services: 2000,
		what:     "seconds that a new Service waits, of a hundred all but one",
		figure:   "p99 s",
		limit:    2,
	},
	{
		scenario: steadyWindow,
		nodes:    5000,
		what:     "MiB that were resident",
		figure:   "RSS MiB",
		limit:    60,
	},
	{
		scenario: steadyWindow,
		nodes:    15000,
		what:     "percent of a core",
		figure:   "% of a core",
		limit:    1,
	},
}

// of is what the goal looks at in a result. It is false where there is nothing to compare with.
func (g goal) of(r Result, group []Result) (value float64, ok bool) {
	f := figures[slices.IndexFunc(figures, func(f figure) bool { return f.title == g.figure })]
	if !g.isRatio {
		return f.value(r), true
	}
	i := slices.IndexFunc(group, func(other Result) bool { return other.Implementation == tunedName })
	if i < 0 {
		return 0, false
	}
	base := f.value(group[i])
	return f.value(r) / base, base != 0
}

func (g goal) isFor(r Result) bool {
	return r.Implementation == oursName && r.Scenario == g.scenario && r.Nodes == g.nodes && !r.Throttled &&
		(g.services == 0 || r.Services == g.services)
}

// reached says of each goal that was measured whether it is reached.
func reached(results []Result) (lines []string) {
	_, members := groups(results)
	for _, g := range goals {
		for _, r := range results {
			if !g.isFor(r) {
				continue
			}
			value, ok := g.of(r, members[r.group()])
			if !ok {
				continue
			}
			verdict := "reached"
			if value > g.limit || !r.Complete {
				verdict = "missed"
			}
			lines = append(lines, fmt.Sprintf("goal of %s: at most %g %s: %s, %s",
				r.group(), g.limit, g.what, decimal(value), verdict))
		}
	}
	return lines
}
