package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/waiting"
)

const (
	// watchFor is how long a watch is asked to last; one that ends sooner was broken off.
	watchFor = 5 * time.Minute
	// silence is after how much of it a watch is checked against a list. Managers renew their leases every few seconds.
	silence = 5 * time.Second
	// delivery is how long a watch may take to show what a list shows.
	delivery = 2 * time.Second
)

// Waiting times between two attempts to watch again; the first is made at once.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// watched is the path of the API watch: leases in kube-system change every few seconds, so that silence means
// something.
const watched = "leases in kube-system"

// again calls f until ctx ends; behind an error it waits, for longer each time.
func (r *run) again(ctx context.Context, f func(context.Context) error) {
	for retry := time.Duration(0); ctx.Err() == nil; {
		began := time.Now()
		if err := f(ctx); err == nil || time.Since(began) > lastRetry {
			retry = 0
			continue
		}
		waiting.For(ctx, retry)
		retry = min(max(firstRetry, 2*retry), lastRetry)
	}
}

// watchAPI holds a watch open, as every controller and kubelet does.
func (r *run) watchAPI(ctx context.Context) {
	p := r.pathOf(key{v1.PathAPIWatch, watched}, 0)
	connected := false
	r.again(ctx, func(ctx context.Context) error {
		attempt := r.now()
		w, stop, err := r.open(ctx, r.Kube.CoordinationV1().Leases(component.Namespace).Watch, "")
		if err != nil {
			if ctx.Err() == nil {
				p.broke(attempt, r.now(), err)
			}
			return err
		}
		defer stop()
		if connected {
			p.reconnected()
		}
		connected = true
		p.up(r.now())
		since, err := r.holdWatch(ctx, p, w)
		if err != nil && ctx.Err() == nil {
			p.broke(since, r.now(), err)
		}
		return err
	})
}

// open opens a watch; that it is opened is bounded by the timeout of a look.
func (r *run) open(
	ctx context.Context,
	f func(context.Context, metav1.ListOptions) (watch.Interface, error),
	version string,
) (watch.Interface, func(), error) {
	watching, cancel := context.WithCancelCause(ctx)
	late := fmt.Errorf("no answer within %s", r.Timeout)
	timer := time.AfterFunc(r.Timeout, func() { cancel(late) })
	w, err := f(
		watching,
		metav1.ListOptions{
			ResourceVersion:     version,
			TimeoutSeconds:      ptr.To(int64(watchFor / time.Second)),
			AllowWatchBookmarks: true,
		},
	)
	if !timer.Stop() && err == nil {
		w.Stop()
		err = late
	}
	if err != nil {
		if cause := context.Cause(watching); errors.Is(cause, late) {
			err = late
		}
		cancel(nil)
		return nil, nil, fmt.Errorf("opening a watch: %w", err)
	}
	return w, func() { w.Stop(); cancel(nil) }, nil
}

// holdWatch reads a watch until it ends. It returns since when it did not work, and why; no error means that it ended
// as agreed.
func (r *run) holdWatch(ctx context.Context, p *path, w watch.Interface) (time.Time, error) {
	opened, heard := r.now(), r.now()
	var seen, owed uint64
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return heard, ctx.Err()
		case e, open := <-w.ResultChan():
			version, err := r.read(e, open, opened)
			if err != nil || !open {
				return r.now(), err
			}
			heard, seen = r.now(), max(seen, version)
			p.up(heard)
			owed = 0
			quiet.Reset(silence)
		case <-quiet.C:
			if owed > seen {
				r.hangs(heard)
				return heard, fmt.Errorf("the watch is silent: a list shows changes that it has not delivered for %s", delivery)
			}
			newest, err := r.newest(ctx)
			if err != nil {
				r.hangs(heard)
				return heard, fmt.Errorf("the watch is silent, and whether it missed something cannot be asked: %w", err)
			}
			if owed = newest; owed > seen {
				quiet.Reset(delivery)
				continue
			}
			heard = r.now() // it has delivered everything that there was
			quiet.Reset(silence)
		}
	}
}

// hangs tells the watch of endpoints that nothing comes over the connection which it shares with the API watch.
func (r *run) hangs(since time.Time) {
	select {
	case r.silent <- since:
	default:
	}
}

// read takes an event of a watch that was opened at a moment, and returns the version that it shows.
func (r *run) read(e watch.Event, open bool, opened time.Time) (uint64, error) {
	switch {
	case !open && r.now().Sub(opened) >= watchFor-time.Second:
		return 0, nil
	case !open:
		return 0, errors.New("the watch was broken off")
	case e.Type == watch.Error:
		return 0, fmt.Errorf("the watch was ended: %w", apierrors.FromObject(e.Object))
	}
	object, err := meta.Accessor(e.Object)
	if err != nil {
		return 0, fmt.Errorf("the watch delivered a %T", e.Object)
	}
	return version(object.GetResourceVersion()), nil
}

// newest is the newest version of a lease that a list shows.
func (r *run) newest(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	list, err := r.Kube.CoordinationV1().Leases(component.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	var out uint64
	for i := range list.Items {
		out = max(out, version(list.Items[i].ResourceVersion))
	}
	return out, nil
}

// version is a resource version as a number; zero for one that is none.
func version(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
