package hosted

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// Times of a scrape.
const (
	scrapeTimeout = 5 * time.Second
	tokenSeconds  = 3600
	tokenUse      = 30 * time.Minute
)

// ErrNoObserver says that the account is not there yet by which managers are asked for their gauges. Run makes it
// before it looks.
var ErrNoObserver = errors.New(
	"the account that may read /metrics, ServiceAccount " + component.Namespace + "/" + layout.Observer + ", is not there yet: it is made when the migration begins",
)

// NewScraper returns a Scrape that connects to the pods' addresses. It uses a token of the observer's account in the
// user cluster, which may read /metrics and nothing else. The owner of the server's certificate is not known, so no
// other credential is ever sent. Before the account is made the error is ErrNoObserver.
func NewScraper(user Clients) Scrape { return NewScraperThrough(user, nil) }

// NewScraperThrough is NewScraper for who cannot reach the pods' addresses by itself: dial connects to a port of a pod.
// A nil dial connects directly.
func NewScraperThrough(user Clients, dial func(ctx context.Context, pod, address string) (net.Conn, error)) Scrape {
	t := &tokens{user: user}
	return func(ctx context.Context, component, pod, address string) (v1.Manager, error) {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		token, err := t.token(ctx)
		if err != nil {
			return v1.Manager{}, err
		}
		transport := &http.Transport{
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: answerlimit.MaxHeader,
		} //nolint:gosec // managers sign their own certificate; the token opens nothing else
		defer transport.CloseIdleConnections()
		if dial != nil {
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, pod, address) }
		}
		m, err := recorder.Scrape(ctx, &http.Client{Transport: transport}, address, token)
		if err != nil {
			t.forget() // the account may have been made again
			return m, err
		}
		m.Component, m.Host = component, pod
		return m, nil
	}
}

// tokens keeps one token until it is half spent.
type tokens struct {
	user Clients
	mu   sync.Mutex
	now  string
	end  time.Time
}

func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = ""
}

func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != "" && time.Now().Before(t.end) {
		return t.now, nil
	}
	accounts := t.user.Kube.CoreV1().ServiceAccounts(component.Namespace)
	answer, err := accounts.CreateToken(
		ctx,
		layout.Observer,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
		},
		metav1.CreateOptions{},
	)
	if apierrors.IsNotFound(err) {
		return "", ErrNoObserver
	} else if err != nil {
		return "", fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", component.Namespace, layout.Observer, err)
	}
	t.now, t.end = answer.Status.Token, time.Now().Add(tokenUse)
	return t.now, nil
}
