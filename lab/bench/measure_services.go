package bench

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/simcloud"
)

// The results of the scenario services.
const (
	oneNode     = "services-one-node"
	twentyNodes = "services-20-nodes"
	takeover    = "services-takeover"
)

// added is how many nodes are added one by one.
const added = 20

// services measures what load balancers cost when nodes come and when another process takes over.
func services(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startBalanced(ctx)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, step := range []struct {
		name  string
		count int
	}{{oneNode, 1}, {twentyNodes, added}} {
		r, err := w.measureMembers(ctx, m, step.name, w.nodes+len(out), step.count)
		if err != nil {
			return out, fmt.Errorf("%s: %w", step.name, err)
		}
		out = append(out, r)
	}
	r, err := w.measureTakeover(ctx, m)
	if err != nil {
		return out, fmt.Errorf("%s: %w", takeover, err)
	}
	return append(out, r), nil
}

// startBalanced starts a manager in a world in which all nodes and load balancers are in order.
func (w *world) startBalanced(ctx context.Context) (*manager, error) {
	if _, err := w.addNodes(ctx, 0, w.nodes, settled); err != nil {
		return nil, err
	}
	if err := w.addServices(ctx); err != nil {
		return nil, err
	}
	m, err := w.startQuick(ctx)
	if err != nil {
		return nil, err
	}
	return m, w.balanced(ctx, m)
}

func (w *world) addServices(ctx context.Context) error {
	err := each(ctx, w.services, func(ctx context.Context, i int) error {
		service := loadBalanced(fmt.Sprintf("service-%04d", i))
		_, err := w.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating services: %w", err)
	}
	return nil
}

// loadBalanced is a Service that wants a load balancer.
func loadBalanced(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

// balanced waits until every Service has its load balancer and says so, and the manager is quiet.
func (w *world) balanced(ctx context.Context, m *manager) error {
	begin, err := w.from(m)
	if err != nil {
		return err
	}
	missing := w.services
	_, err = poll(ctx, m, 500*time.Millisecond, w.preparing(), func() (bool, error) {
		list, err := w.client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, fmt.Errorf("listing services: %w", err)
		}
		missing = w.services
		for _, s := range list.Items {
			if len(s.Status.LoadBalancer.Ingress) > 0 {
				missing--
			}
		}
		return missing == 0, nil
	})
	if err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("waiting for load balancers: %d of %d Services have none after %s", missing, w.services, w.preparing())
	}
	_, ok, err := begin.quiet(ctx, w.options.pauses.idle, w.preparing())
	if err == nil && !ok {
		err = fmt.Errorf("waiting for %s to be quiet: it was not within %s", m.Name(), w.preparing())
	}
	return err
}

// measureMembers measures how new nodes become members of every load balancer.
func (w *world) measureMembers(ctx context.Context, m *manager, name string, first, count int) (Result, error) {
	r := w.result(name)
	if err := w.slow(); err != nil {
		return r, err
	}
	begin, err := w.from(m)
	if err != nil {
		return r, err
	}
	start := time.Now()
	var lastAdded time.Time
	for i := range count {
		if _, err := w.addNodes(ctx, first+i, 1, fresh); err != nil {
			return r, err
		}
		lastAdded = time.Now()
		if i < count-1 {
			next := start.Add(time.Duration(i+1) * w.options.pauses.between)
			if _, err := poll(
				ctx,
				m,
				10*time.Millisecond,
				w.preparing(),
				func() (bool, error) { return !time.Now().Before(next), nil },
			); err != nil {
				return r, err
			}
		}
	}
	wanted := []string{}
	for place := first; place < first+count; place++ {
		wanted = append(wanted, instance(place).ProviderID)
	}
	complete := newVerdicts(func(members []string) bool { return hasAll(members, wanted) })
	if _, err := poll(
		ctx,
		m,
		100*time.Millisecond,
		w.options.Limit,
		func() (bool, error) { return len(w.behind(complete)) == 0, nil },
	); err != nil {
		return r, err
	}
	s := w.memberships(begin, w.behind(complete), start, lastAdded)
	// what it does for nothing counts too
	if _, _, err := begin.quiet(ctx, w.options.pauses.idle, w.options.Limit); err != nil {
		return r, err
	}
	s.into(&r, w.options.Limit)
	return r, begin.into(&r)
}

