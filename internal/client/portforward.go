package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// PortForward connects to the pods of a namespace through the API server. Who asks a pod by its address from elsewhere
// may find another pod of the same address, and take its answer for a proof.
func PortForward(cfg *rest.Config, kube kubernetes.Interface, namespace string) dialer {
	return func(ctx context.Context, pod, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address %s of pod %s: %w", address, pod, err)
		}
		transport, upgrader, err := spdy.RoundTripperFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("preparing a way to pod %s/%s: %w", namespace, pod, err)
		}
		at := kube.CoreV1().
			RESTClient().
			Post().
			Resource("pods").
			Namespace(namespace).
			Name(pod).
			SubResource("portforward").
			URL()
		conn, err := within(ctx, func() (net.Conn, error) {
			conn, _, err := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at).
				Dial(portforward.PortForwardProtocolV1Name)
			if err != nil {
				return nil, err
			}
			return forwarded(conn, port)
		})
		if err != nil {
			return nil, fmt.Errorf(
				"reaching pod %s/%s through the API server (pods/portforward; --seed-direct where the addresses of a seed's pods are reached from here): %w",
				namespace,
				pod,
				err,
			)
		}
		return conn, nil
	}
}

// within is open until ctx ends. The dialer of client-go takes no context, and an API server that accepts and says
// nothing would hold its caller for ever. A connection that comes later is closed.
func within(ctx context.Context, open func() (net.Conn, error)) (net.Conn, error) {
	type opened struct {
		conn net.Conn
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		conn, err := open()
		done <- opened{conn, err}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// forwarded opens the two streams of one forwarded connection.
func forwarded(conn httpstream.Connection, port string) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	problems, err := conn.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := problems.Close(); err != nil { // nothing is written to it
		return nil, errors.Join(err, conn.Close())
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &forwardedConn{ReadWriter: data, conn: conn, at: portAddress(port)}, nil
}

// forwardedConn is a forwarded connection; its deadlines are those of the one who closes it.
type forwardedConn struct {
	io.ReadWriter
	conn httpstream.Connection
	at   portAddress
}

func (c *forwardedConn) Close() error { return c.conn.Close() }

func (c *forwardedConn) LocalAddr() net.Addr { return c.at }

func (c *forwardedConn) RemoteAddr() net.Addr { return c.at }

func (c *forwardedConn) SetDeadline(time.Time) error { return nil }

func (c *forwardedConn) SetReadDeadline(time.Time) error { return nil }

func (c *forwardedConn) SetWriteDeadline(time.Time) error { return nil }

type portAddress string

func (portAddress) Network() string { return "portforward" }

func (a portAddress) String() string { return "pod:" + string(a) }

// dialer connects to a port of a pod.
type dialer = func(ctx context.Context, pod, address string) (net.Conn, error)
