package bench

import (
	"context"
	"slices"
)

// scenario is a piece of work whose cost is compared.
type scenario struct {
	name     string
	does     string   // for people
	nodes    []int    // sizes
	services int      // 0: it has none
	throttle bool     // it is tried with a throttled cloud too
	untuned  bool     // upstream's settings for speed play no part
	watched  bool     // it takes as long as it is watched
	parts    []string // the names of its results, if it has several
	measure  func(ctx context.Context, w *world) ([]Result, error)
}

// scenarios are all of them, in the order in which they run.
var scenarios = []scenario{
	{name: "join", does: "nodes join at once; from a node's creation until it may take pods",
		nodes: []int{1000, 5000}, throttle: true, measure: join},
	{
		name:     "services",
		does:     "one node, then 20 nodes over 10 s are added to the load balancers; then another process takes over, and nothing has changed",
		nodes:    []int{500},
		services: 200,
		throttle: true,
		parts:    []string{oneNode, twentyNodes, takeover},
		measure:  services,
	},
	{
		name:     "churn",
		does:     "Services are made while a node is added to all load balancers; then a hundred nodes are replaced in batches of ten",
		nodes:    []int{500},
		services: 200,
		throttle: true,
		parts:    []string{newServices, replacedNodes},
		measure:  churn,
	},
	{
		name:    "routes",
		does:    "nodes need a route each when the manager starts; from then until a node's network is available",
		nodes:   []int{500},
		measure: routes,
	},
	{name: "routes-failing", does: "the same while 5% of the calls that create a route fail",
		nodes: []int{500}, measure: routesFailing},
	{
		name:     "vanished",
		does:     "all nodes become NotReady, a tenth of them because their instances are gone; from then until such a node is deleted",
		nodes:    []int{500},
		throttle: true,
		measure:  vanished,
	},
	{name: "zone-lost", does: "a third of the nodes becomes NotReady while their instances are there, watched for a while",
		nodes: []int{5000}, watched: true, measure: zoneLost},
	{name: "parked", does: "nodes whose instances are shut down, watched for a while",
		nodes: []int{100}, watched: true, measure: parked},
	{
		name:    steadyWindow,
		does:    "nothing changes but the nodes' heartbeats: from the start of the process until it is quiet, then watched for a while",
		nodes:   []int{5000},
		watched: true,
		parts:   []string{steadyStart, steadyWindow},
		measure: steady,
	},
	{
		name:    "handover-planned",
		does:    "the leader gets a SIGTERM while another process stands by; until that one has its leases and initialises a node",
		nodes:   []int{10},
		untuned: true,
		measure: handoverPlanned,
	},
	{name: "handover-crash", does: "the same with a SIGKILL",
		nodes: []int{10}, untuned: true, measure: handoverCrash},
	{name: "handover-crash-migration", does: "the same with leader migration on, whose lease has to change hands too",
		nodes: []int{10}, untuned: true, measure: handoverCrashMigration},
}

// ScenarioNames are the names of the scenarios.
func ScenarioNames() []string {
	var out []string
	for _, s := range scenarios {
		out = append(out, s.name)
	}
	return out
}

// throttles lists the clouds that a scenario is tried with.
func (s scenario) throttles(wanted string) []bool {
	switch {
	case !s.throttle && wanted == ThrottleOn:
		return nil
	case !s.throttle || wanted == ThrottleOff:
		return []bool{false}
	case wanted == ThrottleOn:
		return []bool{true}
	default:
		return []bool{false, true}
	}
}

func (s scenario) compares(i implementation) bool { return !s.untuned || !i.tuned }

// implementation is a manager with its settings.
type implementation struct {
	name  string
	code  string // the program's --implementation
	flags []string
	tuned bool // upstream with more than its defaults
}

const (
	upstreamName = "upstream"
	tunedName    = "upstream-tuned"
	oursName     = "ours"
)

// implementations are all that are compared, upstream first.
var implementations = []implementation{
	{name: upstreamName, code: "upstream"},
	{name: tunedName, code: "upstream", tuned: true, flags: []string{
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		"--concurrent-node-syncs=50", "--concurrent-service-syncs=50", "--concurrent-node-lifecycle-syncs=50",
	}},
	{name: oursName, code: "ours"},
}

// ImplementationNames are the names of the implementations.
func ImplementationNames() []string {
	var out []string
	for _, i := range implementations {
		out = append(out, i.name)
	}
	return slices.Clip(out)
}
