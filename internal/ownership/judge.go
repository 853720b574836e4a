// Package ownership decides which manager ran which cloud loop when. It finds whether two managers ever ran one loop,
// how long none did, and what is unknown because a sample is missing.
//
// It has two halves. The Recorder looks, all the time, at three things (the leases, each manager's gauges, each
// manager's processes) and writes an ownership log. Judge is a pure function of such a log and, where there is one, of
// the cloud's own audit log.
//
//	leases ----watch--.
//	/metrics --scrape--+--> Recorder --> ownership log --.
//	processes --look--'                                  +--> Judge --> tenures, gaps, overlaps, late effects, unknowns
//	cloud audit log -------------------------------------'
//
// A failed read is unknown, never "ended". A killed manager vanishes with its gauges at 1, and so does one that is
// paused and will go on writing when it is resumed. The only proof of an end is that the process (pid and start time)
// is gone from its host.
package ownership

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// defaultMaxSilence is three heartbeats of a recorder.
const defaultMaxSilence = 3 * DefaultHeartbeat

// Owner is whom an access key belongs to, and who may run loops: a component on a host.
type Owner struct {
	Component string
	Host      string
}

// String is component@host.
func (o Owner) String() string { return o.Component + "@" + o.Host }

// mayOwn reports whether the component is a controller manager: a kubelet or a tool has an access key too, and runs no
// loop.
func (o Owner) mayOwn() bool { return isManager(o.Component) }

func isManager(component string) bool {
	return slices.Contains(controllernames.Components, controllernames.Component(component))
}

// CauseWindow is a time during which something went on that explains the end of an owner: a step of a migration, an
// injected fault.
type CauseWindow struct {
	Name     string
	From, To time.Time
}

// Options say what to judge. The zero value judges the whole log.
type Options struct {
	// From and Until bound what is judged; zero means from the first to the last line of the ownership log. Times in them
	// that the log does not cover are unknown.
	From, Until time.Time
	// Causes explain gaps; the one that began last wins where they overlap.
	Causes []CauseWindow
	// MigrationLease is the lease of migrated loops; empty means component.MigrationLease.
	MigrationLease string
	// MaxSilence is how long a source may be silent at the end before it counts as not looked at; zero means 15 s.
	MaxSilence time.Duration
	// Loops are those that some manager must run, by their names in metrics; empty means CoreLoops. A provider without
	// load balancers or routes has no loop for them.
	Loops []string
	// Mute are the components whose managers do not say which loops they run. Where one of them leads, that a loop has no
	// manager is not known.
	Mute []string
}

// Judgement is what the logs prove.
type Judgement struct {
	// From and Until are what was judged.
	From, Until time.Time
	// Tenures, Gaps and Overlaps are sorted by loop and time.
	Tenures     []v1.Tenure
	Gaps        []v1.Gap
	Overlaps    []v1.Overlap
	LateEffects []v1.LateEffect
	// Unknown are sentences that name a source and a window in which a look that matters was missing. A migration is not
	// proven while there is one.
	Unknown []string
	// Notes are sentences about what was seen and left out of the judgement.
	Notes []string
}

// OverlappingWrites counts the mutating calls of old owners that arrived after their successors' first ones.
func (j Judgement) OverlappingWrites() int {
	n := 0
	for _, o := range j.Overlaps {
		n += len(o.Calls)
	}
	return n
}

// judge holds what one judgement works on.
type judge struct {
	opts     Options
	first    time.Time // when the log begins
	managers map[Owner]*history
	leases   map[string]*leaseHistory
	tenures  []*tenure
	out      Judgement
}

// Judge says who ran which loop when. Calls is the cloud's audit log, nil when there is none; keys says whose each
// access key is.
//
// A tenure begins when the gauge of the loop was first read as 1, or with the first mutating call if that is earlier. A
// manager sets the gauge after it has won the lease that governs the loop. A tenure ends at the last moment at which
// its process was seen alive. A gap is the time from one to the other, an upper bound therefore. An overlap is a
// mutating call that arrived from an old owner after the first one of the new owner. Another kind of overlap is two
// gauges at 1 in two managers that both answered.
func Judge(events []v1.OwnershipEvent, calls []v1.CloudCall, keys map[string]Owner, opts Options) Judgement {
	if opts.MigrationLease == "" {
		opts.MigrationLease = component.MigrationLease
	}
	if opts.MaxSilence == 0 {
		opts.MaxSilence = defaultMaxSilence
	}
	if len(opts.Loops) == 0 {
		opts.Loops = CoreLoops()
	}
	j := &judge{opts: opts, managers: map[Owner]*history{}, leases: map[string]*leaseHistory{}}
	events = slices.Clone(events)
	sort.SliceStable(events, func(a, b int) bool { return events[a].Time.Before(events[b].Time) })
	j.window(events)
	if len(events) == 0 {
		j.addUnknown("the ownership log is empty: which manager ran %s is unknown", strings.Join(opts.Loops, ", "))
	}
	for _, e := range events {
		if !e.Time.After(j.opts.Until) {
			j.observe(e)
		}
	}
	for _, h := range j.sortedManagers() {
		h.buildInstances(j.opts.Until, j.opts.MaxSilence)
	}
	for _, l := range j.leases {
		l.fails.close(l.any, j.opts.Until, j.opts.MaxSilence)
	}
	j.seenTenures()
	j.attribute(calls, keys)
	j.endTenures()
	j.findGaps()
	j.findOverlaps()
	j.findLateEffects()
	j.findUnknowns(len(events) > 0)
	return j.result()
}

