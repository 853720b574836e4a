package service

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watch registers what listens to Services and nodes. It costs next to nothing while the controller does not run: on taking over, everything is
// looked at once.
func (c *Controller) watch() error {
	services, nodes := c.config.Services.Informer(), c.config.Nodes.Informer()
	forServices, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.serviceAdded(now) },
		UpdateFunc: func(before, now any) { c.serviceUpdated(before, now) },
		DeleteFunc: func(last any) { c.serviceDeleted(last) },
	})
	if err != nil {
		return fmt.Errorf("listening to Services: %w", err)
	}
	forNodes, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.nodeChanged(nil, now) },
		UpdateFunc: func(before, now any) { c.nodeChanged(before, now) },
		DeleteFunc: func(last any) { c.nodeChanged(last, nil) },
	})
	if err != nil {
		return fmt.Errorf("listening to nodes: %w", err)
	}
	c.synced = []cache.InformerSynced{forServices.HasSynced, forNodes.HasSynced}
	c.removals = []func() error{
		func() error { return services.RemoveEventHandler(forServices) },
		func() error { return nodes.RemoveEventHandler(forNodes) },
	}
	return nil
}

func (c *Controller) unwatch() {
	for _, remove := range c.removals {
		_ = remove() // it fails only for a handler of another informer
	}
}

func (c *Controller) serviceAdded(now any) {
	service, ok := now.(*corev1.Service)
	if ok && c.running.Load() && (wantsLoadBalancer(service) || needsCleanup(service)) {
		c.queue.Add(keyOf(service))
	}
}

func (c *Controller) serviceUpdated(before, now any) {
	was, ok1 := before.(*corev1.Service)
	is, ok2 := now.(*corev1.Service)
	if !ok1 || !ok2 || !c.running.Load() {
		return
	}
	page, known := c.book.get(keyOf(is))
	if relevant(was, is, known, page) {
		c.queue.Add(keyOf(is))
	}
}

func (c *Controller) serviceDeleted(last any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(last)
	if err != nil || !c.running.Load() {
		return
	}
	// One that fails is in its back-off, and is looked at when that is over.
	if page, known := c.book.get(key); known && (page.inLine() || !page.tried) {
		c.queue.Add(key)
	}
}

// nodeChanged takes a node that came (before is nil), changed, or went (now is nil).
func (c *Controller) nodeChanged(before, now any) {
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	var was, is standing
	if node, ok := before.(*corev1.Node); ok {
		was = standingOf(node)
	}
	if node, ok := now.(*corev1.Node); ok {
		is = standingOf(node)
	}
	if was == is {
		return // a heartbeat
	}
	c.nodes.changed()
	if !c.running.Load() {
		return
	}
	c.batcher.note(changeOf(was, is))
}
