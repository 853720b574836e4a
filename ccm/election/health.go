package election

import (
	"fmt"
	"time"
)

// Check is the health of a lease: it fails when this process holds it and has not renewed it for too long, when its loop is stuck, and after a loss.
// A standby is healthy.
func (e *Elector) Check(lease string) error {
	e.mu.Lock()
	lost := e.lost
	e.mu.Unlock()
	c := e.candidate(lease)
	if lost != nil || c == nil {
		return lost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, config := c.now(), e.config
	if age := now - c.renewed; c.held && age > config.RenewDeadline+config.RetryPeriod {
		return fmt.Errorf("lease %q is held and was last renewed %s ago", lease, age.Round(time.Second))
	}
	// One round of the loop is at most a few requests, each of half a renew deadline.
	if age := now - c.tick; c.tick != 0 && age > config.LeaseDuration+config.RenewDeadline {
		return fmt.Errorf("the loop of lease %q has been stuck for %s", lease, age.Round(time.Second))
	}
	return nil
}

// alive notes that the loop is in a new round, or that it has ended.
func (c *candidate) alive(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick = 0
	if on {
		c.tick = max(c.now(), 1)
	}
}
