package process

import (
	"net"
	"testing"
)

// TestOneAddressCannotTakeAllConnections: a pod that holds what it may leaves the kubelet's probes theirs.
func TestOneAddressCannotTakeAllConnections(t *testing.T) {
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 3
	l := limitPerSource(inner, most)
	accepted := make(chan net.Conn, 10*most)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{1}) // a client that is gone does not matter
			accepted <- conn
		}
	}()
	dial := func(from string) (conn net.Conn, served bool) {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Read(make([]byte, 1))
		return conn, err == nil
	}
	for range most {
		if _, served := dial("127.0.0.1"); !served {
			t.Fatal("a connection within the limit is closed")
		}
	}
	if _, served := dial("127.0.0.1"); served {
		t.Error("a connection beyond the limit is served")
	}
	if _, served := dial("127.0.0.2"); !served {
		t.Error("another address is kept out")
	}
	first := <-accepted
	for range 2 { // the second time changes nothing
		_ = first.Close()
	}
	if _, served := dial("127.0.0.1"); !served {
		t.Error("a connection that was closed still counts")
	}
	if _, served := dial("127.0.0.1"); served {
		t.Error("a connection that was closed twice counts twice")
	}
	_ = inner.Close()
	for conn := range accepted {
		_ = conn.Close()
	}
	if n := len(l.(*perSource).open); n != 0 {
		t.Errorf("%d addresses are remembered", n)
	}
}
