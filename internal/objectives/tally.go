// Package objectives decides whether managers keep the service level objectives of KEP-2395, by what they counted
// themselves between two looks at their metrics.
//
// The objectives are two. In 99% of all cases a node is synced, a taint is removed and a load balancer gets its hosts
// within 60 seconds. And errors while nodes are synced are rarer than one in 15 minutes. What counts is what grew in a
// window. What a process has counted since it was started does not: a bad hour of last month says nothing of a
// migration.
package objectives

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// Of the five series of the KEP, without the subsystem that differs between versions, the counter of errors and the
// histogram of what may fail.
const (
	SeriesErrors = "nodesync_error_total"
	SeriesSyncs  = "nodesync_latency_seconds"
)

const (
	// share is the part of all samples that may be slow: 1%.
	share = 0.01
	// fewest is how many samples it takes for one slow sample alone to breach. Of fewer, two must be slow. One slow
	// sample of three is no sign of a rate.
	fewest = 20
	// window is the time of the objective for errors.
	window = 15 * time.Minute
)

// Reading is what one manager showed at one moment.
type Reading struct {
	At time.Time
	// Manager is component@host.
	Manager string
	// Started is when its process was started; nil where that is not known.
	Started *time.Time
	Series  []v1.Series
}

// isOfProcess reports whether the reading is of the same process as an earlier one. A counter that fell is of another
// process, also where its start is the same.
func (r Reading) isOfProcess(earlier Reading) bool {
	if !ownership.IsSameStart(r.Started, earlier.Started) {
		return false
	}
	return !slices.ContainsFunc(r.Series, func(s v1.Series) bool {
		was := seriesNamed(earlier.Series, s.Name)
		return s.Count < was.Count || s.Sum < was.Sum
	})
}

func seriesNamed(all []v1.Series, name string) v1.Series {
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return v1.Series{Name: name}
}

// Tally counts what managers did in a window, from its begin to the last reading that is added.
type Tally struct {
	from   time.Time
	last   map[string]Reading // by manager
	counts map[string]*count  // by series
}

// count is what was counted of one series.
type count struct {
	all, slow uint64
	bad       map[string]uint64 // slow samples, or errors, by manager
	recent    []growth          // of errors, within the last 15 minutes
	densest   float64           // the most errors in 15 minutes
}

// growth is how much a counter grew between two readings.
type growth struct {
	from, to time.Time
	n        uint64
}

// NewTally returns a tally of what happens from a moment on.
func NewTally(from time.Time) *Tally {
	return &Tally{from: from, last: map[string]Reading{}, counts: map[string]*count{}}
}

// Add counts what a manager did since its last reading. The readings of one manager come in the order of time. Those
// before the window say where it begins. Without one, what a process did before its first reading is left out, unless
// it was started within the window.
func (t *Tally) Add(r Reading) {
	before, known := t.last[r.Manager]
	t.last[r.Manager] = r
	if r.At.Before(t.from) {
		return
	}
	base, since := r, r.At
	switch {
	case known && r.isOfProcess(before):
		base, since = before, before.At
	case known:
		base, since = Reading{}, before.At
	case r.Started != nil && r.Started.After(t.from):
		base, since = Reading{}, *r.Started
	}
	for _, s := range r.Series {
		t.grew(r.Manager, s, seriesNamed(base.Series, s.Name), since, r.At)
	}
}

func (t *Tally) grew(manager string, now, was v1.Series, from, to time.Time) {
	c := t.counts[now.Name]
	if c == nil {
		c = &count{bad: map[string]uint64{}}
		t.counts[now.Name] = c
	}
	if now.Within60 == nil {
		if n := uint64(now.Sum - was.Sum); n > 0 {
			c.all += n
			c.bad[manager] += n
			c.recordErrors(growth{from, to, n})
		}
		return
	}
	slow := slowOf(now) - min(slowOf(was), slowOf(now))
	c.all += now.Count - was.Count
	c.slow += slow
	if slow > 0 {
		c.bad[manager] += slow
	}
}

func slowOf(s v1.Series) uint64 {
	if s.Within60 == nil {
		return 0
	}
	return s.Count - *s.Within60
}

// recordErrors keeps the most errors in 15 minutes. Of what grew between two looks further apart than that, only the
// average is known.
func (c *count) recordErrors(g growth) {
	if long := g.to.Sub(g.from); long > window {
		c.densest = max(c.densest, float64(g.n)*float64(window)/float64(long))
		return
	}
	c.recent = append(c.recent, g)
	c.recent = slices.DeleteFunc(c.recent, func(old growth) bool { return old.from.Before(g.to.Add(-window)) })
	sum := uint64(0)
	for _, one := range c.recent {
		sum += one.n
	}
	c.densest = max(c.densest, float64(sum))
}

// Series is what was counted, by name.
func (t *Tally) Series() []v1.ObjectiveSeries {
	var out []v1.ObjectiveSeries
	for name, c := range t.counts {
		s := v1.ObjectiveSeries{
			Name:            name,
			Count:           c.all,
			Slow:            c.slow,
			MostIn15Minutes: c.densest,
		}
		s.Breach = c.breach(name)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b v1.ObjectiveSeries) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// breach says how an objective is breached; empty when it is kept. A rate takes two errors: one alone, or one slow
// sample among few, may be the only one of a day.
func (c *count) breach(name string) string {
	switch {
	case name == SeriesErrors:
		if c.all < 2 || c.densest < 1 {
			return ""
		}
		return fmt.Sprintf("%s grew by up to %.3g in 15 minutes%s, and less than 1 is the objective", name, c.densest, c.who())
	case float64(c.slow) <= share*float64(c.all) || c.slow < 2 && c.all < fewest:
		return ""
	}
	return fmt.Sprintf("%s: %d of %d took more than 60 s%s, and 1%% is the objective", name, c.slow, c.all, c.who())
}

// who names the managers in which it happened.
func (c *count) who() string {
	if len(c.bad) == 0 {
		return ""
	}
	return " (" + english.FirstOf(2, slices.Sorted(maps.Keys(c.bad))) + ")"
}

// Breaches are the objectives of a window that are not kept, one sentence each.
func Breaches(all []v1.ObjectiveSeries) []string {
	var out []string
	for _, s := range all {
		if s.Breach != "" {
			out = append(out, s.Breach)
		}
	}
	return out
}
