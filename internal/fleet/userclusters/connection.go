package userclusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	idle          = 30 * time.Second
	perCluster    = 32 // connections, where the server does not speak HTTP/2
	pingAfter     = 30 * time.Second
	pingAnswer    = 15 * time.Second
	maxKubeconfig = 1 << 20 // bytes; a Secret holds no more
)

// connection is a way to one API server with one set of credentials. The transport is its own: client-go's are kept for ever, by credentials.
type connection struct {
	base   *http.Transport
	dialer *dialer
	rt     http.RoundTripper
	server *url.URL
	ended  context.Context
	end    context.CancelFunc

	inUse int  // guarded by the pool
	shut  bool // guarded by the pool's lock through close, read by release
	owner *Pool
}

func (p *Pool) connect(kubeconfig []byte) (*connection, error) {
	c, err := configOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, hideValues(err)
	}
	server, err := serverOf(c.Host)
	if err != nil {
		return nil, err
	}
	proxy := c.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	d := &dialer{Dialer: net.Dialer{Timeout: p.o.Dial, KeepAlive: pingAfter}}
	base := &http.Transport{
		Proxy: proxy, DialContext: d.DialContext, TLSClientConfig: tls, TLSHandshakeTimeout: p.o.Dial,
		ResponseHeaderTimeout: p.o.Answer, IdleConnTimeout: idle, MaxConnsPerHost: perCluster, MaxIdleConnsPerHost: perCluster, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAnswer},
	}
	rt, err := rest.HTTPWrappersForConfig(c, base)
	if err != nil {
		return nil, hideValues(err)
	}
	out := &connection{base: base, dialer: d, rt: rt, server: server, owner: p}
	out.ended, out.end = context.WithCancel(context.Background()) //nolint:forbidigo // it lives as long as the pool wants it to, not its first caller
	return out, nil
}

// configOf reads a kubeconfig that stands by itself. What would run a program here or read a file of this machine is refused: whoever can write the
// Secret would have the operator's rights otherwise.
func configOf(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 || len(kubeconfig) > maxKubeconfig {
		return nil, fmt.Errorf("its key %q is missing, empty or too large", SecretKey)
	}
	k, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig")
	}
	for _, a := range k.AuthInfos {
		if err := refuseUser(a); err != nil {
			return nil, err
		}
	}
	for _, c := range k.Clusters {
		if c.CertificateAuthority != "" {
			return nil, errors.New("it names a file (certificate-authority): give certificate-authority-data")
		}
	}
	if k.CurrentContext == "" && len(k.Contexts) == 1 {
		for name := range k.Contexts {
			k.CurrentContext = name
		}
	}
	c, err := clientcmd.NewDefaultClientConfig(*k, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, hideValues(err)
	}
	c.UserAgent = rest.DefaultKubernetesUserAgent()
	return c, nil
}

func refuseUser(a *clientcmdapi.AuthInfo) error {
	switch {
	case a.Exec != nil, a.AuthProvider != nil:
		return errors.New("its user is authenticated by a program, which is not run: give a client certificate or a token")
	case a.ClientCertificate != "", a.ClientKey != "", a.TokenFile != "":
		return errors.New("its user names a file: give client-certificate-data, client-key-data or token")
	}
	return nil
}

// hideValues keeps what a library says about credentials out of messages, since it may quote them.
func hideValues(error) error {
	return errors.New("its cluster, user and context do not make a configuration that can be used")
}

func serverOf(host string) (*url.URL, error) {
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return nil, errors.New("its server is not a URL")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && (ip == nil || !ip.IsLoopback()) {
		return nil, errors.New("its server is not reached by https, so that no credentials would be sent")
	}
	return u, nil
}

// send sends a request, and calls release when its answer was read or its failure is known.
func (c *connection) send(req *http.Request, release func()) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := func() bool { return true }
	if req.URL.Query().Has("watch") {
		stop = context.AfterFunc(c.ended, cancel) //nolint:contextcheck // it ends with the connection: a watch would go on with old credentials for hours
	}
	var once sync.Once
	end := func() {
		once.Do(func() {
			stop()
			cancel()
			release()
		})
	}
	out := req.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.Host = c.server.Scheme, c.server.Host, ""
	out.URL.Path = strings.TrimSuffix(c.server.Path, "/") + out.URL.Path
	resp, err := c.rt.RoundTrip(out)
	if err != nil {
		end()
		return nil, err
	}
	resp.Request = req
	resp.Body = &body{ReadCloser: resp.Body, end: end}
	return resp, nil
}

// close ends the watches at once, and everything when the last request has ended.
func (c *connection) close() {
	if c == nil {
		return
	}
	c.owner.mu.Lock()
	c.shut = true
	unused := c.inUse == 0
	c.owner.mu.Unlock()
	c.end()
	if unused {
		c.drop()
	}
}

// drop closes everything. No request is under way, and none comes.
func (c *connection) drop() {
	c.base.CloseIdleConnections()
	c.dialer.closeAll()
}

// body tells when an answer was read.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
