package ownership

import (
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// findUnknowns names the looks that were missing where they could have shown a second owner, or none. A gauge never
// falls while its process lives. So a window between two answers of one process is known from both sides; and a manager
// that leads no lease runs no loop.
func (j *judge) findUnknowns(haveEvents bool) {
	if haveEvents && j.first.Sub(j.opts.From) > j.opts.MaxSilence {
		j.addUnknown("ownership log: nothing was recorded between %s and %s", clockTime(j.opts.From), clockTime(j.first))
	}
	for _, loop := range j.opts.Loops {
		if haveEvents && !slices.ContainsFunc(j.tenures, func(t *tenure) bool { return t.loop == loop }) {
			j.addUnknown("no manager was seen to run %s between %s and %s", loop, clockTime(j.opts.From), clockTime(j.opts.Until))
		}
	}
	for _, h := range j.sortedManagers() {
		for _, i := range h.incarnations {
			j.unseenLoops(i)
		}
	}
	for a, old := range j.tenures {
		j.unprovenEnd(old)
		j.silentOwner(old)
		j.lateStart(old)
		for _, next := range j.tenures[a+1:] {
			if next.loop == old.loop && next.inc != old.inc {
				j.reportSilentOwner(old, next)
			}
		}
	}
	for _, l := range j.leases {
		for _, w := range l.unseen {
			j.addUnknown("lease %s had a holder between %s and %s that was not seen", l.name, clockTime(w.lo), clockTime(w.hi))
		}
	}
}

// unseenLoops finds windows in which a process did not answer and may have begun to run a loop without ever being seen
// to.
func (j *judge) unseenLoops(i *processInstance) {
	fails := i.history.scrapeFail
	if len(i.looks) == 0 && len(fails) == 0 {
		fails = windows{{lo: i.seen, hi: j.opts.Until, why: "its gauges were never asked for"}}
	}
	for _, w := range fails {
		lo, hi := later(w.lo, later(i.since, j.opts.From)), w.hi
		if i.end != nil {
			hi = earlier(hi, i.end.lo)
		}
		if !hi.After(lo) || i.hasAnswerAfter(lo) {
			continue
		}
		leads, said := i.leadsAt(lo)
		if i.runsAll(j.opts.Loops) {
			continue
		}
		// A manager that leads begins its loops together. One that has begun some begins no others without winning another
		// lease. One that has released them is about to end.
		settled := len(leads) == 0 || len(i.segments) > 0
		if (said || len(j.leases) > 0) && settled && !j.hasUnclaimedWin(i.Component, lo, hi) {
			continue
		}
		j.addUnknown(
			"scrape of %s: no answer between %s and %s (%s): whether it ran a loop then is unknown",
			i.name(),
			clockTime(lo),
			clockTime(hi),
			w.why,
		)
	}
}

func (i *processInstance) hasAnswerAfter(t time.Time) bool {
	return slices.ContainsFunc(i.looks, func(l scrape) bool { return l.began.After(t) })
}

func (i *processInstance) openLoops() []string {
	var out []string
	for _, s := range i.segments {
		if s.stopped == nil {
			out = append(out, s.loop)
		}
	}
	return out
}

// runsAll reports whether the process is in a tenure of each of the loops that it could take over.
func (i *processInstance) runsAll(loops []string) bool {
	open := i.openLoops()
	return !slices.ContainsFunc(loops, func(l string) bool { return !slices.Contains(open, l) })
}

// hasUnclaimedWin reports whether a lease that the component contends for was won in the window, or may have been. The
// winner has to be a holder that no manager's answer accounts for.
func (j *judge) hasUnclaimedWin(component string, lo, hi time.Time) bool {
	for _, l := range j.leases {
		if l.name != component && isManager(l.name) {
			continue
		}
		for _, w := range l.fails {
			if w.open && w.lo.Before(hi) {
				return true // the lease itself was not seen any more
			}
		}
		for _, won := range l.wonWithin(lo, hi) {
			if !j.wasClaimed(l.name, won) {
				return true
			}
		}
	}
	return false
}

// wasClaimed reports whether some manager said during the term that it leads.
func (j *judge) wasClaimed(lease string, won term) bool {
	for _, h := range j.managers {
		for _, i := range h.incarnations {
			for _, l := range i.looks {
				if contains(l.leads, lease) && !l.ended.Before(won.after) && (won.lost == nil || !l.began.After(*won.lost)) {
					return true
				}
			}
		}
	}
	return false
}

// unprovenEnd reports owners whose process was not seen to end.
func (j *judge) unprovenEnd(t *tenure) {
	if t.end == nil || t.end.proof == v1.EndProcess || t.end.proof == v1.EndLoop {
		return
	}
	why := "another process answers at its address"
	if t.end.proof == v1.EndLease {
		why = "another manager holds its lease"
	}
	j.addUnknown(
		"process of %s: its end was not seen between %s and %s, only that %s: it may have been paused and may still act",
		t.inc.name(),
		clockTime(t.end.lo),
		clockTime(t.end.hi),
		why,
	)
}

// silentOwner reports an owner that has not ended, as far as anybody knows, and of which nothing was heard until the
// end.
func (j *judge) silentOwner(t *tenure) {
	if t.end != nil || t.segment == nil || j.opts.Until.Sub(t.segment.seen) <= j.opts.MaxSilence {
		return
	}
	j.addUnknown("scrape of %s: no answer after %s until the end at %s: whether it still ran its loops is unknown",
		t.inc.name(), clockTime(t.segment.seen), clockTime(j.opts.Until))
}

// lateStart reports a tenure that may have begun before its predecessor's ended, because looks were missing when it
// began.
func (j *judge) lateStart(t *tenure) {
	if t.certainFrom || t.segment == nil {
		return
	}
	for _, old := range j.tenures {
		if old.loop != t.loop || old.inc == t.inc || old.from.After(t.from) {
			continue
		}
		if old.end == nil || old.end.hi.After(t.notBefore) {
			j.addUnknown(
				"scrape of %s: samples are missing between %s and %s, when it took over %s from %s; whether both ran it for a while is unknown",
				t.inc.name(),
				clockTime(t.notBefore),
				clockTime(t.from),
				j.loopsBetween(old.inc, t.inc),
				old.inc.name(),
			)
		}
	}
}

// reportSilentOwner reports an old owner that was alive and did not answer while a successor ran its loop: it may
// have been paused, or not.
func (j *judge) reportSilentOwner(old, next *tenure) {
	stoppedBefore := old.segment != nil && old.segment.stopped != nil && !old.segment.stopped.hi.After(next.from)
	answered := old.segment != nil && old.segment.seen.After(next.from)
	if stoppedBefore || answered || !old.inc.alive.After(next.from) {
		return
	}
	quiet := old.from
	if old.segment != nil {
		quiet = old.segment.seen
	}
	j.addUnknown(
		"scrape of %s: no answer after %s, while its process lived until %s at least and %s ran %s from %s; whether both acted is unknown",
		old.inc.name(),
		clockTime(quiet),
		clockTime(old.inc.alive),
		next.inc.name(),
		j.loopsBetween(old.inc, next.inc),
		clockTime(next.from),
	)
}

// loopsBetween lists the loops that went from one incarnation to another, so that one sentence tells of all of them.
func (j *judge) loopsBetween(old, next *processInstance) string {
	has := func(i *processInstance, loop string) bool {
		return slices.ContainsFunc(j.tenures, func(t *tenure) bool { return t.inc == i && t.loop == loop })
	}
	var loops []string
	for _, t := range j.tenures {
		if t.inc == next && has(old, t.loop) && !slices.Contains(loops, t.loop) {
			loops = append(loops, t.loop)
		}
	}
	sort.Slice(loops, func(a, b int) bool { return loopRank(loops[a]) < loopRank(loops[b]) })
	return strings.Join(loops, ", ")
}
