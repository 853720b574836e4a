package awssim

import (
	"context"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// outcome is what the client gets.
type outcome struct {
	answer  []wire.Node
	refusal *wire.Error
	// silent: the connection is cut instead of an answer.
	silent bool
}

// carryOut lets the faults have their way with a call and, if they leave it alone, gives it its effect.
func (s *Server) carryOut(client context.Context, req *request) outcome {
	hit := s.faults.strike(req, s.options.Clock.Now(), s.options.Random)
	if why := s.hang(client, hit.hangs); why != "" {
		return s.lost(req, why)
	}
	// From here on the client's leaving changes nothing: the request is in the cloud, and lands late.
	if !s.wait(hit.before) {
		return s.lost(req, ServerClosed)
	}
	if hit.refusal != nil && !hit.afterEffect {
		s.audit.finish(req.seq, nil, hit.refusal, nil)
		return outcome{refusal: hit.refusal}
	}
	if hit.drop && !hit.afterEffect {
		return s.lost(req, ConnectionDropped)
	}
	out := s.effect(req, hit)
	if !s.wait(hit.after) {
		return outcome{silent: true}
	}
	return out
}

// lost ends a call that never had an effect and is not answered.
func (s *Server) lost(req *request, why string) outcome {
	s.audit.finish(req.seq, nil, &wire.Error{Code: why}, nil)
	return outcome{silent: true}
}

// effect executes a call. The time of the effect is taken under the lock, so that effects are in the order of their
// times.
func (s *Server) effect(req *request, hit strike) outcome {
	s.mu.Lock()
	answer, err := req.action.Do(&req.call)
	at := s.options.Clock.Now()
	s.mu.Unlock()

	out := outcome{answer: answer, refusal: refusal(err)}
	if out.refusal != nil {
		s.audit.finish(req.seq, nil, out.refusal, nil)
		return out
	}
	switch {
	case hit.refusal != nil:
		out.refusal = hit.refusal
	case hit.drop:
		out.silent = true
	}
	reported := out.refusal
	if out.silent {
		reported = &wire.Error{Code: ConnectionDropped}
	}
	s.audit.finish(req.seq, &at, reported, req.call.Resources())
	return out
}

// wait lets time pass; false when the server closed meanwhile.
func (s *Server) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := s.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-s.closing:
		return false
	}
}

// hang waits for the faults that make the call hang to be removed. It returns why the call is lost instead, if it is.
func (s *Server) hang(client context.Context, hangs []<-chan struct{}) string {
	for _, removed := range hangs {
		select {
		case <-removed:
		case <-client.Done():
			return ClientGone
		case <-s.closing:
			return ServerClosed
		}
	}
	return ""
}
