package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// startProbe looks at a path every so often until ctx ends.
func (r *run) startProbe(ctx context.Context, k key, look func(context.Context) error, pace func() time.Duration) {
	p := r.pathOf(k, pace())
	r.wg.Go(func() {
		for ctx.Err() == nil {
			next := r.once(ctx, p, look)
			waiting.For(ctx, next)
			p.pace(pace())
		}
	})
}

// once looks at a path when its turn comes, and returns how long to wait for the next look.
func (r *run) once(ctx context.Context, p *path, look func(context.Context) error) time.Duration {
	release, ok := r.turn(ctx, p.isDown())
	if !ok {
		return 0
	}
	defer release()
	looking, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	began := r.now()
	err := look(looking)
	ended := r.now()
	if ctx.Err() != nil {
		return 0 // what a look says that was broken off is nothing
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", r.Timeout)
	}
	p.addLook(began, ended, err)
	every := retrySkipped
	if !p.isSkipped() {
		p.mu.Lock()
		every = p.interval
		p.mu.Unlock()
	}
	return max(0, every-ended.Sub(began))
}

// turn waits for one of the connections that may be open at a time. Those that wait get it in turn, and who is out, and
// so takes long, cannot keep the others from theirs.
func (r *run) turn(ctx context.Context, slow bool) (release func(), ok bool) {
	taken := []chan struct{}{}
	release = func() {
		for _, c := range taken {
			<-c
		}
	}
	wanted := []chan struct{}{r.slots}
	if slow {
		wanted = []chan struct{}{r.slow, r.slots}
	}
	for _, c := range wanted {
		select {
		case c <- struct{}{}:
			taken = append(taken, c)
		case <-ctx.Done():
			release()
			return nil, false
		}
	}
	return release, true
}

// followTargets looks at every target, at new ones from when they are found, and ends the looks at those whose owner is
// gone.
func (r *run) followTargets(ctx context.Context) {
	targets := map[key]Target{}
	said := map[v1.NotProbed]bool{}
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, r.Timeout)
		found, err := r.Targets(asking)
		cancel()
		if err != nil {
			if len(targets) > 0 {
				waiting.For(ctx, refreshEvery) // what is known is looked at on
			} else {
				waiting.For(ctx, r.Interval)
			}
			continue
		}
		r.startTargets(ctx, targets, found)
		for _, n := range found.NotProbed {
			if !said[n] {
				said[n] = true
				r.sink(v1.ProbeEvent{
					Time:  r.now(),
					Event: v1.ProbeSkipped,
					Kind:  n.Kind,
					Path:  n.Path,
					Error: n.Why,
				})
			}
		}
		r.endTargets(targets, found)
		waiting.For(ctx, refreshEvery)
	}
}

// startTargets begins to look at targets that are new.
func (r *run) startTargets(ctx context.Context, targets map[key]Target, found Found) {
	var fresh []Target
	for _, t := range found.Targets {
		if _, have := targets[key{t.Kind, t.Path}]; !have {
			targets[key{t.Kind, t.Path}] = t
			fresh = append(fresh, t)
		}
	}
	pace := max(r.Interval, time.Duration(len(targets))*time.Second/maxPerSecond)
	r.lock.Lock()
	r.pace = pace
	r.lock.Unlock()
	for i, t := range fresh {
		looking, stop := context.WithCancel(ctx)
		r.stops[key{t.Kind, t.Path}] = stop
		first := pace * time.Duration(i) / time.Duration(len(fresh)) // spread, so that they do not come in bursts
		look := func(ctx context.Context) error { return r.Look(ctx, t) }
		if r.Keep != nil && t.Kind == v1.PathTCP {
			look = r.keepAfterLook(looking, t, look)
		}
		r.wg.Go(func() {
			waiting.For(looking, first)
			r.startProbe(looking, key{t.Kind, t.Path}, look, r.currentPace)
		})
	}
}

func (r *run) currentPace() time.Duration {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.pace
}

func (r *run) endTargets(targets map[key]Target, found Found) {
	for k, t := range targets {
		if t.Owner == "" || found.Owners[t.Owner] || slices.Contains(found.Targets, t) {
			continue
		}
		r.stops[k]()
		delete(r.stops, k)
		delete(targets, k)
		r.pathOf(k, r.Interval).recordGone(r.now(), t.Owner+" is gone")
		r.pathOf(key{v1.PathTCPKept, k.path}, 0).recordGone(r.now(), t.Owner+" is gone")
	}
}