// behind are the load balancers whose members are not as they should be.
func (w *world) behind(v verdicts) map[string]bool {
	out := map[string]bool{}
	for _, lb := range w.cloud.LoadBalancers() {
		if !v.isGood(lb.Members) {
			out[lb.Name] = true
		}
	}
	return out
}

// verdicts judge lists of members, each list once. The simulated cloud never changes a list that it has given out, and
// most load balancers share one. To search each of 2,000 lists for 200 members ten times a second would take the CPU
// that is measured.
type verdicts struct {
	judge func(members []string) bool
	known map[*string]bool // by the address of the first member
}

func newVerdicts(judge func(members []string) bool) verdicts {
	return verdicts{judge, map[*string]bool{}}
}

// isGood reports whether the members are as they should be.
func (v verdicts) isGood(members []string) bool {
	if len(members) == 0 {
		return v.judge(members)
	}
	good, known := v.known[&members[0]]
	if !known {
		good = v.judge(members)
		v.known[&members[0]] = good
	}
	return good
}

// hasAll reports whether sorted members contain all of the wanted ones.
func hasAll(members, wanted []string) bool {
	for _, member := range wanted {
		if _, found := slices.BinarySearch(members, member); !found {
			return false
		}
	}
	return true
}

// hasNone reports whether sorted members contain none of the unwanted ones.
func hasNone(members, unwanted []string) bool {
	return !slices.ContainsFunc(unwanted, func(member string) bool {
		_, found := slices.BinarySearch(members, member)
		return found
	})
}

// memberships are the times until each load balancer had its last change, since the last node was added; the total is
// since the first one was.
func (w *world) memberships(begin *interval, incomplete map[string]bool, start, lastAdded time.Time) samples {
	s := samples{of: w.services}
	last := map[string]time.Time{}
	for _, call := range w.cloud.Calls(simcloud.Filter{
		After:   begin.calls,
		Callers: []string{begin.manager.Name()},
		Changed: true,
	}) {
		if !incomplete[call.Object] {
			last[call.Object] = call.Arrived
		}
	}
	for _, at := range last {
		s.times = append(s.times, max(at.Sub(lastAdded), 0))
		s.total = max(s.total, at.Sub(start))
	}
	return s
}

// measureTakeover measures what a second process does when it takes over from one that was told to end, and nothing has
// changed.
func (w *world) measureTakeover(ctx context.Context, old *manager) (Result, error) {
	r := w.result(takeover)
	if err := w.slow(); err != nil {
		return r, err
	}
	before, err := w.leases(ctx)
	if err != nil {
		return r, err
	}
	if err := old.Signal(syscall.SIGTERM); err != nil {
		return r, err
	}
	select {
	case <-old.Done():
	case <-time.After(w.options.Limit):
		return r, fmt.Errorf("waiting for %s to end: it did not within %s", old.Name(), w.options.Limit)
	case <-ctx.Done():
		return r, ctx.Err()
	}
	next, err := w.start()
	if err != nil {
		return r, err
	}
	begin, err := w.from(next)
	if err != nil {
		return r, err
	}
	begin.cpu = 0 // its start counts
	leads, err := poll(ctx, next, 50*time.Millisecond, w.options.Limit, func() (bool, error) {
		now, err := w.leases(ctx)
		return takenOver(before, now), err
	})
	if err != nil {
		return r, err
	}
	if !leads {
		return r, fmt.Errorf("waiting for %s to lead: it did not within %s", next.Name(), w.options.Limit)
	}
	leading := time.Now()
	seen, ok, err := begin.quiet(ctx, w.options.pauses.idle, w.options.Limit)
	if err != nil {
		return r, err
	}
	r.Complete, r.Seconds = ok, max(latest(seen.last, leading).Sub(next.started), 0).Seconds()
	r.BusySeconds = max(seen.last.Sub(leading), 0).Seconds()
	return r, begin.into(&r)
}
