package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A replica that is replaced finishes what it has begun, and takes nothing new.
func TestARequestThatHasBegunIsAnsweredAfterTheEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()

	began, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		w.WriteHeader(http.StatusTeapot)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.TLS.Certificates[0], nil })
	}()
	client := certificate.Client()
	answered := make(chan int, 1)
	go func() {
		response, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	<-began
	cancel()
	for { // until nobody listens any longer
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(finish)
	if code := <-answered; code != http.StatusTeapot {
		t.Errorf("the request was answered with %d", code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAListenerThatFailsIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := Serve(t.Context(), l, http.NotFoundHandler(), nil); err == nil {
		t.Error("a closed listener served")
	}
}

// serveShortly serves as the webhooks do, but for the time that an answer may take, until the test ends.
func serveShortly(t *testing.T, handler http.Handler, answers time.Duration) (address string, client *tls.Config) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certificate := httptest.NewTLSServer(nil)
	t.Cleanup(certificate.Close)
	server := newServer(handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.TLS.Certificates[0], nil }, answers)
	server.ErrorLog = log.New(io.Discard, "", 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serve(t.Context(), l, server) // it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close() // what does not read would be waited for
		<-ended
	})
	return l.Addr().String(), certificate.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// unread is a connection over a protocol whose other end reads nothing but what the handshake takes.
func unread(t *testing.T, address string, config *tls.Config, protocol string) *tls.Conn {
	t.Helper()
	config.NextProtos, config.ServerName = []string{protocol}, "example.com"
	for range 10 { // the server gives a handshake as little time as an answer
		plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = plain.Close() })
		if err := plain.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(plain, config)
		if conn.HandshakeContext(t.Context()) == nil && conn.ConnectionState().NegotiatedProtocol == protocol {
			return conn
		}
	}
	t.Fatalf("%s is not spoken", protocol)
	return nil
}

// ask sends a request for / over HTTP/2, and takes as much of the answer as there may be.
func ask(t *testing.T, conn io.ReadWriter) *http2.Framer {
	t.Helper()
	f := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "example.com"}, {":path", "/"}} {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(err, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}), f.WriteWindowUpdate(0, 1<<30),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})); err != nil {
		t.Fatal(err)
	}
	return f
}

func within(t *testing.T, happens <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(time.Minute):
		t.Fatal(what)
	}
}

// TestAClientThatDoesNotReadIsCutOff: every client that reaches the port may take an answer and not read it.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel() // a connection over TLS that is not read takes 5 s more to end
			left := make(chan struct{})
			address, config := serveShortly(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(left)
				for chunk := make([]byte, 64<<10); ; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			}), time.Second)
			conn := unread(t, address, config, protocol)
			if protocol == "h2" {
				ask(t, conn)
			} else if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			within(t, left, "an answer that nobody reads is still being written")
		})
	}
	if s := newServer(nil, nil, answerTimeout); s.WriteTimeout != 10*time.Second || s.HTTP2.WriteByteTimeout != 10*time.Second {
		t.Errorf("an answer may take %s, and a write %s", s.WriteTimeout, s.HTTP2.WriteByteTimeout)
	}
}

// TestAClientThatDoesNotReadHoldsNoMemory of what all reviews share: the others would be refused meanwhile.
func TestAClientThatDoesNotReadHoldsNoMemory(t *testing.T) {
	webhooks, done := New(Options{}), make(chan struct{})
	inner := webhooks.Handler()
	address, config := serveShortly(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		inner.ServeHTTP(w, r)
	}), time.Hour)
	body := strings.Replace(reviewOf(`{}`), `"uid":"1"`, `"uid":"`+strings.Repeat("x", 6<<20)+`"`, 1)
	conn := unread(t, address, config, "http/1.1")
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", MutatePath, len(body), body); err != nil {
		t.Fatal(err)
	}
	within(t, done, "a review is answered to a client that does not read")
	if held := webhooks.memory.held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestOneConnectionHasFewRequestsUnderWay: the bounds of a request and of the connections would multiply else.
func TestOneConnectionHasFewRequestsUnderWay(t *testing.T) {
	began, finish := make(chan struct{}, 100), make(chan struct{})
	address, config := serveShortly(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-finish
	}), time.Minute)
	conn := unread(t, address, config.Clone(), "h2")
	frame, err := ask(t, conn).ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, is := frame.(*http2.SettingsFrame)
	if !is {
		t.Fatalf("the first frame is a %T", frame)
	}
	if most, set := settings.Value(http2.SettingMaxConcurrentStreams); !set || most != maxStreams {
		t.Errorf("a connection may have %d requests under way", most)
	}
	<-began

	// An API server asks on: it opens further connections.
	config.NextProtos = nil
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	const asked = 3 * maxStreams
	answered := make(chan error, asked)
	for range asked {
		go func() {
			response, err := client.Get("https://" + address)
			if err == nil {
				err = response.Body.Close()
			}
			answered <- err
		}()
	}
	for range asked {
		within(t, began, "a request waits for another one")
	}
	close(finish)
	for range asked {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

func TestALongHeaderIsRefused(t *testing.T) {
	address, config := serveShortly(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), time.Minute)
	for protocol, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: h2}}
		for size, want := range map[int]int{8 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X", strings.Repeat("x", size))
			response, err := client.Do(r)
			if err != nil && h2 && want != http.StatusOK { // the client knows the limit, or the server ends the connection
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want || response.Proto != protocol {
				t.Errorf("%s: a header of %d bytes is answered with %s %d", protocol, size, response.Proto, response.StatusCode)
			}
		}
		client.CloseIdleConnections()
	}
}
