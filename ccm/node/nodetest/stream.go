package nodetest

import (
	"context"
	"io"
	"sync"
)

// stream is the body of a watch: what is sent can be read, until the request's context ends.
type stream struct {
	closed func()
	stop   func() bool

	mu     sync.Mutex
	data   []byte
	ended  bool
	signal chan struct{}
}

func newStream(ctx context.Context) *stream {
	s := &stream{signal: make(chan struct{}, 1)}
	s.stop = context.AfterFunc(ctx, func() { _ = s.Close() })
	return s
}

func (s *stream) send(line []byte) {
	s.mu.Lock()
	s.data = append(s.data, line...)
	s.mu.Unlock()
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		if len(s.data) > 0 {
			n := copy(p, s.data)
			s.data = s.data[n:]
			s.mu.Unlock()
			return n, nil
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			s.wake()
			return 0, io.EOF
		}
		<-s.signal
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.stop()
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	s.mu.Unlock()
	if first {
		s.closed()
	}
	s.wake()
	return nil
}
