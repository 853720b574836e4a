package azuresim

import (
	"net/http"
	"slices"
	"strings"
)

// Fault makes requests fail.
type Fault struct {
	// Method and Path choose the requests; an empty one stands for all. Path is a part of the path, in lower case.
	Method, Path string
	// Times is how many requests fail; 0 for all from now on.
	Times int
	// Status, Code and Message are the answer, in the form of Resource Manager; status 0 closes the connection.
	Status        int
	Code, Message string
	// RetryAfter is that header of the answer; empty for none.
	RetryAfter string
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
		if f.Method != "" && f.Method != r.Method || !strings.Contains(strings.ToLower(r.URL.Path), f.Path) {
			continue
		}
		switch f.Times {
		case 0:
		case 1:
			c.faults = slices.Delete(slices.Clone(c.faults), i, i+1)
		default:
			f.Times--
		}
		return f
	}
	return nil
}
