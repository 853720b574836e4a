package difftest

import (
	"fmt"
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

// classes are all operations. An implementation may ask in another way, but not more often.
var classes = []class{
	{"looking at instances", []api.Operation{api.DescribeInstances}},
	{"looking at load balancers", []api.Operation{api.GetLoadBalancer}},
	{"ensuring load balancers", []api.Operation{api.EnsureLoadBalancer}},
	{"updating load balancers", []api.Operation{api.UpdateLoadBalancer}},
	{"deleting load balancers", []api.Operation{api.DeleteLoadBalancer}},
	{"listing routes", []api.Operation{api.ListRoutes}},
	{"creating routes", []api.Operation{api.CreateRoute}},
	{"deleting routes", []api.Operation{api.DeleteRoute}},
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
