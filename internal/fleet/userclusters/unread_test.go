package userclusters

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// unreadAPI begins an answer over HTTP/2 and reads nothing more. It sends pings, whose answers fill what the connection holds.
func unreadAPI(t *testing.T) (address string, ca []byte) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	serve := func(c net.Conn) {
		defer c.Close() //nolint:errcheck // the test's end
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		if f.WriteSettings() != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if asked, ok := frame.(*http2.HeadersFrame); ok {
				answerWithoutEnd(f, asked.StreamID)
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "https://" + l.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func answerWithoutEnd(f *http2.Framer, stream uint32) {
	var block headerBlock
	e := hpack.NewEncoder(&block)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = e.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	if f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true}) != nil {
		return
	}
	for f.WritePing(false, [8]byte{}) == nil { // until the client gives up
	}
}

type headerBlock []byte

func (b *headerBlock) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// TestAServerThatReadsNothingHoldsNobody: its reader waited in a write that no context ends, with the lock that closing needs.
func TestAServerThatReadsNothingHoldsNobody(t *testing.T) {
	t.Parallel()
	address, ca := unreadAPI(t)
	p, seed, _ := newPool(t, Options{Write: 200 * time.Millisecond})
	data := writeKubeconfig(t, &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: ca}, "token")
	seed.Put(t, secret("cluster-a", data))
	clients, err := p.Get(t.Context(), "cluster-a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pingAfter) // the pings of the transport would end it, and not in every case
	defer cancel()
	if _, err := nodes(ctx, clients); err == nil {
		t.Error("an answer without an end was read")
	}
	if ctx.Err() != nil {
		t.Error("the reader was held")
	}
	p.Forget("cluster-a")
}

// TestARequestEndsThatIsAnsweredForEver: a run asks without a time limit, and kept its place and its memory as long as a server sent a byte now and then.
func TestARequestEndsThatIsAnsweredForEver(t *testing.T) {
	t.Parallel()
	a := newUserAPI(t, "a", "token")
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // it is the server's
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	p, seed, _ := newPool(t, Options{Request: 300 * time.Millisecond})
	seed.Put(t, secret("cluster-a", a.kubeconfig(t, "token")))
	if _, err := nodes(t.Context(), get(t, p, "cluster-a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestNoServerSaysForHowLongItsClientSleeps(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]string{"": "", "3": "3", "2000000000": "10", "Wed, 21 Oct 2099 07:28:00 GMT": "Wed, 21 Oct 2099 07:28:00 GMT"} {
		a := newUserAPI(t, "a", "token")
		a.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusTooManyRequests)
		}
		var got string
		p, seed, _ := newPool(t, Options{Wrap: func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := rt.RoundTrip(r)
				if err == nil {
					got = resp.Header.Get("Retry-After")
					resp.Header.Del("Retry-After") // the client of this test sleeps for none of them
				}
				return resp, err
			})
		}})
		seed.Put(t, secret("cluster-a", a.kubeconfig(t, "token")))
		if _, err := nodes(t.Context(), get(t, p, "cluster-a")); !apierrors.IsTooManyRequests(err) || got != want {
			t.Errorf("Retry-After %q: %q, error %v", after, got, err)
		}
	}
}
