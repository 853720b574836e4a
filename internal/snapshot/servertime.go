package snapshot

import "time"

// offsetFrom is how many of the newest answers say what time it is at the API server: a clock that is set while a command runs counts from then on.
const offsetFrom = 20

// Offset is the API server's clock minus this machine's, as the newest answers show it; zero where they agree with both clocks being right, and where no
// answer had a date.
func (t *Traffic) Offset() time.Duration {
	t.mu.Lock()
	from := max(0, len(t.bounds)-offsetFrom)
	t.mu.Unlock()
	_, c := t.since(mark{bounds: from})
	if c == nil {
		return 0
	}
	offset, uncertain := time.Duration(c.OffsetMillis)*time.Millisecond, time.Duration(c.UncertaintyMillis)*time.Millisecond
	if offset.Abs() <= uncertain {
		return 0
	}
	return offset
}
