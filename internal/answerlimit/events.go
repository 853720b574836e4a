package answerlimit

const (
	// maxWatched is what the watches of one user cluster may hold together. One event as large as may be takes all of it.
	maxWatched = 48 << 20
	// copies is how often an event is in memory at most before it is decoded. It is here, and in the buffers of
	// client-go's two decoders, which double and never shrink. What the first gives the second is one more.
	copies = 7
	// decoded is how many events of a watch are in memory decoded: the one that its reader has, and the next one.
	decoded = 2
)

// eventStream is what a watch holds. Client-go keeps its buffers as large as the largest event made them. So that one
// counts until the watch ends.
type eventStream struct {
	jsonValues

	longest  int   // of the events that have ended, in bytes
	heaviest int64 // in bytes of memory
	held     int   // what is counted
}

// grown is what the watch holds now, with so many bytes of the next event, and did not before.
func (e *eventStream) grown(read int) int {
	now := max(e.held, copies*max(e.longest, read)+decoded*int(e.heaviest))
	n := now - e.held
	e.held = now
	return n
}

// jsonValues finds where the objects of a stream end. Line breaks do not tell: an object may have any number.
type jsonValues struct {
	depth           int
	quoted, escaped bool
}

// ends reports whether a byte is the last one of an object.
func (v *jsonValues) ends(c byte) bool {
	switch {
	case v.escaped:
		v.escaped = false
	case v.quoted:
		v.escaped, v.quoted = c == '\\', c != '"'
	case c == '"':
		v.quoted = true
	case c == '{', c == '[':
		v.depth++
	case c == '}', c == ']':
		v.depth--
		return v.depth == 0
	}
	return false
}
