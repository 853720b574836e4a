package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Following keeps the Clusters of both groups as they are.
type Following struct {
	mu       sync.Mutex
	clusters map[view.Key]*kubermaticv1.Cluster
	// unread says why objects could not be read, by key. failed is the last error of a group's watch. refused are the
	// groups that may not be read at all.
	unread  map[string]string
	failed  map[string]failure
	refused []string
	// waiting are told of changes.
	waiting map[chan struct{}]struct{}
	// synced report whether what each informer listed first was taken in. An informer has synced before that: its store
	// is filled, and its handlers were not called. Clusters that are there would be taken for deleted ones.
	synced []cache.InformerSynced
}

// failure is an error of a watch, which is forgotten when it does not come again: a watch that goes on says nothing of
// it.
type failure struct {
	at  time.Time
	why string
}

// forgotten is after how long: a watch is tried again at least every 30 s.
const forgotten = time.Minute

// Follow begins to follow the Clusters until ctx ends; wait waits for what it started, which is over then. The client
// must have no limit on the time of a request: that would end every watch.
func Follow(ctx context.Context, client dynamic.Interface) (f *Following, wait func(), err error) {
	f = &Following{
		clusters: map[view.Key]*kubermaticv1.Cluster{},
		unread:   map[string]string{},
		failed:   map[string]failure{},
		waiting:  map[chan struct{}]struct{}{},
	}
	var running sync.WaitGroup
	var refused []error
	for _, group := range Groups() {
		_, err := client.Resource(objects.Resource(group)).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			refused = append(refused, fmt.Errorf("listing clusters of %s: %w", group, err))
			continue
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(
			client,
			objects.Resource(group),
			metav1.NamespaceAll,
			0,
			cache.Indexers{},
			nil,
		).
			Informer()
		registration, err := f.attend(informer, group)
		if err != nil {
			return nil, nil, fmt.Errorf("following clusters of %s: %w", group, err)
		}
		f.synced = append(f.synced, registration.HasSynced)
		running.Go(func() { informer.Run(ctx.Done()) })
	}
	switch {
	case len(f.synced) > 0:
	case len(refused) > 0:
		return nil, nil, errors.Join(refused...)
	default:
		return nil, nil, ErrNoClusters
	}
	for _, err := range refused {
		f.refused = append(f.refused, mask.Error(err))
	}
	return f, running.Wait, nil
}

// attend takes in what an informer sees. Errors of its watch are kept for who asks, and not logged.
func (f *Following) attend(
	informer cache.SharedIndexInformer,
	group string,
) (cache.ResourceEventHandlerRegistration, error) {
	err := informer.SetTransform(func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		f.recordFailure(group, fmt.Sprintf("following clusters of %s: %v", group, err))
	})
	if err != nil {
		return nil, err
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.saw(group, o) },
		UpdateFunc: func(_, o any) { f.saw(group, o) },
		DeleteFunc: func(o any) { f.removeCluster(group, o) },
	})
}

func (f *Following) saw(group string, o any) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	key := view.Key{Group: group, Name: u.GetName()}
	c, err := objects.Decode(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failed, group) // it answers again
	if err != nil {
		f.unread[key.String()] = mask.Error(err)
	} else {
		f.clusters[key] = c
		delete(f.unread, key.String())
	}
	f.signalWaiting()
}

func (f *Following) removeCluster(group string, o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := view.Key{Group: group, Name: u.GetName()}
	delete(f.clusters, key)
	delete(f.unread, key.String())
	f.signalWaiting()
}

func (f *Following) recordFailure(what, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed[what] = failure{time.Now(), why}
	f.signalWaiting()
}

// signalWaiting signals everybody who waits; f.mu is held.
func (f *Following) signalWaiting() {
	for ch := range f.waiting {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// List returns the Clusters, sorted by name and group, and whether all that can be read were. They are only read.
func (f *Following) List() ([]view.Object, bool) {
	complete := true
	for _, synced := range f.synced {
		complete = complete && synced()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]view.Object, 0, len(f.clusters))
	for key, c := range f.clusters {
		out = append(out, view.Object{Group: key.Group, Cluster: c})
	}
	return sorted(out), complete
}

// NotRead are the sentences that name what cannot be read now.
func (f *Following) NotRead() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Concat(f.refused, slices.Sorted(maps.Values(f.unread)))
	for _, group := range slices.Sorted(maps.Keys(f.failed)) {
		if last := f.failed[group]; time.Since(last.at) < forgotten {
			out = append(out, last.why)
		}
	}
	return out
}

// Changed returns a channel that receives whenever List may give something else, until ctx ends.
func (f *Following) Changed(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	f.waiting[ch] = struct{}{}
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting, ch)
	})
	return ch
}
