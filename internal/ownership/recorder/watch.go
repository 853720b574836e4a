package recorder

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// watchFor is how long a watch is asked to last; one that ends sooner was broken.
const watchFor = 5 * time.Minute

// Waiting times between two attempts to see a lease again: an API server that restarts is back within seconds.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Second
)

// leaseFollower follows one lease.
type leaseFollower struct {
	source
	name string
	// holder, term and renewed are those of the last look.
	holder  string
	term    int32
	renewed *time.Time
	// version is the newest resource version that was read: a watch may deliver what a list has overtaken.
	version uint64
}

// followLease watches a lease until ctx ends, and through restarts of the API server.
func (r *Recorder) followLease(ctx context.Context, name string) {
	l := &leaseFollower{source: source{r: r}, name: name}
	defer l.flush()
	retry := firstRetry
	for ctx.Err() == nil {
		seen, err := r.watchLease(ctx, l)
		if ctx.Err() != nil {
			return
		}
		if seen {
			retry = firstRetry
		}
		if err != nil {
			l.recordFailure(v1.OwnershipEvent{Time: r.now(), Source: v1.SourceLease, Lease: name}, err)
			r.wait(ctx, retry, nil)
			retry = min(2*retry, lastRetry)
		}
	}
}

// watchLease lists and watches a lease until the watch ends; seen reports whether any look succeeded. No error means
// that the watch ended as asked.
func (r *Recorder) watchLease(ctx context.Context, l *leaseFollower) (seen bool, err error) {
	version, err := r.readLease(ctx, l)
	if err != nil {
		return false, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	started := r.opts.Clock.Now()
	w, err := r.opts.Client.CoordinationV1().Leases(r.opts.Namespace).Watch(watching, metav1.ListOptions{
		FieldSelector: byName(
			l.name,
		),
		ResourceVersion:     version,
		TimeoutSeconds:      ptr.To(int64(watchFor / time.Second)),
		AllowWatchBookmarks: true,
	})
	if err != nil {
		return true, fmt.Errorf("watching lease %s: %w", l.name, err)
	}
	defer w.Stop()
	for {
		quiet := r.opts.Clock.NewTimer(r.opts.Heartbeat)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return true, nil
		case <-quiet.C():
			// The lease is not renewed, or the watch hangs: read.
			if _, err := r.readLease(ctx, l); err != nil {
				return true, err
			}
		case e, open := <-w.ResultChan():
			quiet.Stop()
			if !open && r.opts.Clock.Since(started) >= watchFor-time.Second {
				return true, nil
			}
			if !open {
				return true, fmt.Errorf("watching lease %s: the watch was broken off", l.name)
			}
			if err := r.watched(l, e); err != nil {
				return true, err
			}
		}
	}
}

func byName(name string) string { return fields.OneTermEqualSelector("metadata.name", name).String() }

// readLease reads the lease through a list, whose resource version a watch can go on from whether the lease exists or
// not.
func (r *Recorder) readLease(ctx context.Context, l *leaseFollower) (version string, err error) {
	asking, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	began := r.now()
	list, err := r.opts.Client.CoordinationV1().
		Leases(r.opts.Namespace).
		List(asking, metav1.ListOptions{FieldSelector: byName(l.name)})
	if err != nil {
		return "", fmt.Errorf("reading lease %s: %w", l.name, err)
	}
	spec := coordinationv1.LeaseSpec{}
	for _, lease := range list.Items {
		if lease.Name == l.name {
			spec = lease.Spec
		}
	}
	l.acceptsVersion(list.ResourceVersion)
	r.sawLease(l, spec, &began)
	return list.ResourceVersion, nil
}

func (r *Recorder) watched(l *leaseFollower, e watch.Event) error {
	switch e.Type {
	case watch.Error:
		err := apierrors.FromObject(e.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = errors.New("the API server no longer knows the version to go on from")
		}
		return fmt.Errorf("watching lease %s: %w", l.name, err)
	case watch.Added, watch.Modified, watch.Deleted:
		lease, ok := e.Object.(*coordinationv1.Lease)
		if !ok {
			return fmt.Errorf("watching lease %s: got a %T", l.name, e.Object)
		}
		if lease.Name != l.name || !l.acceptsVersion(lease.ResourceVersion) {
			return nil
		}
		spec := lease.Spec
		if e.Type == watch.Deleted {
			spec = coordinationv1.LeaseSpec{}
		}
		r.sawLease(l, spec, nil)
	case watch.Bookmark: // says only that the watch lives
	}
	return nil
}

// acceptsVersion reports whether a resource version is not older than what was read before. One that is no number is
// taken as new.
func (l *leaseFollower) acceptsVersion(version string) bool {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return true
	}
	if v < l.version {
		return false
	}
	l.version = v
	return true
}

// sawLease records a look at the lease. A renewal is no change: a lease is renewed several times a second during a
// migration.
func (r *Recorder) sawLease(l *leaseFollower, spec coordinationv1.LeaseSpec, began *time.Time) {
	e := v1.OwnershipEvent{
		Time:        r.now(),
		Began:       began,
		Source:      v1.SourceLease,
		Lease:       l.name,
		Holder:      ptr.Deref(spec.HolderIdentity, ""),
		Transitions: ptr.Deref(spec.LeaseTransitions, 0),
	}
	if spec.RenewTime != nil {
		renewed := spec.RenewTime.UTC()
		e.Renewed = &renewed
	}
	first := l.looked == nil
	if !first && (e.Holder != l.holder || e.Transitions != l.term) {
		if l.holder != "" {
			e.PreviousRenewed = l.renewed
		}
		r.scheduler.leaseChanged(l.name, e.Time)
	}
	l.holder, l.term, l.renewed = e.Holder, e.Transitions, e.Renewed
	l.ok(e, e.Holder+" "+strconv.Itoa(int(e.Transitions)))
}
