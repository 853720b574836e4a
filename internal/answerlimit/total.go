package answerlimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxOpen is what the open answers of one user cluster may hold: each is in memory until its end has come.
	maxOpen = 96 << 20
	// maxTotal is what those of all user clusters of an operator may. Its memory limit is 512Mi.
	maxTotal = 128 << 20
	// patience is for how long an answer waits for a cluster that holds more and goes on by nothing.
	patience = 5 * time.Second
)

// Total is what the open answers of several clusters may hold together; see the package's comment for who waits and who
// is refused.
type Total struct {
	most     int // in bytes; 0 for no bound
	patience time.Duration

	mu       sync.Mutex
	held     int
	clusters map[*cluster]bool // those that hold something
	names    map[string]*cluster
	freed    chan struct{} // closed when something is free

	mostKept, kept int64           // in bytes of memory; mostKept is 0 for no bound
	readers        map[*kept]int64 // what each keeps

	passing *semaphore.Weighted // nil for no bound
}

// NewTotal returns the limit for the user clusters of one process.
func NewTotal() *Total {
	t := newTotal(maxTotal)
	t.mostKept, t.passing = maxAllKept, semaphore.NewWeighted(maxPassing)
	return t
}

func newTotal(most int) *Total {
	return &Total{
		most:     most,
		patience: patience,
		clusters: map[*cluster]bool{},
		names:    map[string]*cluster{},
		freed:    make(chan struct{}),
		readers:  map[*kept]int64{},
	}
}

// cluster is one cluster of a Total, with bounds of its own. Its last three fields are guarded by the Total.
type cluster struct {
	total             *Total
	most, mostWatched int
	turn              *semaphore.Weighted // of its own answers

	held, watched int       // watched is what its watches hold of that
	open          []*answer // those that hold something
}

func (t *Total) cluster(most int) *cluster {
	return &cluster{
		total:       t,
		most:        most,
		mostWatched: maxWatched,
		turn:        semaphore.NewWeighted(1),
	}
}

// named is the cluster of a name. It is kept, as a pool may ask for it again.
func (t *Total) named(name string) *cluster {
	if name == "" {
		return t.cluster(maxOpen)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[name] == nil {
		t.names[name] = t.cluster(maxOpen)
	}
	return t.names[name]
}

// holding is what an answer holds, until it is free. An answer that is cut was refused while it was not read.
type holding struct {
	bytes         int
	isFree, isCut bool
	whenCut       context.CancelCauseFunc // ends what the answer waits for; nil where it waits for nothing else
}

// errCut is why an answer ends that was read to its end.
var errCut = errors.New(
	"the answers of all clusters that are read at the same time have too much, and its cluster has the most of them",
)

// untilCut is a context that ends with the request, and when the answer is cut.
func (t *Total) untilCut(a *answer) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.held.whenCut = cancel; a.held.isCut {
		cancel(errCut)
	}
	return ctx, cancel
}

// verdict is what becomes of an answer.
type verdict int

const (
	mayGoOn verdict = iota
	overCluster
	overWatches
	overTotal
	requestEnded
)

// copies is how often what was read of an answer is in memory while the rest comes. A Total counts that. The bound of a
// cluster is for what was read: of its answers none waits for the others.
func (a *answer) copies() int {
	if a.isWhole {
		return 2
	}
	return 1
}

// hold counts bytes of an answer that are in memory now, and waits until there is room for them.
func (c *cluster) hold(a *answer, n int) verdict {
	if c == nil {
		return mayGoOn
	}
	t := c.total
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case a.held.isCut:
		return overTotal
	case a.held.isFree || n == 0:
		return mayGoOn
	}
	if a.held.bytes == 0 {
		c.open = append(c.open, a)
	}
	a.held.bytes += n
	c.held += n
	t.held += n * a.copies()
	t.clusters[c] = true
	if a.events != nil {
		c.watched += n
	}
	switch {
	case c.held > c.most:
		return overCluster
	case c.watched > c.mostWatched:
		return overWatches
	}
	return t.waitForRoom(a)
}

// waitForRoom waits while the limit is passed. The caller holds the lock.
func (t *Total) waitForRoom(a *answer) verdict {
	var late <-chan time.Time
	for t.most > 0 && t.held > t.most {
		most := t.largest()
		if a.cluster.held >= most.held {
			return overTotal
		}
		if late == nil {
			timer := time.NewTimer(t.patience)
			defer timer.Stop()
			late = timer.C
		}
		freed := t.freed
		t.mu.Unlock()
		isLate, isEnded := false, false
		select {
		case <-freed:
		case <-late:
			isLate = true
		case <-a.ctx.Done():
			isEnded = true
		}
		t.mu.Lock()
		switch {
		case a.held.isCut:
			return overTotal
		case a.held.isFree:
			return mayGoOn
		case isEnded:
			return requestEnded
		case isLate && t.held > t.most:
			late = nil
			t.cut(t.largest())
		}
	}
	return mayGoOn
}

// largest is the cluster that holds the most; the limit is passed, so that there is one.
func (t *Total) largest() *cluster {
	var most *cluster
	for c := range t.clusters {
		if most == nil || c.held > most.held {
			most = c
		}
	}
	return most
}

// cut refuses all answers of a cluster. The caller holds the lock.
func (t *Total) cut(c *cluster) {
	answers := slices.Clone(c.open)
	for _, a := range answers {
		a.held.isCut = true
		if a.held.whenCut != nil {
			a.held.whenCut(errCut)
		}
		t.release(a)
		// Who reads it reads on, and is told why it was closed. To close it may take as long as a write to its server,
		// for which the reader of another cluster does not wait.
		go func() { _ = a.ReadCloser.Close() }()
	}
}

// releaseAnswer removes a closed answer from the count. It may still be read by another goroutine.
func (c *cluster) releaseAnswer(a *answer) {
	if c == nil {
		return
	}
	c.total.mu.Lock()
	defer c.total.mu.Unlock()
	c.total.release(a)
}

// release subtracts what an answer holds from the count. The caller holds the lock.
func (t *Total) release(a *answer) {
	if a.held.isFree {
		return
	}
	a.held.isFree = true
	if a.held.bytes == 0 {
		return
	}
	c := a.cluster
	c.open = slices.DeleteFunc(c.open, func(other *answer) bool { return other == a })
	c.held -= a.held.bytes
	if a.events != nil {
		c.watched -= a.held.bytes
	}
	t.held -= a.held.bytes * a.copies()
	a.held.bytes = 0
	if c.held == 0 {
		delete(t.clusters, c)
	}
	close(t.freed)
	t.freed = make(chan struct{})
}
