package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
)

const (
	// collecting is for how long changes are collected before they are sent. beating is how often something is sent even
	// if nothing changed, and the listener's rights are checked again.
	collecting = 250 * time.Millisecond
	beating    = 15 * time.Second
	// maxStreams is how many pages may be live at a time.
	maxStreams = 200
	// sending bounds the sending of one event: a browser that is suspended takes nothing.
	sending = 20 * time.Second
)

// delta is what is new since the last event: rows that are other ones, and the keys of those that went.
type delta struct {
	Time    time.Time         `json:"time"`
	Summary v1.FleetSummary   `json:"summary"`
	Overall Overall           `json:"overall"`
	Rows    []v1.FleetCluster `json:"rows,omitempty"`
	Gone    []string          `json:"gone,omitempty"`
	NotRead []string          `json:"notRead,omitempty"`
}

// whole is the fleet as it is sent first.
type whole struct {
	v1.FleetStatus
	Overall Overall `json:"overall"`
}

// events sends the whole fleet once, and what changes from then on: server-sent events, which a browser asks for again
// by itself.
func (s *server) events(w http.ResponseWriter, r *http.Request, p *person) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.writeError(w, &refusal{http.StatusServiceUnavailable, "too many pages are open"})
		return
	}
	changed := s.Clusters.Changed(r.Context()) // before the first look, so that nothing is missed between the two
	status, err := s.seen(r.Context(), p)
	if err != nil {
		s.writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := stream{w: w, control: http.NewResponseController(w)}
	if out.send("fleet", whole{status, overallOf(status)}) != nil {
		return
	}
	s.streamChanges(r, p, out, changed, rowsOf(status))
}

// streamChanges sends what changes until the browser goes, the request ends or the listener loses the right.
func (s *server) streamChanges(r *http.Request, p *person, out stream, changed <-chan struct{},
	last map[string][]byte) {
	beat := s.Clock.NewTicker(beating)
	defer beat.Stop()
	for {
		quiet := false
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			if !s.waitFor(r, collecting) {
				return
			}
		case <-beat.C():
			quiet = true
		}
		user, err := s.auth.who(r.Context(), p.token)
		if ended := p.session != nil && s.sessions.get(cookieOf(r)) != p.session; ended || err == nil && user == nil {
			_ = out.send("over", map[string]string{"error": notSignedIn.words}) // the browser may be gone, too
			return
		}
		status, err := s.seen(r.Context(), p)
		if err != nil {
			_ = out.send("over", map[string]string{"error": mask.Error(err)})
			return
		}
		d, now := difference(status, last)
		last = now
		switch {
		case len(d.Rows)+len(d.Gone) > 0:
			err = out.send("rows", d)
		case quiet:
			err = out.send("beat", delta{Time: d.Time, Summary: d.Summary, Overall: d.Overall})
		}
		if err != nil {
			return
		}
	}
}

// waitFor waits; false when the request ended meanwhile.
func (s *server) waitFor(r *http.Request, d time.Duration) bool {
	t := s.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-t.C():
		return true
	}
}

func rowKey(row v1.FleetCluster) string { return row.Group + "/" + row.Name }

func rowsOf(status v1.FleetStatus) map[string][]byte {
	out := make(map[string][]byte, len(status.Clusters))
	for _, row := range status.Clusters {
		out[rowKey(row)], _ = json.Marshal(row) // a row is texts, numbers and times
	}
	return out
}

func difference(status v1.FleetStatus, last map[string][]byte) (delta, map[string][]byte) {
	now := rowsOf(status)
	d := delta{
		Time:    status.Time,
		Summary: status.Summary,
		Overall: overallOf(status),
		NotRead: status.NotRead,
	}
	for _, row := range status.Clusters {
		if key := rowKey(row); !bytes.Equal(now[key], last[key]) {
			d.Rows = append(d.Rows, row)
		}
	}
	for key := range last {
		if _, there := now[key]; !there {
			d.Gone = append(d.Gone, key)
		}
	}
	return d, now
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) send(event string, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encoding event %s: %w", event, err)
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(sending)); err != nil && !isUnsupported(err) {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return s.control.Flush()
}

// isUnsupported reports whether the connection knows no deadline, as that of a recorder in a test.
func isUnsupported(err error) bool { return errors.Is(err, http.ErrNotSupported) }
