package awssim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// AdminPath is below what the admin API expects to be served.
const AdminPath = "/_sim/"

// AdminHandler serves the controls below AdminPath: state, audit, faults and the fate of instances. ServeHTTP does not
// serve them, so that a manager under test cannot reach them unless its endpoint was given both.
func (s *Server) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /_sim/state":                  func(*http.Request) (any, error) { return s.State(), nil },
		"GET /_sim/audit":                  s.adminAudit,
		"GET /_sim/unknown":                func(*http.Request) (any, error) { return s.Unknown(), nil },
		"GET /_sim/faults":                 func(*http.Request) (any, error) { return s.Faults(), nil },
		"POST /_sim/faults":                s.adminInject,
		"DELETE /_sim/faults/{id}":         s.adminRemoveFault,
		"GET /_sim/instances":              func(*http.Request) (any, error) { return s.Instances(), nil },
		"POST /_sim/instances":             s.adminAddInstance,
		"PUT /_sim/instances/{id}/state":   s.adminSetState,
		"DELETE /_sim/instances/{id}":      s.adminVanish,
		"POST /_sim/do/{service}/{action}": s.adminDo,
	} {
		mux.HandleFunc(pattern, adminHandler(handle))
	}
	return mux
}

// adminHandler answers with JSON: what was asked for, or {"error": ...} with status 400.
func adminHandler(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := handle(r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]string{"error": err.Error()}
		}
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(answer) // The client may be gone; the request was executed.
	}
}

// done is the answer to requests that have nothing to say.
type done struct {
	Done bool `json:"done"`
}

// decodeBody reads one JSON document strictly.
func decodeBody(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("reading the body as JSON: %w", err)
	}
	return nil
}

// adminAudit answers the log; key, service and action may be given several times or with commas, since and until are
// RFC 3339.
func (s *Server) adminAudit(r *http.Request) (any, error) {
	q := r.URL.Query()
	f := Filter{Keys: listOf(q, "key"), Services: listOf(q, "service"), Actions: listOf(q, "action")}
	if text := q.Get("mutating"); text != "" {
		only, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("mutating=%q is neither true nor false", text)
		}
		f.Mutating = &only
	}
	for name, into := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		*into = at
	}
	return s.audit.Calls(f), nil
}

func listOf(q url.Values, name string) []string {
	var out []string
	for _, v := range q[name] {
		out = append(out, strings.Split(v, ",")...)
	}
	return out
}

func (s *Server) adminInject(r *http.Request) (any, error) {
	var f Fault
	if err := decodeBody(r, &f); err != nil {
		return nil, err
	}
	id, err := s.inject(f)
	return map[string]int{"id": id}, err
}

func (s *Server) adminRemoveFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.removeFault(id) {
		return nil, fmt.Errorf("there is no fault %q", r.PathValue("id"))
	}
	return done{true}, nil
}

func (s *Server) adminAddInstance(r *http.Request) (any, error) {
	var i Instance
	if err := decodeBody(r, &i); err != nil {
		return nil, err
	}
	return s.AddInstance(i)
}

func (s *Server) adminSetState(r *http.Request) (any, error) {
	var body struct {
		State string `json:"state"`
	}
	if err := decodeBody(r, &body); err != nil {
		return nil, err
	}
	return done{true}, s.SetInstanceState(r.PathValue("id"), body.State)
}

func (s *Server) adminVanish(r *http.Request) (any, error) {
	return done{true}, s.VanishInstance(r.PathValue("id"))
}

// adminDo makes an API call as the lab: drift.
func (s *Server) adminDo(r *http.Request) (any, error) {
	params := map[string]string{}
	if err := decodeBody(r, &params); err != nil {
		return nil, err
	}
	return done{true}, s.Do(r.PathValue("service"), r.PathValue("action"), params)
}
