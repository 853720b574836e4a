package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// slice is what counts of an EndpointSlice.
type slice struct {
	service      string
	ready, total int
}

// endpoints is what the EndpointSlices say of Services, by namespace/name.
type endpoints struct {
	slices map[string]slice
	// of are the slices of a Service.
	of map[string]map[string]bool
}

// replaceSlice replaces a slice, and returns the Services that it belonged to and belongs to.
func (e *endpoints) replaceSlice(name string, s slice, there bool) []string {
	var touched []string
	if old, ok := e.slices[name]; ok {
		delete(e.of[old.service], name)
		delete(e.slices, name)
		touched = append(touched, old.service)
	}
	if there {
		e.slices[name] = s
		if e.of[s.service] == nil {
			e.of[s.service] = map[string]bool{}
		}
		e.of[s.service][name] = true
		if len(touched) == 0 || touched[0] != s.service {
			touched = append(touched, s.service)
		}
	}
	return touched
}

// count is how many endpoints a Service has, and how many of them are ready.
func (e *endpoints) count(service string) (ready, total int) {
	for name := range e.of[service] {
		ready += e.slices[name].ready
		total += e.slices[name].total
	}
	return ready, total
}

func sliceOf(s *discoveryv1.EndpointSlice) (name string, out slice) {
	out.service = s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
	for _, e := range s.Endpoints {
		out.total++
		if ptr.Deref(e.Conditions.Ready, true) { // unknown counts as ready, as it does for the API server
			out.ready++
		}
	}
	return s.Namespace + "/" + s.Name, out
}

// watchEndpoints follows the endpoints of all Services. While it cannot, they are not looked at, which is no outage of
// theirs.
func (r *run) watchEndpoints(ctx context.Context) {
	known := &endpoints{slices: map[string]slice{}, of: map[string]map[string]bool{}}
	r.again(ctx, func(ctx context.Context) error {
		since := r.now()
		err := r.endpointsOnce(ctx, known, &since)
		if err != nil && ctx.Err() == nil {
			r.lose(v1.PathEndpoints, since, err)
		}
		return err
	})
}

// endpointsOnce lists the slices, and watches them until the watch ends; since is then the last moment at which it was
// known to work.
func (r *run) endpointsOnce(ctx context.Context, known *endpoints, since *time.Time) error {
	version, err := r.listEndpoints(ctx, known)
	if err != nil {
		return err
	}
	w, stop, err := r.open(ctx, r.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).Watch, version)
	if err != nil {
		return err
	}
	defer stop()
	r.found(v1.PathEndpoints)
	opened := r.now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case at := <-r.silent:
			*since = at
			return errors.New("the API watch, over the same connection, was silent")
		case e, open := <-w.ResultChan():
			*since = r.now()
			if _, err := r.read(e, open, opened); err != nil || !open {
				return err
			}
			if s, ok := e.Object.(*discoveryv1.EndpointSlice); ok && e.Type != watch.Bookmark {
				name, content := sliceOf(s)
				for _, service := range known.replaceSlice(name, content, e.Type != watch.Deleted) {
					r.judgeEndpoints(ctx, known, service)
				}
			}
		}
	}
}

// listEndpoints reads all slices, page by page, and returns the version to watch from.
func (r *run) listEndpoints(ctx context.Context, known *endpoints) (string, error) {
	there := map[string]bool{}
	touched := map[string]bool{}
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		asking, cancel := context.WithTimeout(ctx, 10*r.Timeout) // a page of five hundred is a megabyte
		list, err := r.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(asking, opts)
		cancel()
		if err != nil {
			return "", fmt.Errorf("listing endpointslices: %w", err)
		}
		for i := range list.Items {
			name, content := sliceOf(&list.Items[i])
			there[name] = true
			for _, service := range known.replaceSlice(name, content, true) {
				touched[service] = true
			}
		}
		if opts.Continue = list.Continue; opts.Continue != "" {
			continue
		}
		for name := range known.slices {
			if !there[name] {
				for _, service := range known.replaceSlice(name, slice{}, false) {
					touched[service] = true
				}
			}
		}
		for service := range touched {
			r.judgeEndpoints(ctx, known, service)
		}
		return list.ResourceVersion, nil
	}
}

// judgeEndpoints says whether a Service has a ready endpoint. One that never had any is no path.
func (r *run) judgeEndpoints(ctx context.Context, known *endpoints, service string) {
	ready, total := known.count(service)
	k := key{v1.PathEndpoints, service}
	r.lock.Lock()
	p, watched := r.paths[k]
	r.lock.Unlock()
	if ready > 0 {
		r.pathOf(k, 0).up(r.now())
		return
	}
	if !watched && !r.isKnown(k) {
		return
	}
	if p == nil {
		p = r.pathOf(k, 0)
	}
	now := r.now()
	why := fmt.Errorf("none of its %d endpoints is ready", total)
	if total == 0 {
		why = errors.New("it has no endpoints: no pod that it selects runs")
	}
	p.broke(now, now, why)
	r.wg.Go(func() { r.goneWithService(ctx, p, service) })
}

func (r *run) isKnown(k key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[k]
}

// goneWithService takes the outage back of a Service that was deleted: its endpoints go first.
func (r *run) goneWithService(ctx context.Context, p *path, service string) {
	for try := 0; try < 5 && ctx.Err() == nil; try++ {
		asking, cancel := context.WithTimeout(ctx, r.Timeout)
		namespace, name, _ := strings.Cut(service, "/")
		s, err := r.Kube.CoreV1().Services(namespace).Get(asking, name, metav1.GetOptions{})
		cancel()
		if apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil {
			p.recordGone(r.now(), "Service "+service+" was deleted")
			return
		}
		if err == nil {
			return
		}
		waiting.For(ctx, time.Second)
	}
}
