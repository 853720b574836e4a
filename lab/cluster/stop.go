package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/net"
)

const (
	stopTimeout = 20 * time.Second // of a lab that could not be started
	etcdGrace   = 2 * time.Second
)

// Stop ends the lab: hosts first, then what they depend on. When it returns, none of its processes and sockets is left;
// its files stay. Processes that have not ended when ctx does are killed. It may be called again.
func (c *Cluster) Stop(ctx context.Context) error {
	var (
		mu  sync.Mutex
		all []error
		wg  sync.WaitGroup
	)
	if c.site != nil {
		for _, h := range c.site.machines() {
			if h.Kubelet == nil {
				continue
			}
			wg.Go(func() {
				if err := h.Kubelet.Stop(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					all = append(all, fmt.Errorf("stopping host %q: %w", h.Name, err))
				}
			})
		}
	}
	wg.Wait()
	all = append(all, c.volumes.stop())
	if c.site != nil && c.opts.DiskSize > 0 {
		for _, h := range c.site.hosts {
			all = append(all, unmountDisk(h))
		}
	}
	if c.http != nil {
		_ = c.http.Close() // it only drops idle connections
	}
	if c.lb != nil {
		c.lb.Close()
	}
	closeEdges(c.edges)
	if c.etcd != nil {
		c.etcd.Stop(ctx, etcdGrace)
	}
	if c.internet != nil {
		c.internet.stop()
		c.internet = nil
	}
	if c.cloud != nil {
		all = append(all, c.cloud.stop())
		c.cloud = nil
	}
	if c.site != nil {
		c.site.block.release()
	}
	if c.dir != nil {
		c.dir.release()
	}
	return errors.Join(all...)
}

// idleCloser closes the connections that a client keeps.
type idleCloser struct{ client *http.Client }

func (i idleCloser) Close() error {
	net.CloseIdleConnectionsFor(i.client.Transport)
	return nil
}
