package pod

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// conn is a connection made of a session's output and input. It has no deadlines: the HTTP/2 connection on it asks
// whether the other end is still there. A write has a time, and closes the connection when that is over. HTTP/2 writes
// while it reads. So an agent that reads nothing more would hold its reader, and who closes it, beyond any context.
type conn struct {
	io.Reader
	io.Writer
	writing time.Duration
	closing func()
}

// writing is how long a write may take: a part of a frame.
const writing = 10 * time.Second

// far is the session's end of it.
type far struct {
	in  io.Reader
	out *io.PipeWriter
	// close ends both directions.
	close func()
}

func newConn(writing time.Duration) (net.Conn, far) {
	fromPod, toUs := io.Pipe()
	toPod, fromUs := io.Pipe()
	end := func() {
		_ = toUs.Close()
		_ = fromUs.Close()
		_ = toPod.Close()
		_ = fromPod.Close()
	}
	near := &conn{
		Reader:  fromPod,
		Writer:  fromUs,
		writing: writing,
		closing: end,
	}
	return near, far{in: endable{toPod}, out: toUs, close: end}
}

// endable ends like a file: that this side closed it is no error of the session's.
type endable struct{ io.Reader }

func (e endable) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	defer time.AfterFunc(c.writing, c.closing).Stop()
	return c.Writer.Write(p)
}

func (c *conn) Close() error {
	c.closing()
	return nil
}

type address struct{}

func (address) Network() string { return "exec" }

func (address) String() string { return "agent" }

func (*conn) LocalAddr() net.Addr { return address{} }

func (*conn) RemoteAddr() net.Addr { return address{} }

func (*conn) SetDeadline(time.Time) error { return nil }

func (*conn) SetReadDeadline(time.Time) error { return nil }

func (*conn) SetWriteDeadline(time.Time) error { return nil }

// executor runs the relay in a pod until its input ends, the session breaks, or ctx does.
type executor func(ctx context.Context, namespace, pod string, in io.Reader, out, errOut io.Writer) error

// execIn runs it through the API server, over a websocket. If a server or a proxy does not support that, it uses SPDY,
// as kubectl does.
func execIn(config *rest.Config) (executor, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // a session lasts
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	var old atomic.Bool // this server knows no websockets: the next session does not try
	return func(ctx context.Context, namespace, pod string, in io.Reader, out, errOut io.Writer) error {
		at := client.Post().
			Resource("pods").
			Namespace(namespace).
			Name(pod).
			SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: container, Command: relay, Stdin: true, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec).
			URL()
		session, err := newSession(config, at, &old)
		if err != nil {
			return err
		}
		return session.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errOut})
	}, nil
}

func newSession(config *rest.Config, at *url.URL, old *atomic.Bool) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	if err != nil || old.Load() {
		return spdy, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		fall := httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		if httpstream.IsUpgradeFailure(err) {
			old.Store(true)
		}
		return fall
	})
}
