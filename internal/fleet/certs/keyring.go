package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Keys of the Secret. The first certificate of the bundle is the authority that signs, its key next to it; the others
// are those before it.
const (
	keyBundle    = "ca.crt"
	keyAuthority = "ca.key"
	keyCert      = "tls.crt"
	keyKey       = "tls.key"
)

// skew is how far the clock of an API server may be behind ours, for a certificate's lifetime. It is an hour, or less
// if an hour is much of the lifetime.
func skew(life time.Duration) time.Duration { return min(time.Hour, life/10) }

// policy is how long things last.
type policy struct {
	authority, leaf time.Duration
	// overlap is for how long a new authority is trusted before anything signed by it is served.
	overlap time.Duration
	hosts   []string
}

// keyring is the authority and what it has signed.
type keyring struct {
	bundle    []*x509.Certificate // newest first
	authority *ecdsa.PrivateKey   // of bundle[0]
	leaf      tls.Certificate     // with Leaf set
}

// step is the next state of a keyring, and whether it differs. A keyring that is empty, broken or expired is made
// again. Without a valid one, calls fail until the new authority has been written everywhere.
//
// An authority that has used up two thirds of its life gets a successor, which is only added to what is trusted. When
// it has been trusted for the overlap, the certificate that is served is signed by it. The one before stays trusted
// until it expires, for replicas that have not looked yet.
func (k keyring) step(now time.Time, p policy) (keyring, bool, error) {
	changed := false
	if len(k.bundle) == 0 || !now.Before(k.bundle[0].NotAfter) {
		authority, key, err := newAuthority(now, p.authority)
		if err != nil {
			return k, false, err
		}
		k, changed = keyring{bundle: []*x509.Certificate{authority}, authority: key}, true
	}
	if needsRenewal(k.bundle[0], now) {
		authority, key, err := newAuthority(now, p.authority)
		if err != nil {
			return k, false, err
		}
		k.bundle, k.authority, changed = append([]*x509.Certificate{authority}, k.bundle...), key, true
	}
	if valid := slices.DeleteFunc(
		slices.Clone(k.bundle),
		func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) },
	); len(
		valid,
	) < len(
		k.bundle,
	) {
		k.bundle, changed = valid, true
	}
	if k.canKeepLeaf(now, p) {
		return k, changed, nil
	}
	p.hosts = k.together(now, p.hosts)
	leaf, err := k.sign(now, p)
	k.leaf = leaf
	return k, true, err
}

// maxHosts bounds the names that a certificate collects.
const maxHosts = 50

// together are the names that a new certificate is for. Replicas that are called by names of their own share one
// certificate, and would otherwise replace it in turns. Names of replicas that are gone are forgotten when a
// certificate is renewed for its age.
func (k keyring) together(now time.Time, hosts []string) []string {
	if k.leaf.Leaf == nil || needsRenewal(k.leaf.Leaf, now) {
		return hosts
	}
	out := slices.Clone(hosts)
	for _, host := range hostsOf(k.leaf.Leaf) {
		if !slices.Contains(out, host) && len(out) < maxHosts {
			out = append(out, host)
		}
	}
	return out
}

// covers reports whether a certificate is for all of these names.
func covers(c *x509.Certificate, hosts []string) bool {
	has := hostsOf(c)
	return !slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(has, canonical(host)) })
}

// canonical is how a certificate writes a host.
func canonical(host string) string {
	if ip := net.ParseIP(host); ip != nil {
		return ip.String()
	}
	return host
}

// needsRenewal reports whether two thirds of a certificate's life are over.
func needsRenewal(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3))
}

// canKeepLeaf reports whether what is served may go on being served.
func (k keyring) canKeepLeaf(now time.Time, p policy) bool {
	leaf := k.leaf.Leaf
	if leaf == nil || !now.Before(leaf.NotAfter) || !covers(leaf, p.hosts) {
		return false
	}
	signer := slices.IndexFunc(k.bundle, func(c *x509.Certificate) bool { return leaf.CheckSignatureFrom(c) == nil })
	if signer < 0 {
		return false
	}
	if signedAlready := signer == 0; signedAlready {
		return !needsRenewal(leaf, now)
	}
	spread := k.bundle[0].NotBefore.Add(skew(p.authority) + p.overlap)
	return now.Before(spread) && spread.Before(leaf.NotAfter)
}

func newAuthority(now time.Time, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating the authority's key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "transplant-operator webhooks " + serial.Text(36)},
		NotBefore: now.Add(
			-skew(life),
		),
		NotAfter:              now.Add(life),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// sign makes the certificate that is served.
func (k keyring) sign(now time.Time, p policy) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating the serving key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "transplant-operator"},
		NotBefore:    now.Add(-skew(p.leaf)),
		NotAfter:     earlier(now.Add(p.leaf), k.bundle[0].NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range p.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, k.bundle[0], key.Public(), k.authority)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing the serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return serial, nil
}

func hostsOf(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// bundlePEM is what the API server has to trust.
func (k keyring) bundlePEM() []byte {
	var out bytes.Buffer
	for _, c := range k.bundle {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

// data is the Secret's.
func (k keyring) data() (map[string][]byte, error) {
	key, err := keyPEM(k.authority)
	if err != nil {
		return nil, err
	}
	leafKey, ok := k.leaf.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the serving key is of another kind")
	}
	serving, err := keyPEM(leafKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyBundle: k.bundlePEM(), keyAuthority: key, keyKey: serving,
		keyCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.leaf.Certificate[0]}),
	}, nil
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("encoding a private key") // without the reason, which might quote it
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseKeyring reads a Secret. What is not whole is an error, which never quotes what was read.
func parseKeyring(data map[string][]byte) (keyring, error) {
	var k keyring
	for rest := data[keyBundle]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return keyring{}, fmt.Errorf("%s holds something that is no certificate", keyBundle)
		}
		k.bundle = append(k.bundle, cert)
	}
	if len(k.bundle) == 0 {
		return keyring{}, fmt.Errorf("%s holds no certificate", keyBundle)
	}
	authority, err := tls.X509KeyPair(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.bundle[0].Raw}),
		data[keyAuthority],
	)
	if err != nil {
		return keyring{}, fmt.Errorf("%s is not the key of the first certificate of %s", keyAuthority, keyBundle)
	}
	if k.leaf, err = tls.X509KeyPair(data[keyCert], data[keyKey]); err != nil {
		return keyring{}, fmt.Errorf("%s and %s do not belong together", keyCert, keyKey)
	}
	signer, ok := authority.PrivateKey.(*ecdsa.PrivateKey)
	if _, leafOK := k.leaf.PrivateKey.(*ecdsa.PrivateKey); !ok || !leafOK || !k.bundle[0].IsCA {
		return keyring{}, errors.New("the keys are not of the kind that the operator makes")
	}
	k.authority = signer
	return k, nil
}
