package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/poll"
)

// Machine is what a control-plane host has that joins, as far as it differs from those of the start.
type Machine struct {
	// Version is that of Kubernetes, for example "v1.27.4". Provide makes its programs known.
	Version string
	// Flags are changes, by component ("kubelet" is one) and flag. A flag whose value is nil is not given.
	Flags map[string]map[string]*string
	// Mounts are files of the host that its kube-controller-manager sees, too, by the names of their volumes.
	Mounts map[string]string
	// Prepare puts further files on the host before anything runs there. Nil is for none.
	Prepare func(*Host) error
	// Manifests are further static pods, by the path of their file.
	Manifests map[string]string
}

// Machines returns the control-plane machines of the cloud: the hosts of the cluster, those that may join and those
// that have left.
func (c *Cluster) Machines() []*Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(c.site.machines(), func(h *Host) bool { return !h.ControlPlane })
}

// Spare returns a machine that may join, or an error where there is none.
func (c *Cluster) Spare() (*Host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.site.apart {
		if h.Kubelet == nil {
			return h, nil
		}
	}
	return nil, errors.New("the lab has no spare host left")
}

// Join has a spare machine join the cluster as a control-plane host. It returns when the load balancer has its API
// server, its other components have manifests, and its Node is marked; what they do then is theirs.
func (c *Cluster) Join(ctx context.Context, h *Host, m Machine) error {
	if err := c.join(ctx, h, m); err != nil {
		return fmt.Errorf("having host %q join: %w", h.Name, err)
	}
	return nil
}

func (c *Cluster) join(ctx context.Context, h *Host, m Machine) error {
	h.version = m.Version
	if err := errors.Join(c.site.writeHost(h), c.writeAuditPolicy(h)); err != nil {
		return err
	}
	if err := writeKubelet(h, changed(c.site.kubeletFlags(h), m.Flags["kubelet"])); err != nil {
		return err
	}
	if m.Prepare != nil {
		if err := m.Prepare(h); err != nil {
			return err
		}
	}
	server := apiServer(c.site.kind, h, c.site.url("https", EdgeName(h.Name, APIServer, endEtcd)))
	if err := c.run(h, m.of(c.audited(server))); err != nil {
		return err
	}
	if err := c.startKubelet(ctx, h); err != nil {
		return err
	}
	c.move(h, true)
	err := poll.Until(ctx, 100*time.Millisecond, "its API server to be ready", func(context.Context) error {
		return c.checkAPIServers(h)
	})
	if err != nil {
		return err
	}
	manager := m.of(controllerManager(c.site.kind, h, c.site.cloud()))
	for _, name := range slices.Sorted(maps.Keys(m.Mounts)) {
		manager.volumes = append(manager.volumes, volume{name: name, path: m.Mounts[name], kind: corev1.HostPathFile})
	}
	for _, part := range []component{manager, m.of(scheduler(c.site.kind, h))} {
		if err := c.run(h, part); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(m.Manifests)) {
		if err := placeManifest(h, filepath.Base(path), []byte(m.Manifests[path])); err != nil {
			return err
		}
	}
	return markControlPlane(ctx, c.client, h)
}

// of is a component as the machine has it.
func (m Machine) of(c component) component {
	c.version, c.flags = m.Version, changed(c.flags, m.Flags[c.name])
	return c
}

func changed(flags map[string]string, changes map[string]*string) map[string]string {
	out := maps.Clone(flags)
	for name, value := range changes {
		if delete(out, name); value != nil {
			out[name] = *value
		}
	}
	return out
}

// Leave takes a control-plane host down. Its processes end in order, its machine stays off, its Node is deleted, and
// nobody reaches its files any longer: they are below "left" in Dir.
func (c *Cluster) Leave(ctx context.Context, h *Host) error {
	if err := h.Kubelet.Stop(ctx); err != nil {
		return fmt.Errorf("shutting host %q down: %w", h.Name, err)
	}
	left := filepath.Join(c.site.root, "left", h.Name)
	if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
		return fmt.Errorf("making the directory of hosts that have left: %w", err)
	}
	if err := os.Rename(h.Dir, left); err != nil {
		return fmt.Errorf("taking host %q away: %w", h.Name, err)
	}
	h.Dir = left
	c.move(h, false)
	return poll.Until(ctx, pollInterval, fmt.Sprintf("node %q to be deleted", h.NodeName), func(ctx context.Context) error {
		err := c.client.CoreV1().Nodes().Delete(ctx, h.NodeName, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// move makes a machine a host of the cluster, the last of its control planes, or takes it out.
func (c *Cluster) move(h *Host, in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isIt := func(o *Host) bool { return o == h }
	hosts := slices.DeleteFunc(slices.Clone(c.site.hosts), isIt)
	apart := slices.DeleteFunc(slices.Clone(c.site.apart), isIt)
	if in {
		workers := slices.IndexFunc(hosts, func(o *Host) bool { return !o.ControlPlane })
		if workers < 0 {
			workers = len(hosts)
		}
		hosts = slices.Insert(hosts, workers, h)
	} else {
		apart = append(apart, h)
	}
	c.site.hosts, c.site.apart = hosts, apart
}
