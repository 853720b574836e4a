package objectives

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Watch judges managers while a run goes on. A nil one sees nothing. It is safe for several goroutines.
type Watch struct {
	mu    sync.Mutex
	tally *Tally
	// failing are the Services that fail. Those of known did so before, or an operator has seen it; nil before the first
	// look.
	failing map[string]v1.SyncFailure
	known   map[string]bool
	looked  time.Time
	// kept are the Services whose load balancers were kept before the loops moved; nil where that is not known.
	kept map[string]bool
}

// Words of the flag --slo, which says what a breach does to a run.
const (
	FlagPause = "pause"
	FlagOff   = "off"
)

const (
	// failsFor is for how long a Service fails before it counts, and failsOften how often: a single error may pass.
	failsFor   = 30 * time.Second
	failsOften = 2
)

// KeptBefore names the Services whose load balancers were kept before the loops moved. Those of them that fail at the
// first look count then.
func (w *Watch) KeptBefore(names map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = names
}

// AddFailing takes in which Services fail, by namespace/name. Those of the first look have failed before the run. They
// do not count unless KeptBefore names them.
func (w *Watch) AddFailing(now time.Time, failing map[string]v1.SyncFailure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[string]bool{}
		for name := range failing {
			w.known[name] = !w.kept[name]
		}
	}
	for name := range w.known {
		if _, still := failing[name]; !still {
			delete(w.known, name)
		}
	}
	w.failing, w.looked = failing, now
}

// breaches are the sentences of what is not kept.
func (w *Watch) breaches() []string {
	out := Breaches(w.tally.Series())
	var names []string
	for name, f := range w.failing {
		if !w.known[name] && w.lasts(f) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return out
	}
	slices.Sort(names)
	f := w.failing[names[0]]
	return append(out, fmt.Sprintf(
		"the load balancers of %s cannot be kept, first that of %s: %s: %s",
		english.Count(len(names), "Service"),
		names[0],
		f.Reason,
		visible.Cut(f.Message, maxFailure),
	))
}

// lasts reports whether a failure is more than a single error.
func (w *Watch) lasts(f v1.SyncFailure) bool {
	return f.Count >= failsOften || w.looked.Sub(f.First) >= failsFor
}

// Undecided reports whether a Service fails that may turn out to be a breach or to have met a single error.
func (w *Watch) Undecided() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, f := range w.failing {
		if !w.known[name] && !w.lasts(f) {
			return true
		}
	}
	return false
}

// maxFailure is how much of an event is told, in letters.
const maxFailure = 300

// NewWatch returns a watch that judges what happens from a moment on.
func NewWatch(from time.Time) *Watch { return &Watch{tally: NewTally(from)} }

// Add takes what a manager shows in.
func (w *Watch) Add(r Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.Add(r)
}

// Breach says which objectives are not kept; empty when all are.
func (w *Watch) Breach() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.breaches(), "; ")
}

// Restart forgets what was counted: an operator has seen it, and lets the run go on.
func (w *Watch) Restart(from time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally = &Tally{from: from, last: w.tally.last, counts: map[string]*count{}}
	for name := range w.failing {
		w.known[name] = true
	}
}

// Words say how the objectives stand: kept, or what breaches them. They are empty where no manager has shown a series.
func (w *Watch) Words() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if breaches := w.breaches(); len(breaches) > 0 {
		return "breached: " + strings.Join(breaches, "; ")
	}
	if len(w.tally.Series()) == 0 {
		return ""
	}
	return "kept so far"
}

// ReadingsOf are the readings in an ownership log. A line without series says that they are as before, or that a new
// process shows none yet.
func ReadingsOf(events []v1.OwnershipEvent) []Reading {
	last := map[string]Reading{}
	var out []Reading
	for _, e := range events {
		if e.Source != v1.SourceScrape || e.Error != "" {
			continue
		}
		who := e.Component + "@" + e.Host
		r := Reading{
			At:      e.Time,
			Manager: who,
			Started: e.ProcessStarted,
			Series:  e.Series,
		}
		if r.Series == nil && ownership.IsSameStart(r.Started, last[who].Started) {
			r.Series = last[who].Series
		}
		if last[who] = r; r.Series != nil {
			out = append(out, r)
		}
	}
	return out
}

// readingsIn are the readings in a snapshot.
func readingsIn(snap *v1.Snapshot) []Reading {
	var out []Reading
	if snap == nil {
		return nil
	}
	for _, m := range snap.Managers {
		if m.Error == "" && len(m.Series) > 0 {
			out = append(out, Reading{snap.TakenAt, m.Component + "@" + m.Host, m.ProcessStarted, m.Series})
		}
	}
	return out
}
