package process

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// TestPlainPortsTakeLittle: any pod of the seed may open them, and the process has 512Mi for all clusters.
func TestPlainPortsTakeLittle(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serving(l, plain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	for size, want := range map[int]int{100: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X", strings.Repeat("x", size))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("a header of %d bytes: status %d, the connection is closed: %v", size, resp.StatusCode, resp.Close)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAClientOfAPlainPortThatDoesNotReadIsCutOff: those to /metrics would hold their places for ever else.
func TestAClientOfAPlainPortThatDoesNotReadIsCutOff(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	s := plain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(left)
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	if s.WriteTimeout != 10*time.Second {
		t.Errorf("an answer may take %s", s.WriteTimeout)
	}
	s.WriteTimeout = 100 * time.Millisecond
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- serving(l, s)(ctx) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test's end
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Fatal("an answer that nobody reads is still being written")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReadinessShowsNoSecret: any pod may ask for it, and errors hold what other programs say.
func TestReadinessShowsNoSecret(t *testing.T) {
	w := httptest.NewRecorder()
	failed := errors.New(`Get "https://user:hunter2hunter2@proxy.example:3128": refused`)
	serveCheck(func(*http.Request) error { return failed })(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if got := w.Body.String(); w.Code != http.StatusInternalServerError || strings.Contains(got, "hunter2") || !strings.Contains(got, "refused") {
		t.Errorf("%d %s", w.Code, got)
	}
}

// TestWhatTheSeedSaidOfADatacenterCountsAndNothingElse: a driver that the datacenter forbids would get cloud credentials.
func TestWhatTheSeedSaidOfADatacenterCountsAndNothingElse(t *testing.T) {
	seed, clock := apitest.New(t), clocktesting.NewFakeClock(time.Unix(1e9, 0))
	_, dyn := seed.Clients(t)
	p := &process{flags: defaults(), datacenters: &admission.Datacenters{Client: dyn, Clock: clock}}
	ask := p.rules().Datacenter
	seed.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return true
	}
	if got, err := ask(t.Context(), "d"); got != nil || err == nil {
		t.Errorf("before the seed has answered: %+v, %v", got, err)
	}
	away := seed.Intercept
	seed.Intercept = nil
	seed.Put(t, seedWith("d"))
	clock.Step(time.Hour)
	for range 2 {
		if got, err := ask(t.Context(), "d"); err != nil || got == nil || !got.DisableCSIDriver {
			t.Errorf("by the seed's last answer: %+v, %v", got, err)
		}
		seed.Intercept = away
		clock.Step(time.Hour)
	}
}

func seedWith(datacenter string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubermatic.k8c.io/v1", "kind": "Seed", "metadata": map[string]any{"name": "s", "namespace": "kubermatic"},
		"spec": map[string]any{"datacenters": map[string]any{datacenter: map[string]any{"spec": map[string]any{"disableCsiDriver": true}}}},
	}}
}

// TestReviewsDoNotSpendTheLooksOfTheOperator: every client that reaches the port may send some, and one that goes away fails a look.
func TestReviewsDoNotSpendTheLooksOfTheOperator(t *testing.T) {
	seed := apitest.New(t)
	_, dyn := seed.Clients(t)
	p := &process{flags: defaults(), dynamic: dyn, datacenters: &admission.Datacenters{Client: dyn}}
	seed.Put(t, seedWith("d"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, http.MethodPost, admission.MutatePath, strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",`+
			`"resource":{"group":"kubermatic.k8c.io","version":"v1","resource":"clusters"},"object":{"spec":{"cloud":{"dc":"d"}}}}}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.reviews().ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "was not looked at") {
		t.Errorf("the look of the webhook has not failed: %s", w.Body)
	}
	if got, err := p.rules().Datacenter(t.Context(), "d"); err != nil || got == nil {
		t.Errorf("the operator's look: %+v, %v", got, err)
	}
}

// TestThePagesCertificateIsServedOnceOthersHaveRenewedIt: it is valid for weeks, and the operator runs for months.
func TestThePagesCertificateIsServedOnceOthersHaveRenewedIt(t *testing.T) {
	dir := t.TempDir()
	p := &process{flags: defaults()}
	p.webCertificate, p.webKey = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := p.pageEncryption(t.Context(), nil); err == nil || !strings.Contains(err.Error(), p.webCertificate) {
		t.Errorf("a certificate that is not there: %v", err)
	}
	renew := func() []byte {
		certificate, key, err := cert.GenerateSelfSignedCertKey("page", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{p.webKey: key, p.webCertificate: certificate} {
			if err := wholefile.Write(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		block, _ := pem.Decode(certificate)
		return block.Bytes
	}
	first := renew()
	encryption, err := p.pageEncryption(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	serves := func(want []byte) bool {
		got, err := encryption.GetCertificate(nil)
		return err == nil && bytes.Equal(got.Certificate[0], want)
	}
	if !serves(first) {
		t.Error("another certificate is served")
	}
	second := renew()
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) { return serves(second), nil })
	if err != nil {
		t.Errorf("the renewed certificate is not served: %v", err)
	}
}
