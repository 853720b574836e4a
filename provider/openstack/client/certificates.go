package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// newTransport has the certificates of the cloud config.
func newTransport(g cloudconf.Global) (http.RoundTripper, error) {
	next := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	next.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: g.TLSInsecure, //nolint:gosec // the cloud config asks for it by its name
	}
	if g.CAFile != "" {
		pem, err := os.ReadFile(g.CAFile)
		if err != nil {
			return nil, fmt.Errorf("[Global] ca-file: %w", err)
		}
		next.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !next.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("[Global] ca-file: %s has no PEM certificate", g.CAFile)
		}
	}
	if g.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(g.CertFile, g.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("[Global] cert-file %s and key-file %s: %w", g.CertFile, g.KeyFile, err)
		}
		next.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return withCertificates{next, g}, nil
}

// withCertificates says which setting of the cloud config a failed handshake is about.
type withCertificates struct {
	next http.RoundTripper
	from cloudconf.Global
}

// RoundTrip implements http.RoundTripper.
func (t withCertificates) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(request)
	if err == nil {
		return answer, nil
	}
	var (
		untrusted *tls.CertificateVerificationError
		said      *net.OpError
	)
	switch {
	case errors.As(err, &untrusted) && t.from.CAFile != "":
		return nil, fmt.Errorf("%w: check that [Global] ca-file %s has the CA of %s", err, t.from.CAFile, request.URL.Host)
	case errors.As(err, &untrusted):
		return nil, fmt.Errorf("%w: set [Global] ca-file to the CA of %s", err, request.URL.Host)
	case !errors.As(err, &said) || !isRefusedHandshake(said):
		return nil, err
	case t.from.CertFile != "":
		return nil, fmt.Errorf("%w: check that %s takes [Global] cert-file %s", err, request.URL.Host, t.from.CertFile)
	}
	return nil, fmt.Errorf("%w: where %s asks for a certificate of its clients, set [Global] cert-file and key-file",
		err, request.URL.Host)
}

// isRefusedHandshake reports whether a server has ended a handshake, perhaps for want of a certificate that it takes.
// Up to TLS 1.2 servers say no more than that it failed.
func isRefusedHandshake(said *net.OpError) bool {
	text := said.Err.Error()
	return said.Op == "remote error" && (strings.Contains(text, "certificate") || strings.Contains(text, "handshake failure"))
}
