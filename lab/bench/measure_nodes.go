package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// join measures how nodes become usable that all come at once.
func join(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startQuick(ctx)
	if err != nil {
		return nil, err
	}
	watch, err := w.watchNodes(ctx, untainted)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	created, err := w.addNodes(ctx, 0, w.nodes, fresh)
	if err != nil {
		return nil, err
	}
	s, err := watch.wait(ctx, created, m, w.options.Limit)
	if err != nil {
		return nil, err
	}
	return w.results(ctx, begin, s)
}

// startQuick starts a manager and waits until it works and is quiet, with a cloud that answers at once.
func (w *world) startQuick(ctx context.Context) (*manager, error) {
	if err := w.quick(); err != nil {
		return nil, err
	}
	m, err := w.start()
	if err != nil {
		return nil, err
	}
	return m, w.working(ctx, m)
}

// startSettled is startQuick in a world whose nodes are all in order.
func (w *world) startSettled(ctx context.Context) (*manager, error) {
	if _, err := w.addNodes(ctx, 0, w.nodes, settled); err != nil {
		return nil, err
	}
	return w.startQuick(ctx)
}

// results are the result of one interval. What follows late, as events do that wait for their turn, counts too.
func (w *world) results(ctx context.Context, begin *interval, s samples) ([]Result, error) {
	r := w.result(w.scenario.name)
	s.into(&r, w.options.Limit)
	if r.Complete {
		if _, _, err := begin.quiet(ctx, w.options.pauses.start, time.Minute); err != nil {
			return nil, err
		}
	}
	if err := begin.into(&r); err != nil {
		return nil, err
	}
	return []Result{r}, nil
}

// places are the names of the nodes at the first places.
func places(count int) []string {
	var out []string
	for place := range count {
		out = append(out, nodeName(place))
	}
	return out
}

// vanished measures how the nodes are found whose instances are gone, among many that are NotReady for other reasons.
// The manager leads before they are: nodes that nobody has deleted yet when a manager first takes over may deserve a
// grace.
func vanished(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startSettled(ctx)
	if err != nil {
		return nil, err
	}
	watch, err := w.watchNodes(ctx, gone)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	ended := places(max(w.nodes/10, 1))
	if err := w.cloud.Apply(simcloud.Change{RemoveInstances: ended}); err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	lost, err := w.lose(ctx, places(w.nodes))
	if err != nil {
		return nil, err
	}
	since := map[string]time.Time{}
	for _, name := range ended {
		since[name] = lost[name]
	}
	s, err := watch.wait(ctx, since, m, w.options.Limit)
	if err != nil {
		return nil, err
	}
	return w.results(ctx, begin, s)
}

// parked measures what nodes cost whose instances are stopped and stay so.
func parked(ctx context.Context, w *world) ([]Result, error) {
	m, err := w.startSettled(ctx)
	if err != nil {
		return nil, err
	}
	watch, err := w.watchNodes(ctx, shutDown)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	var change simcloud.Change
	for place := range w.nodes {
		stopped := instance(place)
		stopped.Shutdown = true
		change.PutInstances = append(change.PutInstances, stopped)
	}
	if err := w.cloud.Apply(change); err != nil {
		return nil, err
	}
	lost, err := w.lose(ctx, places(w.nodes))
	if err != nil {
		return nil, err
	}
	s, err := watch.wait(ctx, lost, m, w.preparing())
	if err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	return w.observe(ctx, begin, len(s.times), s.of)
}

// The results of the scenario steady: the start, and what follows.
const (
	steadyStart  = "steady-start"
	steadyWindow = "steady"
)

