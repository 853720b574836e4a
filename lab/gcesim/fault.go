package gcesim

import (
	"net/http"
	"strings"
)

// Fault makes requests fail.
type Fault struct {
	// Method and Path choose the requests; an empty one stands for all. Path is a part of the path.
	Method, Path string
	// Times is how many requests fail; 0 for all from now on.
	Times int
	// Status and Reason are the answer, in the form of Google's APIs; 0 closes the connection without one.
	Status int
	Reason string
	// AfterEffect lets the request have its effect.
	AfterEffect bool
}

// Fail adds a fault. Heal removes all of them.
func (c *Cloud) Fail(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Heal removes all faults.
func (c *Cloud) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// fault is the one that a request gets; nil for none.
func (c *Cloud) fault(r *http.Request) *Fault {
	for i, f := range c.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if f.Times == 1 {
			c.faults = append(c.faults[:i:i], c.faults[i+1:]...)
		} else if f.Times > 1 {
			f.Times--
		}
		return f
	}
	return nil
}
