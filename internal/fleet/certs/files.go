package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
)

// Files serve a certificate that others keep in files, as cert-manager does in a mounted Secret. They are read again
// when they change. A pair that does not fit together is not served: the one before goes on.
type Files struct {
	content *dynamiccertificates.DynamicCertKeyPairContent
	held    atomic.Pointer[tls.Certificate]
	clock   clock.PassiveClock
}

// NewFiles reads the files of a certificate and its key. The purpose is named in errors.
func NewFiles(purpose, certificate, key string, c clock.PassiveClock) (*Files, error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles(purpose, certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the %s: %w", purpose, err)
	}
	f := &Files{content: content, clock: c}
	content.AddListener(f)
	f.Enqueue()
	return f, nil
}

// Run looks at the files until ctx ends.
func (f *Files) Run(ctx context.Context) { f.content.Run(ctx, 1) }

// Enqueue takes what the files hold now. It is called when they have changed.
func (f *Files) Enqueue() {
	if pair, err := tls.X509KeyPair(f.content.CurrentCertKeyContent()); err == nil { // who reads them has tried the pair
		f.held.Store(&pair)
	}
}

// GetCertificate is for a tls.Config.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.held.Load(), nil
}

// Check is for a readiness probe: whether the certificate is still valid.
func (f *Files) Check(*http.Request) error {
	if leaf := f.held.Load().Leaf; !f.clock.Now().Before(leaf.NotAfter) {
		return errors.New("the certificate of the webhooks has expired: its files have to be written again")
	}
	return nil
}
