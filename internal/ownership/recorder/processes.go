package recorder

import (
	"context"
	"sort"
	"sync/atomic"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
)

// process names a process for good.
type process struct {
	pid   int
	ticks uint64
}

// processLooker looks at the processes of one component on one host.
type processLooker struct {
	ownership.Owner
	// linger reports whether the component is no target any more: it is looked at until its process has ended.
	linger atomic.Bool
	done   atomic.Bool

	known   map[process]v1.Process
	looked  *time.Time
	written time.Time
	failing bool
	last    []v1.OwnershipEvent // the state lines of the last look that was not written
}

func (r *Recorder) lookForProcesses(ctx context.Context, p *processLooker) {
	defer p.done.Store(true)
	defer func() { r.write(p) }()
	for ctx.Err() == nil {
		none := r.readProcesses(ctx, p)
		if none && p.linger.Load() {
			return
		}
		interval := r.opts.SlowInterval / 2
		if r.scheduler.mayEnd(p.Owner) {
			interval = r.opts.Interval
		}
		r.wait(ctx, min(interval, r.opts.SlowInterval), nil)
	}
}

// readProcesses looks, and reports whether the component certainly has no process.
func (r *Recorder) readProcesses(ctx context.Context, p *processLooker) (none bool) {
	asking, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	began := r.now()
	procs, err := r.opts.Processes(asking, p.Host, p.Component)
	line := v1.OwnershipEvent{
		Time:      r.now(),
		Began:     &began,
		Looked:    p.looked,
		Source:    v1.SourceProcess,
		Component: p.Component,
		Host:      p.Host,
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		if !p.failing {
			p.failing, p.last = true, nil
			line.Error = err.Error()
			r.sink(line)
		}
		return false
	}
	r.scheduler.processes(p.Owner, len(procs) > 0)
	changed := r.recordEndedProcesses(p, procs, line) || p.failing || p.looked == nil
	p.last = p.state(line)
	p.looked, p.failing = &began, false
	if changed || line.Time.Sub(p.written) >= r.opts.Heartbeat {
		r.write(p)
	}
	return len(procs) == 0
}

// recordEndedProcesses writes the ends of processes that are gone, and reports whether anything changed.
func (r *Recorder) recordEndedProcesses(p *processLooker, procs []v1.Process, line v1.OwnershipEvent) (changed bool) {
	now := map[process]v1.Process{}
	for _, x := range procs {
		id := process{x.PID, x.StartTicks}
		now[id] = x
		if _, known := p.known[id]; !known {
			changed = true
		}
	}
	for id, x := range p.known {
		if _, still := now[id]; still {
			continue
		}
		changed = true
		e := withProcess(line, x)
		e.Ended = true
		r.sink(e)
		r.scheduler.processEnded(p.Owner, line.Time)
	}
	p.known = now
	return changed
}

// state is a line for each process, or one that says that there is none.
func (p *processLooker) state(line v1.OwnershipEvent) []v1.OwnershipEvent {
	var lines []v1.OwnershipEvent
	for _, x := range p.known {
		lines = append(lines, withProcess(line, x))
	}
	sort.Slice(lines, func(a, b int) bool { return lines[a].PID < lines[b].PID })
	if len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

func withProcess(line v1.OwnershipEvent, x v1.Process) v1.OwnershipEvent {
	line.PID, line.StartTicks = x.PID, x.StartTicks
	if !x.Started.IsZero() {
		started := x.Started.UTC()
		line.ProcessStarted = &started
	}
	return line
}

func (r *Recorder) write(p *processLooker) {
	for _, e := range p.last {
		r.sink(e)
		p.written = e.Time
	}
	p.last = nil
}
