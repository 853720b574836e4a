package answerlimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns are those of readers of one Total, each of which takes what a test says.
type turns struct {
	*testing.T

	cluster *cluster
}

// passingReader is a reader in the background.
type passingReader struct {
	turns

	ctx  context.Context
	done func()
	err  chan error
}

func newTurns(t *testing.T) turns {
	t.Helper()
	total := newTotal(0)
	total.passing = semaphore.NewWeighted(maxPassing)
	return turns{t, total.cluster(0)}
}

func (s turns) reader(ctx context.Context) *passingReader {
	ctx, done := Pass(ctx)
	return &passingReader{s, ctx, done, make(chan error, 1)}
}

// asks is a request for an answer that takes so many MiB when it is decoded.
func (r *passingReader) asks(mib int64) {
	readerOf(r.ctx).next()
	go func() { r.err <- readerOf(r.ctx).take(&answer{ctx: r.ctx, cluster: r.cluster}, mib<<20) }()
}

func (r *passingReader) has(what string) {
	r.Helper()
	synctest.Wait()
	select {
	case err := <-r.err:
		if err != nil {
			r.Errorf("%s: %v", what, err)
		}
	default:
		r.Errorf("%s: it waits", what)
	}
}

func (r *passingReader) waits(what string) {
	r.Helper()
	synctest.Wait()
	select {
	case err := <-r.err:
		r.Errorf("%s: it does not wait: %v", what, err)
	default:
	}
}

// TestAnswersAreDecodedInTurns: what all clusters' answers take when they are decoded has a bound, and a cluster whose
// answers are heavy has no more than its turn.
func TestAnswersAreDecodedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		large, second, small := s.reader(t.Context()), s.reader(t.Context()), s.reader(t.Context())
		large.asks(60)
		large.has("the first one")
		second.asks(60)
		second.waits("the second one")
		small.asks(1)
		small.waits("a small one behind it") // or the second one would wait for ever
		large.asks(60)
		second.has("when the first one asks for its next page")
		small.has("when the second one has its turn")
		large.waits("the next page of the first one")
		second.done()
		large.has("when the second one is through")
		small.asks(1000)
		small.waits("an answer that is heavier than all may be")
		large.done()
		small.has("when it is alone")
		small.done()
	})
}

// TestATurnEndsByItself: a reader that waits for something else must not stop the looks at all other clusters.
func TestATurnEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		idle, other := s.reader(t.Context()), s.reader(t.Context())
		idle.asks(90)
		idle.has("the first one")
		other.asks(90)
		other.waits("the other one")
		time.Sleep(longestTurn)
		other.has("when the first one has done nothing for long")
		idle.done() // gives back nothing twice
		third := s.reader(t.Context())
		third.asks(90)
		third.waits("a third one")
		other.done()
		third.has("a third one, when the other one is through")
		third.done()
	})
}

func TestAWaitForATurnEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		first := s.reader(t.Context())
		first.asks(90)
		first.has("the first one")
		ctx, cancel := context.WithCancelCause(t.Context())
		second := s.reader(ctx)
		second.asks(90)
		second.waits("the second one")
		tooLate := errors.New("no answer in time")
		cancel(tooLate)
		synctest.Wait()
		if err := <-second.err; !errors.Is(err, tooLate) || !strings.Contains(err.Error(), "waited for the answers of other clusters") {
			t.Errorf("the second one: %v", err)
		}
		first.done()
	})
}

// TestTwoAnswersAtATimeDoNotWaitForEachOther, though a passing reader should not read them.
func TestTwoAnswersAtATimeDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		r := s.reader(t.Context())
		r.asks(90)
		r.has("the first one")
		r.asks(90)
		r.has("the second one")
		r.done()
		other := s.reader(t.Context())
		other.asks(96)
		other.has("all is free then")
		other.done()
	})
}
