package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func newPKI(t *testing.T) *PKI {
	t.Helper()
	p, err := New("lab", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestWriteControlPlaneWritesKubeadmsFilesWithTheirModes(t *testing.T) {
	p, dir := newPKI(t), t.TempDir()
	server := APIServer{NodeName: "ip-10-0-0-11.ec2.internal", Addresses: []string{"127.1.2.11", "127.1.2.1"}}
	for range 2 { // a second time replaces them
		if err := p.WriteControlPlane(dir, server); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]os.FileMode{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			got[strings.TrimPrefix(path, dir+"/")] = info.Mode().Perm()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]os.FileMode{
		"ca.crt": 0o644, "ca.key": 0o600,
		"apiserver.crt": 0o644, "apiserver.key": 0o600,
		"apiserver-kubelet-client.crt": 0o644, "apiserver-kubelet-client.key": 0o600,
		"apiserver-etcd-client.crt": 0o644, "apiserver-etcd-client.key": 0o600,
		"front-proxy-ca.crt": 0o644, "front-proxy-ca.key": 0o600,
		"front-proxy-client.crt": 0o644, "front-proxy-client.key": 0o600,
		"etcd/ca.crt": 0o644, "etcd/ca.key": 0o600,
		"sa.key": 0o600, "sa.pub": 0o644,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestServingCertificateHoldsForEveryNameAndAddress(t *testing.T) {
	p, dir := newPKI(t), t.TempDir()
	if err := p.WriteControlPlane(dir, APIServer{NodeName: "node-a", Addresses: []string{"127.1.2.11", "10.96.0.1"}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, data)
	roots := x509.NewCertPool()
	roots.AddCert(p.CA.cert)
	for _, name := range []string{"kubernetes", "kubernetes.default.svc.cluster.local", "node-a", "127.1.2.11", "10.96.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("as %q: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.1.2.12"}); err == nil {
		t.Error("it holds for another host's address too")
	}
	other := newPKI(t)
	strangers := x509.NewCertPool()
	strangers.AddCert(other.CA.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: strangers, DNSName: "kubernetes"}); err == nil {
		t.Error("another cluster's authority vouches for it")
	}
}

func TestEtcdCertificateServesAndIsClient(t *testing.T) {
	p, dir := newPKI(t), t.TempDir()
	if err := p.WriteEtcd(dir, []string{"127.1.2.3"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); !os.IsNotExist(err) {
		t.Errorf("etcd has the key of its authority: %v", err)
	}
}

func TestWorkersDoNotGetTheAuthoritysKey(t *testing.T) {
	p, dir := newPKI(t), t.TempDir()
	if err := p.WriteNode(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "ca.crt" {
		t.Errorf("files are %v, %v; want only ca.crt", entries, err)
	}
}

func TestKubeconfigsLogInAsTheirUserAndGroups(t *testing.T) {
	p := newPKI(t)
	serving, err := p.CA.Issue(Request{CommonName: "kube-apiserver", IPs: []string{"127.0.0.1"}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	var got Identity
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		got = Identity{User: subject.CommonName, Groups: subject.Organization}
	}))
	clients := x509.NewCertPool()
	clients.AddCert(p.CA.cert)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	srv.StartTLS()
	defer srv.Close()

	for _, id := range []Identity{Admin, ControllerManager, Scheduler, Node("node-a")} {
		t.Run(id.User, func(t *testing.T) {
			data, err := p.Kubeconfig(srv.URL, id)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
			if err != nil {
				t.Fatal(err)
			}
			client, err := rest.HTTPClientFor(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			resp, err := client.Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(id, got); diff != "" {
				t.Errorf("server saw (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	p := newPKI(t)
	if _, err := p.CA.Issue(Request{CommonName: "x", IPs: []string{"127.0.0.300"}}); err == nil {
		t.Error("an address that is none was accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteNode(filepath.Join(file, "pki")); err == nil {
		t.Error("writing below a file succeeded")
	}
}
