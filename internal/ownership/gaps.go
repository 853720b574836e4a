package ownership

import (
	"math"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// findGaps finds the times during which no manager ran a loop, over the whole log. A loop has none before its first
// owner.
func (j *judge) findGaps() {
	covered := map[string]*tenure{} // by loop, the tenure that lasts longest so far
	for _, t := range j.tenures {
		if strings.HasPrefix(t.loop, otherLoop) {
			continue
		}
		last := covered[t.loop]
		if last != nil && last.end != nil && t.from.After(last.end.lo) {
			j.gap(last, t, t.from)
		}
		if last == nil || last.end != nil && (t.end == nil || t.end.lo.After(last.end.lo)) {
			covered[t.loop] = t
		}
	}
	for loop, last := range covered {
		if last.end != nil && !isAtLogEnd(last, j.opts.Until) {
			j.lastOwner(loop, last)
		}
	}
}

// lastOwner says what is known of a loop since its last owner ended.
func (j *judge) lastOwner(loop string, last *tenure) {
	mute := j.muteLeader(last.end.lo)
	switch {
	case j.opts.Until.Sub(j.lastAnswer()) > j.opts.MaxSilence:
		j.addUnknown(
			"scrapes: no manager answered after %s: whether one runs %s since %s has ended is unknown",
			clockTime(j.lastAnswer()),
			loop,
			last.inc.name(),
		)
	case loopRank(loop) >= len(controllernames.Loops):
		// cloud-node exists in a cloud-controller-manager only, and goes with the last one
		j.addNote("no manager ran %s after %s", loop, clockTime(last.end.lo))
	case mute != nil:
		j.addUnknown(
			"scrapes of %s: it leads and does not say which loops it runs: whether it has run %s since %s ended at %s is unknown",
			mute.name(),
			loop,
			last.inc.name(),
			clockTime(last.end.lo),
		)
	default:
		j.gap(last, nil, j.opts.Until)
	}
}

// muteLeader is a manager that has led after a moment and does not say which loops it runs; nil for none.
func (j *judge) muteLeader(since time.Time) *processInstance {
	for _, h := range j.sortedManagers() {
		for _, i := range h.incarnations {
			hasLed := func(l scrape) bool { return len(l.leads) > 0 && l.ended.After(since) }
			if slices.Contains(j.opts.Mute, i.Component) && slices.ContainsFunc(i.looks, hasLed) {
				return i
			}
		}
	}
	return nil
}

// lastAnswer is the last moment at which any manager was known to answer.
func (j *judge) lastAnswer() time.Time {
	var last time.Time
	for _, h := range j.managers {
		for _, e := range h.scrapes {
			switch {
			case e.Error == "":
				last = later(last, e.Time)
			case e.Looked != nil:
				last = later(last, *e.Looked)
			}
		}
	}
	return last
}

// isAtLogEnd reports whether the log stops before a successor could have been seen; the process that ended last is no
// gap yet.
func isAtLogEnd(last *tenure, until time.Time) bool { return !last.end.hi.Before(until) }

// gap records that no manager ran the loop of an old owner until next began, or until the end when there is none.
func (j *judge) gap(old, next *tenure, until time.Time) {
	g := v1.Gap{
		Loop: old.loop, From: old.inc.Owner.String(), Cause: j.cause(old.end), Start: old.end.lo, End: until,
		Seconds: roundUpSeconds(until.Sub(old.end.lo)), Certain: old.certainEnd,
	}
	if next != nil {
		g.To, g.Certain = next.inc.Owner.String(), g.Certain && next.certainFrom
		if next.held != nil {
			held := roundUpSeconds(max(0, earlier(*next.held, until).Sub(g.Start)))
			g.LeaseSeconds = &held
		}
	}
	j.out.Gaps = append(j.out.Gaps, g)
}

// roundUpSeconds rounds up to milliseconds, so that an upper bound stays one.
func roundUpSeconds(d time.Duration) float64 {
	return math.Ceil(float64(d)/float64(time.Millisecond)) / 1000
}

// cause names what went on when an owner ended.
func (j *judge) cause(e *end) string {
	var best *CauseWindow
	for n, w := range j.opts.Causes {
		if w.From.After(e.hi) || !w.To.IsZero() && w.To.Before(e.lo) {
			continue
		}
		if best == nil || w.From.After(best.From) {
			best = &j.opts.Causes[n]
		}
	}
	if best != nil {
		return best.Name
	}
	return e.proof
}
