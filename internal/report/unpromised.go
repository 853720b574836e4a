package report

import (
	"fmt"
	"sort"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// clock is how sentences write a time.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// unpromised names, for each owner that ended, the window in which nothing but its own election kept it from writing. No election of upstream's fences
// a cloud API: a manager that is paused and resumed goes on writing until it has failed to renew its lease for its renew deadline. The window of a
// handover is from the old owner's last renewal to the end of its process. Our own manager has no such window: it asks its fence before each request.
func unpromised(in Input, j ownership.Judgement) []string {
	renewed := lastRenewals(in)
	seen := map[string]bool{}
	var out []string
	for _, t := range sortedByEnd(j.Tenures) {
		who := fmt.Sprintf("%s@%s (pid %d)", t.Component, t.Host, t.PID)
		if t.PID == 0 {
			who = t.Component + "@" + t.Host
		}
		fenced := t.Component == string(controllernames.CloudControllerManager) && proven.Ours(in.Journal.Plan.Options.Image)
		if t.To == nil || t.Loop == "cloud-node" || fenced || seen[who] {
			continue
		}
		seen[who] = true
		until, proven := endOf(in, t)
		last, known := renewed[processID{t.Component, t.Host, t.PID}]
		switch {
		case !proven:
			out = append(out, fmt.Sprintf("%s was not fenced, and its process was not seen to end: had it been paused and resumed, it could have gone on writing for %s",
				who, deadline(in.Journal)))
		case !known:
			out = append(out, fmt.Sprintf("%s was not fenced: had it been paused and resumed before its process ended at %s, it could have gone on writing. When it had "+
				"renewed its lease last was not seen; the window is at most %s, its renew deadline", who, clock(until), deadline(in.Journal)))
		default:
			window := max(0, until.Sub(last.at))
			out = append(out, fmt.Sprintf("%s was not fenced: had it been paused and resumed between its last renewal of lease %s at %s and the end of its process at %s, "+
				"it could have gone on writing in these %.3f s", who, last.lease, clock(last.at), clock(until), window.Seconds()))
		}
	}
	return out
}

func deadline(j v1.Journal) string {
	if d := j.Plan.Options.RenewDeadline; d != "" {
		return d
	}
	return "10s"
}

func sortedByEnd(in []v1.Tenure) []v1.Tenure {
	var out []v1.Tenure
	for _, t := range in {
		if t.To != nil {
			out = append(out, t)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].To.Before(*out[b].To) })
	return out
}

type processID struct {
	component, host string
	pid             int
}

// renewal is the last one of a holder that was seen.
type renewal struct {
	lease string
	at    time.Time
}

// lastRenewals finds each process's last renewal of a lease that was released for it, in the line that shows the lease without it. Of
// several leases the one that was renewed first counts: it began the window.
func lastRenewals(in Input) map[processID]renewal {
	type holding struct{ lease, holder string }
	last := map[holding]time.Time{}
	holders := map[string]string{}
	events := append([]v1.OwnershipEvent(nil), in.Events...)
	sort.SliceStable(events, func(a, b int) bool { return events[a].Time.Before(events[b].Time) })
	for _, e := range events {
		if e.Source != v1.SourceLease || e.Error != "" {
			continue
		}
		if e.PreviousRenewed != nil && holders[e.Lease] != "" && holders[e.Lease] != e.Holder {
			last[holding{e.Lease, holders[e.Lease]}] = *e.PreviousRenewed
		}
		holders[e.Lease] = e.Holder
	}
	out := map[processID]renewal{}
	for _, rec := range in.Journal.Records {
		for _, h := range rec.Handovers {
			id := processID{h.Component, h.Host, h.PID}
			at, ok := last[holding{h.Lease, h.Holder}]
			if have, already := out[id]; ok && (!already || at.Before(have.at)) {
				out[id] = renewal{h.Lease, at}
			}
		}
	}
	return out
}

// endOf is when the process of a tenure was first seen gone, by the log or by the engine, and whether it was seen at all.
func endOf(in Input, t v1.Tenure) (time.Time, bool) {
	if t.End != v1.EndProcess {
		return *t.To, false
	}
	id := processID{t.Component, t.Host, t.PID}
	var seen []time.Time
	for _, e := range in.Events {
		if e.Ended && id == (processID{e.Component, e.Host, e.PID}) {
			seen = append(seen, e.Time)
		}
	}
	for _, rec := range in.Journal.Records {
		for _, h := range rec.Handovers {
			if h.Ended != nil && id == (processID{h.Component, h.Host, h.PID}) {
				seen = append(seen, *h.Ended)
			}
		}
	}
	end := time.Time{}
	for _, at := range seen {
		if !at.Before(*t.To) && (end.IsZero() || at.Before(end)) {
			end = at
		}
	}
	if end.IsZero() {
		end = *t.To
	}
	return end, true
}
