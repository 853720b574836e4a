package operator

import "context"

// lanes bound how many user clusters are looked at at a time. Clusters that answered last time have a lane of their own.
type lanes struct{ fast, slow chan struct{} }

func newLanes(looks int) lanes {
	return lanes{fast: make(chan struct{}, looks), slow: make(chan struct{}, max(1, looks/2))}
}

// enter waits for a place, and returns how to leave it; nil when ctx ended first.
func (l lanes) enter(ctx context.Context, failing bool) (leave func()) {
	lane := l.fast
	if failing {
		lane = l.slow
	}
	select {
	case lane <- struct{}{}:
		return func() { <-lane }
	case <-ctx.Done():
		return nil
	}
}
