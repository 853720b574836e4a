package answerlimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

const (
	// maxKept is what all answers may take that one reader keeps, as a snapshot does.
	maxKept = 160 << 20
	// maxAllKept is what those of all readers may that ask user clusters at the same time. The operator's limit is
	// 512Mi.
	maxAllKept = 192 << 20
)

// reader is who reads answers of user clusters. Its context says so.
type reader interface {
	// next is called before each request.
	next()
	// take counts what an answer takes when it is decoded, and says where that is too much.
	countAnswer(a *answer, weight int64) error
}

type readerKey struct{}

// readerOf is nil for a context that says nothing.
func readerOf(ctx context.Context) reader {
	r, _ := ctx.Value(readerKey{}).(reader)
	return r
}

// kept counts what the answers take that one reader keeps.
type kept struct {
	end context.CancelCauseFunc

	mu     sync.Mutex
	weight int64
	totals []*Total // those of the clusters that were asked
}

// Keep returns a context for a reader that keeps what it reads of user clusters, as a snapshot does. Its answers are
// bounded together, and with those of the other readers that ask clusters of the same Total. The reader that keeps the
// most of them is ended where that is too much. It calls done when it has cut down what it keeps to so many bytes.
// Those count until the reader that it is a part of is done, if there is one; see Pass.
func Keep(ctx context.Context) (_ context.Context, done func(left int64)) {
	whole, _ := readerOf(ctx).(*passing)
	ctx, end := context.WithCancelCause(ctx)
	k := &kept{end: end}
	return context.WithValue(ctx, readerKey{}, k), func(left int64) { k.done(whole, left) }
}

func (k *kept) done(whole *passing, left int64) {
	k.mu.Lock()
	totals := k.totals
	k.mu.Unlock()
	for _, t := range totals {
		t.forget(k)
		if whole != nil {
			whole.countPart(t, left)
		}
	}
	k.end(nil)
}

func (*kept) next() {}

func (k *kept) countAnswer(a *answer, weight int64) error { return k.add(weight, a.cluster.total) }

// add counts what an answer of a cluster takes, and says where that is too much.
func (k *kept) add(n int64, t *Total) error {
	k.mu.Lock()
	k.weight += n
	isTooMuch := k.weight > maxKept
	if !slices.Contains(k.totals, t) {
		k.totals = append(k.totals, t)
	}
	k.mu.Unlock()
	if isTooMuch {
		return fmt.Errorf("it and what else was read for the same look would take more than %d MiB of memory together",
			maxKept>>20)
	}
	return t.countKept(k, n)
}

// countKept counts what a reader keeps of the clusters of this Total. It ends the one that keeps the most where that is
// too much for all. What that one holds is free soon, and is not counted on.
func (t *Total) countKept(k *kept, n int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[k] += n
	t.kept += n
	for t.mostKept > 0 && t.kept > t.mostKept {
		most := k
		for r, held := range t.readers {
			if held > t.readers[most] {
				most = r
			}
		}
		err := fmt.Errorf("what is read of all clusters at the same time would take more than %d MiB of memory; "+
			"this read has taken the most of it", t.mostKept>>20)
		t.dropReader(most)
		if most.end(err); most == k {
			return err
		}
	}
	return nil
}

func (t *Total) forget(k *kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropReader(k)
}

// dropReader removes a reader from the count. The caller holds the lock.
func (t *Total) dropReader(k *kept) {
	t.kept -= t.readers[k]
	delete(t.readers, k)
}
