package answerlimit

import (
	"context"
	"strings"
	"testing"
)

// TestTheReaderThatKeepsTheMostIsEnded: several clusters of one administrator must not fill the memory of the operator
// together, and the readers of other clusters go on.
func TestTheReaderThatKeepsTheMostIsEnded(t *testing.T) {
	total := newTotal(0)
	total.mostKept = 100
	reader := func() (context.Context, func()) {
		ctx, done := Keep(t.Context())
		return ctx, func() { done(0) }
	}
	keeps := func(ctx context.Context, n int64) error {
		return readerOf(ctx).countAnswer(&answer{cluster: total.cluster(0)}, n)
	}
	large, doneLarge := reader()
	small, doneSmall := reader()
	last, doneLast := reader()
	defer doneLarge()
	defer doneLast()
	for _, r := range []struct {
		of context.Context
		n  int64
	}{{large, 40}, {small, 30}, {large, 20}, {last, 10}} {
		if err := keeps(r.of, r.n); err != nil {
			t.Fatal(err)
		}
	}
	if err := keeps(last, 10); err != nil { // 110, of which large has 60
		t.Errorf("the reader that keeps less is refused: %v", err)
	}
	if err := context.Cause(large); err == nil || !strings.Contains(err.Error(), "would take more than 0 MiB of memory; this read has taken the most") {
		t.Errorf("the reader that keeps the most goes on: %v", err)
	}
	if small.Err() != nil || last.Err() != nil {
		t.Errorf("others are ended: %v, %v", small.Err(), last.Err())
	}
	doneSmall()
	if err := keeps(last, 80); err != nil { // all of the limit
		t.Errorf("what another reader kept is not free: %v", err)
	}
	if err := keeps(last, 1); err == nil || context.Cause(last) != err { //nolint:errorlint // the same one
		t.Errorf("it keeps more than the limit: %v", err)
	}
	countsNothing(t, total)
}

// TestWhatIsHeldCountsUntilItsReaderIsDone: a run that goes on keeps the snapshot from before, which it reads of the seed.
func TestWhatIsHeldCountsUntilItsReaderIsDone(t *testing.T) {
	total := newTotal(0)
	total.mostKept = 100
	run, ended := Pass(t.Context())
	Hold(run, 30)
	if total.kept != 0 {
		t.Errorf("%d bytes count before a cluster was asked", total.kept)
	}
	asks := func() {
		if err := readerOf(run).countAnswer(&answer{ctx: run, cluster: total.cluster(0)}, 1); err != nil {
			t.Fatal(err)
		}
	}
	asks()
	asks()
	if total.kept != 30 {
		t.Errorf("%d bytes count when a cluster was asked", total.kept)
	}
	if Hold(run, 20); total.kept != 50 {
		t.Errorf("%d bytes count when more is held", total.kept)
	}
	Hold(t.Context(), 1000) // the command line
	if Hold(run, 60); context.Cause(run) == nil || total.kept != 0 {
		t.Errorf("%d bytes count, and the run goes on: %v", total.kept, context.Cause(run))
	}
	ended()
	countsNothing(t, total)
}

// TestWhatIsLeftCountsUntilItsReaderIsDone: a run keeps the snapshot that it began with, for as long as it goes on.
func TestWhatIsLeftCountsUntilItsReaderIsDone(t *testing.T) {
	total := newTotal(0)
	total.mostKept = 100
	run, ended := Pass(t.Context())
	snapshot := func(ctx context.Context, reads, left int64) error {
		part, done := Keep(ctx)
		defer done(left)
		return readerOf(part).countAnswer(&answer{cluster: total.cluster(0)}, reads)
	}
	if err := snapshot(run, 60, 30); err != nil {
		t.Fatal(err)
	}
	if total.kept != 30 {
		t.Errorf("%d bytes count for what the run has left", total.kept)
	}
	if err := snapshot(t.Context(), 70, 50); err != nil { // nothing is left of a look that is no part of anything
		t.Error(err)
	}
	if err := snapshot(run, 10, 40); err != nil {
		t.Error(err)
	}
	if total.kept != 70 || run.Err() != nil {
		t.Errorf("%d bytes count for both of the run's snapshots: %v", total.kept, run.Err())
	}
	other, otherEnded := Pass(t.Context())
	if err := snapshot(other, 20, 20); err != nil {
		t.Error(err)
	}
	if err := snapshot(t.Context(), 15, 0); err != nil || other.Err() != nil {
		t.Errorf("one that keeps less is refused: %v, %v", err, other.Err())
	}
	if err := context.Cause(run); err == nil || !strings.Contains(err.Error(), "has taken the most of it") {
		t.Errorf("the run that keeps the most goes on: %v", err)
	}
	ended()
	otherEnded()
	countsNothing(t, total)
	late, done := Keep(run)
	if err := readerOf(late).countAnswer(&answer{cluster: total.cluster(0)}, 10); err != nil {
		t.Error(err)
	}
	done(10)
	if total.kept != 0 {
		t.Errorf("%d bytes count for a run that has ended", total.kept)
	}
}

// countsNothing fails the test where something of a reader that is done is counted on.
func countsNothing(t *testing.T, total *Total) {
	t.Helper()
	if total.kept != 0 || len(total.readers) != 0 {
		t.Errorf("%d bytes of %d readers are counted on", total.kept, len(total.readers))
	}
}
