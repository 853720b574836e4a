package userclusters

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Bounds of what is read of one answer. A user cluster's API server belongs to somebody else, and client-go reads
// what it answers into memory, several times over: the operator's limit is 512Mi. A page of 500 nodes has about 15 MB.
const (
	maxAnswer = 32 << 20
	maxEvent  = 8 << 20
)

// protobufType is the content type whose watch events client-go bounds itself, by 16 MiB. It bounds none in JSON.
const protobufType = "application/vnd.kubernetes.protobuf"

// BoundAnswers bounds what is read of the answers of a user cluster: of a list or an object in all, of a watch by
// event. The transport below must not decompress, since a thousandth of the bytes would do on the wire then.
func BoundAnswers(rt http.RoundTripper) http.RoundTripper {
	return &bounded{rt: rt, answer: maxAnswer, event: maxEvent}
}

// BoundConfig makes clients of a configuration bound what they read of answers, and ask for answers that are not
// compressed.
func BoundConfig(c *rest.Config) {
	c.DisableCompression = true
	c.Wrap(BoundAnswers)
}

type bounded struct {
	rt            http.RoundTripper
	answer, event int
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.rt.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	out := &boundedBody{ReadCloser: resp.Body, most: b.answer}
	out.what = fmt.Sprintf("the answer of %s to %s %s", req.URL.Host, req.Method, req.URL.Path)
	if req.URL.Query().Has("watch") && resp.StatusCode == http.StatusOK {
		if strings.HasPrefix(resp.Header.Get("Content-Type"), protobufType) {
			return resp, nil
		}
		out.most, out.what, out.events = b.event, "an event in "+out.what, &jsonValues{}
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
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if b.read++; b.read > b.most {
			b.err = fmt.Errorf("%s has more than %d MiB, and is not read: look at what that API server runs", b.what, b.most>>20)
			_ = b.ReadCloser.Close() // what comes of it is not read
			return 0, b.err
		}
		if b.events != nil && b.events.ends(c) {
			b.read = 0
		}
	}
	return n, err
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
