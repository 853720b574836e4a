package objectives

import (
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// Of judges a migration: before its first change of a manager, from then to its end, and since. It is nil where no
// manager has shown one of the series.
func Of(j v1.Journal, ended time.Time, before, after *v1.Snapshot, events []v1.OwnershipEvent) *v1.Objectives {
	readings := slices.Concat(readingsIn(before), ReadingsOf(events), readingsIn(after))
	slices.SortStableFunc(readings, func(a, b Reading) int { return a.At.Compare(b.At) })
	if len(readings) == 0 {
		return nil
	}
	changed := firstChange(j, ended)
	out := &v1.Objectives{}
	for _, w := range []v1.ObjectiveWindow{
		{Name: v1.WindowBefore, From: readings[0].At, To: changed},
		{Name: v1.WindowDuring, From: changed, To: ended},
		{Name: v1.WindowAfter, From: ended, To: readings[len(readings)-1].At},
	} {
		if !w.To.After(w.From) {
			continue
		}
		t := NewTally(w.From)
		for _, r := range readings {
			if !r.At.After(w.To) {
				t.Add(r)
			}
		}
		if w.Series = t.Series(); len(w.Series) > 0 {
			w.From, w.To = w.From.UTC(), w.To.UTC()
			out.Windows = append(out.Windows, w)
		}
	}
	if len(out.Windows) == 0 {
		return nil
	}
	return out
}

// firstChange is when the first step was begun that changes what a manager is, or runs with.
func firstChange(j v1.Journal, ended time.Time) time.Time {
	changes := map[string]bool{}
	plans := []v1.Plan{j.Plan}
	if j.Rollback != nil {
		plans = append(plans, *j.Rollback)
	}
	for _, p := range plans {
		for _, s := range p.Steps {
			changes[s.ID] = s.Component == component.KCM || s.Component == component.CCM
		}
	}
	first := ended
	for _, rec := range j.Records {
		if changes[rec.ID] && rec.Started.Before(first) {
			first = rec.Started
		}
	}
	return first
}

// Window returns a window by its name; nil where nothing was counted in it.
func Window(o *v1.Objectives, name string) *v1.ObjectiveWindow {
	if o == nil {
		return nil
	}
	for i := range o.Windows {
		if o.Windows[i].Name == name {
			return &o.Windows[i]
		}
	}
	return nil
}
