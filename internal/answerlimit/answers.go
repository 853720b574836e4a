package answerlimit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"

	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/listcount"
)

// Bounds of what is read of one answer of a user cluster. The operator's limit is 512Mi, and a page of 500 nodes has
// about 15 MB.
const (
	maxAnswer = 32 << 20
	// maxEvent is more than an API server takes for one object.
	maxEvent = 4 << 20
	// maxProblem bounds what says why something failed, and what is no JSON. Each layer that adds to an error copies it.
	maxProblem = 64 << 10
)

// MaxHeader bounds, in bytes, the header of an answer. Each key of it takes many times its bytes. Transport sees the
// body alone, so the transport below has to be made with it.
const MaxHeader = 64 << 10

// maxRead bounds how much is read at a time, and so how far an answer that waits is over a Total.
const maxRead = 64 << 10

// Transport bounds what is read of the answers of one user cluster. It bounds a page or an object as a whole, a watch
// by event, and a list over its pages. It also bounds all answers that are open at the same time. The total bounds
// these and the ones of other clusters with the same Total; it may be nil. The transport below must not decompress,
// since a thousandth of the bytes would do on the wire then.
//
// Transports of one Total and one name are of one cluster; one without a name is of a cluster of its own.
func Transport(rt http.RoundTripper, total *Total, name string) http.RoundTripper {
	if total == nil {
		total = newTotal(0)
	}
	return &bounded{
		rt:      rt,
		answer:  maxAnswer,
		event:   maxEvent,
		lists:   newLists(maxList, maxListWeight, maxPages),
		cluster: total.named(name),
	}
}

// Config makes clients of a configuration bound what they read of answers, and ask for answers that are not compressed.
func Config(c *rest.Config) {
	c.DisableCompression = true
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return Transport(rt, nil, "") })
}

type bounded struct {
	rt http.RoundTripper
	// answer and event are in bytes; 0 for no bound.
	answer, event int
	lists         *lists
	cluster       *cluster // nil where open answers have no bound
}

// takesConnection matches the requests whose answer is a connection. client-go's transports of SPDY and of websockets
// run below this one, and put the header that asks for it on a request of their own.
var takesConnection = regexp.MustCompile(`/namespaces/[^/]+/pods/[^/]+/(exec|portforward)$`)

// asksForConnection reports whether the connection may be given to another protocol.
func asksForConnection(req *http.Request) bool {
	return req.Header.Get("Upgrade") != "" || takesConnection.MatchString(req.URL.Path)
}

// RoundTrip implements http.RoundTripper. It refuses a change of protocol that was not asked for. Package http hands
// the connection out for that, which no context ends. Clients read it whole before they look at the status.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	count, err := b.lists.page(req)
	if err != nil {
		return nil, err
	}
	if r := readerOf(req.Context()); r != nil {
		r.next()
	}
	var as []reflect.Type
	if b.answer > 0 {
		req, as = askJSON(req)
	}
	resp, err := b.rt.RoundTrip(req)
	switch {
	case err != nil:
		return resp, err
	case resp.StatusCode == http.StatusSwitchingProtocols && !asksForConnection(req):
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the answer of %s to %s %s gives the connection to another protocol, which was not asked for",
			req.URL.Host, req.Method, req.URL.Path)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return resp, nil
	}
	out := &answer{
		ReadCloser: resp.Body,
		ctx:        req.Context(),
		method:     req.Method,
		host:       req.URL.Host,
		path:       req.URL.Path,
		most:       b.answer,
		lists:      b.lists,
		count:      count,
		cluster:    b.cluster,
	}
	isWatch := req.URL.Query().Has("watch") && resp.StatusCode == http.StatusOK
	switch {
	case isWatch && b.event == 0:
		return resp, nil
	case isWatch:
		out.most, out.events = b.event, &eventStream{}
	case resp.StatusCode >= http.StatusBadRequest || mediaType(resp) != jsonType:
		out.most, out.isProblem = min(out.most, maxProblem), true
	}
	resp.Body = out
	if b.answer > 0 {
		return out.weighed(resp, as)
	}
	return resp, nil
}

