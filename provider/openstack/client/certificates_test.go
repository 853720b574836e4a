package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// pair is a certificate that signs itself, with its files.
type pair struct {
	cert      tls.Certificate
	pool      *x509.CertPool
	file, key string
}

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{pool: x509.NewCertPool()}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	p.pool.AppendCertsFromPEM(certPEM)
	if p.cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	p.file, p.key = write(t, name+".pem", certPEM), write(t, name+".key", keyPEM)
	return p
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keystone is one that gives tokens over TLS. It asks for a certificate that one of a pool has signed; nil for none.
func keystone(t *testing.T, own pair, clients *x509.CertPool) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "project": {"id": "p", "name": "demo"}, "catalog": []}}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are what is tested
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own.cert}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		// with 1.3 the refusal comes after the client's handshake, and may be lost with the connection
		server.TLS.ClientAuth, server.TLS.ClientCAs, server.TLS.MaxVersion = tls.RequireAndVerifyClientCert, clients, tls.VersionTLS12
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/v3/"
}

func TestCertificatesOfTheCloudConfig(t *testing.T) {
	server, user, stranger := newPair(t, "server"), newPair(t, "user"), newPair(t, "stranger")
	none := write(t, "none.pem", []byte("no certificate"))
	for name, test := range map[string]struct {
		set   cloudconf.Global
		asked bool // the server asks for the certificate of a client
		says  []string
	}{
		"trusted":                        {set: cloudconf.Global{CAFile: server.file}},
		"not trusted":                    {says: []string{"unknown authority", "set [Global] ca-file to the CA of 127.0.0.1"}},
		"another CA":                     {set: cloudconf.Global{CAFile: stranger.file}, says: []string{"unknown authority", "check that [Global] ca-file " + stranger.file}},
		"not trusted, and asked not to":  {set: cloudconf.Global{TLSInsecure: true}},
		"with a client's certificate":    {set: cloudconf.Global{CAFile: server.file, CertFile: user.file, KeyFile: user.key}, asked: true},
		"without a client's certificate": {set: cloudconf.Global{CAFile: server.file}, asked: true, says: []string{"set [Global] cert-file and key-file"}},
		"with a stranger's certificate": {
			set:   cloudconf.Global{CAFile: server.file, CertFile: stranger.file, KeyFile: stranger.key},
			asked: true,
			says:  []string{"takes [Global] cert-file " + stranger.file},
		},
		"a CA that is no PEM":              {set: cloudconf.Global{CAFile: none}, says: []string{"[Global] ca-file: " + none + " has no PEM certificate"}},
		"a certificate that is no PEM":     {set: cloudconf.Global{CertFile: none, KeyFile: user.key}, says: []string{"[Global] cert-file " + none, "PEM"}},
		"a key that is no PEM":             {set: cloudconf.Global{CertFile: user.file, KeyFile: none}, says: []string{"key-file " + none, "PEM"}},
		"the key of another certificate":   {set: cloudconf.Global{CertFile: user.file, KeyFile: server.key}, says: []string{user.file, server.key, "does not match"}},
		"a CA whose file is not there":     {set: cloudconf.Global{CAFile: none + ".gone"}, says: []string{"[Global] ca-file", none + ".gone"}},
		"a certificate that is not there":  {set: cloudconf.Global{CertFile: none + ".gone", KeyFile: user.key}, says: []string{"[Global] cert-file " + none + ".gone"}},
		"a key whose file is not there":    {set: cloudconf.Global{CertFile: user.file, KeyFile: none + ".gone"}, says: []string{"key-file " + none + ".gone"}},
		"a CA, and a server with another ": {set: cloudconf.Global{CAFile: user.file}, asked: true, says: []string{"ca-file " + user.file}},
	} {
		t.Run(name, func(t *testing.T) {
			var clients *x509.CertPool
			if test.asked {
				clients = user.pool
			}
			test.set.AuthURL, test.set.Username, test.set.Password = keystone(t, server, clients), "demo", "s-secret"
			test.set.TenantName, test.set.DomainName = "demo", "Default"
			made, err := New(Options{Config: test.set, Timeout: time.Minute})
			if err == nil {
				defer made.provider.HTTPClient.CloseIdleConnections()
				err = made.Login(t.Context())
			}
			if len(test.says) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, part := range test.says {
				if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "s-secret") {
					t.Errorf("the error is %v, want %q in it", err, part)
				}
			}
			if Refused(err) {
				t.Errorf("a handshake that fails counts as a login that Keystone refuses: %v", err)
			}
		})
	}
}
