package testimony

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// watchFor is how long one watch of a pod lasts.
	watchFor = 5 * time.Minute
	// forbidden is how long a listener waits that may not watch pods: leases are waited for meanwhile.
	forbidden = 5 * time.Minute
)

// Listener follows the pod of the process that holds a lease.
type Listener struct {
	pods  corev1client.PodInterface
	retry time.Duration
	ended func(Claim)

	mu      sync.Mutex
	claim   Claim // that is followed; empty: none
	changed chan struct{}
}

// NewListener returns a listener that calls ended when it hears that a holder which it follows has ended. It begins a
// watch that broke again after the retry time.
func NewListener(pods corev1client.PodInterface, retry time.Duration, ended func(Claim)) *Listener {
	return &Listener{
		pods:    pods,
		retry:   retry,
		ended:   ended,
		changed: make(chan struct{}, 1),
	}
}

// Follow says which holder is followed from now on; none, where the claim is empty. It never blocks.
func (l *Listener) Follow(c Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claim == c {
		return
	}
	l.claim = c
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *Listener) followed() Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim
}

// Run listens until ctx ends.
func (l *Listener) Run(ctx context.Context) {
	for ctx.Err() == nil {
		c, pause := l.followed(), time.Duration(0)
		if c != (Claim{}) {
			pause = l.retry + time.Duration(rand.Float64()*float64(l.retry)/5)
			ended, err := l.hear(ctx, c)
			switch {
			case ended:
				l.ended(c)
				pause = 0
			case apierrors.IsForbidden(err):
				pause = forbidden
				klog.FromContext(ctx).Info("Pods cannot be watched, so a lease whose holder crashed is waited for", "err", err)
			}
		}
		l.idle(ctx, c, pause)
	}
}

// idle returns when another holder is followed than before, or after the pause if there is one.
func (l *Listener) idle(ctx context.Context, before Claim, pause time.Duration) {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	for l.followed() == before {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-l.changed:
		}
	}
}

// hear watches the pod of a holder until the holder has ended, another one is followed, or the watch ends. A watch
// without a resource version begins with the pod as it is.
func (l *Listener) hear(ctx context.Context, c Claim) (ended bool, err error) {
	w, err := l.pods.Watch(ctx, metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, c.Pod).String(),
		TimeoutSeconds: ptr.To(int64(watchFor.Seconds())),
	})
	if err != nil {
		return false, fmt.Errorf("watching pod %s: %w", c.Pod, err)
	}
	defer w.Stop()
	for l.followed() == c {
		select {
		case <-ctx.Done():
			return false, nil
		case <-l.changed:
		case event, open := <-w.ResultChan():
			if !open {
				return false, nil
			}
			if event.Type == watch.Error {
				return false, apierrors.FromObject(event.Object)
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && c.HasEnded(pod) {
				return true, nil
			}
		}
	}
	return false, nil
}
