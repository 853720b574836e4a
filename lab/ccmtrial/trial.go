// Package ccmtrial decides whether two managers ever act at the same time: it runs them as processes, against a real
// kube-apiserver and a simulated cloud, keeps them busy, stops, freezes or kills the leader, and reads in the audit
// logs of both sides who did what and when.
//
//	load --> leader, standby --> audit logs of cloud and kube-apiserver --> acts --> takeover: the successor's first act, the old leader's late ones
//
// Processes are told apart by their user in the API and their name in the cloud, so that nothing has to be believed
// that they say of themselves.
package ccmtrial

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// act is something that a process changed, or tried to change, and that arrived.
type act struct {
	by    string
	at    time.Time // when it arrived
	cloud bool      // at the cloud, or else at kube-apiserver
	what  string
	loop  string // that made the change; empty where that cannot be told
	// refused is an act that changed nothing. The object had another version than it named, or its body did not come: the
	// fence is asked again when a body is sent. kube-apiserver answers such a request with 500.
	refused bool
}

func (a act) String() string {
	return fmt.Sprintf("%s %s %s", a.at.Format("15:04:05.000"), a.by, a.what)
}

// acts are what the audit logs tell, in the order of arrival.
func acts(calls []simcloud.Call, writes []apiserver.Write) []act {
	var out []act
	for _, c := range calls {
		if c.Mutating {
			out = append(out, act{
				by: c.Caller, at: c.Arrived, cloud: true, what: fmt.Sprintf("%s %s", c.Operation, c.Object),
				loop: loopOfCall(c.Operation),
			})
		}
	}
	for _, w := range writes {
		if ofALoop(w) {
			what := fmt.Sprintf("%s %s/%s %s/%s (%d)", w.Verb, w.Resource, w.Subresource, w.Namespace, w.Name, w.Code)
			refused := w.Code == http.StatusConflict || w.Code == http.StatusInternalServerError
			out = append(out, act{by: w.User, at: w.Received, what: what, refused: refused, loop: loopOfWrite(w)})
		}
	}
	slices.SortStableFunc(out, func(a, b act) int { return a.at.Compare(b.at) })
	return out
}

// ofALoop reports whether a write is a controller's. Leader election writes leases and events about them, and the
// checks of whoever scrapes a manager are creations to the API.
func ofALoop(w apiserver.Write) bool {
	switch w.Resource {
	case "leases", "tokenreviews", "subjectaccessreviews":
		return false
	case "events":
		return !strings.HasPrefix(w.Name, mainLease+".") && !strings.HasPrefix(w.Name, migrationLease+".")
	}
	return true
}

// The loops that acts are told apart by.
const (
	loopService   = "service"
	loopRoute     = "route"
	loopNode      = "cloud-node"
	loopLifecycle = "cloud-node-lifecycle"
)

func loopOfCall(o api.Operation) string {
	if o == api.CreateRoute || o == api.DeleteRoute {
		return loopRoute
	}
	return loopService
}

// loopOfWrite is empty for events about nodes, which two loops write.
func loopOfWrite(w apiserver.Write) string {
	switch {
	case w.Resource == "services", w.Resource == "events" && strings.HasPrefix(w.Name, servicePrefix):
		return loopService
	case w.Resource == "nodes" && w.Verb == "delete":
		return loopLifecycle
	case w.Resource == "nodes":
		return loopNode
	}
	return ""
}

// takeover is how the work passed from one process to another.
type takeover struct {
	first act   // of the new leader
	last  act   // of the old leader, whenever it was
	late  []act // of the old leader, after the first of the new one
}

// takeOver finds the takeover from one process to another. It is false while the new one has not acted.
func takeOver(all []act, from, to string) (takeover, bool) {
	var t takeover
	found := false
	for _, a := range all {
		switch {
		case a.by == to && !found:
			t.first, found = a, true
		case a.by == from:
			t.last = a
			if found {
				t.late = append(t.late, a)
			}
		}
	}
	return t, found
}

// gap is for how long nobody acted.
func (t takeover) gap() time.Duration { return t.first.at.Sub(t.last.at) }

// onlyCloud are the acts at the cloud.
func onlyCloud(all []act) []act {
	return slices.DeleteFunc(slices.Clone(all), func(a act) bool { return !a.cloud })
}

// distribution is what many measurements come to.
type distribution []time.Duration

// at is the smallest value that a share of all values does not exceed.
func (d distribution) at(share float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(d), cmp.Compare[time.Duration])
	i := int(share * float64(len(d)))
	return sorted[min(i, len(d)-1)]
}

func (d distribution) String() string {
	round := func(share float64) time.Duration { return d.at(share).Round(time.Millisecond) }
	return fmt.Sprintf("n %d, p50 %s, p99 %s, max %s", len(d), round(0.5), round(0.99), round(1))
}
