package awssim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// maxBody is more than any call of the managers needs; registering 1,000 targets takes about 100 KiB.
const maxBody = 4 << 20

// credential is where Signature Version 4 carries the caller's access key id.
var credential = regexp.MustCompile(`Credential=([^/,\s]+)/`)

// Errors of the audit log that no API answers: what happened to calls that were not answered.
const (
	// ConnectionDropped marks a call whose connection a fault cut.
	ConnectionDropped = "ConnectionDropped"
	// ClientGone marks a call without effect whose client left while a fault made it hang.
	ClientGone = "ClientGone"
	// ServerClosed marks a call without effect that waited when the server was closed.
	ServerClosed = "ServerClosed"
)

// ServeHTTP answers API calls (POST to /) and the metadata service (below /latest).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		http.Error(w, "the simulated AWS endpoint is closing", http.StatusServiceUnavailable)
		return
	}
	defer s.running.Done()
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		s.serveMetadata(w, r)
		return
	}
	s.serveAPI(w, r)
}

// request is an API call on its way through the server.
type request struct {
	seq     int64
	key     string
	service *service
	action  wire.Action
	call    wire.Call
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	req, refusal := s.read(r)
	outcome := outcome{refusal: refusal}
	if refusal == nil {
		outcome = s.carryOut(r.Context(), req)
	} else {
		s.audit.finish(req.seq, nil, refusal, nil)
	}
	if outcome.silent {
		panic(http.ErrAbortHandler) // net/http's way to cut a connection without an answer or a log line.
	}
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", req.seq, req.seq)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", id)
	if outcome.refusal != nil {
		w.WriteHeader(outcome.refusal.Status)
		// The client may be gone; the audit log knows what became of the call.
		_, _ = w.Write(req.service.dialect.Refusal(outcome.refusal, id))
		return
	}
	_, _ = w.Write(req.service.dialect.Answer(req.action.Name, id, outcome.answer)) // As above.
}

// read takes the call off the wire, records its arrival, and refuses what the server does not know or the key may not
// do.
func (s *Server) read(r *http.Request) (*request, *wire.Error) {
	params, key, malformed := decode(r)
	req := &request{key: key, call: wire.Call{Params: params}, service: s.serviceFor(params["Version"])}
	action, known := req.service.action(params["Action"])
	req.action = action
	record := v1alpha1.CloudCall{
		Key:       key,
		Service:   req.service.name,
		Action:    params["Action"],
		Mutating:  action.Mutating,
		Params:    sent(params),
		Resources: req.call.Resources(),
		Arrived:   s.options.Clock.Now(),
	}
	req.seq = s.audit.arrive(record)
	switch {
	case malformed != nil:
		return req, malformed
	case r.URL.Path != "/" || !known:
		return req, wire.Unknown(
			"InvalidAction",
			"%s %s: the action %q of version %q is not simulated.",
			r.Method,
			r.URL.Path,
			params["Action"],
			params["Version"],
		)
	}
	if err := s.permitted(key, action); err != nil {
		return req, err
	}
	return req, refusal(action.Check(&req.call))
}

// decode reads a form, from the body or from the query.
func decode(r *http.Request) (wire.Params, string, *wire.Error) {
	key := ""
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		key = m[1]
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return wire.Params{}, key, wire.Fail(
			"MalformedQueryString",
			"The request's body could not be read or is longer than %d bytes.",
			maxBody,
		)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return wire.Params{}, key, wire.Fail("MalformedQueryString", "The request's body is not a form: %v", err)
	}
	params := wire.Params{}
	for _, values := range []url.Values{r.URL.Query(), form} {
		for k, v := range values {
			if _, twice := params[k]; twice || len(v) != 1 {
				return params, key, wire.Fail("MalformedQueryString", "The parameter %s was sent more than once.", k)
			}
			params[k] = v[0]
		}
	}
	return params, key, nil
}

// serviceFor picks the API by version; the versions do not overlap. An unknown version is answered in EC2's form.
func (s *Server) serviceFor(version string) *service {
	for _, svc := range s.services {
		if svc.version == version {
			return svc
		}
	}
	return &service{name: "unknown", dialect: s.services[0].dialect}
}

// permitted applies the keys' policies.
func (s *Server) permitted(key string, action wire.Action) *wire.Error {
	if len(s.options.Keys) == 0 {
		return nil
	}
	policy, known := s.options.Keys[key]
	if !known {
		return wire.Fail("AuthFailure", "AWS was not able to validate the provided access credentials")
	}
	if policy == ReadOnly && action.Mutating {
		return wire.Fail(
			"UnauthorizedOperation",
			"You are not authorized to perform this operation: the key %s may only read.",
			key,
		)
	}
	return nil
}

// sent are a call's parameters without what every call has.
func sent(params wire.Params) map[string]string {
	out := map[string]string{}
	for k, v := range params {
		if k != "Action" && k != "Version" {
			out[k] = v
		}
	}
	return out
}

// refusal is an action's error as the answer that it is.
func refusal(err error) *wire.Error {
	if err == nil {
		return nil
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Fail("InternalError", "%v", err)
	}
	return e
}
