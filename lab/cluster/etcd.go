package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/poll"
)

// startEtcd starts the one etcd that all API servers share, with TLS on both sides. It is no static pod: no migration
// touches it.
func startEtcd(b *block, p *pki.PKI, program, root string, addresses []string) (*process.Process, error) {
	dir := filepath.Join(root, "etcd")
	certs := filepath.Join(dir, "pki")
	if err := p.WriteEtcd(certs, append([]string{b.address(placeEtcd)}, addresses...)); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("creating etcd data directory: %w", err)
	}
	client, peer := "https://"+b.endpoint(placeEtcd, portEtcdClient), "https://"+b.endpoint(placeEtcd, portEtcdPeer)
	cert, key, ca := filepath.Join(certs, "server.crt"), filepath.Join(certs, "server.key"), filepath.Join(certs, "ca.crt")
	o := process.Options{Name: "etcd", Path: program, Dir: dir, Output: filepath.Join(dir, "etcd.log")}
	o.Args = []string{
		"--name=lab",
		"--data-dir=" + data,
		"--unsafe-no-fsync", // a lab that loses its disk is started again
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=lab=" + peer,
		"--client-cert-auth",
		"--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + ca,
		"--peer-client-cert-auth",
		"--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca,
		"--log-level=warn",
	}
	return process.Start(o)
}

// waitEtcd waits until etcd has a leader, itself.
func waitEtcd(ctx context.Context, b *block, p *pki.PKI, etcd *process.Process) error {
	pair, err := p.Etcd.Issue(pki.Request{CommonName: "lab", Client: true})
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("loading etcd client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Etcd.Cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	return poll.Until(ctx, 50*time.Millisecond, "etcd to be healthy", func(ctx context.Context) error {
		select {
		case <-etcd.Done():
			return poll.Final(fmt.Errorf("etcd ended (see etcd/etcd.log of the lab): %w", etcd.Err()))
		default:
		}
		return get(ctx, client, "https://"+b.endpoint(placeEtcd, portEtcdClient)+"/health")
	})
}

// get makes a GET request and takes every answer but 200 for an error.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("building request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("reading answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", url, resp.Status)
	}
	return nil
}
