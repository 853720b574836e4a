// Package calllog decides what the audit log of a simulated cloud says of the requests that reach it, and which of them
// the cloud did not know.
package calllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Log is an audit log in memory and in a file of JSON lines.
type Log struct {
	mu      sync.Mutex
	seq     int64
	calls   []v1.CloudCall
	file    *os.File
	failure error
}

// Open makes a log that is written to a file.
func Open(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return &Log{file: file}, nil
}

// Close ends the file. Its error is also that of a line that could not be written.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.failure, l.file.Close())
}

// Calls are the requests that were answered and that are chosen; nil chooses all.
func (l *Log) Calls(chosen func(v1.CloudCall) bool) []v1.CloudCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.calls), func(c v1.CloudCall) bool { return chosen != nil && !chosen(c) })
}

// Unknown are the requests that the cloud did not know.
func (l *Log) Unknown() []string {
	var out []string
	for _, c := range l.Calls(func(c v1.CloudCall) bool { return c.Unknown }) {
		out = append(out, fmt.Sprintf("%s %s by %s", c.Service, c.Action, c.Key))
	}
	return out
}

// Front is a handler in front of a cloud. Each request is described by what describes it, with whose it is, and judged
// by its answer, whose status and body complete the description.
type Front struct {
	Log  *Log
	Next http.Handler
	// Describe says who asks for what. Arrived, Effect and Seq are the log's.
	Describe func(r *http.Request, body []byte) v1.CloudCall
	// Complete adds what the answer says: an error, or that the request is not known.
	Complete func(call *v1.CloudCall, status int, answer []byte)
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := f.Describe(r, body)
	call.Seq, call.Arrived = f.Log.arrived(), time.Now()
	answer := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		now := time.Now()
		call.Effect = &now
		f.Complete(&call, answer.status, answer.body.Bytes())
		if call.Error != "" {
			call.Effect = nil
		}
		f.Log.add(call)
	}()
	f.Next.ServeHTTP(answer, r)
}

func (l *Log) arrived() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	return l.seq
}

func (l *Log) add(call v1.CloudCall) {
	line, err := json.Marshal(call)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil && l.failure == nil {
		l.failure = fmt.Errorf("writing the audit log: %w", err)
	}
}

// CompleteByStatus has the status of an answer as the error. A simulator says 501 of what it does not know.
func CompleteByStatus(call *v1.CloudCall, status int, _ []byte) {
	if status >= http.StatusBadRequest {
		call.Error = http.StatusText(status)
	}
	call.Unknown = status == http.StatusNotImplemented
}

// recorder keeps the status of an answer and its first part.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// kept is how much of an answer is looked at: errors are short.
const kept = 4096

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	if room := kept - r.body.Len(); room > 0 {
		r.body.Write(data[:min(room, len(data))])
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
