package pod

import (
	"sync"
	"time"

	"github.com/transplant-dev/transplant/internal/hostaccess/agent"
)

// remoteClock translates moments of this machine's clock to that of an agent, so that the agent can refuse what arrives late. Both clocks count the time
// for which their machines are suspended; what they show has nothing in common, and the time of day plays no part.
type remoteClock struct {
	now func() time.Duration

	mu    sync.Mutex
	known bool
	// ahead is by how much the agent's clock is ahead of this one's, or more; heard is when that was known.
	ahead, heard time.Duration
}

// drift is by how much the two clocks may go apart: twice what a kernel lets a clock be slewed.
const drift = time.Second / 1000 // in each second

// learn takes in what an agent said of its clock. It read it before the answer was heard, so the agent's clock is ahead by as much or more: a moment that
// is translated with it comes too early on the agent's clock, and never too late. The answer that was quickest on its way knows it best.
func (c *remoteClock) learn(hello *agent.Hello) {
	if hello == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.now()
	ahead := hello.Clock - heard
	if c.known {
		ahead = max(ahead, c.ahead-(heard-c.heard)/time.Second*drift-drift)
	}
	c.known, c.ahead, c.heard = true, ahead, heard
}

// translate returns a moment of this machine's clock on the agent's, or one before it.
func (c *remoteClock) translate(at time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := max(0, at-c.heard)
	return at + c.ahead - since/time.Second*drift - drift
}
