package objectives

import (
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// Watch judges managers while a run goes on. A nil one sees nothing. It is safe for several goroutines.
type Watch struct {
	mu    sync.Mutex
	tally *Tally
}

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
	return strings.Join(Breaches(w.tally.Series()), "; ")
}

// Restart forgets what was counted: an operator has seen it, and lets the run go on.
func (w *Watch) Restart(from time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally = &Tally{from: from, last: w.tally.last, counts: map[string]*count{}}
}

// Words say how the objectives stand: kept, or what breaches them. They are empty where no manager has shown a series.
func (w *Watch) Words() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.tally.Series()
	if len(all) == 0 {
		return ""
	}
	if breaches := Breaches(all); len(breaches) > 0 {
		return "breached: " + strings.Join(breaches, "; ")
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
		r := Reading{At: e.Time, Manager: who, Started: e.ProcessStarted, Series: e.Series}
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
