package userclusters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
)

// entry is what the pool knows of one user cluster. Its fields but the first four are guarded by the pool.
type entry struct {
	pool      *Pool
	namespace string
	clients   Clients
	metadata  metadata.Interface

	conn *connection // nil while nothing is open
	// version of the Secret that conn was made of, when it was last read, and whether a refusal has made that doubtful.
	version string
	checked time.Time
	doubted bool
	reading chan struct{} // closed when the read under way ends; nil when none is
	used    int64
	gone    bool

	failures int
	until    time.Time
	lastErr  error
}

func (p *Pool) entry(namespace string) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if e := p.entries[namespace]; e != nil {
		return e, nil
	}
	e := &entry{pool: p, namespace: namespace}
	if err := e.build(p.o); err != nil {
		return nil, err
	}
	p.entries[namespace] = e
	return e, nil
}

// checkUsable says why an entry takes no more requests; nil when it does. The pool is locked.
func (e *entry) checkUsable() error {
	switch {
	case e.pool.closed:
		return ErrClosed
	case e.gone:
		return fmt.Errorf("user cluster of namespace %s: %w", e.namespace, ErrForgotten)
	}
	return nil
}

// build makes clients whose requests go to the entry. The host in their URLs stands for the cluster and is replaced
// there.
func (e *entry) build(o Options) error {
	c := &rest.Config{
		Host:  "https://" + e.namespace + ".user-cluster",
		QPS:   o.QPS,
		Burst: o.Burst,
		// A server may send any number of warnings with each answer, and words that look like lines of this log.
		WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ // answerlimit has JSON sent, and takes such a client for one with types
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
			ContentType:        "application/json",
		},
	}
	rt := answerlimit.Transport(e, o.Total, e.namespace)
	if o.Wrap != nil {
		rt = o.Wrap(rt)
	}
	client := &http.Client{Transport: rt}
	var err error
	if e.clients.Kube, err = kubernetes.NewForConfigAndClient(c, client); err != nil {
		return fmt.Errorf("making clients of user cluster %s: %w", e.namespace, err)
	}
	c.ContentConfig = rest.ContentConfig{}
	if e.clients.Dynamic, err = dynamic.NewForConfigAndClient(c, client); err != nil {
		return fmt.Errorf("making clients of user cluster %s: %w", e.namespace, err)
	}
	if e.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c), client); err != nil {
		return fmt.Errorf("making clients of user cluster %s: %w", e.namespace, err)
	}
	return nil
}

// backoff refuses a cluster that failed lately.
func (p *Pool) backoff(e *entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.Clock.Now().Before(e.until) {
		return &BackoffError{
			Namespace: e.namespace,
			Until:     e.until,
			Failures:  e.failures,
			Err:       e.lastErr,
		}
	}
	return nil
}

// recordResult counts what a request came to. Requests that fail while the cluster is left alone already say nothing
// new.
func (p *Pool) recordResult(e *entry, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		e.failures, e.until, e.lastErr = 0, time.Time{}, nil
		return
	}
	now := p.o.Clock.Now()
	if now.Before(e.until) {
		return
	}
	e.failures++
	e.lastErr = err
	wait := p.o.BackoffMax
	if doublings := e.failures - 1; doublings < 30 {
		wait = min(wait, p.o.BackoffMin<<doublings)
	}
	// clusters behind one broken link do not all come back in one instant
	e.until = now.Add(wait - time.Duration(rand.Int64N(int64(wait)/5+1)))
}

// recheck reads the Secret when that is due.
func (p *Pool) recheck(ctx context.Context, e *entry) error {
	p.mu.Lock()
	fresh := e.conn != nil && !e.doubted && p.o.Clock.Since(e.checked) < p.o.Recheck
	p.mu.Unlock()
	if fresh {
		return nil
	}
	return p.read(ctx, e)
}

// read reads the Secret and replaces the connections when it has changed. Of several callers one reads, and the others
// take what it found.
func (p *Pool) read(ctx context.Context, e *entry) error {
	for {
		p.mu.Lock()
		if err := e.checkUsable(); err != nil {
			p.mu.Unlock()
			return err
		}
		if e.reading == nil {
			e.reading = make(chan struct{})
			p.mu.Unlock()
			return p.readAlone(ctx, e)
		}
		wait := e.reading
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		}
		p.mu.Lock()
		done := e.conn != nil && !e.doubted
		p.mu.Unlock()
		if done {
			return nil
		}
	}
}

