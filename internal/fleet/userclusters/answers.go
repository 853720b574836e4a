package userclusters

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Bounds of what is read of one answer. A user cluster's API server belongs to its own administrator, and client-go
// reads what it answers into memory, several times over: the operator's limit is 512Mi. A page of 500 nodes has about
// 15 MB.
const (
	maxAnswer = 32 << 20
	maxEvent  = 8 << 20
)

// protobufType is the content type whose watch events client-go bounds itself, by 16 MiB. It bounds none in JSON.
const protobufType = "application/vnd.kubernetes.protobuf"

// BoundAnswers bounds what is read of the answers of a user cluster. The bounds are of a whole page or object, of a
// watch by event, of a list over its pages, and of all answers that are read at the same time. The transport below must
// not decompress, since a thousandth of the bytes would do on the wire then.
func BoundAnswers(rt http.RoundTripper) http.RoundTripper {
	return &bounded{rt: rt, answer: maxAnswer, event: maxEvent, open: maxOpen, lists: newLists(maxList, maxPages)}
}

// BoundConfig makes clients of a configuration bound what they read of answers, and ask for answers that are not
// compressed.
func BoundConfig(c *rest.Config) {
	c.DisableCompression = true
	c.Wrap(BoundAnswers)
}

type bounded struct {
	rt http.RoundTripper
	// answer, event and open are in bytes; 0 for no bound.
	answer, event, open int
	lists               *listLedger
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	count, err := b.lists.page(req)
	if err != nil {
		return nil, err
	}
	resp, err := b.rt.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	out := &boundedBody{
		ReadCloser: resp.Body,
		most:       b.answer,
		open:       b.open,
		lists:      b.lists,
		count:      count,
		list:       listOf(req),
	}
	out.what = fmt.Sprintf("the answer of %s to %s %s", req.URL.Host, req.Method, req.URL.Path)
	if req.URL.Query().Has("watch") && resp.StatusCode == http.StatusOK {
		if b.event == 0 || strings.HasPrefix(resp.Header.Get("Content-Type"), protobufType) {
			return resp, nil
		}
		out.most, out.what, out.events, out.open = b.event, "an event in "+out.what, &jsonValues{}, 0
	}
	resp.Body = out
	return resp, nil
}

// boundedBody is an answer of which no more than most bytes are read: in all, or between the ends of two events.
type boundedBody struct {
	io.ReadCloser
	read, most int
	what       string
	events     *jsonValues // nil where the answer is no stream
	err        error

	open   int // how much all answers may hold
	held   int // what this one does, until it is free; guarded by lists
	isFree bool
	lists  *listLedger
	count  *listCount
	list   string
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if b.most > 0 {
		for _, c := range p[:n] {
			if b.read++; b.read > b.most {
				return b.refuse("%s has more than %d MiB, and is not read", b.what, b.most>>20)
			}
			if b.events != nil && b.events.ends(c) {
				b.read = 0
			}
		}
	}
	if b.lists.add(b.count, n) {
		return b.refuse("%s has more than %d MiB in its pages, and is not read on", b.list, b.lists.most>>20)
	}
	if b.open > 0 {
		if b.lists.hold(b, n) > b.open {
			return b.refuse(
				"%s and others that are read at the same time have more than %d MiB, and it is not read",
				b.what,
				b.open>>20,
			)
		}
	}
	return n, err
}

// refuse ends an answer. What comes of closing it is not read.
func (b *boundedBody) refuse(format string, args ...any) (int, error) {
	b.err = fmt.Errorf(format+": look at what that API server runs", args...)
	_ = b.Close()
	return 0, b.err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	b.lists.free(b)
	return b.ReadCloser.Close()
}

// jsonValues finds where the objects of a stream end. Line breaks do not tell: an object may have any number.
type jsonValues struct {
	depth           int
	quoted, escaped bool
}

// ends reports whether a byte is the last one of an object.
func (v *jsonValues) ends(c byte) bool {
	switch {
	case v.escaped:
		v.escaped = false
	case v.quoted:
		v.escaped, v.quoted = c == '\\', c != '"'
	case c == '"':
		v.quoted = true
	case c == '{', c == '[':
		v.depth++
	case c == '}', c == ']':
		v.depth--
		return v.depth == 0
	}
	return false
}
