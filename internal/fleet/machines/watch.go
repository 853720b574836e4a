package machines

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/transplant-dev/transplant/internal/answerlimit"
)

// Watch calls changed whenever Look may find something else, first when it has begun to watch, until ctx ends or a
// watch does. It keeps nothing of machines: of those, and of what CSI drivers say, the API server sends the metadata
// alone. Nodes come whole: their kubelets write them also when nothing has changed that Look reads. A few hundred bytes
// of each are kept to compare. The error is nil when a watch ended in order, as the API server ends each after a while,
// or had fallen behind. Start again then. A watch that tells of more nodes than are looked at is an error.
func Watch(ctx context.Context, kube kubernetes.Interface, meta metadata.Interface, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(startWithin, func() { cancel(errLate) }) // Retry-After may be years
	defer late.Stop()
	listing, listed := answerlimit.Pass(ctx)
	defer listed()
	var open []watched
	defer func() {
		for _, w := range open {
			w.Stop()
		}
	}()
	for _, r := range []schema.GroupVersionResource{
		MachinesResource, SetsResource, DeploymentsResource, csiNodesResource,
	} {
		w, err := watchMetadata(ctx, listing, meta, r)
		if apierrors.IsNotFound(err) { // there is no machine-controller
			continue
		}
		if err != nil {
			return fmt.Errorf("watching %s: %w", r.Resource, cause(ctx, err))
		}
		open = append(open, watched{w, r.Resource, func(watch.Event) (bool, error) { return true, nil }})
	}
	nodes, err := watchNodes(ctx, listing, kube)
	if err != nil {
		return fmt.Errorf("watching nodes: %w", cause(ctx, err))
	}
	open = append(open, watched{nodes, "nodes", newNodes().differ})
	if listed(); !late.Stop() {
		return errLate
	}
	changed() // what came between the last look and now
	ends := make(chan error, len(open))
	for _, w := range open {
		go func() { ends <- w.watchChanges(ctx, changed) }()
	}
	first := <-ends
	cancel(nil)
	for range len(open) - 1 {
		<-ends //nolint:errcheck // they end because of the first
	}
	return first
}

// startWithin is how long five watches may take to begin.
const startWithin = time.Minute

var errLate = errors.New("the watches did not begin in time")

// cause is why a context ended, if it has, and else err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// csiNodesResource says which CSI drivers a node runs.
var csiNodesResource = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"}

// one is the cheapest list that has a version to watch from.
var one = metav1.ListOptions{Limit: 1}

func watchMetadata(
	ctx, listing context.Context,
	meta metadata.Interface,
	r schema.GroupVersionResource,
) (watch.Interface, error) {
	now, err := meta.Resource(r).List(listing, one)
	if err != nil {
		return nil, err
	}
	return meta.Resource(r).Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
}

func watchNodes(ctx, listing context.Context, kube kubernetes.Interface) (watch.Interface, error) {
	now, err := kube.CoreV1().Nodes().List(listing, one)
	if err != nil {
		return nil, err
	}
	return kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
}

// watched is a watch of one resource, and what of it is news.
type watched struct {
	watch.Interface
	resource string
	news     func(watch.Event) (bool, error)
}

// watchChanges tells of what is news. A panic is its error: what a user cluster sends must not end the operator of all.
func (w watched) watchChanges(ctx context.Context, changed func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("watching %s: panic: %v\n%s", w.resource, value, debug.Stack())
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Bookmark:
			case e.Type == watch.Error:
				err := apierrors.FromObject(e.Object)
				if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					return nil
				}
				return fmt.Errorf("watching %s: %w", w.resource, err)
			default:
				isNews, err := w.news(e)
				if err != nil {
					return fmt.Errorf("watching %s: %w", w.resource, err)
				}
				if isNews {
					changed()
				}
			}
		}
	}
}

// nodes is what was last seen of nodes that were told of: a sum of what Look looks at. Events may tell of nodes that
// never were.
type nodes map[types.UID][sha256.Size]byte

func newNodes() nodes { return nodes{} }

// differ reports whether a node differs in what Look looks at. One that is told of for the first time does.
func (n nodes) differ(e watch.Event) (bool, error) {
	node, ok := e.Object.(*corev1.Node)
	if !ok {
		return true, nil
	}
	seen := NodeOf(node)
	uid := types.UID(seen.UID)
	if e.Type == watch.Deleted {
		delete(n, uid)
		return true, nil
	}
	before, known := n[uid]
	if !known && len(n) >= maxObjects {
		return false, fmt.Errorf("there are more than %d", maxObjects)
	}
	data, err := json.Marshal(seen)
	if err != nil {
		return false, err
	}
	now := sha256.Sum256(data)
	n[uid] = now
	return !known || before != now, nil
}
