package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/pki"
)

// AuthorityFile holds the authority of the simulated AWS's certificates on each control-plane host of a lab without a
// cloud config.
const AuthorityFile = "/etc/kubernetes/aws-ca.pem"

// awsNames are the endpoints that a provider without a cloud config calls.
var awsNames = []string{"ec2." + Region + ".amazonaws.com", "elasticloadbalancing." + Region + ".amazonaws.com"}

// internet is the way to AWS's own endpoints in a lab without a cloud config: a proxy that knows the names of the
// simulated account and no others, so that nothing reaches the real AWS. The account serves with certificates of an
// authority of the lab.
type internet struct {
	authority *pki.Authority
	proxy     *http.Server
	aws       *http.Server
	conns     *handedConns
	done      sync.WaitGroup
}

// startInternet starts the proxy in front of the account.
func startInternet(b *block, account http.Handler) (*internet, error) {
	authority, err := pki.NewAuthority("lab-aws", time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(pki.Request{CommonName: awsNames[0], DNS: awsNames, Server: true})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the simulated AWS: %w", err)
	}
	l, err := net.Listen("tcp", b.endpoint(placeProxy, portProxy))
	if err != nil {
		return nil, fmt.Errorf("starting the proxy to the simulated AWS: %w", err)
	}
	quiet := log.New(io.Discard, "", 0)
	i := &internet{
		authority: authority,
		conns:     &handedConns{address: l.Addr(), ready: make(chan net.Conn), closed: make(chan struct{})},
	}
	i.proxy = &http.Server{Handler: http.HandlerFunc(i.connect), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	i.aws = &http.Server{Handler: account, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	i.done.Go(func() { _ = i.proxy.Serve(l) })
	i.done.Go(func() {
		_ = i.aws.Serve(
			tls.NewListener(i.conns, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}),
		)
	})
	return i, nil
}

// connect hands the connection of a client over to the account, if that is whom it asks for.
func (i *internet) connect(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if r.Method != http.MethodConnect || err != nil || !known(host) {
		http.Error(w, "the lab has no way to "+r.Method+" "+r.Host, http.StatusForbidden)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "this connection cannot be handed over", http.StatusInternalServerError)
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return // the client has gone
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		return
	}
	select {
	case i.conns.ready <- conn:
	case <-i.conns.closed:
		_ = conn.Close()
	}
}

func known(host string) bool {
	for _, name := range awsNames {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	return false
}

func (i *internet) stop() {
	_ = i.proxy.Close()
	_ = i.aws.Close()
	_ = i.conns.Close()
	i.done.Wait()
}

// handedConns is a listener whose connections somebody else has accepted.
type handedConns struct {
	address net.Addr
	ready   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (h *handedConns) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.closed:
		return nil, errors.New("the lab has stopped")
	}
}

func (h *handedConns) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handedConns) Addr() net.Addr { return h.address }

// InternetEnv is the environment by which a manager without a cloud config reaches the simulated AWS: NAME=VALUE,
// without credentials.
func (c *Cluster) InternetEnv() []string { return c.site.internetEnv() }

func (s *site) internetEnv() []string {
	return []string{
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + s.cloud(),
		"HTTPS_PROXY=http://" + s.block.endpoint(placeProxy, portProxy),
		"NO_PROXY=127.0.0.0/8,10.0.0.0/8,localhost",
		"AWS_CA_BUNDLE=" + AuthorityFile,
	}
}

// unconfigured is a component of a lab without a cloud config: without the flag and the file, and with the way to AWS's
// own endpoints.
func (s *site) unconfigured(h *Host, c component) component {
	if !s.noCloudConfig {
		return c
	}
	delete(c.flags, "cloud-config")
	volumes := c.volumes
	c.volumes = nil
	for _, v := range volumes {
		if v.name != volumeCloud.name {
			c.volumes = append(c.volumes, v)
		}
	}
	if c.name != ControllerManager {
		return c
	}
	c.volumes = append(c.volumes, volume{name: "aws-ca", path: AuthorityFile, kind: corev1.HostPathFile})
	c.env = []corev1.EnvVar{
		{Name: "AWS_ACCESS_KEY_ID", Value: AccessKey(h.Name, ControllerManager)},
		{Name: "AWS_SECRET_ACCESS_KEY", Value: "lab-only"},
	}
	for _, e := range s.internetEnv() {
		name, value, _ := strings.Cut(e, "=")
		c.env = append(c.env, corev1.EnvVar{Name: name, Value: value})
	}
	return c
}
