package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spare is the place of the first node that scenarios use to see that a manager works; none of theirs comes that far.
const spare = lastPlace - 256

// poll looks again and again until look is satisfied, the limit is over, or the manager ends. It reports whether look
// was satisfied.
func poll(ctx context.Context, m *manager, every, limit time.Duration, look func() (bool, error)) (bool, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	over := time.Now().Add(limit)
	for {
		if ok, err := look(); ok || err != nil {
			return ok, err
		}
		if time.Now().After(over) {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-m.Done():
			return false, m.Alive()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// working waits until a manager initialises a node and then is quiet: whatever it does at its start is behind it.
func (w *world) working(ctx context.Context, m *manager) error {
	watch, err := w.watchNodes(ctx, untainted)
	if err != nil {
		return err
	}
	defer watch.close()
	begin, err := w.from(m)
	if err != nil {
		return err
	}
	created, err := w.addNodes(ctx, spare+len(w.managers), 1, fresh)
	if err != nil {
		return err
	}
	s, err := watch.wait(ctx, created, m, w.preparing())
	if err != nil {
		return err
	}
	if len(s.times) < s.of {
		return fmt.Errorf("waiting for %s to initialise a first node: it did not within %s", m.Name(), w.preparing())
	}
	_, ok, err := begin.quiet(ctx, w.options.pauses.start, w.preparing())
	if err == nil && !ok {
		err = fmt.Errorf("waiting for %s to be quiet: it was not within %s", m.Name(), w.preparing())
	}
	return err
}

// span is from when to when a manager was seen doing something; zero if it was not.
type span struct{ first, last time.Time }

// activity looks at what a manager has called and written in the interval.
func (i *interval) activity() (span, error) {
	var s span
	see := func(at time.Time) {
		if s.first.IsZero() || at.Before(s.first) {
			s.first = at
		}
		if at.After(s.last) {
			s.last = at
		}
	}
	for _, call := range i.cloudCalls() {
		see(call.Arrived)
	}
	writes, err := i.apiWrites()
	for _, write := range writes {
		see(write.Answered)
	}
	return s, err
}

// quiet waits until the manager has neither called nor written anything for a while, and reports whether that came
// before the limit.
func (i *interval) quiet(ctx context.Context, while, limit time.Duration) (span, bool, error) {
	var s span
	begin := time.Now()
	ok, err := poll(ctx, i.manager, 250*time.Millisecond, limit+while, func() (bool, error) {
		var err error
		s, err = i.activity()
		return time.Since(latest(s.last, begin)) >= while, err
	})
	return s, ok, err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// leases are the holders of the leases in kube-system, by name; a lease that nobody holds is left out.
func (w *world) leases(ctx context.Context) (map[string]string, error) {
	list, err := w.client.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	out := map[string]string{}
	for _, lease := range list.Items {
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && leaderElection(lease.Name) {
			out[lease.Name] = *holder
		}
	}
	return out, nil
}

// leaderElection reports whether a lease is one of a manager; API servers have leases too.
func leaderElection(name string) bool {
	return name == "cloud-controller-manager" || name == "cloud-provider-extraction-migration"
}

// takenOver reports whether other processes hold all leases that were held before.
func takenOver(before, now map[string]string) bool {
	for name, holder := range before {
		if now[name] == "" || now[name] == holder {
			return false
		}
	}
	return true
}

// heartbeat renews the condition Ready of every node, each one every five minutes as kubelets do, until ctx ends. It
// says so where the machine could not keep up: the manager has had less to do then than in such a cluster.
func (w *world) heartbeat(ctx context.Context, nodes int) error {
	began, every := time.Now(), max(5*time.Minute/time.Duration(nodes), time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for sent := 0; ; sent++ {
		select {
		case <-ctx.Done():
			if due := int(time.Since(began) / every); sent < due*9/10 {
				fmt.Fprintf(w.options.Progress, "kubelets have sent %d heartbeats, and %d were due: the machine is too slow for %d nodes\n",
					sent, due, nodes)
			}
			return nil
		case <-tick.C:
		}
		err := w.setReady(ctx, nodeName(sent%nodes), corev1.ConditionTrue, "KubeletReady")
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}