func (p *Pool) readAlone(ctx context.Context, e *entry) error {
	conn, version, err := p.load(ctx, e)
	p.mu.Lock()
	close(e.reading)
	e.reading = nil
	var closing []*connection
	if err == nil {
		err = e.checkUsable()
	}
	switch {
	case err != nil:
		closing = append(closing, conn)
	default:
		e.checked, e.doubted = p.o.Clock.Now(), false
		if conn != nil {
			closing = append(closing, e.conn)
			e.conn, e.version = conn, version
			e.failures, e.until, e.lastErr = 0, time.Time{}, nil // what failed was asked elsewhere, or as another user
			p.opened++
		}
		closing = append(closing, p.surplus(e)...)
	}
	p.mu.Unlock()
	for _, c := range closing {
		c.close()
	}
	return err
}

// load returns new connections, or none when those that there are were made of the same Secret.
func (p *Pool) load(ctx context.Context, e *entry) (*connection, string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Answer)
	defer cancel()
	secret, err := p.o.Seed.CoreV1().Secrets(e.namespace).Get(ctx, kubeconfig.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", fmt.Errorf(
			"the user cluster cannot be reached: there is no Secret %s/%s: %w",
			e.namespace,
			kubeconfig.SecretName,
			err,
		)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading Secret %s/%s: %w", e.namespace, kubeconfig.SecretName, err)
	}
	version := string(secret.UID) + "/" + secret.ResourceVersion
	p.mu.Lock()
	same := e.conn != nil && e.version == version
	p.mu.Unlock()
	if same {
		return nil, version, nil
	}
	conn, err := p.connect(secret)
	if err != nil {
		return nil, "", err
	}
	return conn, version, nil
}

// surplus takes away the connections that were used least recently and are not in use, as many as there are too many.
// The caller closes them.
func (p *Pool) surplus(keep *entry) []*connection {
	var out []*connection
	for {
		open, oldest := 0, (*entry)(nil)
		for _, e := range p.entries {
			if e.conn == nil {
				continue
			}
			open++
			if e != keep && e.conn.inUse == 0 && (oldest == nil || e.used < oldest.used) {
				oldest = e
			}
		}
		if open <= p.o.Open || oldest == nil {
			return out
		}
		out = append(out, oldest.conn)
		oldest.conn = nil
	}
}

// acquire returns connections to send a request through, opening them where none are. The caller releases them.
func (p *Pool) acquire(ctx context.Context, e *entry) (*connection, error) {
	for {
		p.mu.Lock()
		if err := e.checkUsable(); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		if e.conn != nil {
			p.turns++
			e.used = p.turns
			e.conn.inUse++
			c := e.conn
			p.mu.Unlock()
			return c, nil
		}
		p.mu.Unlock()
		if err := p.read(ctx, e); err != nil {
			return nil, err
		}
	}
}

func (p *Pool) release(c *connection) {
	p.mu.Lock()
	c.inUse--
	last := c.inUse == 0 && c.shut
	p.mu.Unlock()
	if last {
		c.closeConnections()
	}
}

// RoundTrip sends a request through the connections of now. A refusal (401) makes the Secret be read again, and the
// request is sent once more when that has changed.
func (e *entry) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, version, err := e.send(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	if !e.hasNewSecret(req.Context(), version) {
		return resp, nil
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil // the refusal is the answer then
		}
	}
	_ = resp.Body.Close()
	resp, _, err = e.send(again)
	return resp, err
}

// hasNewSecret reads the Secret once more and reports whether it differs from the version that was refused.
func (e *entry) hasNewSecret(ctx context.Context, refused string) bool {
	p := e.pool
	p.mu.Lock()
	e.doubted = e.version == refused
	doubted := e.doubted
	p.mu.Unlock()
	if doubted && p.read(ctx, e) != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.version != refused
}

// send sends a request once; the version is the Secret's by which it was sent.
func (e *entry) send(req *http.Request) (*http.Response, string, error) {
	c, err := e.pool.acquire(req.Context(), e)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, "", err
	}
	e.pool.mu.Lock()
	version := e.version
	e.pool.mu.Unlock()
	resp, err := c.send(req, func() { e.pool.release(c) })
	if err == nil || !errors.Is(err, context.Canceled) { // a caller that gives up says nothing about the cluster
		e.pool.recordResult(e, failure(resp, err))
	}
	return resp, version, err
}

// failure is what an outcome says of the cluster: nil when it answered.
func failure(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("its API server answered %s", resp.Status)
	}
	return nil
}
