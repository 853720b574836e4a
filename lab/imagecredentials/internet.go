// Package imagecredentials is what the image credential providers of kubelets talk to: simulated token services of
// Amazon, Azure and Google and their metadata servers, a registry that takes no other credentials than theirs, and a
// kubelet's side of the exec protocol. The simulators refuse what they do not know, and remember it.
package imagecredentials

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/lab/pki"
)

// Internet is an HTTP proxy behind which hosts have the names that they have in the world, and certificates for them.
// A host that is not simulated cannot be reached.
type Internet struct {
	authority *pki.Authority
	plain     *http.Server
	secure    *http.Server
	listeners []net.Listener

	mu      sync.Mutex
	hosts   map[string]http.Handler
	faults  map[string]Fault
	certs   map[string]*tls.Certificate
	calls   []Call
	unknown []string
}

// Call is a request that a simulated host got.
type Call struct {
	Host, Method, Path string
}

// Fault is what a host does instead of answering.
type Fault struct {
	// Status and Body are answered.
	Status int
	Body   string
	// Closed hosts close each connection, Silent ones answer nothing until the client goes.
	Closed, Silent bool
}

// NewInternet serves on loopback until it is closed.
func NewInternet() (*Internet, error) {
	authority, err := pki.NewAuthority("simulated-internet", time.Now())
	if err != nil {
		return nil, err
	}
	n := &Internet{
		authority: authority, hosts: map[string]http.Handler{}, faults: map[string]Fault{},
		certs: map[string]*tls.Certificate{},
	}
	n.plain = &http.Server{Handler: http.HandlerFunc(n.proxy), ReadHeaderTimeout: time.Minute}
	n.secure = &http.Server{
		Handler: http.HandlerFunc(n.serve), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: n.certificate, NextProtos: []string{"http/1.1"}},
		// A client that does not trust the authority is a test's business, and no news.
		ErrorLog: nil,
	}
	for _, serve := range []func(net.Listener) error{
		n.plain.Serve, func(l net.Listener) error { return n.secure.ServeTLS(l, "", "") },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.listeners = append(n.listeners, l)
		go func() { _ = serve(l) }() // ends when the listener is closed
	}
	return n, nil
}

// Listen lets the hosts of the internet answer at another address, too: as the one that their names lead to.
func (n *Internet) Listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() { _ = n.secure.ServeTLS(l, "", "") }() // ends when the server is closed
	return nil
}

// Close ends it.
func (n *Internet) Close() error {
	return errors.Join(n.plain.Close(), n.secure.Close())
}

// CA is the certificate that a client has to trust, in PEM.
func (n *Internet) CA() []byte { return n.authority.Cert }

// URL is that of the proxy. Asked without being used as one, it is the host with the name "".
func (n *Internet) URL() string { return "http://" + n.listeners[0].Addr().String() }

// Handle lets a host of this name answer. A name that begins with a dot stands for all below it.
func (n *Internet) Handle(name string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = h
}

// Fail lets a host do something else than answer; a zero fault ends that.
func (n *Internet) Fail(host string, f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[host] = f
	if f == (Fault{}) {
		delete(n.faults, host)
	}
}

// Calls are the requests so far, those that were answered with a fault among them.
func (n *Internet) Calls() []Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Call(nil), n.calls...)
}

// Unknown are the hosts and requests that the simulators did not know.
func (n *Internet) Unknown() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.unknown...)
}

// refuse answers a request that a simulator does not know, and remembers it.
func (n *Internet) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	n.mu.Lock()
	n.unknown = append(n.unknown, fmt.Sprintf("%s %s%s: %s", r.Method, r.Host, r.URL.Path, why))
	n.mu.Unlock()
	http.Error(w, why, status)
}

// lookup returns the host of a name, and its fault.
func (n *Internet) lookup(name string) (http.Handler, Fault, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, failing := n.faults[name]
	h := n.hosts[name]
	for at := name; h == nil; {
		i := strings.Index(at, ".")
		if i < 0 {
			break
		}
		h, at = n.hosts[at[i:]], at[i+1:]
	}
	return h, f, failing
}

func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host
}

// serve answers a request to a simulated host.
func (n *Internet) serve(w http.ResponseWriter, r *http.Request) { n.answer(w, r, hostOf(r)) }

func (n *Internet) answer(w http.ResponseWriter, r *http.Request, host string) {
	h, f, failing := n.lookup(host)
	n.mu.Lock()
	n.calls = append(n.calls, Call{Host: host, Method: r.Method, Path: r.URL.Path})
	n.mu.Unlock()
	switch {
	case failing && f.Silent:
		// The server notices that a client has gone only after the whole request was read.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	case failing && f.Closed:
		panic(http.ErrAbortHandler)
	case failing:
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
	case h == nil:
		n.refuse(w, r, http.StatusBadGateway, "no such host is simulated")
	default:
		h.ServeHTTP(w, r)
	}
}

// proxy passes a connection on to the host that it is for, or answers for a host without TLS.
func (n *Internet) proxy(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		n.tunnel(w, r)
	case r.URL.IsAbs():
		n.serve(w, r)
	default:
		n.answer(w, r, "")
	}
}

func (n *Internet) tunnel(w http.ResponseWriter, r *http.Request) {
	host := hostOf(r)
	if h, _, _ := n.lookup(host); h == nil {
		n.refuse(w, r, http.StatusBadGateway, "no such host is simulated")
		return
	}
	var d net.Dialer
	there, err := d.DialContext(r.Context(), "tcp", n.listeners[1].Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go pipe(there, here, buffered.Reader)
	go pipe(here, there, bufio.NewReader(there))
}

// pipe copies until one side ends, and ends the other.
func pipe(to, from net.Conn, r io.Reader) {
	_, _ = io.Copy(to, r)
	_, _ = to.Close(), from.Close()
}

// certificate issues the one of a host when it is asked for first.
func (n *Internet) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.certs[hello.ServerName]; c != nil {
		return c, nil
	}
	name := hello.ServerName
	pair, err := n.authority.Issue(pki.Request{CommonName: name, DNS: []string{name}, Server: true})
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	n.certs[hello.ServerName] = &c
	return &c, nil
}

// Environment are the variables with which a program reaches this internet and no other.
func (n *Internet) Environment(caFile string) []string {
	return []string{
		"HTTP_PROXY=" + n.URL(), "HTTPS_PROXY=" + n.URL(), "NO_PROXY=127.0.0.1",
		"SSL_CERT_FILE=" + caFile, "SSL_CERT_DIR=/nonexistent",
	}
}