// weighed is the response with what it takes in memory bounded, too.
func (a *answer) weighed(resp *http.Response, as []reflect.Type) (*http.Response, error) {
	switch kind := mediaType(resp); {
	case isRefusedType(kind) && resp.ContentLength != 0:
		_, err := a.refuseAnswer("%s is of type %q, which was not asked for", a.name(), kind)
		return nil, err
	case kind != jsonType && a.events != nil:
		_, err := a.refuseAnswer("%s is of type %q, and no stream of events", a.name(), kind)
		return nil, err
	case kind != jsonType:
		return resp, nil
	}
	w := weighing{answer: a, name: a.name(), as: as}
	if a.events != nil {
		resp.Body = &weighedEvents{weighing: w}
	} else {
		a.isWhole = true
		resp.Body = &weighed{weighing: w}
	}
	return resp, nil
}

// answer is an answer of which no more than most bytes are read: in all, or between the ends of two events.
type answer struct {
	io.ReadCloser
	ctx                context.Context // that of the request
	method, host, path string
	read, most         int
	isProblem          bool         // it says why something failed, or is no JSON
	isWhole            bool         // it is read to its end before its reader gets it
	events             *eventStream // nil where the answer is no stream
	err                error

	lists   *lists
	count   *listcount.Count
	cluster *cluster
	held    holding // guarded by the Total
}

// name is what the answer is called where it is refused.
func (a *answer) name() string {
	name := fmt.Sprintf("the answer of %s to %s %s", a.host, a.method, a.path)
	if a.events != nil {
		return "an event in " + name
	}
	return name
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.ReadCloser.Read(p[:min(len(p), maxRead)])
	if a.most > 0 {
		for _, c := range p[:n] {
			if a.read++; a.read > a.most {
				return a.refuseAnswer("%s has more than %s, and is not read", a.name(), inUnits(a.most))
			}
			if a.events != nil && a.events.ends(c) {
				a.events.longest, a.read = max(a.events.longest, a.read), 0
			}
		}
	}
	if a.lists.addBytes(a.count, n) {
		return a.refuseAnswer(
			"%s has more than %d MiB in its pages, and is not read on",
			listName(a.host, a.path),
			a.lists.most>>20,
		)
	}
	holds := n
	if a.events != nil {
		holds = a.events.grown(a.read)
	}
	if refused := a.hold(holds); refused != nil {
		return 0, refused
	}
	return n, err
}

// hold counts bytes of memory with those of other answers. Its error is that of the answer, which has ended then.
func (a *answer) hold(n int) error {
	switch a.cluster.hold(a, n) {
	case mayGoOn:
	case overCluster:
		_, _ = a.refuseAnswer(
			"%s and others that are read at the same time have more than %d MiB, and it is not read",
			a.name(),
			a.cluster.most>>20,
		)
	case overWatches:
		_, _ = a.refuseAnswer(
			"%s and the events of other watches of that cluster take more than %d MiB of memory, and it is not read",
			a.name(),
			a.cluster.mostWatched>>20,
		)
	case overTotal:
		_, _ = a.refuseAnswer(
			"the answers of all clusters that are read at the same time have more than %d MiB; "+
				"%s, whose cluster has the most of them, is not read",
			a.cluster.total.most>>20,
			a.name(),
		)
	case requestEnded:
		a.err = context.Cause(a.ctx)
		_ = a.Close()
	}
	return a.err
}

// inUnits is a limit in KiB or MiB, in words.
func inUnits(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// refuseAnswer ends an answer. What comes of closing it is not read.
func (a *answer) refuseAnswer(format string, args ...any) (int, error) {
	a.err = fmt.Errorf(format+": look at what that API server runs", args...)
	_ = a.Close()
	return 0, a.err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.cluster.releaseAnswer(a)
	return a.ReadCloser.Close()
}
