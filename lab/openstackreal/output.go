package openstackreal

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// follower passes the script's output on, and notes the line that says that everything is up.
type follower struct {
	to    io.Writer
	ready chan struct{}

	mu    sync.Mutex
	text  bytes.Buffer
	begun bool
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(p)
	if !f.begun && strings.Contains(f.text.String(), "] ready\n") {
		f.begun = true
		close(f.ready)
	}
	if f.to != nil {
		return f.to.Write(p)
	}
	return len(p), nil
}

// tail is the end of the output.
func (f *follower) tail() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(f.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
