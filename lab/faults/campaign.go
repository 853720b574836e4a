package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Campaign lets things go wrong in one command, one after the other, until it has come to its end.
type Campaign struct {
	Cluster Cluster
	// Args are the command and its own flags.
	Args []string
	// Choose says what goes wrong in a step when the command comes to it; host is empty where the step has none.
	Choose func(step, host string) []Fault
	// MostReruns of one fault are tolerated. Default: 4.
	MostReruns int
	// StateDir holds what the command keeps on this machine.
	StateDir string
	// Log is told what happens, Seen what was found so far, whenever a fault is over.
	Log  func(format string, args ...any)
	Seen func(Result)

	begin    time.Time
	mu       sync.Mutex
	order    []string           // of the steps, as they were come to
	pending  map[string][]Fault // by step
	open     *Outcome           // of the fault that the command has not got over yet
	outcomes []Outcome
	healed   chan struct{} // closed when nothing is wrong with the cluster
	healErr  error
	current  *command
	next     nextRun
}

// nextRun is what is different about the next run of the command.
type nextRun struct {
	logFull bool
	clock   time.Duration
}

// Outcome is what became of a fault.
type Outcome struct {
	Fault
	// Missed reports whether the command never came to the point: the step does not have it.
	Missed bool
	// Injected is when it went wrong, Converged when the step was done and written down.
	Injected, Converged time.Time
	// Codes are the exit codes with which the command ended because of it; -1 is a signal.
	Codes []int
	// Problem is what must not have happened; empty when all is well.
	Problem string
}

// Reruns is how often the command had to be run again.
func (o Outcome) Reruns() int { return len(o.Codes) }

// Took is the time from the fault until the step was done.
func (o Outcome) Took() time.Duration { return o.Converged.Sub(o.Injected) }

// Result is what a campaign saw.
type Result struct {
	// Steps in the order in which the command came to them.
	Steps    []string
	Outcomes []Outcome
	// Took is the whole time, with every fault.
	Took time.Duration
}

// Run runs the command until it ends well. An error says what of a fault, or of no fault at all, it did not get over.
func (c *Campaign) Run(ctx context.Context) (Result, error) {
	c.begin = time.Now()
	if c.MostReruns == 0 {
		c.MostReruns = 4
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	c.pending, c.healed = map[string][]Fault{}, make(chan struct{})
	close(c.healed)
	h, err := newHook(ctx, c.reached)
	if err != nil {
		return Result{}, err
	}
	defer h.close()
	for {
		ended, err := c.once(ctx, h)
		if err == nil {
			err = c.after(ctx, ended)
		}
		if err != nil {
			return c.result(), errors.Join(err, c.heal(ctx))
		}
		if ended.code == 0 {
			return c.result(), c.heal(ctx)
		}
	}
}

func (c *Campaign) result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != nil {
		if c.open.Converged.IsZero() {
			c.open.Problem = "the command did not get over it"
		}
		c.outcomes, c.open = append(c.outcomes, *c.open), nil
	}
	return c.soFar()
}

func (c *Campaign) soFar() Result {
	return Result{Steps: slices.Clone(c.order), Outcomes: slices.Clone(c.outcomes), Took: time.Since(c.begin)}
}

// once runs the command once.
func (c *Campaign) once(ctx context.Context, h *hook) (ended, error) {
	c.mu.Lock()
	run := c.next
	c.next = nextRun{}
	c.mu.Unlock()
	if run.logFull {
		restore, err := fillLogs(c.StateDir)
		if err != nil {
			return ended{}, err
		}
		defer restore()
	}
	cmd := c.Cluster.Command(append(append([]string(nil), c.Args...), "--state-dir", c.StateDir)...)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, h.env())
	if run.clock != 0 {
		cmd.Env = append(cmd.Env, "TRANSPLANT_TEST_CLOCK="+run.clock.String())
	}
	started, err := start(cmd)
	if err != nil {
		return ended{}, err
	}
	c.mu.Lock()
	c.current = started
	c.mu.Unlock()
	return started.wait(ctx)
}

// after judges how a run has ended, and waits until what made it end is over.
func (c *Campaign) after(ctx context.Context, e ended) error {
	if err := c.keep(e); err != nil {
		return err
	}
	c.mu.Lock()
	o := c.open
	if o != nil && e.code == 0 && o.Converged.IsZero() {
		o.Converged = time.Now()
	}
	if e.code != 0 {
		if o == nil {
			o = c.reopen()
		}
		if o == nil {
			c.mu.Unlock()
			return fmt.Errorf("%s ended with exit code %d although nothing was wrong\n%s", c.Args[0], e.code, e.tail(25))
		}
		o.Codes = append(o.Codes, e.code)
		c.Log("%s ended with exit code %d after %s at %s:%s: %s", c.Args[0], e.code, o.Kind, o.Point, o.Step, e.tail(1))
		if problem := endedWrongly(*o, e); problem != "" && o.Problem == "" {
			o.Problem = problem
		}
		if len(o.Codes) > c.MostReruns {
			c.mu.Unlock()
			return fmt.Errorf(
				"%s did not get over %s at %s:%s in %d runs\n%s",
				c.Args[0],
				o.Kind,
				o.Point,
				o.Step,
				len(o.Codes),
				e.tail(25),
			)
		}
	}
	c.mu.Unlock()
	return c.heal(ctx)
}

// keep appends what a run said to a file next to the ownership logs, for whoever has to find out why a fault was not
// got over.
func (c *Campaign) keep(e ended) error {
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(c.StateDir, "narration.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keeping what the command said: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\n=== %s ended with exit code %d ===\n", e.stderr, c.Args[0], e.code)
	return errors.Join(err, f.Close())
}

