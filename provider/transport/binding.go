package transport

import (
	"net/http"
	"net/url"
	"sync"
)

// BindingOptions are what differs between the libraries whose requests are bound to calls.
type BindingOptions struct {
	// Next sends the requests.
	Next http.RoundTripper
	// Describe says what a request is.
	Describe func(*http.Request) Request
	// Failure returns what fails the call in what came of a request. It is nil where nothing failed, and where the
	// library acts on the refusal, such as one that says that an object is gone.
	Failure func(*http.Response, error) error
	// Once says which answers the library keeps for the call; the zero value keeps none.
	Once Once
}

// Once is what a call reads once. A library may read an object often within one call.
type Once struct {
	// IsKept reports whether the answer to a request is kept for the call, if its status is 200.
	IsKept func(*http.Request) bool
	// MayChange reports whether a request that is not kept may have changed what was read at an address.
	MayChange func(requested, read *url.URL) bool
}

// Binding is a transport for a library that takes no contexts. Its requests are those of the call that Use has set
// last. Before Use it sends nothing.
type Binding struct {
	options BindingOptions

	mu   sync.Mutex
	call *Call
}

// NewBinding makes a Binding.
func NewBinding(o BindingOptions) *Binding { return &Binding{options: o} }

// Use has all requests from now on be those of a call; nil for none.
func (b *Binding) Use(call *Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.call = call
}

// Call is the one that Use has set; nil for none.
func (b *Binding) Call() *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.call
}

// ErrNoCall is that a request was made between the calls of controllers.
var ErrNoCall error = noCallError{}

type noCallError struct{}

func (noCallError) Error() string {
	return "the request belongs to no call of a controller, and is not sent"
}

// NonRetriable is how Azure's SDK asks whether to send the request again.
func (noCallError) NonRetriable() {}

// RoundTrip implements http.RoundTripper. The request ends with the call's context, and carries its fence.
func (b *Binding) RoundTrip(in *http.Request) (*http.Response, error) {
	call := b.Call()
	if call == nil {
		if in.Body != nil {
			_ = in.Body.Close() // as a RoundTripper must
		}
		return nil, ErrNoCall
	}
	out, err := b.options.Once.send(call, in, b.options.Next)
	if failure := b.options.Failure(out, err); failure != nil {
		call.NoteFailure(failure, b.options.Describe(in).Mutates)
	}
	return out, err
}

// send sends a request of a call, unless the answer is kept.
func (o Once) send(call *Call, in *http.Request, next http.RoundTripper) (*http.Response, error) {
	isKept := o.IsKept != nil && o.IsKept(in)
	if isKept {
		if have := call.recall(in); have != nil {
			return have, nil
		}
	} else if o.MayChange != nil {
		call.forget(in.URL, o.MayChange)
		defer call.forget(in.URL, o.MayChange)
	}
	out, err := next.RoundTrip(in.WithContext(call.ctx)) //nolint:contextcheck // a library's own may never end
	if err == nil && isKept && out.StatusCode == http.StatusOK {
		err = call.keep(in, out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
