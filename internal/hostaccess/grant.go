package hostaccess

import (
	"context"
	"net"
)

// Need is what a step does on a host, for an access that has to ask for it before.
type Need struct {
	// Write are the files that are written or removed, absolute on the host. Reading, and looking at processes, needs no
	// grant.
	Write []string
	// Service reports whether units are restarted, stopped or started.
	Service bool
	// Purpose is shown to who looks at the access while it is open, for example the ID of the step.
	Purpose string
}

// Granter is a Host that changes nothing without a grant, such as one that is reached through a pod with the paths of
// one step. A Host that is none may do at any time what this process may do.
type Granter interface {
	// Grant opens the access and waits until it can be used; what it was opened for is done through the Host's own
	// methods. The caller calls release once, when the step has ended, however it ended; its context bounds the clean-up
	// and nothing else.
	Grant(ctx context.Context, n Need) (release func(context.Context), err error)
}

// Grant asks a Granter, and else has nothing to ask for.
func Grant(ctx context.Context, h Host, n Need) (release func(context.Context), err error) {
	if g, ok := h.(Granter); ok {
		return g.Grant(ctx, n)
	}
	return func(context.Context) {}, nil
}

// Dialer is a Host from whose own network an address is reached, 127.0.0.1 among them: managers listen there. The
// connection is end to end, so that neither a client's key nor a token has to be on the host.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}
