package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/poll"
)

// Why a process was stopped, besides the host's end.
const (
	stopChanged  = "manifest changed"
	stopRemoved  = "manifest removed"
	stopLiveness = "liveness probe did not pass"
	stopStartup  = "startup probe did not pass"
)

const defaultTermGrace = 30 * time.Second

// publisher shows in the API what became of a pod.
type publisher interface {
	set(p *pod)
	remove(key string) // the pod's processes have ended
}

// worker drives one pod name through its life. One goroutine, one pod at a time:
//
//	        manifest                    manifest changed or removed
//	(none) ----------> running ------------------------------------> stopping
//	   ^                                                                |
//	   |  no manifest                          StartGap, if there is    |
//	   +------------------------------------ a manifest; the mirror  <--+
//	                                         still shows the old pod
//
// The mirror pod is replaced when the new pod starts, and deleted when there is none: until then it shows the old pod,
// Running and Ready, although its process is gone. That is what a real kubelet does, and what a tool that waits for
// Ready falls for.
type worker struct {
	key     string
	engine  *engine
	mirrors publisher
	profile Profile
	dice    *dice
	log     *slog.Logger
	probing map[*container]*process // whose probes run in this kubelet
	probes  sync.WaitGroup
	once    bool // the name is not used again: the work ends with the pod

	wake chan struct{}
	mu   sync.Mutex
	want *staticPod
}

// set tells the worker what the manifests say now; nil: nothing.
func (w *worker) set(s *staticPod) {
	w.mu.Lock()
	changed := (w.want == nil) != (s == nil) || s != nil && w.want.hash() != s.hash()
	w.want = s
	w.mu.Unlock()
	if !changed {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // already awake
	}
}

func (w *worker) wanted() *staticPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.want
}

// run works until ctx ends; the pod goes on without it.
func (w *worker) run(ctx context.Context) {
	defer w.probes.Wait()
	for ctx.Err() == nil {
		want, pod := w.wanted(), w.engine.pod(w.key)
		switch {
		case pod != nil && (want == nil || want.hash() != pod.static.hash()):
			w.terminate(ctx, pod)
		case pod == nil && want == nil:
			w.mirrors.remove(w.key)
			if w.once {
				return
			}
			w.pause(ctx, nil, 0)
		case pod == nil:
			w.mirrors.set(w.engine.create(want))
		default:
			next := w.sync(ctx, pod)
			w.mirrors.set(pod)
			w.pause(ctx, pod, next)
		}
	}
}

// pause waits for something to do, at most for d if that is positive.
func (w *worker) pause(ctx context.Context, p *pod, d time.Duration) {
	var (
		poked <-chan struct{}
		due   <-chan time.Time
	)
	if p != nil {
		poked = p.wake
	}
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-poked:
	case <-due:
	}
}

// terminate stops the pod and, if another one shall follow, waits for the gap between them.
func (w *worker) terminate(ctx context.Context, p *pod) {
	if !poll.Pause(ctx, w.dice.draw(w.profile.StopDelay)) {
		return
	}
	want, reason := w.wanted(), stopChanged
	if want == nil {
		reason = stopRemoved
	} else if want.hash() == p.static.hash() {
		return // changed back in time
	}
	w.log.Info("Stopping pod", "pod", w.key, "reason", reason, "hash", p.static.hash())
	procs := p.processes()
	for _, proc := range procs {
		proc.stop(reason, w.grace(p))
	}
	for _, proc := range procs {
		select {
		case <-proc.done:
		case <-ctx.Done(): // the runtime goes on to stop it
			return
		}
	}
	if w.once {
		w.mirrors.set(p) // a pod of the API: how its containers ended is said before the object goes
	}
	w.engine.forget(p)
	if w.wanted() != nil {
		poll.Pause(ctx, w.dice.draw(w.profile.StartGap))
	}
}

func (w *worker) grace(p *pod) time.Duration {
	grace := defaultTermGrace
	if s := p.static.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if w.profile.MaxGrace > 0 {
		grace = min(grace, w.profile.MaxGrace)
	}
	return grace
}

// sync starts what is due and returns after what time something else will be; zero: nothing is known to be.
func (w *worker) sync(ctx context.Context, p *pod) time.Duration {
	var next time.Duration
	for _, c := range p.containers {
		if d := w.syncContainer(ctx, p, c, time.Now()); d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	return next
}

func (w *worker) syncContainer(ctx context.Context, p *pod, c *container, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.proc != nil && c.proc.running() {
		w.probe(ctx, p, c)
		return 0
	}
	if c.proc != nil && !c.handled {
		if d := w.handleExit(p, c, now); d > 0 {
			return d
		}
	}
	if c.proc != nil && !restarts(p.static.pod.Spec.RestartPolicy, c.proc) {
		return 0
	}
	if d := c.next.Sub(now); d > 0 {
		return d
	}
	attempt := c.restarts
	if c.proc != nil {
		attempt++
	}
	proc, waiting := w.engine.start(p, c, attempt)
	if waiting != nil {
		if *waiting != c.waiting {
			w.log.Warn(
				"Container cannot be started",
				"pod",
				w.key,
				"container",
				c.spec.Name,
				"reason",
				waiting.Reason,
				"message",
				waiting.Message,
			)
		}
		c.waiting, c.next = *waiting, now.Add(w.profile.SetupRetry)
		return w.profile.SetupRetry
	}
	if c.proc != nil {
		c.last = terminated(c.proc)
	}
	c.proc, c.restarts, c.handled, c.waiting = proc, attempt, false, corev1.ContainerStateWaiting{}
	c.started = c.spec.StartupProbe == nil
	c.ready = c.started && c.spec.ReadinessProbe == nil
	w.probe(ctx, p, c)
	return 0
}

// handleExit decides when the container may start again. It returns how long the end stays unnoticed, as terminated,
// before that.
func (w *worker) handleExit(p *pod, c *container, now time.Time) time.Duration {
	_, ended, _ := c.proc.exit()
	c.ready, c.started = false, false
	if d := ended.Add(w.profile.ExitSeen).Sub(now); d > 0 {
		return d
	}
	c.handled = true
	if ended.Sub(c.proc.started) >= w.profile.BackOffReset {
		c.delay = 0
	}
	c.next = ended.Add(c.delay)
	if c.delay > 0 && restarts(p.static.pod.Spec.RestartPolicy, c.proc) {
		c.waiting = corev1.ContainerStateWaiting{
			Reason: reasonCrashLoop,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
				c.delay, c.spec.Name, p.static.pod.Name, p.static.pod.Namespace, p.static.hash()),
		}
	}
	c.delay = min(max(2*c.delay, w.profile.BackOff), w.profile.BackOffMax)
	return 0
}

func restarts(policy corev1.RestartPolicy, proc *process) bool {
	code, _, _ := proc.exit()
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// probe sees to it that the running process has its probes. The pod's lock is held.
func (w *worker) probe(ctx context.Context, p *pod, c *container) {
	if w.probing[c] == c.proc {
		return
	}
	w.probing[c] = c.proc
	pr := &prober{
		pod: p, container: c, proc: c.proc, host: p.address, grace: w.grace(p), cap: w.profile.ProbeMax,
		started: c.started, log: w.log,
	}
	w.probes.Go(func() { pr.run(ctx) })
}
