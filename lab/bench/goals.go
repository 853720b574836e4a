package bench

import "fmt"

// goal is what our manager is to reach in a scenario at a size, with a cloud that throttles nothing. Times depend on
// the machine, so that no test holds them: each run says which goals it has reached.
type goal struct {
	scenario        string
	nodes, services int // 0 is any number of services
	what            string
	limit           float64
	of              func(r Result, tuned *Result) (value float64, ok bool)
}

func always(value func(Result) float64) func(Result, *Result) (float64, bool) {
	return func(r Result, _ *Result) (float64, bool) { return value(r), true }
}

var goals = []goal{
	{"join", 15000, 0, "seconds, in times of tuned upstream's", 1, func(r Result, tuned *Result) (float64, bool) {
		if tuned == nil || tuned.Seconds == 0 {
			return 0, false
		}
		return r.Seconds / tuned.Seconds, true
	}},
	{"join", 15000, 0, "cloud calls", 60, always(func(r Result) float64 { return float64(r.CloudCalls) })},
	{oneNode, 500, 200, "seconds until the last load balancer has the node", 0.5, always(func(r Result) float64 { return r.Seconds })},
	{twentyNodes, 500, 200, "seconds until the last load balancer has all nodes", 11, always(func(r Result) float64 { return r.Seconds })},
	{twentyNodes, 500, 200, "changes of one load balancer", 2, always(func(r Result) float64 { return float64(r.MostPerObject) })},
	{oneNode, 15000, 2000, "seconds until the first load balancer has the node", 1, always(func(r Result) float64 { return r.FirstSeconds })},
	{newServices, 15000, 2000, "seconds that a new Service waits, of a hundred all but one", 2, always(func(r Result) float64 { return r.P99Seconds })},
	{steadyWindow, 5000, 0, "MiB that were resident", 60, always(func(r Result) float64 { return float64(r.MaxRSSBytes) / (1 << 20) })},
	{steadyWindow, 15000, 0, "percent of a core", 1, always(func(r Result) float64 { return r.CorePercent })},
}

// reached says of each goal that was measured whether it is reached.
func reached(results []Result) (lines []string) {
	_, members := groups(results)
	for _, g := range goals {
		for _, r := range results {
			if r.Implementation != oursName || r.Scenario != g.scenario || r.Nodes != g.nodes || r.Throttled ||
				g.services != 0 && r.Services != g.services {
				continue
			}
			var tuned *Result
			for _, other := range members[r.group()] {
				if other.Implementation == tunedName {
					tuned = &other
				}
			}
			value, ok := g.of(r, tuned)
			if !ok {
				continue
			}
			verdict := "reached"
			if value > g.limit || !r.Complete {
				verdict = "missed"
			}
			lines = append(lines, fmt.Sprintf("goal of %s: at most %g %s: %s, %s", r.group(), g.limit, g.what, decimal(value), verdict))
		}
	}
	return lines
}
