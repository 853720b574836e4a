// Package certs decides which certificate the operator's webhooks serve and which authority the API server is told to
// trust.
//
// The authority is the operator's own; nothing else has to be installed. It lives in a Secret next to the operator, and
// every replica reads it there. The first replica writes it, the others read it, and a write is bound to what was read.
// A replica serves only what is in the Secret. So all of them serve certificates of authorities that the API server
// trusts, also while an authority is replaced; see keyring.step.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/mask"
)

// Defaults of Options.
const (
	DefaultSecret            = "transplant-operator-webhooks"
	DefaultAuthorityLifetime = 2 * 365 * 24 * time.Hour
	DefaultLifetime          = 90 * 24 * time.Hour
	DefaultOverlap           = 5 * time.Minute
	DefaultInterval          = time.Minute
)

// Options say where the certificates are kept and for whom they are.
type Options struct {
	Client kubernetes.Interface
	// Namespace of the operator, and the Secret in it. Default for the Secret: DefaultSecret.
	Namespace, Secret string
	// Hosts are the names and addresses that the API server may call the webhooks by: those of the Service, as a rule (see
	// ServiceHosts).
	Hosts []string
	// Configurations are names of MutatingWebhookConfigurations and ValidatingWebhookConfigurations, whose every webhook
	// is told to trust the authority. One that does not exist is left alone: the webhooks are not installed then.
	Configurations []string
	// AuthorityLifetime and Lifetime are how long the authority and the serving certificate are valid; both are replaced
	// after two thirds of that. Overlap is for how long a new authority is trusted before it is used. It must be longer
	// than Interval, at which everything is read.
	AuthorityLifetime, Lifetime, Overlap, Interval time.Duration
	// Clock is the real one when nil.
	Clock clock.WithTicker
	Log   logr.Logger
}

// ServiceHosts are the names of a Service, as the API server calls it.
func ServiceHosts(namespace, service string) []string {
	return []string{service, service + "." + namespace, service + "." + namespace + ".svc"}
}

// Manager keeps the certificates of one replica.
type Manager struct {
	options Options
	held    atomic.Pointer[keyring] // nil until the first pass
	told    atomic.Bool             // the API server was told at least once
}

// New returns a manager that has looked at nothing yet.
func New(o Options) *Manager {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&o.AuthorityLifetime, DefaultAuthorityLifetime},
		{&o.Lifetime, DefaultLifetime},
		{&o.Overlap, DefaultOverlap},
		{&o.Interval, DefaultInterval},
	} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	if o.Secret == "" {
		o.Secret = DefaultSecret
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Manager{options: o}
}

// Run looks at once and then at every interval, until ctx ends. What does not work is logged and tried again; what is
// held goes on being served.
func (m *Manager) Run(ctx context.Context) {
	ticker := m.options.Clock.NewTicker(m.options.Interval)
	defer ticker.Stop()
	for {
		if err := m.Ensure(ctx); err != nil && ctx.Err() == nil {
			m.options.Log.Error(err, "Keeping the certificates of the webhooks")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Ensure looks once: the Secret holds a keyring that is good for now, this replica serves what it holds, and the API
// server trusts it.
//
// The webhook configurations are read before the Secret, and written only if they are still what was read. So an older
// bundle never overwrites one that another replica wrote after it had replaced the authority.
func (m *Manager) Ensure(ctx context.Context) error {
	var last error
	for range attempts {
		if last = m.pass(ctx); !isLostRace(last) {
			return last
		}
	}
	return fmt.Errorf("agreeing with other replicas on a certificate: %w", last)
}

// attempts at agreeing, each of which another replica has to have won.
const attempts = 5

// isLostRace reports whether another replica or client was faster.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

func (m *Manager) pass(ctx context.Context) error {
	configurations, err := m.configurations(ctx)
	if err != nil {
		return err
	}
	ring, err := m.agree(ctx)
	if err != nil {
		return err
	}
	m.held.Store(&ring)
	for _, c := range configurations {
		if err := c.writeBundle(ctx, ring.bundlePEM()); err != nil {
			return err
		}
	}
	m.told.Store(true)
	return nil
}

// GetCertificate is for a tls.Config.
func (m *Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	ring := m.held.Load()
	if ring == nil {
		return nil, errors.New("the certificate has not been read yet")
	}
	return &ring.leaf, nil
}

// Check is for a readiness probe: whether there is a certificate that an API server accepts.
func (m *Manager) Check(*http.Request) error {
	ring := m.held.Load()
	switch {
	case ring == nil:
		return errors.New("the certificate of the webhooks has not been read yet")
	case !m.told.Load():
		return errors.New("the API server has not been told yet which authority to trust")
	case !m.options.Clock.Now().Before(ring.leaf.Leaf.NotAfter):
		return errors.New("the certificate of the webhooks has expired")
	}
	return nil
}

// agree brings the Secret to what it has to be, or takes what another replica made of it.
func (m *Manager) agree(ctx context.Context) (keyring, error) {
	secrets := m.options.Client.CoreV1().Secrets(m.options.Namespace)
	secret, err := secrets.Get(ctx, m.options.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return keyring{}, fmt.Errorf("reading secret %q: %w", m.options.Secret, err)
	}
	var ring keyring
	switch held := m.held.Load(); {
	case missing && held != nil:
		ring = *held // it was deleted: what the API server trusts already is better than something new
	case missing:
	default:
		if ring, err = parseKeyring(secret.Data); err != nil {
			m.options.Log.Info("The secret of the webhooks is made again", "secret", m.options.Secret, "why", mask.Error(err))
		}
	}
	o := m.options
	ring, changed, err := ring.step(
		o.Clock.Now(),
		policy{
			authority: o.AuthorityLifetime,
			leaf:      o.Lifetime,
			overlap:   o.Overlap,
			hosts:     o.Hosts,
		},
	)
	if err != nil || !changed && !missing {
		return ring, err
	}
	data, err := ring.data()
	if err != nil {
		return keyring{}, err
	}
	if missing {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:   o.Secret,
				Labels: map[string]string{"app.kubernetes.io/managed-by": "transplant-operator"},
			},
			Type: corev1.SecretTypeTLS,
			Data: data,
		}, metav1.CreateOptions{})
	} else {
		secret = secret.DeepCopy()
		secret.Data = data
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // bound to the resourceVersion that was read
	}
	if err != nil {
		return keyring{}, fmt.Errorf("writing secret %q: %w", o.Secret, err)
	}
	o.Log.Info(
		"The certificates of the webhooks were renewed",
		"authorities",
		len(ring.bundle),
		"until",
		ring.leaf.Leaf.NotAfter,
	)
	return ring, nil
}
