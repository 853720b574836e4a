package vsphere

import (
	"context"
	"errors"
	"sync"

	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// inventory is what all vCenters listed in one go.
type inventory struct {
	listings map[string]*client.Listing // by vCenter, of those that answered
	failed   map[string]error           // of those that did not
}

// lister lists all vCenters at once. Callers that come while a list is made share the next one. A list that began
// before a caller asked may be too old for it.
type lister struct {
	vcenters []*client.VCenter
	running  chan struct{} // holds one value while a list is made

	mu   sync.Mutex
	next *flight // not begun
}

type flight struct {
	done   chan struct{}
	result *inventory // nil when the caller that was to make it left
}

func newLister(vcenters []*client.VCenter) *lister {
	return &lister{vcenters: vcenters, running: make(chan struct{}, 1)}
}

func (l *lister) list(ctx context.Context) (*inventory, error) {
	for {
		l.mu.Lock()
		f := l.next
		if f == nil {
			f = &flight{done: make(chan struct{})}
			l.next = f
			l.mu.Unlock()
			return l.lead(ctx, f)
		}
		l.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f.result != nil {
			return f.result, nil
		}
	}
}

// lead makes the list for itself and for those who wait. Where its own context ends, they make another.
func (l *lister) lead(ctx context.Context, f *flight) (*inventory, error) {
	defer close(f.done)
	begin := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.next = nil
	}
	select {
	case l.running <- struct{}{}:
	case <-ctx.Done():
		begin()
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.running }()
	begin()
	made := l.make(ctx)
	if ctx.Err() != nil {
		return nil, errors.Join(append([]error{context.Cause(ctx)}, made.errors()...)...)
	}
	f.result = made
	return made, nil
}

func (l *lister) make(ctx context.Context) *inventory {
	made := &inventory{listings: map[string]*client.Listing{}, failed: map[string]error{}}
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for _, v := range l.vcenters {
		all.Go(func() {
			listing, err := v.List(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				made.failed[v.Name()] = err
				return
			}
			made.listings[v.Name()] = listing
		})
	}
	all.Wait()
	return made
}

func (i *inventory) errors() (all []error) {
	for _, err := range i.failed {
		all = append(all, err)
	}
	return all
}