// steady measures what a manager costs in a cluster in which nothing happens: its start, and then a window of time.
func steady(ctx context.Context, w *world) ([]Result, error) {
	if _, err := w.addNodes(ctx, 0, w.nodes, settled); err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	m, err := w.start()
	if err != nil {
		return nil, err
	}
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	begin.cpu, begin.calls, begin.writes = 0, 0, 0 // its start counts; what was called and written before was not its own
	g, ctx := errgroup.WithContext(ctx)
	beating, stop := context.WithCancel(ctx)
	g.Go(func() error { return w.heartbeat(beating, w.nodes) })
	results, err := w.observeSteady(ctx, begin)
	stop()
	if beats := g.Wait(); err == nil {
		err = beats
	}
	return results, err
}

// observeSteady measures what a manager does until it is quiet, and from then on for the window. A manager that is not
// quiet within the limit is watched all the same: it never is.
func (w *world) observeSteady(ctx context.Context, begin *interval) ([]Result, error) {
	seen, quiet, err := begin.quiet(ctx, w.options.pauses.idle, w.options.Limit)
	if err != nil {
		return nil, err
	}
	start := w.result(steadyStart)
	start.Complete, start.Seconds = quiet, max(seen.last.Sub(begin.manager.started), 0).Seconds()
	if err := begin.into(&start); err != nil {
		return nil, err
	}
	after, err := w.from(begin.manager)
	if err != nil {
		return nil, err
	}
	results, err := w.observe(ctx, after, 0, 0)
	return append([]Result{start}, results...), err
}

// observe watches a manager for the window.
func (w *world) observe(ctx context.Context, begin *interval, done, of int) ([]Result, error) {
	never := func() (bool, error) { return false, nil }
	before, err := begin.manager.Usage()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if _, err := poll(ctx, begin.manager, 100*time.Millisecond, w.options.Window, never); err != nil {
		return nil, err
	}
	after, err := begin.manager.Usage()
	if err != nil {
		return nil, err
	}
	r := w.result(w.scenario.name)
	r.Seconds, r.Done, r.Of, r.Complete = time.Since(start).Seconds(), done, of, done == of
	r.CorePercent = corePercent(before.CPU, after.CPU, time.Since(start))
	if err := begin.into(&r); err != nil {
		return nil, err
	}
	return []Result{r}, nil
}

// corePercent returns which share of a core a process used over a time.
func corePercent(before, after, over time.Duration) float64 {
	return 100 * (after - before).Seconds() / over.Seconds()
}

// routes measures how nodes get their routes that have none when the manager starts.
func routes(ctx context.Context, w *world) ([]Result, error) { return w.measureRoutes(ctx) }

// routesFailing does so while a twentieth of the calls that create a route fail.
func routesFailing(ctx context.Context, w *world) ([]Result, error) {
	return w.measureRoutes(ctx, simcloud.Fault{Operation: api.CreateRoute, Rate: 0.05, Code: 503})
}

func (w *world) measureRoutes(ctx context.Context, faults ...simcloud.Fault) ([]Result, error) {
	w.flags = []string{"--configure-cloud-routes=true", "--allocate-node-cidrs=true", "--cluster-cidr=10.0.0.0/8"}
	unconnected := func(place int) *corev1.Node {
		n := settled(place)
		n.Status.Conditions = append(
			n.Status.Conditions,
			condition(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "NoRouteCreated"),
		)
		return n
	}
	if _, err := w.addNodes(ctx, 0, w.nodes, unconnected); err != nil {
		return nil, err
	}
	if err := w.slow(faults...); err != nil {
		return nil, err
	}
	watch, err := w.watchNodes(ctx, connected)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	m, err := w.start()
	if err != nil {
		return nil, err
	}
	begin, err := w.from(m)
	if err != nil {
		return nil, err
	}
	begin.cpu, begin.calls, begin.writes = 0, 0, 0 // its start counts; what was called and written before was not its own
	since := map[string]time.Time{}
	for _, name := range places(w.nodes) {
		since[name] = m.started
	}
	s, err := watch.wait(ctx, since, m, w.options.Limit)
	if err != nil {
		return nil, err
	}
	return w.results(ctx, begin, s)
}
