package client

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // vCenter's thumbprints are of it; a longer one is taken as well
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"github.com/transplant-dev/transplant/provider/transport"
)

// maxAnswer is how long an answer may be. 1,000 machines are about 5 MB.
const maxAnswer = 256 << 20

var metrics = sync.OnceValue(func() *transport.Metrics { return transport.NewMetrics("vsphere", "vSphere") })

// prepare gives a client the vCenter's certificates and our transport.
func (v *VCenter) prepare(client *soap.Client) error {
	conf := v.options.Config
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         conf.Server,
		InsecureSkipVerify: conf.Insecure, //nolint:gosec // the cloud config asks for it by its name
	}
	if conf.CAFile != "" {
		pem, err := os.ReadFile(conf.CAFile)
		if err != nil {
			return fmt.Errorf("ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca-file: %s has no PEM certificate", conf.CAFile)
		}
	}
	if conf.Thumbprint != "" && !conf.Insecure {
		if err := trustThumbprint(config, conf.Thumbprint); err != nil {
			return err
		}
	}
	next := client.DefaultTransport()
	next.DialTLSContext = nil // govmomi's has no time limit
	next.TLSClientConfig = config
	v.wrap(client)
	return nil
}

// wrap puts our transport in front of a client's.
func (v *VCenter) wrap(client *soap.Client) {
	client.Timeout = v.options.RequestTimeout
	client.Client.Transport = transport.New(transport.Options{
		Next: client.DefaultTransport(), Sent: v.options.Sent, Gate: v.options.Gate, Describe: Describe,
		Metrics: metrics(), MaxAnswer: maxAnswer,
	})
}

// trustThumbprint has a certificate accepted that has this thumbprint, or that an authority has signed.
func trustThumbprint(config *tls.Config, thumbprint string) error {
	want, err := hex.DecodeString(strings.ReplaceAll(thumbprint, ":", ""))
	if err != nil || len(want) != sha1.Size && len(want) != sha256.Size {
		return errors.New("thumbprint: it is the SHA-1 or SHA-256 of a certificate, in hexadecimal digits")
	}
	roots, server := config.RootCAs, config.ServerName
	config.InsecureSkipVerify = true // VerifyConnection does it
	config.VerifyConnection = func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0]
		short, long := sha1.Sum(leaf.Raw), sha256.Sum256(leaf.Raw) //nolint:gosec // as above
		if bytes.Equal(want, short[:]) || bytes.Equal(want, long[:]) {
			return nil
		}
		between := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: server})
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
	return nil
}

type operationKey struct{}

func withOperation(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, operationKey{}, name)
}

// reads are the SOAP operations that change nothing but the session.
var reads = map[string]bool{
	"RetrieveServiceContent":       true,
	"Login":                        true,
	"Logout":                       true,
	"CurrentTime":                  true,
	"CreateContainerView":          true,
	"RetrievePropertiesEx":         true,
	"ContinueRetrievePropertiesEx": true,
	"FindAllByUuid":                true,
	"FindAllByDnsName":             true,
}

// Describe says what a request to a vCenter is. What is not known to read is a change.
func Describe(r *http.Request) transport.Request {
	if operation, ok := r.Context().Value(operationKey{}).(string); ok {
		return transport.Request{Service: "vim", Operation: operation, Mutates: !reads[operation]}
	}
	name := path.Base(r.URL.Path)
	if before, _, found := strings.Cut(name, ":"); found && before == "id" {
		name = path.Base(path.Dir(r.URL.Path)) + "/{id}"
	}
	operation := r.Method + " " + name
	if action := r.URL.Query().Get("~action"); action != "" {
		operation += " " + action
	}
	reading := r.Method == http.MethodGet || name == "session" || strings.HasPrefix(r.URL.Query().Get("~action"), "list-")
	return transport.Request{Service: "cis", Operation: operation, Mutates: !reading}
}

// caller names each call for metrics, and makes it again when the connection failed under it.
type caller struct {
	next  soap.RoundTripper
	tries uint
}

// firstWait goes before the second try.
const firstWait = 250 * time.Millisecond

// RoundTrip implements soap.RoundTripper.
func (c *caller) RoundTrip(ctx context.Context, request, response soap.HasFault) error {
	name := strings.TrimSuffix(reflect.TypeOf(request).Elem().Name(), "Body")
	ctx = withOperation(ctx, name)
	wait := firstWait
	for try := uint(1); ; try++ {
		err := c.next.RoundTrip(ctx, request, response)
		if err == nil || try >= c.tries || !reads[name] || name == "Login" || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait *= 2
	}
}

// isTransient reports whether a connection failed in a way that another one may not. A time limit is not tried again:
// the caller has waited long enough.
func isTransient(err error) bool {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		vim25.IsTemporaryNetworkError(err)
}
