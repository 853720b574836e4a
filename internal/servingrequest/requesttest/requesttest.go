// Package requesttest makes requests for serving certificates as kubelets make them.
package requesttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
)

// Encode is a request in PEM, signed by a key of its own.
func Encode(t testing.TB, request *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Of is the request of the kubelet of a node for names and addresses.
func Of(node string, names ...string) *x509.CertificateRequest {
	subject := pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	r := &x509.CertificateRequest{Subject: subject}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			r.IPAddresses = append(r.IPAddresses, ip)
		} else {
			r.DNSNames = append(r.DNSNames, name)
		}
	}
	return r
}
