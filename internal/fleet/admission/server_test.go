package admission

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
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
