package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

const auditLog = "audit.log"

// auditReadsPolicy records reads too.
const auditReadsPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// auditPolicy records who asked for which change and how it ended, not what the change was: bodies would cost more than
// the requests.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

// Write is a request of the audit log that may have changed something.
type Write struct {
	User        string
	BoundPod    string // that the token of a ServiceAccount names; or empty
	UserAgent   string
	Verb        string // create, update, patch, delete, deletecollection
	Resource    string // plural, as nodes
	Subresource string // as status; or empty
	Namespace   string
	Name        string    // empty for a create with a generated name
	DryRun      bool      // it asked for nothing to be kept
	Code        int       // HTTP status of the answer
	Received    time.Time // when the request came in
	Answered    time.Time // when the answer had been given
}

// Accepted reports whether the request did what it asked for.
func (w Write) Accepted() bool { return w.Code >= 200 && w.Code < 300 }

// Lease reports whether the request was about a lease, which leader election writes every few seconds whatever else
// happens.
func (w Write) Lease() bool { return w.Resource == "leases" }

// Read is a request of the audit log that asked for something.
type Read struct {
	User      string
	Verb      string // get, list, watch
	Resource  string
	Namespace string
	Name      string
	URI       string
}

// audit is what has been read of the log.
type audit struct {
	mu     sync.Mutex
	offset int64
	writes []Write
	reads  []Read
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
	writes, reads, err := parseAudit(data)
	if err != nil {
		return nil, err
	}
	a.offset += int64(len(data))
	a.writes, a.reads = append(a.writes, writes...), append(a.reads, reads...)
	return a.writes[:len(a.writes):len(a.writes)], nil
}

// event is what of an audit event is looked at.
type event struct {
	Stage string `json:"stage"`
	URI   string `json:"requestURI"`
	Verb  string `json:"verb"`
	User  struct {
		Username string `json:"username"`
		Extra    struct {
			Pod []string `json:"authentication.kubernetes.io/pod-name"`
		} `json:"extra"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	Object    struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

func parseAudit(data []byte) ([]Write, []Read, error) {
	var out []Write
	var reads []Read
	for line := range bytes.Lines(data) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}
		if e.Stage != "ResponseComplete" {
			continue
		}
		if e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			reads = append(reads, Read{e.User.Username, e.Verb, e.Object.Resource, e.Object.Namespace, e.Object.Name, e.URI})
			continue
		}
		out = append(out, Write{
			User: e.User.Username, BoundPod: strings.Join(e.User.Extra.Pod, ","), UserAgent: e.UserAgent, Verb: e.Verb,
			Resource: e.Object.Resource, Subresource: e.Object.Subresource, Namespace: e.Object.Namespace, Name: e.Object.Name,
			DryRun: strings.Contains(e.URI, "dryRun=All"), Code: e.Response.Code, Received: e.Received, Answered: e.Answered,
		})
	}
	return out, reads, nil
}
