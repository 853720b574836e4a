package probe

import (
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// path is what is known of one path in a run.
//
//	unknown --ok--> up <--> down
//	   └-----failed--> skipped --ok--> up
type path struct {
	run *run
	key
	// interval between two looks; zero for what is pushed.
	interval time.Duration
	// known reports whether an earlier run has seen it work. So a failed first look is an outage and not a path that
	// cannot be reached.
	known bool

	mu      sync.Mutex
	armed   bool
	skipped bool
	down    bool
	// worked is when the last look that succeeded began, looked when the last look ended. failed is when the last
	// failed look began: by its end, the path may be back.
	worked, looked, failed time.Time
	looks, reconnects      int
	slowest                time.Duration
}

// addLook takes the result of a look.
func (p *path) addLook(began, ended time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	if late := 3*p.interval + p.run.Timeout; p.armed && p.interval > 0 && began.Sub(p.looked) > late {
		since := p.looked
		p.write(
			v1.ProbeEvent{
				Time:  began,
				Event: v1.ProbeLost,
				Since: &since,
				Error: "looks at it came late: this machine, or its network, was busy",
			},
		)
	}
	p.looked = ended
	if err != nil {
		p.fails(began, began, ended, err)
		return
	}
	p.slowest = max(p.slowest, ended.Sub(began))
	p.works(began, ended)
}

// works notes that the path works: worked at the first moment, known at the second.
func (p *path) works(at, seen time.Time) {
	switch {
	case !p.armed:
		p.arm(at)
	case p.down:
		since := p.failed
		if p.interval == 0 {
			since = seen // what is pushed was out until it was said to be back
		}
		p.write(v1.ProbeEvent{Time: seen, Event: v1.ProbeUp, Since: &since})
	}
	p.down, p.worked = false, at
}

func (p *path) arm(at time.Time) {
	p.armed, p.skipped = true, false
	p.run.probed(p.key, true)
	p.write(v1.ProbeEvent{Time: at, Event: v1.ProbePath, IntervalSeconds: p.interval.Seconds()})
}

// fails notes that the path did not work in the look from began to ended. unarmed is the last moment at which it
// worked, if no look has succeeded in this run.
func (p *path) fails(unarmed, began, ended time.Time, err error) {
	if !p.armed && !p.known {
		if !p.skipped {
			p.skipped = true
			p.write(v1.ProbeEvent{Time: ended, Event: v1.ProbeSkipped, Error: err.Error()})
		}
		return
	}
	if !p.armed {
		p.arm(unarmed)
		p.worked = unarmed
	}
	p.failed = began
	if !p.down {
		p.down = true
		since := p.worked
		p.write(v1.ProbeEvent{
			Time:  ended,
			Event: v1.ProbeDown,
			Since: &since,
			Began: &began,
			Error: err.Error(),
		})
	}
}

// up and broke are look for what is pushed.
func (p *path) up(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	p.works(at, at)
}

// broke notes that the path has not worked since a moment, as was seen at another.
func (p *path) broke(since, seen time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed && !p.down {
		p.worked = since
	}
	p.fails(since, seen, seen, err)
}

// recordGone notes that there is nothing to look at any more.
func (p *path) recordGone(at time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return
	}
	p.armed, p.down, p.known = false, false, false
	p.run.probed(p.key, false)
	p.write(v1.ProbeEvent{Time: at, Event: v1.ProbeGone, Error: why})
}

func (p *path) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconnects++
}

// revoke notes that an outage which began at a moment, and is over, was none.
func (p *path) revoke(now, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconnects++
	p.write(v1.ProbeEvent{Time: now, Event: v1.ProbeIdle, Since: &began})
}

// isDown reports whether the last look failed or was skipped. The next one may take long.
func (p *path) isDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down || p.skipped
}

func (p *path) isSkipped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skipped
}

func (p *path) pace(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = d
}

func (p *path) counts() (looks, reconnects int, slowest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks, p.reconnects, p.slowest
}

func (p *path) write(e v1.ProbeEvent) {
	e.Kind, e.Path = p.kind, p.path
	p.run.sink(e)
}
