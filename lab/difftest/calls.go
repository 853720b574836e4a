package difftest

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// class is a class of operations, which are counted together.
type class struct {
	name       string
	operations []api.Operation
}

const (
	listingRoutes  = "listing routes"
	creatingRoutes = "creating routes"
	deletingRoutes = "deleting routes"
)

// classes are all operations. An implementation may ask in another way, but not more often.
var classes = []class{
	{"looking at instances", []api.Operation{api.DescribeInstances}},
	{"looking at load balancers", []api.Operation{api.GetLoadBalancer}},
	{"ensuring load balancers", []api.Operation{api.EnsureLoadBalancer}},
	{"updating load balancers", []api.Operation{api.UpdateLoadBalancer}},
	{"deleting load balancers", []api.Operation{api.DeleteLoadBalancer}},
	{listingRoutes, []api.Operation{api.ListRoutes}},
	{creatingRoutes, []api.Operation{api.CreateRoute}},
	{deletingRoutes, []api.Operation{api.DeleteRoute}},
}

// probe is the object of our question whether the cloud answers, which readiness asks once. Upstream does not ask.
const probe = "probe"

// counts are the calls of a world by class.
func (w *world) counts() []int {
	var counts []int
	for _, class := range classes {
		n := 0
		for _, call := range w.cloud.Calls(simcloud.Filter{Operations: class.operations}) {
			if call.Object != probe {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// causes is how many calls of a class an implementation had a cause for, where their number does not compare. Upstream
// lists routes by the clock, every 10 s of however long the scenarios take. Ours lists them at its start and for a
// change of nodes: each list but the first has to lead to a route that is made or deleted.
func causes(c class, counts []int) int {
	if c.name != listingRoutes {
		return 0
	}
	n := 1
	for i, other := range classes {
		if slices.Contains([]string{creatingRoutes, deletingRoutes}, other.name) {
			n += counts[i]
		}
	}
	return n
}

// table sets the counts side by side.
func table(upstream, ours []int) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "calls\tupstream\tours\t")
	for i, class := range classes {
		fmt.Fprintf(t, "%s\t%d\t%d\t\n", class.name, upstream[i], ours[i])
	}
	_ = t.Flush() // to memory
	return b.String()
}
