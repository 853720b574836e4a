package userclusters

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
)

const (
	idle       = 30 * time.Second
	perCluster = 32 // connections, where the server does not speak HTTP/2
	pingAfter  = 30 * time.Second
	// maxBuffered bounds what of an answer has come and is not read. Nothing else counts it.
	maxBuffered = 256 << 10
	pingAnswer  = 15 * time.Second
)

// connection is a way to one API server with one set of credentials. The transport is its own: client-go's are kept for
// ever, by credentials.
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

func (p *Pool) connect(secret *corev1.Secret) (*connection, error) {
	c, err := kubeconfig.ReadSecret(secret)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, hideValues(err)
	}
	server, err := url.Parse(c.Host)
	if err != nil {
		return nil, hideValues(err)
	}
	d := &dialer{Dialer: net.Dialer{Timeout: p.o.Dial, KeepAlive: pingAfter}, writing: p.o.Write}
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.DialContext,
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    p.o.Dial,
		ResponseHeaderTimeout:  p.o.Answer,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: answerlimit.MaxHeader,
		MaxConnsPerHost:        perCluster,
		MaxIdleConnsPerHost:    perCluster,
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:           pingAfter,
			PingTimeout:               pingAnswer,
			MaxReceiveBufferPerStream: maxBuffered,
		},
		DisableCompression: true, // see answerlimit.Transport
	}
	rt, err := rest.HTTPWrappersForConfig(c, base)
	if err != nil {
		return nil, hideValues(err)
	}
	out := &connection{
		base:   base,
		dialer: d,
		rt:     rt,
		server: server,
		owner:  p,
	}
	out.ended, out.end = context.WithCancel(context.Background()) //nolint:forbidigo // it lives as long as the pool wants it to, not its first caller
	return out, nil
}

// hideValues keeps what a library says about credentials out of messages, since it may quote them.
func hideValues(error) error {
	return errors.New("its cluster, user and context do not make a configuration that can be used")
}

// send sends a request, and calls release when its answer was read or its failure is known. A watch ends with the
// connection: it would go on with old credentials for hours. Other requests have a time.
func (c *connection) send(req *http.Request, release func()) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	stop := func() {}
	if req.URL.Query().Has("watch") {
		unwatched := context.AfterFunc(c.ended, cancel) //nolint:contextcheck // see above
		stop = func() { unwatched() }
	} else {
		ctx, stop = context.WithTimeout(ctx, c.owner.o.Request)
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
	boundRetryAfter(resp.Header)
	resp.Body = &body{ReadCloser: resp.Body, end: end}
	return resp, nil
}

// maxRetryAfter is for how long a server may have a client sleep, in seconds. Client-go sleeps as long as it is told
// to, or until the caller's context ends.
const maxRetryAfter = 10

func boundRetryAfter(h http.Header) {
	if after, err := strconv.Atoi(h.Get("Retry-After")); err == nil && after > maxRetryAfter {
		h.Set("Retry-After", strconv.Itoa(maxRetryAfter))
	}
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
		c.closeConnections()
	}
}

// closeConnections closes everything. No request is under way, and none comes. The connections are closed first: the
// transport says good-bye on each, and would wait for a server that reads nothing.
func (c *connection) closeConnections() {
	c.dialer.closeAll()
	c.base.CloseIdleConnections()
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
