package hosted

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAStalledSeedDoesNotHoldABoardUp: what follows changes has a client without a limit.
func TestAStalledSeedDoesNotHoldABoardUp(t *testing.T) {
	asked := 0
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://seed.invalid", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked++
		if at, limited := r.Context().Deadline(); !limited || time.Until(at) > openTimeout {
			t.Errorf("%s waits until %s, limited: %v", r.URL.Path, at, limited)
		}
		return nil, errors.New("no answer")
	})})
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{Name: "x", Namespace: ns, Seed: Clients{Kube: kube}, User: Clients{Kube: kube}}
	if b := p.Board(t.Context(), Handover, time.Now); b == nil || asked == 0 {
		t.Errorf("asked %d times", asked)
	}
}
