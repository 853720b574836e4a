package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/mask"
)

const (
	stateNowhere = "none"
	noLease      = "none" // the lease of a fence without one
	stateKey     = "state.json.gz"
	// stateDelay gathers what becomes in line, so that many load balancers that are made together cost few writes.
	stateDelay = 3 * time.Second
	// stateRetry is for how long the ConfigMap is left alone after a write has failed.
	stateRetry = 10 * time.Second
	// stateTimeout bounds for how long a load balancer waits for its entry to be withdrawn.
	stateTimeout = 5 * time.Second

	stateDescription = "Which load balancers the cloud-controller-manager has in line. Without it, the next leader ensures them all."
)

// state keeps, in a ConfigMap, which load balancers are in line. An entry is withdrawn before the call that makes it
// untrue, so it holds whenever and however this process ends. A late note only costs the next leader a call. Without
// the permission for the ConfigMap, the next leader ensures everything, as upstream does.
//
// It is a ConfigMap and not an annotation. An annotation on each Service would be a write for each change of nodes. It
// would show in users' diffs, and be copied with a Service.
type state struct {
	client      typedcorev1.ConfigMapInterface // nil for nowhere
	namespace   string
	name        string
	clock       clock.WithTicker
	environment string
	wake        chan struct{}

	mu        sync.Mutex
	entries   map[string]entry
	persisted map[string]bool // what a next leader would believe
	changes   uint64
	off       bool
	retryAt   time.Time

	writing   sync.Mutex // held while writing; guards what is below
	committed uint64
	object    *corev1.ConfigMap // as it was last read or written; nil when there is none
	lease     string
	adoptedAt time.Time
	epoch     int64
}

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

func newState(config Config) *state {
	build := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		build = info.String()
	}
	provider := config.Cloud.ProviderName()
	s := &state{
		clock: config.Clock,
		environment: digest([]string{
			fingerprintVersion,
			build,
			withoutSecrets(config.Environment),
			provider,
			config.ClusterName,
		}),
		wake:      make(chan struct{}, 1),
		entries:   map[string]entry{},
		persisted: map[string]bool{},
	}
	namespace, name, given := strings.Cut(config.Options.StateConfigMap, "/")
	switch {
	case config.Options.StateConfigMap == stateNowhere:
		s.off = true
		return s
	case !given:
		namespace, name = metav1.NamespaceSystem, "transplant-service-state-"+strings.Trim(
			notInNames.ReplaceAllString(strings.ToLower(provider), "-"),
			"-.",
		)
	}
	s.client, s.namespace, s.name = config.Client.CoreV1().ConfigMaps(namespace), namespace, name
	return s
}

// setting is the beginning of a line of a cloud config that gives a value to a name.
var setting = regexp.MustCompile(`^[\s#;{,"']*([A-Za-z][\w.-]*)["']?\s*[:=]\s*(.*)`)

