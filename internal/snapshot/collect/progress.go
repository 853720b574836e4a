package collect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Progress is what a snapshot that is being gathered waits for. The zero value is ready, and nil notes nothing. A host
// that does not answer, or a list of a large cluster, takes long, and no other sign of life comes meanwhile.
type Progress struct {
	mu    sync.Mutex
	hosts int
	read  int
	waits map[string]wait
}

// wait is for something that was asked and has not answered.
type wait struct {
	isHost bool
	since  time.Time
}

// Waits say how far a gathering is.
type Waits struct {
	// Read of Hosts have been read.
	Read, Hosts int
	// For is what is waited for: hosts first, and then what was asked first.
	For []string
	// Longest is for how long the first of them has been waited for.
	Longest time.Duration
}

// AddHosts adds to the number of hosts that are read.
func (p *Progress) AddHosts(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts += n
}

// ReadHost notes that a host is being read, until the returned function is called.
func (p *Progress) ReadHost(name string) (done func()) { return p.start(name, true) }

// Ask notes that something is asked for, until the returned function is called.
func (p *Progress) Ask(what string) (done func()) { return p.start(what, false) }

func (p *Progress) start(what string, isHost bool) func() {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits == nil {
		p.waits = map[string]wait{}
	}
	p.waits[what] = wait{isHost: isHost, since: time.Now()}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waits, what)
		if isHost {
			p.read++
		}
	}
}

// Waits returns how far the gathering is at a moment.
func (p *Progress) Waits(now time.Time) Waits {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Waits{Read: p.read, Hosts: p.hosts}
	out.For = slices.SortedFunc(maps.Keys(p.waits), func(a, b string) int {
		x, y := p.waits[a], p.waits[b]
		if x.isHost != y.isHost {
			if x.isHost {
				return -1
			}
			return 1
		}
		return cmp.Or(x.since.Compare(y.since), strings.Compare(a, b))
	})
	if len(out.For) > 0 {
		out.Longest = now.Sub(p.waits[out.For[0]].since)
	}
	return out
}

// Named is a part of a snapshot that is waited for under a name.
func Named(name string, part func(context.Context, *Collector)) func(context.Context, *Collector) {
	return func(ctx context.Context, g *Collector) {
		defer g.Progress.Ask(name)()
		part(ctx, g)
	}
}
