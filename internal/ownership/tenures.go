package ownership

import (
	"slices"
	"sort"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// tenure is a time during which an incarnation ran a loop, with what is known of its ends.
type tenure struct {
	loop string
	inc  *processInstance
	// from is the first moment at which it was seen able to act; it may have been able to from notBefore on.
	from, notBefore time.Time
	earlier         bool
	// segment is nil for a tenure that only calls show.
	segment *segment
	// held is when the lease that governs the loop was seen to be won.
	held *time.Time
	end  *end
	// certain is false where a look was missing.
	certainFrom, certainEnd bool
	calls                   []v1.CloudCall
}

func (t *tenure) report() v1.Tenure {
	r := v1.Tenure{
		Loop:      t.loop,
		Component: t.inc.Component,
		Host:      t.inc.Host,
		PID:       t.inc.pid,
		From:      t.from,
		LeaseHeld: t.held,
		Earlier:   t.earlier,
		Certain:   t.certainFrom && t.certainEnd,
	}
	if t.end != nil {
		to := t.end.lo
		r.To, r.End = &to, t.end.proof
	}
	return r
}

// seenTenures makes tenures of the gauges.
func (j *judge) seenTenures() {
	for _, h := range j.sortedManagers() {
		for _, i := range h.incarnations {
			for _, s := range i.segments {
				j.tenures = append(j.tenures, j.seenTenure(i, s))
			}
		}
	}
}

func (j *judge) seenTenure(i *processInstance, s *segment) *tenure {
	t := &tenure{
		loop:      s.loop,
		inc:       i,
		from:      s.from,
		segment:   s,
		notBefore: later(i.since, s.look.after),
	}
	first := len(i.looks) > 0 && i.looks[0].ended.Equal(s.look.ended)
	t.earlier = first && !i.since.After(j.first)
	if won := j.heldSince(t); won != nil && !t.earlier {
		at := won.acquired
		t.held = &at
		t.notBefore = later(t.notBefore, won.after)
	}
	t.notBefore = earlier(t.notBefore, t.from)
	t.certainFrom = t.earlier || !i.history.scrapeFail.hasMissedRead(t.notBefore, t.from)
	return t
}

// governs names the lease that decides who runs the loop. For loops that migrate it is the migration lease, when the
// manager led it as the gauge rose. Otherwise it is the manager's own lease. A manager whose configuration does not
// name the loop runs it under its own lease without any error.
func (j *judge) governs(t *tenure) string {
	if t.segment != nil && slices.Contains(CoreLoops(), t.loop) && contains(t.segment.look.leads, j.opts.MigrationLease) {
		return j.opts.MigrationLease
	}
	return t.inc.Component
}

// heldSince is the term of the lease that governs the loop in which the tenure began.
func (j *judge) heldSince(t *tenure) *term {
	lease := j.governs(t)
	l := j.leases[lease]
	led, ok := t.inc.everLed(lease)
	if l == nil || !ok {
		return nil
	}
	won := l.termAt(led.ended)
	if won == nil || won.earlier || won.acquired.Before(t.inc.since) {
		return nil
	}
	return won
}

// attribute gives each mutating call to the incarnation that made it, and lets a tenure begin with its first call.
func (j *judge) attribute(calls []v1.CloudCall, keys map[string]Owner) {
	calls = slices.Clone(calls)
	sort.SliceStable(calls, func(a, b int) bool {
		if calls[a].Arrived.Equal(calls[b].Arrived) {
			return calls[a].Seq < calls[b].Seq
		}
		return calls[a].Arrived.Before(calls[b].Arrived)
	})
	c := counts{
		unknownKeys: map[string]*span{},
		strangers:   map[string]int{},
		others:      map[string]int{},
		unseen:      map[Owner]*span{},
	}
	for _, call := range calls {
		if call.Unknown {
			j.addUnknown(
				"the cloud did not know call %d, %s %s by %s at %s: what it would have changed is unknown",
				call.Seq,
				call.Service,
				call.Action,
				call.Key,
				clockTime(call.Arrived),
			)
		}
		if !call.Mutating {
			continue // the node loop reads under its own lease while another manager owns the others
		}
		if call.Arrived.Before(j.opts.From) || call.Arrived.After(j.opts.Until) && !j.opts.Until.IsZero() {
			c.outside++
			continue
		}
		owner, known := keys[call.Key]
		switch {
		case !known:
			c.addByKey(c.unknownKeys, call)
		case !owner.mayOwn():
			c.strangers[owner.String()]++
		default:
			j.attributeTo(owner, call, &c)
		}
	}
	c.describeCounts(j)
}

func (j *judge) attributeTo(owner Owner, call v1.CloudCall, c *counts) {
	loop := LoopOf(call)
	if loopRank(loop) > len(controllernames.Loops) {
		c.others[owner.String()+" "+call.Action]++
	}
	h := j.history(owner)
	i := h.caller(loop, call.Arrived)
	if i == nil {
		i = &processInstance{
			Owner:   owner,
			history: h,
			seen:    call.Arrived,
			alive:   call.Arrived,
		}
		if n := len(h.incarnations); n > 0 {
			i.end = &end{lo: call.Arrived, hi: h.incarnations[0].since, proof: v1.EndRestarted}
		}
		h.incarnations = append([]*processInstance{i}, h.incarnations...)
	}
	if len(i.looks) == 0 {
		c.unseenAt(owner, call)
	}
	j.add(i, loop, call)
}

// caller is the incarnation that made a call on the loop which arrived at the given time; nil when none can have.
func (h *history) caller(loop string, arrived time.Time) *processInstance {
	for n := len(h.incarnations) - 1; n >= 0; n-- {
		i := h.incarnations[n]
		if i.since.After(arrived) {
			continue
		}
		if n > 0 {
			// A call that a process sent right before its end may arrive when its successor has begun to start.
			older := h.incarnations[n-1]
			stillThere := older.end != nil && !older.end.lo.Before(arrived)
			if stillThere || older.end == nil && !i.hasRunLoop(loop) || i.hasDeniedLoop(loop, arrived) {
				continue
			}
		}
		return i
	}
	return nil
}

// hasDeniedLoop reports whether the incarnation said after the given time that it did not run the loop: the gauge rises
// before the loop's first call.
func (i *processInstance) hasDeniedLoop(loop string, arrived time.Time) bool {
	for _, l := range i.looks {
		if contains(l.loops, loop) {
			return false
		}
		if l.began.After(arrived) {
			return true
		}
	}
	return false
}

func (i *processInstance) hasRunLoop(loop string) bool {
	for _, s := range i.segments {
		if s.loop == loop {
			return true
		}
	}
	return false
}

// add counts a call to the tenure in which it was made, or makes one.
func (j *judge) add(i *processInstance, loop string, call v1.CloudCall) {
	var in, next *tenure
	for _, t := range j.tenures {
		if t.inc != i || t.loop != loop {
			continue
		}
		if !t.from.After(call.Arrived) {
			in = t
		} else if next == nil {
			next = t
		}
	}
	switch {
	case in != nil:
	case next != nil: // it acted before its gauge was read as 1
		in = next
		in.from, in.notBefore = call.Arrived, earlier(in.notBefore, call.Arrived)
		in.certainFrom = in.earlier || !i.history.scrapeFail.hasMissedRead(in.notBefore, in.from)
	default:
		in = &tenure{
			loop:      loop,
			inc:       i,
			from:      call.Arrived,
			notBefore: i.since,
		}
		j.tenures = append(j.tenures, in)
	}
	in.calls = append(in.calls, call)
}

// endTenures says when each tenure ended, as far as anything shows that.
func (j *judge) endTenures() {
	sort.SliceStable(j.tenures, func(a, b int) bool { return j.tenures[a].from.Before(j.tenures[b].from) })
	for _, t := range j.tenures {
		switch {
		case t.segment != nil && t.segment.stopped != nil:
			// A manager that drains is seen without its loops and is gone at the next look. That one is missing after the end,
			// not before it.
			t.end = t.segment.stopped
			t.certainEnd = !t.inc.history.scrapeFail.hasMissedRead(t.end.lo, t.end.looked)
		case t.inc.end != nil:
			t.end = t.inc.end
			t.certainEnd = t.end.proof == v1.EndProcess && !t.inc.history.processFails.hasMissedRead(t.end.lo, t.end.hi)
		default:
			t.end = j.leaseLost(t)
			t.certainEnd = t.end == nil
		}
		if t.end != nil && t.end.lo.Before(t.from) { // what acted had not ended
			bounded := *t.end
			bounded.lo = t.from
			t.end = &bounded
		}
	}
}

// leaseLost is the end of a tenure whose process was not seen to end. Another holder has the lease, and the process has
// not said since that it runs the loop.
func (j *judge) leaseLost(t *tenure) *end {
	if t.segment == nil {
		return nil
	}
	lease := j.governs(t)
	l := j.leases[lease]
	led, ok := t.inc.everLed(lease)
	if l == nil || !ok {
		return nil
	}
	held := l.termAt(led.ended)
	if held == nil || held.lost == nil || held.lost.Before(t.segment.seen) {
		return nil
	}
	for _, next := range l.terms {
		if next.holder != held.holder && !next.acquired.Before(*held.lost) {
			return &end{lo: t.segment.seen, hi: next.acquired, proof: v1.EndLease}
		}
	}
	return nil
}
