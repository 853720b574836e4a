package cluster

import (
	"context"
	"errors"
	"fmt"
)

// StopAPI makes every API server unreachable, for managers next to it, kubelets and everybody else; the returned
// function brings them back. The servers themselves go on to run: what is lost are all connections, old and new ones.
func (c *Cluster) StopAPI() (heal func() error) {
	var names []string
	for name, w := range c.site.wires {
		// not those that lead to the load balancer: it is what finds nobody behind it
		if _, err := c.Host(w.serves); err == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.edges[name].Cut()
	}
	return func() error {
		var errs []error
		for _, name := range names {
			errs = append(errs, c.edges[name].Heal())
		}
		return errors.Join(errs...)
	}
}

// PowerOff ends everything that runs on a host at once, its kubelet too, as a power cut does. Its files stay. PowerOn
// boots it again; until then, and while they are at it, nobody else may look at the host.
func (c *Cluster) PowerOff(h *Host) error {
	ctx, cut := context.WithCancel(context.Background()) //nolint:forbidigo // it has ended before it is used: nothing is asked to stop in order
	cut()
	if err := h.Kubelet.Stop(ctx); err != nil {
		return fmt.Errorf("powering host %q off: %w", h.Name, err)
	}
	return nil
}

// PowerOn boots a host that was powered off.
func (c *Cluster) PowerOn(ctx context.Context, h *Host) error {
	if err := c.startKubelet(ctx, h); err != nil {
		return fmt.Errorf("powering host %q on: %w", h.Name, err)
	}
	return nil
}
