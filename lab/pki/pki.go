package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// PKI holds the authorities of one cluster, shared by all of its control-plane hosts.
type PKI struct {
	CA         *Authority // of the API server and of its clients
	FrontProxy *Authority // of clients that speak for others
	Etcd       *Authority // of etcd and of its clients

	cluster              string
	saPrivate, saPublic  []byte
	etcdClient, fpClient Pair
	kubeletClient        Pair
}

// New creates the authorities of a cluster.
func New(cluster string, now time.Time) (*PKI, error) {
	p := &PKI{cluster: cluster}
	for _, a := range []struct {
		name string
		into **Authority
	}{{"kubernetes", &p.CA}, {"front-proxy-ca", &p.FrontProxy}, {"etcd-ca", &p.Etcd}} {
		authority, err := NewAuthority(a.name, now)
		if err != nil {
			return nil, err
		}
		*a.into = authority
	}
	for _, c := range []struct {
		by   *Authority
		r    Request
		into *Pair
	}{
		{p.Etcd, Request{CommonName: "kube-apiserver-etcd-client", Organizations: []string{"system:masters"}, Client: true}, &p.etcdClient},
		{p.FrontProxy, Request{CommonName: "front-proxy-client", Client: true}, &p.fpClient},
		{p.CA, Request{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}, Client: true}, &p.kubeletClient},
	} {
		pair, err := c.by.Issue(c.r)
		if err != nil {
			return nil, err
		}
		*c.into = pair
	}
	var err error
	p.saPrivate, p.saPublic, err = newServiceAccountKeys()
	return p, err
}

func newServiceAccountKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating service account key: %w", err)
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding service account key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// APIServer says under which names and addresses one host's API server serves.
type APIServer struct {
	NodeName  string
	Addresses []string // its own, the load balancer's, those of the proxies before it, and the Service's
}

// WriteControlPlane writes kubeadm's pki directory of one control-plane host: the shared authorities and keys and the
// host's own serving certificate. Private keys have mode 0600.
func (p *PKI) WriteControlPlane(dir string, server APIServer) error {
	serving, err := p.CA.Issue(Request{
		CommonName: "kube-apiserver",
		DNS: []string{
			"kubernetes",
			"kubernetes.default",
			"kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
			server.NodeName,
		},
		IPs:    server.Addresses,
		Server: true,
	})
	if err != nil {
		return err
	}
	if err := writePairs(dir, map[string]Pair{
		"ca":                       p.CA.Pair,
		"apiserver":                serving,
		"apiserver-kubelet-client": p.kubeletClient,
		"apiserver-etcd-client":    p.etcdClient,
		"front-proxy-ca":           p.FrontProxy.Pair,
		"front-proxy-client":       p.fpClient,
		"etcd/ca":                  p.Etcd.Pair,
	}); err != nil {
		return err
	}
	if err := WriteSecret(filepath.Join(dir, "sa.key"), p.saPrivate); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "sa.pub"), p.saPublic, 0o644)
}

// WriteEtcd writes the certificates of an etcd member that serves under the given addresses.
func (p *PKI) WriteEtcd(dir string, addresses []string) error {
	server, err := p.Etcd.Issue(Request{
		CommonName: "etcd", DNS: []string{"localhost"}, IPs: addresses, Server: true, Client: true,
	})
	if err != nil {
		return err
	}
	return writePairs(dir, map[string]Pair{"server": server, "ca": {Cert: p.Etcd.Cert}})
}

// WriteNode writes what a worker may have: the certificate of the cluster's authority, without its key.
func (p *PKI) WriteNode(dir string) error {
	return writePairs(dir, map[string]Pair{"ca": {Cert: p.CA.Cert}})
}

func writePairs(dir string, pairs map[string]Pair) error {
	for name, pair := range pairs {
		base := filepath.Join(dir, filepath.FromSlash(name))
		if err := writeFile(base+".crt", pair.Cert, 0o644); err != nil {
			return err
		}
		if pair.Key == nil {
			continue
		}
		if err := WriteSecret(base+".key", pair.Key); err != nil {
			return err
		}
	}
	return nil
}

// WriteSecret writes a file that only its owner may read, creating its directory.
func WriteSecret(file string, data []byte) error { return writeFile(file, data, 0o600) }

// writeFile replaces a file, so that the mode is right also when it existed.
func writeFile(file string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating directory of %q: %w", file, err)
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing %q: %w", file, err)
	}
	if err := os.WriteFile(file, data, mode); err != nil {
		return fmt.Errorf("writing %q: %w", file, err)
	}
	return nil
}
