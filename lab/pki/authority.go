// Package pki decides who is who in a lab cluster: certificate authorities, certificates, keys and kubeconfigs, with
// the names, file names and modes that kubeadm gives them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// backdate is how long ago certificates became valid: clocks of processes on one machine agree, but a certificate
	// that begins this very second is refused by a verifier that rounds down.
	backdate    = time.Hour
	caValidity  = 10 * 365 * 24 * time.Hour
	certificate = "CERTIFICATE"
)

// Pair is a certificate and its private key, PEM encoded.
type Pair struct {
	Cert, Key []byte
}

// Authority is a self-signed certificate authority that issues ECDSA P-256 certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority creates an authority with the given common name, valid for ten years from now.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key of authority %q: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caValidity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, cert, err := sign(template, nil, key, key)
	if err != nil {
		return nil, fmt.Errorf("creating authority %q: %w", name, err)
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Request describes a certificate to issue.
type Request struct {
	CommonName    string
	Organizations []string // the groups of a client
	DNS           []string // names it serves under
	IPs           []string // addresses it serves under
	Server        bool     // usable by a server
	Client        bool     // usable by a client
}

// Issue creates a key and a certificate for it that expires with the authority.
func (a *Authority) Issue(r Request) (Pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		DNSNames:  r.DNS,
		NotBefore: a.cert.NotBefore,
		NotAfter:  a.cert.NotAfter,
		KeyUsage:  x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	if r.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if r.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, text := range r.IPs {
		ip := net.ParseIP(text)
		if ip == nil {
			return Pair{}, fmt.Errorf("issuing certificate %q: %q is not an IP address", r.CommonName, text)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating key of %q: %w", r.CommonName, err)
	}
	pair, _, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issuing certificate %q: %w", r.CommonName, err)
	}
	return pair, nil
}

// sign makes a certificate out of template; without a parent it is self-signed.
func sign(
	template, parent *x509.Certificate,
	key *ecdsa.PrivateKey,
	signer crypto.Signer,
) (Pair, *x509.Certificate, error) {
	if parent == nil {
		parent = template
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, nil, fmt.Errorf("choosing serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, nil, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: certificate, Bytes: der}), Key: keyPEM}, cert, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// TrustOnly returns a TLS configuration of a client that trusts this authority and no other.
func (a *Authority) TrustOnly() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
