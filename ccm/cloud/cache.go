package cloud

import "time"

// cache has the states that were read of late.
type cache struct {
	states  map[nodeKey]remembered
	longest time.Duration // the highest age that anybody accepts
	swept   time.Time
}

// remembered is what is known of a node: with its metadata, and without it, which is asked for more often. A younger answer of the one kind does not
// make the other kind's useless.
type remembered [2]struct {
	state InstanceState
	have  Want
	begun time.Time // when the call began: the state is at least as young
}

func kind(want Want) int {
	if want&WantMetadata != 0 {
		return 1
	}
	return 0
}

// asked notes which age a caller accepts. As long as everybody wants the truth, nothing is kept.
func (c *cache) asked(maxAge time.Duration) { c.longest = max(c.longest, maxAge) }

func (c *cache) get(key nodeKey, want Want, now time.Time, maxAge time.Duration) (InstanceState, bool) {
	if maxAge <= 0 {
		return InstanceState{}, false
	}
	for _, r := range c.states[key] {
		if r.have != 0 && r.have&want == want && now.Sub(r.begun) <= maxAge {
			return given(r.state, want), true
		}
	}
	return InstanceState{}, false
}

// put keeps a state. Errors are not kept: the next caller tries again.
func (c *cache) put(key nodeKey, state InstanceState, have Want, begun time.Time) {
	if c.longest <= 0 || state.Err != nil {
		return
	}
	c.sweep(time.Now())
	r := c.states[key]
	if slot := &r[kind(have)]; !begun.Before(slot.begun) {
		slot.state, slot.have, slot.begun = state, have, begun
	}
	c.states[key] = r
}

// sweep drops what nobody would accept any more, so that nodes that are gone do not stay.
func (c *cache) sweep(now time.Time) {
	if now.Sub(c.swept) < c.longest {
		return
	}
	c.swept = now
	for key, r := range c.states {
		if now.Sub(r[0].begun) > c.longest && now.Sub(r[1].begun) > c.longest {
			delete(c.states, key)
		}
	}
}