// window settles what is judged.
func (j *judge) window(events []v1.OwnershipEvent) {
	if len(events) > 0 {
		if j.opts.From.IsZero() {
			j.opts.From = events[0].Time
		}
		j.first = later(j.opts.From, events[0].Time)
		if j.opts.Until.IsZero() {
			j.opts.Until = events[len(events)-1].Time
		}
	}
	j.out.From, j.out.Until = j.opts.From, j.opts.Until
}

func (j *judge) observe(e v1.OwnershipEvent) {
	if e.Source == v1.SourceLease {
		l := j.leases[e.Lease]
		if l == nil {
			l = &leaseHistory{name: e.Lease}
			j.leases[e.Lease] = l
		}
		l.observe(e)
		return
	}
	h := j.history(Owner{e.Component, e.Host})
	if e.Source == v1.SourceProcess {
		h.processes = append(h.processes, e)
	} else {
		h.scrapes = append(h.scrapes, e)
	}
}

func (j *judge) history(o Owner) *history {
	h := j.managers[o]
	if h == nil {
		h = &history{Owner: o}
		j.managers[o] = h
	}
	return h
}

func (j *judge) sortedManagers() []*history {
	out := make([]*history, 0, len(j.managers))
	for _, h := range j.managers {
		out = append(out, h)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].String() < out[b].String() })
	return out
}

func (j *judge) addUnknown(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !slices.Contains(j.out.Unknown, s) {
		j.out.Unknown = append(j.out.Unknown, s)
	}
}

func (j *judge) addNote(format string, args ...any) {
	j.out.Notes = append(j.out.Notes, fmt.Sprintf(format, args...))
}

// result sorts what was found.
func (j *judge) result() Judgement {
	for _, t := range j.tenures {
		if !strings.HasPrefix(t.loop, otherLoop) {
			j.out.Tenures = append(j.out.Tenures, t.report())
		}
	}
	byLoop := func(a, b string, at, bt time.Time) bool {
		if ra, rb := loopRank(a), loopRank(b); ra != rb {
			return ra < rb
		}
		if a != b {
			return a < b
		}
		return at.Before(bt)
	}
	sort.SliceStable(j.out.Tenures, func(a, b int) bool {
		x, y := j.out.Tenures[a], j.out.Tenures[b]
		return byLoop(x.Loop, y.Loop, x.From, y.From)
	})
	sort.SliceStable(j.out.Gaps, func(a, b int) bool {
		x, y := j.out.Gaps[a], j.out.Gaps[b]
		return byLoop(x.Loop, y.Loop, x.Start, y.Start)
	})
	sort.SliceStable(j.out.Overlaps, func(a, b int) bool {
		x, y := j.out.Overlaps[a], j.out.Overlaps[b]
		return byLoop(x.Loop, y.Loop, x.Start, y.Start)
	})
	sort.SliceStable(j.out.LateEffects, func(a, b int) bool { return j.out.LateEffects[a].Seq < j.out.LateEffects[b].Seq })
	sort.Strings(j.out.Unknown)
	sort.Strings(j.out.Notes)
	return j.out
}

// CoreLoops are the loops that some manager must run at every moment, where the provider has all of them.
func CoreLoops() []string {
	var out []string
	for _, l := range controllernames.CloudLoops {
		out = append(out, controllernames.MetricName(l))
	}
	return out
}

// loopRank orders loops for reports: those that migrate first.
func loopRank(loop string) int {
	if i := slices.IndexFunc(
		controllernames.Loops,
		func(l controllernames.Loop) bool { return controllernames.MetricName(l) == loop },
	); i >= 0 {
		return i
	}
	if strings.HasPrefix(loop, otherLoop) {
		return len(controllernames.Loops) + 1
	}
	return len(controllernames.Loops)
}

// clockTime is how sentences write a time.
func clockTime(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// DefaultHeartbeat is how often a recorder says that it is alive when nothing else is said.
const DefaultHeartbeat = 5 * time.Second
