// Package auditlog decides what a line of an API server's audit log says: who asked for what, and whether RBAC allowed
// it.
package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Everything is a policy that records every request once, when it has been answered, without its body.
const Everything = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Writes is a policy that records the requests that may change something: bodies would cost more than the requests.
const Writes = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

// Request is a request that an API server has answered.
type Request struct {
	User        string
	BoundPod    string // that the token of a ServiceAccount names; or empty
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	Group       string // of the resource; empty for the core group and for what is no resource
	Resource    string // plural, as nodes; empty for what is no resource, as /metrics
	Subresource string // as status; or empty
	Namespace   string
	Name        string // of the object; that of one which is created comes from its body, if it is there
	URI         string
	DryRun      bool // it asked for nothing to be kept
	Code        int  // HTTP status of the answer
	Forbidden   bool // by the authorizer; other refusals with status 403 come from admission
	Received    time.Time
	Answered    time.Time
}

// Reads reports whether the request changes nothing, by its verb.
func (r Request) Reads() bool { return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" }

// Accepted reports whether the request did what it asked for.
func (r Request) Accepted() bool { return r.Code >= 200 && r.Code < 300 }

// Lease reports whether the request was about a lease, which leader election writes every few seconds whatever else
// happens.
func (r Request) Lease() bool { return r.Resource == "leases" }

// event is what of an audit event is read.
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
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations struct {
		Decision string `json:"authorization.k8s.io/decision"`
	} `json:"annotations"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

// Parse returns the requests of whole lines of a log, in their order. A watch counts when it has started.
func Parse(data []byte) ([]Request, error) {
	var out []Request
	for line := range bytes.Lines(data) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}
		if !e.counts() {
			continue
		}
		out = append(out, Request{
			User: e.User.Username, BoundPod: strings.Join(e.User.Extra.Pod, ","), UserAgent: e.UserAgent, Verb: e.Verb,
			Group: e.Object.Group, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
			Namespace: e.Object.Namespace, Name: e.Object.Name, URI: e.URI, DryRun: strings.Contains(e.URI, "dryRun=All"),
			Code: e.Response.Code, Forbidden: e.Annotations.Decision == "forbid", Received: e.Received, Answered: e.Answered,
		})
	}
	return out, nil
}

// counts reports whether the event is the one of its request that is read. A watch is written at its start and at its
// end, which may come after the test that reads the log.
func (e event) counts() bool {
	if e.Verb == "watch" && e.Response.Code < 400 {
		return e.Stage == "ResponseStarted"
	}
	return e.Stage == "ResponseComplete"
}
