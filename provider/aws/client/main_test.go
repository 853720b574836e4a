package client

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"

	"github.com/transplant-dev/transplant/provider/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire answers requests in the place of AWS and keeps them.
type wire struct {
	answer func(action string, n int) (status int, body string, err error)
	// connects is called before the body of a request is read, as a connection is made then; nil for nothing.
	connects func()

	mu       sync.Mutex
	requests []*http.Request
	actions  []string
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if w.connects != nil {
		w.connects()
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.requests, w.actions = append(w.requests, r), append(w.actions, form.Get("Action"))
	n := len(w.actions)
	w.mu.Unlock()
	status, text, err := w.answer(form.Get("Action"), n)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// sent are the actions of the requests so far.
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.actions...)
}

func ok(action string, _ int) (int, string, error) {
	return http.StatusOK, "<" + action + "Response><" + action + "Result/></" + action + "Response>", nil
}

// refusal is an error of EC2.
func refusal(status int, code string) (int, string, error) {
	return status, "<Response><Errors><Error><Code>" + code + "</Code><Message>no</Message></Error></Errors></Response>", nil
}

// start makes the clients of a cloud config, all of whose requests go to the wire.
func start(t *testing.T, w *wire, cfg *awsconfig.CloudConfig, gate *transport.Gate) *Services {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_CA_BUNDLE", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	if w.answer == nil {
		w.answer = ok
	}
	s, err := New(t.Context(), Options{
		Config: cfg, Gate: gate, HTTPClient: w,
		STSEndpoint: func(string) string { return "http://sts.test" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const secret = "wJalrXUtnFEMI-not-to-be-logged"
