package ownership

import (
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// leaseHistory is what was seen of one lease.
type leaseHistory struct {
	name  string
	terms []term
	fails windows
	// unseen are windows in which terms began and ended unseen: the count of transitions, which every acquisition raises, jumped.
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
	// lost is when another holder or none was seen; nil while it holds. renewed is its last renewal that was seen, by its own clock.
	lost    *time.Time
	renewed *time.Time
	// earlier tells that the term had begun before the log.
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
			t := term{holder: e.Holder, acquired: e.Time, after: e.Time, earlier: l.last == nil}
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

// at is the term during which a manager said at the given time that it leads; the slack is for a watch that lags behind a scrape.
func (l *leaseHistory) at(t time.Time) *term {
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
	// open tells that no look succeeded any more until the end.
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
		*w = append(*w, window{lo: lo, hi: e.Time, open: true, why: e.Error})
	case e.Error != "":
		(*w)[len(*w)-1].hi = e.Time
	case failing:
		(*w)[len(*w)-1].hi, (*w)[len(*w)-1].open = e.Time, false
	case e.Looked == nil && last != nil && e.Began != nil:
		// A recorder began anew: nobody looked since the line before.
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
		*w = append(*w, window{lo: last.Time, hi: until, open: true, why: "nothing was recorded"})
	}
}

// missing tells whether a look was missing between two moments that are further apart than looks are.
func (w windows) missing(lo, hi time.Time) bool {
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
