package route

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// Between two attempts of the same call.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
	// refusedStep is where the back-off starts, at 8 s, after a lasting answer: no such instance, or access denied.
	refusedStep = 3
)

// call is one call to the cloud that may have to be made again.
type call struct {
	verb        string
	destination destination
	node        types.NodeName
	name        string
}

func deleteOf(d destination, route *cloudprovider.Route) call {
	return call{
		verb:        "delete",
		destination: d,
		node:        route.TargetNode,
		name:        route.Name,
	}
}

func createOf(d destination, c creation) call {
	return call{
		verb:        "create",
		destination: d,
		node:        types.NodeName(c.node.Name),
		name:        string(c.node.UID),
	}
}

// attempt is what is remembered of a call.
type attempt struct {
	failures int
	begun    time.Time // the first attempt
	ended    time.Time // a list that was asked for before this does not say what became of the call
	next     time.Time
	made     bool // the last create succeeded; no list has shown the route yet
	relapsed bool // it succeeded, but a list showed a black hole
	undone   bool // the cloud did nothing, by its answer or as nothing was sent: no list is needed to know that
}

// attempts remembers the calls that failed, and the creates that succeeded until a list shows the route.
type attempts map[call]*attempt

// isDue reports whether a call may be made now.
func (a attempts) isDue(c call, now time.Time) bool {
	known := a[c]
	return known == nil || !known.next.After(now)
}

// hasFailed reports whether a call has failed and not succeeded since. A black hole is no failure to tell users about:
// the cloud took the route.
func (a attempts) hasFailed(c call) bool {
	known := a[c]
	return known != nil && known.failures > 0 && !known.relapsed && !known.made
}

// recordFailure notes a failure of a call that was begun at some time.
func (a attempts) recordFailure(c call, err error, begun, now time.Time) {
	known := a[c]
	if known == nil {
		known = &attempt{begun: begun}
		a[c] = known
	}
	known.failures++
	known.ended, known.made, known.relapsed = now, false, false
	pause := backoff(known.failures)
	switch outcome := cloud.Classify(err); {
	case c.verb != "create":
	case outcome == cloud.OutcomeNotFound, outcome == cloud.OutcomeAuth:
		known.undone, pause = true, backoff(known.failures+refusedStep)
	case outcome == cloud.OutcomeThrottled, cloud.IsUnsent(err):
		known.undone = true
	default:
		known.undone = false
	}
	known.next = now.Add(pause)
}

// succeed notes a success and returns since when it has been tried.
func (a attempts) succeed(c call, begun, now time.Time) time.Time {
	before := a[c]
	if before != nil && !before.relapsed {
		begun = before.begun
	}
	delete(a, c)
	if c.verb == "create" {
		a[c] = &attempt{begun: begun, ended: now, made: true}
		if before != nil && before.relapsed {
			a[c].failures = before.failures
		}
	}
	return begun
}

// observe records what a list shows: creates whose routes are there are done, and those that have become black holes
// count as failed. The list says nothing about ignored destinations.
func (a attempts) observe(routes []*cloudprovider.Route, ignored map[destination]bool, now time.Time) {
	blackhole, healthy := map[destination]bool{}, map[call]bool{}
	for _, route := range routes {
		switch {
		case route == nil: // a provider's mistake
		case route.Blackhole:
			blackhole[destinationOf(route.DestinationCIDR)] = true
		default:
			healthy[call{verb: "create", destination: destinationOf(route.DestinationCIDR), node: route.TargetNode}] = true
		}
	}
	for c, known := range a {
		switch {
		case c.verb != "create" || ignored[c.destination]:
		case known.made && blackhole[c.destination]:
			known.failures++
			known.made, known.relapsed, known.next = false, true, now.Add(backoff(known.failures))
		case known.made || healthy[call{verb: "create", destination: c.destination, node: c.node}]:
			delete(a, c)
		}
	}
}

// dropUnwanted forgets the failed calls that are no longer wanted.
func (a attempts) dropUnwanted(wanted map[call]bool) {
	for c, known := range a {
		if !wanted[c] && !known.made {
			delete(a, c)
		}
	}
}

// failing counts the calls that failed last time, by verb.
func (a attempts) failing(verb string) (n int) {
	for c, known := range a {
		if c.verb == verb && known.failures > 0 && !known.made {
			n++
		}
	}
	return n
}

// backoff is how long to wait after the n-th failure in a row. The jitter keeps what failed together from being sent
// together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if failures < 7 {
		d = min(d, minBackoff<<(failures-1))
	}
	return wait.Jitter(d, 0.2)
}
