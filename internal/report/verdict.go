package report

import (
	"fmt"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// clock is how sentences write a time.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// unpromised names, for each owner that ended, the window in which nothing but its own election kept it from writing.
// No election of upstream's fences a cloud API. A manager that is paused and resumed goes on writing until it has
// failed to renew its lease for its renew deadline. The window of a handover is from the old owner's last renewal to
// the end of its process. Our own manager has no such window: it asks its fence before each request.
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
			out = append(
				out,
				fmt.Sprintf(
					"%s was not fenced, and its process was not seen to end: after a pause it could have gone on writing for %s",
					who,
					deadline(in.Journal),
				),
			)
		case !known:
			out = append(
				out,
				fmt.Sprintf(
					"%s was not fenced: had it been paused and resumed before its process ended at %s, it could have gone on writing. When it had "+
						"renewed its lease last was not seen; the window is at most %s, its renew deadline",
					who,
					clock(until),
					deadline(in.Journal),
				),
			)
		default:
			window := max(0, until.Sub(last.at))
			out = append(
				out,
				fmt.Sprintf(
					"%s was not fenced; it renewed lease %s last at %s, and its process ended at %s; had it been paused in these %.3f s, "+
						"it could have gone on writing",
					who,
					last.lease,
					clock(last.at),
					clock(until),
					window.Seconds(),
				),
			)
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

// lastRenewals finds each process's last renewal of a lease that was released for it, in the line that shows the lease
// without it. Of several leases the one that was renewed first counts: it began the window.
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

// endOf is when the process of a tenure was first seen gone, by the log or by the engine. It also reports whether it
// was seen at all.
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

// order is that of results: the first thing that is not ok names the result.
var order = []string{
	v1.ResultFailed,
	v1.ResultOverlap,
	v1.ResultLost,
	v1.ResultDisrupted,
	v1.ResultUnknown,
	v1.ResultUnfinished,
	v1.ResultRolledBack,
}

// reasons collects what is not ok, by result.
type reasons map[string][]string

func (r reasons) add(result, format string, args ...any) {
	r[result] = append(r[result], fmt.Sprintf(format, args...))
}

// verdict is ok only when every step is done, no managers overlapped, and nothing in the inventory changed
// unexpectedly. Every loop must have an owner, and nothing that matters may be unknown.
func verdict(in Input, r v1.Report) (string, []string) {
	why := reasons{}
	why.steps(in.Journal, r.Steps)
	why.owners(in, r)
	why.inventory(in, r.Inventory)
	why.unknownParts(in, r.Inventory)
	why.disruption(r.Disruption)
	for _, u := range r.Unknown {
		why.add(v1.ResultUnknown, "%s", u)
	}
	if in.Journal.Phase == v1.RunRolledBack {
		why.add(v1.ResultRolledBack, "the migration was rolled back")
	}
	result, all := v1.ResultOK, []string(nil)
	for _, kind := range order {
		if len(why[kind]) == 0 {
			continue
		}
		if len(all) == 0 {
			result = kind
		}
		all = append(all, why[kind]...)
	}
	return result, all
}

// steps says which steps are not done. Steps of a migration that was rolled back may have failed: that is why it was.
func (why reasons) steps(j v1.Journal, steps []v1.StepReport) {
	undone := map[string]bool{}
	if j.Rollback != nil {
		for _, s := range j.Plan.Steps {
			undone[s.ID] = true
		}
		for _, s := range j.Rollback.Steps {
			delete(undone, s.ID)
		}
	}
	pending := 0
	for _, s := range steps {
		if undone[s.ID] {
			continue
		}
		switch s.Result {
		case v1.StepResultFailed:
			why.add(v1.ResultFailed, "step %s failed: %s", s.ID, s.Error)
		case v1.StepResultUndone:
			why.add(v1.ResultFailed, "step %s was done and taken back: %s", s.ID, orNone(s.Error))
		case v1.StepResultStarted, v1.StepResultInterrupted:
			why.add(v1.ResultUnfinished, "step %s was begun and is not done", s.ID)
		case v1.StepResultPending:
			pending++
		default: // every other result is as it should be
		}
	}
	if pending > 0 {
		why.add(v1.ResultUnfinished, "%d of %d steps were not begun", pending, len(steps))
	}
	if len(why[v1.ResultUnfinished]) == 0 && j.IsUnderWay() {
		why.add(v1.ResultUnfinished, "the run has not ended: its phase is %s", j.Phase)
	}
}

// logEnd is when the last line of a log was written.
func logEnd(events []v1.OwnershipEvent) (end time.Time) {
	for _, e := range events {
		if e.Time.After(end) {
			end = e.Time
		}
	}
	return end
}

func (why reasons) owners(in Input, r v1.Report) {
	for _, o := range r.Overlaps {
		if o.Evidence == v1.EvidenceCalls {
			why.add(v1.ResultOverlap, "%s: %s of %s arrived next to %s, between %s and %s",
				o.Loop, english.Count(len(o.Calls), "mutating call"), o.Old, o.New, clock(o.Start), clock(o.End))
		} else {
			why.add(
				v1.ResultOverlap,
				"%s: %s and %s both ran it between %s and %s, as their gauges say",
				o.Loop,
				o.Old,
				o.New,
				clock(o.Start),
				clock(o.End),
			)
		}
	}
	for _, g := range allGaps(r) {
		switch {
		case g.To != "":
		case in.Journal.IsUnderWay(): // the log ends where the command did, and a loop may have found its owner since
			why.add(v1.ResultUnfinished, "%s: no manager was seen to run it from %s, when %s ended, to %s, when the log ends",
				g.Loop, clock(g.Start), g.From, clock(logEnd(in.Events)))
		default:
			why.add(v1.ResultFailed, "%s: no manager has run it since %s ended at %s", g.Loop, g.From, clock(g.Start))
		}
	}
}

func (why reasons) inventory(in Input, inv v1.InventoryReport) {
	var lost []string
	for _, d := range inv.Differences {
		if !d.Expected && d.Accepted == "" {
			lost = append(lost, sentence(d))
		}
	}
	sort.Strings(lost)
	for _, l := range lost {
		why.add(v1.ResultLost, "%s", l)
	}
	switch {
	case inv.Known || in.Journal.IsUnderWay() && in.After == nil:
	case in.Before == nil || in.After == nil:
		why.add(v1.ResultUnknown, "inventory: there is no snapshot from %s the migration to compare with", missingSide(in))
	default:
		why.add(
			v1.ResultUnknown,
			"inventory: it is incomplete: %s",
			strings.Join(append(gatherErrors(in.Before), gatherErrors(in.After)...), "; "),
		)
	}
}

// unknownParts are those parts of the inventory that could not be compared, next to nodes, services and the cloud.
func (why reasons) unknownParts(in Input, inv v1.InventoryReport) {
	if in.Before == nil || in.After == nil {
		return // said already
	}
	for _, u := range inv.Unknown {
		why.add(v1.ResultUnknown, "inventory: it is incomplete: %s", u)
	}
}

func missingSide(in Input) string {
	switch {
	case in.Before == nil && in.After == nil:
		return "before or after"
	case in.Before == nil:
		return "before"
	}
	return "after"
}

// sentence says what a difference is.
func sentence(d v1.Difference) string {
	switch {
	case d.Field == fieldObject && d.After == "":
		return fmt.Sprintf("%s is gone", d.Object)
	case d.Field == fieldObject && d.Before == "":
		return fmt.Sprintf("%s is new", d.Object)
	}
	return fmt.Sprintf("%s: %s was %s and is %s", d.Object, d.Field, orNone(d.Before), orNone(d.After))
}

func orNone(s string) string {
	if s == "" {
		return "empty"
	}
	return s
}
