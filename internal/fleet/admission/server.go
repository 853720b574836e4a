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
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 10 * time.Second
)

// maxHeader bounds, in bytes, the header of a request: an API server's has some hundred.
const maxHeader = 64 << 10

// Serve answers on a listener until ctx ends, and then finishes what has begun. So a replica that is replaced leaves no
// client without an answer. The certificate is asked for at each handshake: it changes while the server runs.
func Serve(
	ctx context.Context,
	l net.Listener,
	handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
	}
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
