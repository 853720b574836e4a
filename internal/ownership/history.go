package ownership

import (
	"fmt"
	"sort"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// startTolerance is by how much two statements of one process's start time may differ. They are computed from the
// kernel's boot time, which has whole seconds.
const startTolerance = 2 * time.Second

// IsSameStart reports whether two statements of a start time may be about one process. An unknown one may be of any.
func IsSameStart(a, b *time.Time) bool {
	return a == nil || b == nil || a.Sub(*b).Abs() <= startTolerance
}

// history is what was seen of one component on one host, over all its incarnations.
type history struct {
	Owner
	processes, scrapes       []v1.OwnershipEvent
	incarnations             []*processInstance
	processFails, scrapeFail windows
}

// processInstance is one process of a manager.
type processInstance struct {
	Owner
	history *history
	pid     int
	ticks   uint64
	started *time.Time
	// since is a moment before which it did not run; zero when it may have run for ever. seen is when it was first seen.
	since, seen time.Time
	// alive is the last moment at which it was seen to live.
	alive time.Time
	end   *end
	looks []scrape
	// segments are the times during which its gauges were at 1, in order.
	segments []*segment
}

// end is when and how something ended: after lo, before hi.
type end struct {
	lo, hi time.Time
	// looked is when the look began that saw a loop stopped; zero for other proofs.
	looked time.Time
	proof  string
}

// scrape is one answer of a manager.
type scrape struct {
	began, ended time.Time
	after        time.Time // when the answer before began; zero for the first one
	loops, leads []string
}

// segment is a time during which a loop's gauge was at 1.
type segment struct {
	loop string
	look scrape
	// from is when it was first read as 1, seen the last moment at which it was certainly 1.
	from, seen time.Time
	stopped    *end
}

func (i *processInstance) name() string {
	if i.pid != 0 {
		return fmt.Sprintf("%s (pid %d)", i.Owner, i.pid)
	}
	return i.Owner.String()
}

// Began returns when what an event tells of began: for a process its start, else the event's own time.
func Began(e v1.OwnershipEvent) time.Time {
	if e.Began != nil {
		return *e.Began
	}
	return e.Time
}

// buildInstances makes incarnations of the lines.
func (h *history) buildInstances(until time.Time, maxSilence time.Duration) {
	var last *v1.OwnershipEvent
	for n, e := range h.processes {
		h.processFails.observe(last, e)
		h.process(e)
		last = &h.processes[n]
	}
	h.processFails.close(last, until, maxSilence)
	last = nil
	var current *processInstance
	for n, e := range h.scrapes {
		h.scrapeFail.observe(last, e)
		current = h.scrape(current, e)
		last = &h.scrapes[n]
	}
	h.scrapeFail.close(last, until, maxSilence)
	sort.SliceStable(h.incarnations, func(a, b int) bool { return h.incarnations[a].seen.Before(h.incarnations[b].seen) })
	for n, i := range h.incarnations {
		if i.end == nil && n+1 < len(h.incarnations) {
			h.replaced(i, h.incarnations[n+1])
		}
		if i.end != nil {
			i.end.lo = earlier(later(i.since, i.alive), i.end.hi)
		}
	}
}

// replaced ends an incarnation whose address is served by a later one. Where host access saw both, they do run side by
// side.
func (h *history) replaced(old, next *processInstance) {
	if len(next.looks) > 0 && (old.pid == 0 || next.pid == 0) {
		old.end = &end{hi: next.seen, proof: v1.EndRestarted}
	}
}

func (h *history) process(e v1.OwnershipEvent) {
	if e.Error != "" {
		return
	}
	if e.PID == 0 { // the component has no process here
		for _, i := range h.incarnations {
			if i.end == nil {
				i.recordEnd(e)
			}
		}
		return
	}
	var found *processInstance
	for _, i := range h.incarnations {
		if i.pid == e.PID && i.ticks == e.StartTicks {
			found = i
		}
	}
	if found == nil {
		found = h.add(e)
		found.pid, found.ticks = e.PID, e.StartTicks
	}
	if e.Ended {
		found.recordEnd(e)
		return
	}
	found.alive = later(found.alive, Began(e))
}

func (h *history) add(e v1.OwnershipEvent) *processInstance {
	i := &processInstance{
		Owner:   h.Owner,
		history: h,
		started: e.ProcessStarted,
		seen:    e.Time,
	}
	if e.Looked != nil && !e.Ended {
		i.since = *e.Looked
	}
	if e.ProcessStarted != nil {
		i.since = later(i.since, e.ProcessStarted.Add(-startTolerance))
	}
	h.incarnations = append(h.incarnations, i)
	return i
}

// recordEnd records the proof of an end; of two statements the earlier one counts.
func (i *processInstance) recordEnd(e v1.OwnershipEvent) {
	if e.Looked != nil {
		i.alive = later(i.alive, *e.Looked)
	}
	if i.end == nil || i.end.proof != v1.EndProcess || e.Time.Before(i.end.hi) {
		i.end = &end{hi: e.Time, proof: v1.EndProcess}
	}
}

// scrape adds a line about the gauges; current is the incarnation that answered last.
func (h *history) scrape(current *processInstance, e v1.OwnershipEvent) *processInstance {
	if current != nil && e.Looked != nil && (current.end == nil || !e.Looked.After(current.end.hi)) {
		current.confirm(*e.Looked)
	}
	if e.Error != "" {
		return current
	}
	i := h.answering(e)
	i.recordAnswer(e, i == current)
	return i
}

// answering finds the incarnation that gave an answer, or makes one.
func (h *history) answering(e v1.OwnershipEvent) *processInstance {
	i := h.startedAt(e.ProcessStarted)
	if i == nil {
		i = h.aliveAt(e)
	}
	if i == nil {
		i = h.add(e)
		if e.ProcessStarted == nil && e.Looked == nil {
			i.since = time.Time{}
		}
	}
	if i.started == nil {
		i.started = e.ProcessStarted
	}
	return i
}

// startedAt is the incarnation whose start time is the nearest within the tolerance.
func (h *history) startedAt(started *time.Time) *processInstance {
	var best *processInstance
	var off time.Duration
	for _, i := range h.incarnations {
		if started == nil || i.started == nil {
			continue
		}
		if d := i.started.Sub(*started).Abs(); d <= startTolerance && (best == nil || d <= off) {
			best, off = i, d
		}
	}
	return best
}

// aliveAt is the newest incarnation that may have given an answer whose start time fits none; rather one that had been
// seen by then.
func (h *history) aliveAt(e v1.OwnershipEvent) *processInstance {
	var best *processInstance
	for _, i := range h.incarnations {
		another := e.ProcessStarted != nil && (i.started != nil || i.seen.Add(startTolerance).Before(*e.ProcessStarted))
		notThen := i.since.After(e.Time) || i.end != nil && i.end.hi.Before(Began(e))
		unlikely := best != nil && i.since.IsZero() && i.seen.After(e.Time)
		if !another && !notThen && !unlikely {
			best = i
		}
	}
	return best
}

// confirm says that nothing had changed at the given time.
func (i *processInstance) confirm(at time.Time) {
	i.alive = later(i.alive, at)
	for _, s := range i.segments {
		if s.stopped == nil {
			s.seen = later(s.seen, at)
		}
	}
}

func (i *processInstance) recordAnswer(e v1.OwnershipEvent, again bool) {
	l := scrape{
		began: Began(e),
		ended: e.Time,
		loops: e.Loops,
		leads: e.Leads,
	}
	if again && e.Looked != nil {
		l.after = *e.Looked
	}
	i.looks = append(i.looks, l)
	i.alive = later(i.alive, l.began)
	running := map[string]bool{}
	for _, s := range i.segments {
		if s.stopped != nil {
			continue
		}
		if contains(l.loops, s.loop) {
			s.seen = later(s.seen, l.began)
			running[s.loop] = true
		} else {
			s.stopped = &end{
				lo:     later(s.seen, l.after),
				hi:     l.ended,
				looked: l.began,
				proof:  v1.EndLoop,
			}
		}
	}
	for _, loop := range l.loops {
		if !running[loop] {
			i.segments = append(i.segments, &segment{
				loop: loop,
				look: l,
				from: l.ended,
				seen: l.began,
			})
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// leadsAt is what the incarnation last said at or before a moment that it leads, and whether it had said anything.
func (i *processInstance) leadsAt(t time.Time) ([]string, bool) {
	var leads []string
	said := false
	for _, l := range i.looks {
		if !l.ended.After(t) {
			leads, said = l.leads, true
		}
	}
	return leads, said
}

// everLed is the first answer in which the incarnation said that it leads the lease.
func (i *processInstance) everLed(lease string) (scrape, bool) {
	for _, l := range i.looks {
		if contains(l.leads, lease) {
			return l, true
		}
	}
	return scrape{}, false
}

// leaseHistory is what was seen of one lease.
type leaseHistory struct {
	name  string
	terms []term
	fails windows
	// unseen are windows in which terms began and ended unseen: the count of transitions, which every acquisition raises,
	// jumped.
	unseen []window
	last   *v1.OwnershipEvent // the last look that succeeded
	any    *v1.OwnershipEvent // the last line
}

// term is a time during which one holder had the lease.
type term struct {
	holder string
	// acquired is when the holder was first seen, after when the look before that began: it was won in between.
	acquired time.Time
	after    time.Time
	// lost is when another holder or none was seen; nil while it holds. renewed is its last renewal that was seen, by its
	// own clock.
	lost    *time.Time
	renewed *time.Time
	// earlier reports whether the term had begun before the log.
	earlier bool
}

func (l *leaseHistory) observe(e v1.OwnershipEvent) {
	l.fails.observe(l.any, e)
	l.any = &e
	if e.Error != "" {
		return
	}
	if l.last != nil && e.Transitions > l.last.Transitions+1 {
		l.unseen = append(l.unseen, window{lo: l.last.Time, hi: e.Time})
	}
	changed := l.last == nil || l.last.Holder != e.Holder || l.last.Transitions != e.Transitions
	if changed {
		if n := len(l.terms); n > 0 && l.terms[n-1].lost == nil {
			at := e.Time
			l.terms[n-1].lost = &at
			if e.PreviousRenewed != nil {
				l.terms[n-1].renewed = e.PreviousRenewed
			}
		}
		if e.Holder != "" {
			t := term{
				holder:   e.Holder,
				acquired: e.Time,
				after:    e.Time,
				earlier:  l.last == nil,
			}
			if e.Looked != nil {
				t.after = *e.Looked
			}
			l.terms = append(l.terms, t)
		}
	}
	if n := len(l.terms); n > 0 && e.Holder != "" && e.Renewed != nil {
		l.terms[n-1].renewed = e.Renewed
	}
	l.last = &e
}

// wonWithin are the terms that may have begun between two moments.
func (l *leaseHistory) wonWithin(from, to time.Time) []term {
	var out []term
	for _, t := range l.terms {
		if !t.earlier && t.acquired.After(from) && t.after.Before(to) {
			out = append(out, t)
		}
	}
	return out
}

// termAt is the term during which a manager said at the given time that it leads. The slack is for a watch that lags
// behind a scrape.
func (l *leaseHistory) termAt(t time.Time) *term {
	const slack = time.Second
	for i := len(l.terms) - 1; i >= 0; i-- {
		if !l.terms[i].acquired.After(t) {
			return &l.terms[i]
		}
	}
	if len(l.terms) > 0 && !l.terms[0].acquired.After(t.Add(slack)) {
		return &l.terms[0]
	}
	return nil
}

// windows are the times during which a source was not looked at with success.
type windows []window

type window struct {
	lo, hi time.Time
	// open reports whether no look succeeded any more until the end.
	open bool
	why  string
}

// observe adds a line of the source; last is the line before.
func (w *windows) observe(last *v1.OwnershipEvent, e v1.OwnershipEvent) {
	failing := len(*w) > 0 && (*w)[len(*w)-1].open
	switch {
	case e.Error != "" && !failing:
		lo := e.Time
		switch {
		case e.Looked != nil:
			lo = *e.Looked
		case last != nil:
			lo = last.Time
		}
		*w = append(*w, window{
			lo:   lo,
			hi:   e.Time,
			open: true,
			why:  e.Error,
		})
	case e.Error != "":
		(*w)[len(*w)-1].hi = e.Time
	case failing:
		(*w)[len(*w)-1].hi, (*w)[len(*w)-1].open = e.Time, false
	case e.Looked == nil && last != nil && e.Began != nil:
		// A recorder began again: there are no samples since the line before.
		*w = append(*w, window{lo: last.Time, hi: e.Time, why: "nothing was recorded"})
	}
}

// close settles the last window at the end of what is judged.
func (w *windows) close(last *v1.OwnershipEvent, until time.Time, maxSilence time.Duration) {
	if n := len(*w); n > 0 && (*w)[n-1].open {
		(*w)[n-1].hi = later((*w)[n-1].hi, until)
		return
	}
	if last != nil && until.Sub(last.Time) > maxSilence {
		*w = append(*w, window{
			lo:   last.Time,
			hi:   until,
			open: true,
			why:  "nothing was recorded",
		})
	}
}

// hasMissedRead reports whether a look was missing between two moments that are further apart than looks are.
func (w windows) hasMissedRead(lo, hi time.Time) bool {
	const twoLooks = 250 * time.Millisecond
	if hi.Sub(lo) <= twoLooks {
		return false
	}
	for _, x := range w {
		if x.lo.Before(hi) && x.hi.After(lo) {
			return true
		}
	}
	return false
}