// withoutSecrets is a cloud config as fingerprints may cover it. They are in a ConfigMap, which more accounts may read
// than the config. With a fast hash of all but a password, such an account would find a weak password by trying. So a
// password that is changed is no reason to ensure load balancers either.
func withoutSecrets(config string) string {
	masked := mask.YAML(config)
	if document := map[string]any{}; masked != mask.Masked && yaml.Unmarshal([]byte(config), &document) == nil {
		return masked
	}
	lines := strings.Split(config, "\n")
	name, goesOn := "", false
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if !goesOn {
			name = secretIn(line)
		}
		goesOn = strings.HasSuffix(line, `\`)
		if name != "" { // all of the value, which may have spaces and be in no quotes
			lines[i] = name + "=" + mask.Masked
		}
	}
	return mask.Lines(strings.Join(lines, "\n"))
}

// secretIn is the name of the secret that a line gives a value to, empty for none. A mere switch is none.
func secretIn(line string) string {
	found := setting.FindStringSubmatch(line)
	if found == nil || mask.Named(found[1], "any-value") != mask.Masked {
		return ""
	}
	if _, err := strconv.ParseBool(found[2]); err == nil {
		return ""
	}
	return found[1]
}

// print is the fingerprint of everything that determines a load balancer but its members, and of what its Service says
// of it.
func (s *state) print(spec string, status *corev1.LoadBalancerStatus) string {
	return digest([]any{s.environment, spec, normal(status).Ingress})
}

// load reads what the last leader noted. It is believed only if none but managers of this kind have led since the lease
// was adopted. Another manager changes load balancers and notes nothing.
func (s *state) load(ctx context.Context, fence *election.Fence) map[string]entry {
	s.writing.Lock()
	defer s.writing.Unlock()
	tenure := fence.Tenure()
	s.lease, s.adoptedAt, s.epoch = fence.Lease(), tenure.AdoptedAt, tenure.Epoch
	if s.client == nil {
		return nil
	}
	if fence.Lease() == noLease {
		s.turnOff() // it is unknown who acts between two processes, so no process would believe it
		return nil
	}
	stateKept.Set(1)
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	d, err := s.read(ctx)
	switch {
	case apierrors.IsForbidden(err):
		s.turnOff()
		s.giveUp(ctx, err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Reading which load balancers are in line; all are ensured")
	case d != nil && s.believes(d):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entries = d.entries()
		for key := range s.entries {
			s.persisted[key] = true
		}
		return maps.Clone(s.entries)
	}
	return nil
}

// believes reports whether a document was written under the same adoption of the same lease. With leader migration
// there are two leases, and another manager may have held either meanwhile. The time may have lost its fraction of a
// second on the way.
func (s *state) believes(d *document) bool {
	return !s.adoptedAt.IsZero() && s.isSameAdoption(d) && d.Epoch <= s.epoch
}

func (s *state) isSameAdoption(d *document) bool {
	apart := d.AdoptedAt.Sub(s.adoptedAt)
	return d.Lease == s.lease && apart > -time.Second && apart < time.Second
}

// read returns nil when there is no document, or none that this version understands.
func (s *state) read(ctx context.Context) (*document, error) {
	cm, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.object = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting ConfigMap %q: %w", s.name, err)
	}
	s.object = cm
	return decodeDocument(cm.BinaryData[stateKey]), nil
}

// putEntry keeps that a load balancer is in line.
func (s *state) putEntry(key string, e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.entries[key]; s.off || ok && old.Print == e.Print && old.members == e.members {
		return
	}
	s.entries[key] = e
	s.markChanged()
}

// dropEntry forgets a load balancer that no Service needs any more.
func (s *state) dropEntry(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.entries[key]; ok && !s.off {
		delete(s.entries, key)
		s.markChanged()
	}
}

func (s *state) markChanged() {
	s.changes++
	select {
	case s.wake <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// withdraw makes sure that no next leader takes these load balancers for being in line. Those who call it at the same
// time share writes. When it cannot be written, the call goes on: a load balancer that stays as it is helps no user.
func (s *state) withdraw(ctx context.Context, keys ...string) {
	s.mu.Lock()
	needed := false
	for _, key := range keys {
		if _, ok := s.entries[key]; ok {
			delete(s.entries, key)
			s.changes++
		}
		needed = needed || s.persisted[key]
	}
	upTo, ready := s.changes, !s.off && !s.clock.Now().Before(s.retryAt)
	s.mu.Unlock()
	if needed && ready {
		s.commitChanges(ctx, upTo)
	}
}

// run writes what has become in line, some time after it has, until ctx ends.
func (s *state) run(ctx, calls context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for delay := stateDelay; delay > 0; {
			timer := s.clock.NewTimer(delay)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
			delay = s.flush(calls)
		}
	}
}

// flush writes what has changed. It returns after what time to try again, if it failed.
func (s *state) flush(ctx context.Context) time.Duration {
	s.mu.Lock()
	upTo, wait := s.changes, s.retryAt.Sub(s.clock.Now())
	s.mu.Unlock()
	if wait > 0 {
		return wait
	}
	if !s.commitChanges(ctx, upTo) {
		return stateRetry
	}
	return 0
}

// commitChanges writes the document, unless another worker has since its content changed. It is false when that failed
// and may be tried again.
func (s *state) commitChanges(ctx context.Context, upTo uint64) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	if s.off || s.committed >= upTo {
		s.mu.Unlock()
		return true
	}
	upTo = s.changes
	entries := maps.Clone(s.entries)
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	written, err := s.write(ctx, entries)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		stateWrites.WithLabelValues("ok").Inc()
		s.committed, s.persisted = upTo, written
		return true
	case isFinal(ctx, err), errors.Is(err, errSuperseded):
		s.off = true
		return true
	case apierrors.IsForbidden(err):
		stateWrites.WithLabelValues("error").Inc()
		s.off = true
		s.giveUp(ctx, err)
		return true
	}
	stateWrites.WithLabelValues("error").Inc()
	s.retryAt = s.clock.Now().Add(stateRetry)
	klog.FromContext(ctx).Error(err, "Noting for the next leader which load balancers are in line")
	return false
}

func (s *state) turnOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
}

// giveUp says once what is missing.
func (s *state) giveUp(ctx context.Context, err error) {
	stateKept.Set(0)
	klog.FromContext(ctx).
		Info("The next leader cannot be told which load balancers are in line, and will ensure them all. "+
			"It needs get and update on this ConfigMap, and create if it does not exist", "configMap", s.namespace+"/"+s.name, "err", err.Error())
}

// errSuperseded is that a later leader has written.
var errSuperseded = errors.New("a later leader has written")

// write stores entries and returns the keys of those that it had room for. It never replaces what it has not read or
// written itself.
func (s *state) write(ctx context.Context, entries map[string]entry) (map[string]bool, error) {
	data, keys, err := encodeDocument(document{Lease: s.lease, AdoptedAt: s.adoptedAt, Epoch: s.epoch}, entries)
	if err != nil {
		return nil, err
	}
	for range 3 {
		var written *corev1.ConfigMap
		if s.object == nil {
			written, err = s.client.Create(ctx, s.newObject(data), metav1.CreateOptions{})
		} else {
			written, err = s.client.Update(ctx, withData(s.object, data), metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			s.object = written
			return keys, nil
		case apierrors.IsNotFound(err) && s.object != nil:
			s.object = nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			d, readErr := s.read(ctx)
			if readErr != nil {
				return nil, readErr
			}
			if d != nil && (s.isSameAdoption(d) && d.Epoch > s.epoch || !s.isSameAdoption(d) && d.AdoptedAt.After(s.adoptedAt)) {
				return nil, errSuperseded
			}
		default:
			return nil, fmt.Errorf("writing ConfigMap %q: %w", s.name, err)
		}
	}
	return nil, fmt.Errorf("writing ConfigMap %q: %w", s.name, err)
}

// newObject is the ConfigMap where there is none.
func (s *state) newObject(data []byte) *corev1.ConfigMap {
	return withData(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace,
		Name:      s.name,
		Labels:    map[string]string{"app.kubernetes.io/managed-by": "transplant"},
	}}, data)
}

// withData is the ConfigMap with other entries. What else it has stays. Helm refuses to upgrade an object whose labels
// the manager has changed, and a GitOps tool changes them back, again and again.
func withData(of *corev1.ConfigMap, data []byte) *corev1.ConfigMap {
	out := of.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, "kubernetes.io/description", stateDescription)
	if out.BinaryData == nil {
		out.BinaryData = map[string][]byte{}
	}
	out.BinaryData[stateKey] = data
	return out
}

// prune forgets what was noted of load balancers that the store does not have in line.
func (s *state) prune(k *store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.entries {
		if lb, ok := k.get(key); !ok || lb.spec == "" {
			delete(s.entries, key)
			s.changes++ // it is written with what comes next: an entry without a Service is not believed anyway
		}
	}
}