// reopen takes the last fault of the cluster up again: a command may feel it after its step is done, as when it has
// lost its lock meanwhile.
func (c *Campaign) reopen() *Outcome {
	for i := len(c.outcomes) - 1; i >= 0; i-- {
		o := c.outcomes[i]
		if o.Missed {
			continue
		}
		if o.stops() || time.Since(o.Injected) > o.For+2*time.Minute {
			return nil
		}
		c.outcomes = append(c.outcomes[:i], c.outcomes[i+1:]...)
		o.Converged = time.Time{}
		c.open = &o
		return c.open
	}
	return nil
}

// heal waits until nothing is wrong with the cluster.
func (c *Campaign) heal(ctx context.Context) error {
	c.mu.Lock()
	healed := c.healed
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-healed:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.healErr
}

// reached is where the command asks whether it may go on.
func (c *Campaign) reached(ctx context.Context, point, at string) bool {
	c.got(point, at)
	c.mu.Lock()
	step := c.known(point, at)
	f, ok := c.take(point, step)
	c.mu.Unlock()
	if !ok {
		return true
	}
	if err := c.heal(ctx); err != nil {
		c.Log("healing the fault before %s at %s:%s: %v", f.Kind, f.Point, f.Step, err)
		return false
	}
	if f.Kind != Killed {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		if err := c.Cluster.Up(limited); err != nil {
			c.Log("not everything is up before %s at %s:%s: %v", f.Kind, f.Point, f.Step, err)
		}
		cancel()
	}
	return c.inject(ctx, f)
}

// known is the step that a point belongs to; what goes wrong in it is chosen when the command comes to it first.
func (c *Campaign) known(point, at string) string {
	for step := range c.pending {
		if belongs(at, step) {
			return step
		}
	}
	if point == Before {
		c.order = append(c.order, at)
		c.pending[at] = c.Choose(at, hostOf(at, c.Cluster.Hosts()))
	}
	return at
}

// take is the next fault of a point. What was to happen earlier in the step, at a point that it does not have, is
// missed.
func (c *Campaign) take(point, step string) (Fault, bool) {
	list := c.pending[step]
	for i, f := range list {
		if f.Point == point {
			c.pending[step] = append(append([]Fault(nil), list[:i]...), list[i+1:]...)
			return f, true
		}
	}
	if point == After {
		for _, f := range list {
			c.outcomes = append(c.outcomes, Outcome{Fault: f, Missed: true})
		}
		c.pending[step] = nil
	}
	return Fault{}, false
}

// got closes the fault that the command has got over: its step is done, or, where that was seen before or by an earlier
// run, another step was come to.
func (c *Campaign) got(point, at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.open
	if o == nil {
		return
	}
	here, again := belongs(at, o.Step), len(o.Codes) > 0
	switch {
	case here && (point != After || o.Point == After):
		return // not done yet
	case !here && !again && o.finishes():
		o.Problem = "the command went on with the next step"
	case !here && !again && o.Point != After:
		return // a step that is done next to this one
	}
	if o.Converged.IsZero() {
		o.Converged = time.Now()
	}
	if here && !again && o.finishes() {
		return // it is still to end as it should
	}
	c.over()
}

// over puts the open fault to those that are over.
func (c *Campaign) over() {
	c.outcomes, c.open = append(c.outcomes, *c.open), nil
	if c.Seen != nil {
		c.Seen(c.soFar())
	}
}

// finishes tells the faults after which the step is finished and the command ends.
func (o Outcome) finishes() bool {
	switch o.Kind {
	case Interrupted, Terminated, HungUp, PipeBroken:
		return true
	default:
		return false
	}
}

// stops tells the faults after which the command must not go on with the next step.
func (o Outcome) stops() bool { return o.finishes() || o.Kind == InterruptedTwice || o.Kind == Killed }

// waits tells the steps that look for their turn before they change anything, and are left as they are when the command
// is to end meanwhile: a kubelet's waits for a place in the budget of nodes. Whether it has got one when the command
// hears that it is to end is a matter of milliseconds.
func (o Outcome) waits() bool { return o.Point == Before && strings.Contains(o.Step, "/kubelet@") }

// leftAlone reports whether a step which waits was left with nothing changed: the command says so then, unless nobody
// listens any longer.
func (o Outcome) leftAlone(e ended) bool {
	return o.waits() && (o.Kind == PipeBroken || strings.Contains(e.stderr, "interrupted between two steps"))
}

// endedWrongly says why a run should not have ended as it did; empty when it should.
func endedWrongly(o Outcome, e ended) string {
	const interrupted = 130
	switch {
	case o.Kind == Killed:
		if e.code != -1 {
			return fmt.Sprintf("a killed command ended with exit code %d", e.code)
		}
	case o.finishes():
		if len(o.Codes) == 1 && e.code != interrupted {
			return fmt.Sprintf("it ended with exit code %d, not %d", e.code, interrupted)
		}
		if len(o.Codes) == 1 && o.Converged.IsZero() && o.Point != After && !o.leftAlone(e) {
			return "the step was not finished before the end"
		}
	case o.Kind == InterruptedTwice:
		if len(o.Codes) == 1 && e.code != interrupted {
			return fmt.Sprintf("it ended with exit code %d, not %d", e.code, interrupted)
		}
		if len(o.Codes) == 1 && !strings.Contains(e.stderr, "stopped inside a step: run the same command again") {
			return "it does not say that it stopped inside a step"
		}
	}
	return ""
}
