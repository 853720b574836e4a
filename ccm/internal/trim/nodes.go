package trim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// pageSize is how many Nodes are read at once. 5,000 are 25 requests, which a client of ours makes without a pause.
const pageSize = 200

// Nodes has a factory read Nodes page by page where the API server does not stream them. Each page is trimmed before
// the next one is read. A transform alone sees objects once all have been decoded. With images, they are ten times as
// large, and the process keeps that memory.
//
// The reflector asks for pages of what the watch cache has, which API servers answer with all at once. Here they are
// pages of the newest state.
//
// The content is that of the factory's client: in which form the API server is asked to answer.
func Nodes(factory informers.SharedInformerFactory, content rest.ContentConfig) {
	factory.InformerFor(&corev1.Node{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return nodeInformer(client, leanNodes(client, content), resync)
	})
}

func nodeInformer(
	client kubernetes.Interface,
	nodes typedcorev1.NodeInterface,
	resync time.Duration,
) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				if options.Limit > 0 {
					options.Limit = pageSize
				}
				if options.Limit > 0 && options.ResourceVersion == "0" {
					options.ResourceVersion = ""
				}
				page, err := nodes.List(ctx, options)
				if err != nil {
					return nil, err
				}
				for i := range page.Items {
					if _, err := Object(&page.Items[i]); err != nil {
						return nil, fmt.Errorf("trimming node %q: %w", page.Items[i].Name, err)
					}
				}
				return page, nil
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return nodes.Watch(ctx, options)
			},
		}, client),
		&corev1.Node{},
		// Nodes have no namespace that an index could be of. A provider may add others, and panics where there is no map.
		cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: cache.Indexers{}},
	)
}
