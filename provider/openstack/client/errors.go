package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// statusOf is the HTTP status of an answer that refuses; 0 for none.
func statusOf(err error) int {
	var refusal gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &refusal) {
		return refusal.Actual
	}
	var unable *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &unable) {
		return statusOf(unable.ErrReauth)
	}
	return 0
}

// NotFound reports whether OpenStack's API has said that an object does not exist. A 404 of a proxy, or of a service
// that is not there, is none: it says nothing about the object.
func NotFound(err error) bool {
	var refusal gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &refusal) && refusal.Actual == http.StatusNotFound && message(refusal.Body) != ""
}

// RefusesObject reports whether OpenStack's API refuses what was asked about one object. It says nothing about others.
func RefusesObject(err error) bool {
	var refusal gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &refusal) && message(refusal.Body) != "" &&
		(refusal.Actual == http.StatusBadRequest || refusal.Actual == http.StatusForbidden)
}

// Conflict reports whether OpenStack refused a change because of the object's state. The object is being changed
// (Octavia), or was changed since it was read (Neutron's revisions).
func Conflict(err error) bool {
	status := statusOf(err)
	return status == http.StatusConflict || status == http.StatusPreconditionFailed
}

// Explain shortens gophercloud's error to what OpenStack said. It returns nil for nil.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	var unable *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &unable) {
		return explained{err: unable.ErrReauth, text: "the token is not taken any more, and OpenStack refuses a new one: " +
			Explain(unable.ErrReauth).Error()}
	}
	var refusal gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &refusal) {
		return err
	}
	said := message(refusal.Body)
	if said == "" {
		said = "an answer that is not of an OpenStack API; is there a proxy, or the wrong address, in between?"
		if len(bytes.TrimSpace(refusal.Body)) == 0 {
			said = "an empty answer"
		}
	}
	return explained{err: err, text: fmt.Sprintf("OpenStack refused %s %s with %d %s: %s",
		refusal.Method, path(refusal.URL), refusal.Actual, http.StatusText(refusal.Actual), said)}
}

// path leaves out an address's host and query.
func path(address string) string {
	if _, after, ok := strings.Cut(address, "://"); ok {
		if i := strings.IndexByte(after, '/'); i >= 0 {
			address = after[i:]
		}
	}
	before, _, _ := strings.Cut(address, "?")
	return before
}

type explained struct {
	err  error
	text string
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// message is what an OpenStack API says in the body of a refusal; empty when it is not one's. The APIs wrap it
// differently: {"error": {"message"}} (Keystone), {"itemNotFound": {"message"}} (Nova), {"NeutronError": {"message"}},
// {"faultstring"} (Octavia).
func message(body []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	if said := decodeString(fields["faultstring"]); said != "" {
		return said
	}
	for _, field := range fields {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(field, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
	}
	return decodeString(fields["message"])
}

func decodeString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
