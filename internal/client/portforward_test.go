package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAForwardedConnectionEndsWithItsContext: an API server that accepts and says nothing holds nobody up.
func TestAForwardedConnectionEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	tooLate := errors.New("too late")
	silent := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			silent <- conn
		}
		cancel(tooLate)
	}()
	cfg := &rest.Config{Host: "http://" + l.Addr().String()}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PortForward(cfg, kube, "kube-system")(ctx, "manager", "10.0.0.1:10258"); !errors.Is(err, tooLate) {
		t.Errorf("the connection: %v", err)
	}
	_ = (<-silent).Close()
}

// closing is a connection that notes that it was closed.
type closing struct {
	net.Conn

	closed chan struct{}
}

func (c closing) Close() error {
	close(c.closed)
	return nil
}

// TestAConnectionThatComesTooLateIsClosed, and one that comes in time is not.
func TestAConnectionThatComesTooLateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come, conn := make(chan struct{}), closing{closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		open := func() (net.Conn, error) {
			<-come
			return conn, nil
		}
		cancel()
		if _, err := within(ctx, open); !errors.Is(err, context.Canceled) {
			t.Errorf("a connection that has not come: %v", err)
		}
		close(come)
		<-conn.closed
		in, err := within(t.Context(), open)
		if in != net.Conn(conn) || err != nil {
			t.Errorf("a connection that comes in time: %v, %v", in, err)
		}
	})
}
