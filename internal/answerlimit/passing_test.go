package answerlimit

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns are those of readers of one Total, each of another cluster, and of which each takes what a test says.
type turns struct {
	*testing.T

	total *Total
}

// passingReader is a reader in the background.
type passingReader struct {
	turns

	cluster *cluster
	ctx     context.Context
	done    func()
	err     chan error
}

func newTurns(t *testing.T) turns {
	t.Helper()
	total := newTotal(0)
	total.passing = semaphore.NewWeighted(maxPassing)
	return turns{t, total}
}

func (s turns) reader(ctx context.Context) *passingReader {
	ctx, done := Pass(ctx)
	return &passingReader{s, s.total.cluster(0), ctx, done, make(chan error, 1)}
}

// asks is a request for an answer that takes so many MiB when it is decoded.
func (r *passingReader) asks(mib int64) {
	readerOf(r.ctx).next()
	go func() { r.err <- readerOf(r.ctx).countAnswer(&answer{ctx: r.ctx, cluster: r.cluster}, mib<<20) }()
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
		first, second, third, fourth, small := s.reader(t.Context()), s.reader(t.Context()), s.reader(t.Context()), s.reader(t.Context()), s.reader(t.Context())
		for _, r := range []*passingReader{first, second, third} {
			r.asks(30)
			r.has("one of three")
		}
		fourth.asks(30)
		fourth.waits("the fourth one")
		small.asks(0)
		small.has("a small one")
		first.asks(30)
		fourth.has("when the first one asks for its next page")
		first.waits("the next page of the first one")
		second.done()
		first.has("when the second one is through")
		first.asks(33)
		synctest.Wait()
		if err := <-first.err; err == nil || !strings.Contains(err.Error(), "would take more than 32 MiB of memory while it is decoded") {
			t.Errorf("an answer that is heavier than one may be: %v", err)
		}
		for _, r := range []*passingReader{first, third, fourth, small} {
			r.done()
		}
	})
}

// TestAClusterHasOneTurnAtATime: a hostile one must not take those of all.
func TestAClusterHasOneTurnAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		look, run, other := s.reader(t.Context()), s.reader(t.Context()), s.reader(t.Context())
		run.cluster = look.cluster
		look.asks(30)
		look.has("the look at the cluster")
		run.asks(30)
		run.waits("the run of the cluster")
		other.asks(30)
		other.has("another cluster, though the run waits")
		look.done()
		run.has("the run when the look is through")
		run.done()
		other.done()
	})
}

// TestATurnEndsByItself: a reader that waits for something else must not stop the looks at all other clusters.
func TestATurnEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		idle, other := s.reader(t.Context()), s.reader(t.Context())
		other.cluster = idle.cluster
		idle.asks(30)
		idle.has("the first one")
		other.asks(30)
		other.waits("the other one")
		<-time.After(longestTurn)
		other.has("when the first one has done nothing for long")
		idle.done() // gives back nothing twice
		third := s.reader(t.Context())
		third.cluster = idle.cluster
		third.asks(30)
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
		first.asks(30)
		first.has("the first one")
		ctx, cancel := context.WithCancelCause(t.Context())
		second := s.reader(ctx)
		second.cluster = first.cluster
		second.asks(30)
		second.waits("the second one")
		tooLate := errors.New("no answer in time")
		cancel(tooLate)
		synctest.Wait()
		if err := <-second.err; !errors.Is(err, tooLate) || !strings.Contains(err.Error(), "waited for other answers to be decoded") {
			t.Errorf("the second one: %v", err)
		}
		first.done()
		second.done()
	})
}

// TestAnAnswerThatIsCutWaitsForNoTurn: what it holds is not counted from then on, and must not stay in memory.
func TestAnAnswerThatIsCutWaitsForNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		first, second := s.reader(t.Context()), s.reader(t.Context())
		second.cluster = first.cluster
		first.asks(30)
		first.has("the first one")
		a := &answer{ctx: second.ctx, cluster: second.cluster, ReadCloser: io.NopCloser(strings.NewReader(""))}
		s.total.mu.Lock()
		a.cluster.open = append(a.cluster.open, a)
		s.total.mu.Unlock()
		go func() { second.err <- readerOf(second.ctx).countAnswer(a, 30<<20) }()
		second.waits("the second one")
		s.total.mu.Lock()
		s.total.cut(a.cluster)
		s.total.mu.Unlock()
		synctest.Wait()
		if err := <-second.err; !errors.Is(err, errCut) {
			t.Errorf("the answer that was cut: %v", err)
		}
		if err := readerOf(second.ctx).countAnswer(a, 30<<20); !errors.Is(err, errCut) {
			t.Errorf("an answer that was cut before: %v", err)
		}
		first.done()
		second.done()
	})
}

// TestTwoAnswersAtATimeDoNotWaitForEachOther, though a passing reader should not read them.
func TestTwoAnswersAtATimeDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns(t)
		r := s.reader(t.Context())
		r.asks(30)
		r.has("the first one")
		go func() { r.err <- readerOf(r.ctx).countAnswer(&answer{ctx: r.ctx, cluster: r.cluster}, 30<<20) }()
		r.has("the second one")
		r.done()
		other := s.reader(t.Context())
		other.cluster = r.cluster
		other.asks(32)
		other.has("all is free then")
		other.done()
	})
}
