package ownership

import v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"

// findOverlaps finds mutating calls of old owners after their successors' first ones, and those of managers that never
// owned the loop. It also finds gauges of one loop at 1 in two managers.
func (j *judge) findOverlaps() {
	for a, old := range j.tenures { // sorted by their beginnings
		for _, next := range j.tenures[a+1:] {
			if next.loop != old.loop || next.inc == old.inc {
				continue
			}
			j.overlappingCalls(old, next)
			j.overlappingGauges(old, next)
		}
	}
	for _, intruder := range j.tenures {
		for _, owner := range j.tenures {
			if owner.loop == intruder.loop && owner.inc != intruder.inc {
				j.intrudingCalls(intruder, owner)
			}
		}
	}
}

// intrudingCalls looks for calls of a manager that never said that it runs the loop, in the time in which another one
// said so.
func (j *judge) intrudingCalls(intruder, owner *tenure) {
	if intruder.segment != nil || owner.segment == nil {
		return
	}
	var calls []v1.CloudCall
	for _, c := range intruder.calls {
		if c.Arrived.After(owner.segment.from) && c.Arrived.Before(owner.segment.seen) {
			calls = append(calls, c)
		}
	}
	j.overlapOf(intruder, owner, calls)
}

// overlapOf records an overlap that consists of calls, but for those that are in another one already: with three owners
// they would count twice.
func (j *judge) overlapOf(old, next *tenure, calls []v1.CloudCall) {
	o := v1.Overlap{Loop: old.loop, Evidence: v1.EvidenceCalls}
	o.Old, o.New = names(old, next)
	for _, c := range calls {
		if j.isInOverlap(c.Seq) {
			continue
		}
		if len(o.Calls) == 0 {
			o.Start = c.Arrived
		}
		o.End = c.Arrived
		o.Calls = append(o.Calls, c.Seq)
	}
	if len(o.Calls) > 0 {
		j.out.Overlaps = append(j.out.Overlaps, o)
	}
}

// overlappingCalls looks for calls of the old owner that arrived after the first one of the new owner. When they took
// effect does not matter here: one that was sent before and took effect afterwards is a late effect.
func (j *judge) overlappingCalls(old, next *tenure) {
	if len(next.calls) == 0 {
		return
	}
	first := next.calls[0]
	var calls []v1.CloudCall
	for _, c := range old.calls {
		if c.Arrived.After(first.Arrived) || c.Arrived.Equal(first.Arrived) && c.Seq > first.Seq {
			calls = append(calls, c)
		}
	}
	j.overlapOf(old, next, calls)
}

// isInOverlap reports whether a call is in an overlap already.
func (j *judge) isInOverlap(seq int64) bool {
	for _, o := range j.out.Overlaps {
		for _, s := range o.Calls {
			if s == seq {
				return true
			}
		}
	}
	return false
}

// overlappingGauges compares what both managers said themselves. Both ends are answers: a manager that did not answer
// may be dead, or paused, and is a matter for findUnknowns.
func (j *judge) overlappingGauges(old, next *tenure) {
	if old.segment == nil || next.segment == nil {
		return
	}
	start := later(old.segment.from, next.segment.from)
	finish := earlier(old.segment.seen, next.segment.seen)
	if !finish.After(start) {
		return
	}
	o := v1.Overlap{
		Loop:     old.loop,
		Start:    start,
		End:      finish,
		Evidence: v1.EvidenceGauges,
	}
	o.Old, o.New = names(old, next)
	j.out.Overlaps = append(j.out.Overlaps, o)
}

// names distinguishes two processes of one manager on one host.
func names(old, next *tenure) (string, string) {
	if old.inc.Owner == next.inc.Owner {
		return old.inc.name(), next.inc.name()
	}
	return old.inc.Owner.String(), next.inc.Owner.String()
}

// findLateEffects finds calls that took effect after their sender was seen to have ended.
func (j *judge) findLateEffects() {
	for _, t := range j.tenures {
		for _, c := range t.calls {
			if t.inc.end == nil || c.Effect == nil || c.Error != "" || !c.Effect.After(t.inc.end.hi) || j.isInOverlap(c.Seq) {
				continue
			}
			j.out.LateEffects = append(j.out.LateEffects, v1.LateEffect{
				Seq:     c.Seq,
				Loop:    t.loop,
				Owner:   t.inc.Owner.String(),
				Service: c.Service,
				Action:  c.Action,
				Arrived: c.Arrived,
				Effect:  *c.Effect,
			})
		}
	}
}
