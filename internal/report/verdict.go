package report

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// order is that of results: the first thing that is not ok names the result.
var order = []string{v1.ResultFailed, v1.ResultOverlap, v1.ResultLost, v1.ResultDisrupted, v1.ResultUnknown, v1.ResultUnfinished, v1.ResultRolledBack}

// reasons collects what is not ok, by result.
type reasons map[string][]string

func (r reasons) add(result, format string, args ...any) {
	r[result] = append(r[result], fmt.Sprintf(format, args...))
}

// verdict is ok only when every step is done, nobody overlapped, nothing in the inventory changed that was not to change, every loop has an owner, and
// nothing that matters is unknown.
func verdict(in Input, r v1.Report) (string, []string) {
	why := reasons{}
	why.steps(in.Journal, r.Steps)
	why.owners(r)
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
		case stepFailed:
			why.add(v1.ResultFailed, "step %s failed: %s", s.ID, s.Error)
		case stepUndone:
			why.add(v1.ResultFailed, "step %s was done and taken back: %s", s.ID, orNone(s.Error))
		case stepStarted, stepInterrupted:
			why.add(v1.ResultUnfinished, "step %s was begun and is not done", s.ID)
		case stepPending:
			pending++
		}
	}
	if pending > 0 {
		why.add(v1.ResultUnfinished, "%d of %d steps were not begun", pending, len(steps))
	}
	if len(why[v1.ResultUnfinished]) == 0 && (j.Phase == v1.RunApplying || j.Phase == v1.RunRollingBack) {
		why.add(v1.ResultUnfinished, "the run has not ended: its phase is %s", j.Phase)
	}
}

func (why reasons) owners(r v1.Report) {
	for _, o := range r.Overlaps {
		if o.Evidence == v1.EvidenceCalls {
			why.add(v1.ResultOverlap, "%s: %s of %s arrived beside %s, between %s and %s",
				o.Loop, plural(len(o.Calls), "mutating call"), o.Old, o.New, clock(o.Start), clock(o.End))
		} else {
			why.add(v1.ResultOverlap, "%s: %s and %s both ran it between %s and %s, as their gauges say", o.Loop, o.Old, o.New, clock(o.Start), clock(o.End))
		}
	}
	for _, g := range allGaps(r) {
		if g.To == "" {
			why.add(v1.ResultFailed, "%s: nobody has run it since %s ended at %s", g.Loop, g.From, clock(g.Start))
		}
	}
}

func (why reasons) inventory(in Input, inv v1.InventoryReport) {
	var lost []string
	for _, d := range inv.Differences {
		if !d.Expected {
			lost = append(lost, sentence(d))
		}
	}
	sort.Strings(lost)
	for _, l := range lost {
		why.add(v1.ResultLost, "%s", l)
	}
	over := in.Journal.Phase != v1.RunApplying && in.Journal.Phase != v1.RunRollingBack
	switch {
	case inv.Known || !over && in.After == nil:
	case in.Before == nil || in.After == nil:
		why.add(v1.ResultUnknown, "inventory: there is no snapshot from %s the migration to compare with", missingSide(in))
	default:
		why.add(v1.ResultUnknown, "inventory: it is incomplete: %s", strings.Join(append(gatherErrors(in.Before), gatherErrors(in.After)...), "; "))
	}
}

// unknownParts are those parts of the inventory that could not be compared, beside nodes, services and the cloud.
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
