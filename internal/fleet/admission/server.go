package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Timeouts of the server: an API server asks once and waits a few seconds.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	// answerTimeout is how long a request may take from its header to the end of its answer. A client that does not read
	// is cut off then.
	answerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 10 * time.Second
)

const (
	// maxHeader bounds, in bytes, the header of a request: an API server's has some hundred.
	maxHeader = 16 << 10
	// maxStreams bounds the requests of one connection that are under way. Each of them has a header, and an API server
	// opens further connections for more.
	maxStreams = 8
)

// Serve answers on a listener until ctx ends, and then finishes what has begun. So a replica that is replaced leaves no
// client without an answer. The certificate is asked for at each handshake: it changes while the server runs.
func Serve(
	ctx context.Context,
	l net.Listener,
	handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) error {
	return serve(ctx, l, newServer(handler, certificate, answerTimeout))
}

// newServer returns the server of the webhooks, which gives an answer so much time.
func newServer(
	handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	answers time.Duration,
) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answers,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: answers},
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
	}
}

func serve(ctx context.Context, l net.Listener, server *http.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("ending the webhooks: %w", err)
	}
	return nil
}
