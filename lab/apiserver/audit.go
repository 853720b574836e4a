package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/transplant-dev/transplant/lab/auditlog"
)

const auditLog = "audit.log"

// Write is a request of the audit log that may have changed something.
type Write = auditlog.Request

// Read is a request of the audit log that asked for something.
type Read = auditlog.Request

// audit is what has been read of the log.
type audit struct {
	mu       sync.Mutex
	offset   int64
	requests []auditlog.Request
	writes   []Write
	reads    []Read
}

// Requests returns all requests so far, in the order of their answers. It needs Options.AuditReads.
func (s *Server) Requests() ([]auditlog.Request, error) {
	if _, err := s.Audit(); err != nil {
		return nil, err
	}
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	return s.audit.requests[:len(s.audit.requests):len(s.audit.requests)], nil
}

// Reads returns the requests so far that asked for something, in the order of their answers. It needs
// Options.AuditReads.
func (s *Server) Reads() ([]Read, error) {
	if _, err := s.Audit(); err != nil {
		return nil, err
	}
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	return s.audit.reads[:len(s.audit.reads):len(s.audit.reads)], nil
}

// Audit returns the requests so far that may have changed something, in the order of their answers, those that were
// refused included. It needs Options.Audit, and may be called after Stop. A call reads only what was written since the
// one before. The result must not be changed.
func (s *Server) Audit() ([]Write, error) {
	a := &s.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(s.path(auditLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading audit log: %w", err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading audit log: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1] // the last line may still be being written
	requests, err := auditlog.Parse(data)
	if err != nil {
		return nil, err
	}
	a.offset += int64(len(data))
	a.requests = append(a.requests, requests...)
	for _, r := range requests {
		if r.Reads() {
			a.reads = append(a.reads, r)
		} else {
			a.writes = append(a.writes, r)
		}
	}
	return a.writes[:len(a.writes):len(a.writes)], nil
}
