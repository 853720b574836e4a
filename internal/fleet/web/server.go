package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask"
)

// maxBody bounds what is read of a request, in bytes: a token and a few words.
const maxBody = 64 << 10

// reading is how long the body of a request may take to come.
const reading = 10 * time.Second

// policy allows what this host serves and nothing else; nothing inline, no frames, no forms elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

type server struct {
	Options
	auth     *authority
	sessions *sessions
	origin   *http.CrossOriginProtection
	mux      *http.ServeMux
	// streams has a place for each live page, looks for each look at a control plane.
	streams, looks chan struct{}
	turns          turns // of each cluster's looks
	rows           view.Memory
}

func newServer(o Options) *server {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &server{
		Options:  o,
		auth:     newAuthority(o.Kube, o.Clock),
		sessions: newSessions(o.Clock),
		origin:   http.NewCrossOriginProtection(),
		mux:      http.NewServeMux(),
		streams:  make(chan struct{}, maxStreams),
		looks:    make(chan struct{}, maxLooks),
	}
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /{$}":                                           s.page,
		"GET /assets/{name}":                                 s.asset,
		"POST /api/session":                                  s.login,
		"GET /api/session":                                   s.session,
		"DELETE /api/session":                                s.logout,
		"GET /api/clusters":                                  s.requireUser(s.fleet),
		"GET /api/events":                                    s.requireUser(s.events),
		"GET /api/clusters/{group}/{name}":                   s.requireUser(s.detail),
		"GET /api/clusters/{group}/{name}/check":             s.requireUser(s.check),
		"GET /api/clusters/{group}/{name}/actions/{action}":  s.requireUser(s.preview),
		"POST /api/clusters/{group}/{name}/actions/{action}": s.requireUser(s.act),
	} {
		s.mux.HandleFunc(pattern, handle)
	}
	return s
}

// ServeHTTP gives every answer the headers that keep a browser within this page, and refuses what another site sends.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if err := s.origin.Check(r); err != nil {
		s.writeError(w, &refusal{http.StatusForbidden, "the request comes from another site"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// refusal is an error with the status code of its answer.
type refusal struct {
	code  int
	words string
}

func (e *refusal) Error() string { return e.words }

// writeError answers with an error as JSON.
func (s *server) writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var no *refusal
	if errors.As(err, &no) {
		code = no.code
	} else {
		s.Log.Error(err, "answering a request for the page")
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.write(w, code, map[string]string{"error": mask.Error(err)})
}

func (s *server) write(w http.ResponseWriter, code int, doc any) {
	data, err := json.Marshal(doc)
	if err != nil {
		s.Log.Error(err, "encoding an answer of the page")
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sending)); err != nil && !isUnsupported(err) {
		return // the client is gone
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data) // the client is gone
}

// requireUser lets authenticated users through.
func (s *server) requireUser(handle func(http.ResponseWriter, *http.Request, *person)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := s.identify(r)
		if err != nil {
			s.writeError(w, err)
			return
		}
		if err := p.genuine(r); err != nil {
			s.writeError(w, err)
			return
		}
		handle(w, r, p)
	}
}

// find is the object that a path names, if this person may do that with it. Who may not learns nothing of whether it is
// there.
func (s *server) find(r *http.Request, p *person, verb string) (view.Object, bool, error) {
	key := view.Key{Group: r.PathValue("group"), Name: r.PathValue("name")}
	yes, err := s.auth.may(r.Context(), p, verb, key)
	if err != nil {
		return view.Object{}, false, err
	}
	if !yes {
		return view.Object{}, false, &refusal{http.StatusForbidden, "you may not " + verb + " cluster " + key.String()}
	}
	all, _ := s.Clusters.List()
	twice, found := 0, view.Object{}
	for _, o := range all {
		if o.Cluster.Name == key.Name {
			twice++
		}
		if o.Key() == key {
			found = o
		}
	}
	if found.Cluster == nil {
		return view.Object{}, false, &refusal{http.StatusNotFound, "there is no cluster " + key.String()}
	}
	return found, twice > 1, nil
}

// now is in whole seconds, as the objects' own times are.
func (s *server) now() time.Time { return s.Clock.Now().UTC().Truncate(time.Second) }
