// Package hosts makes real kubeadm clusters on one machine: hosts are namespaces with a disk, a network address and a
// service manager of their own, in which real kubelets of a real containerd run static pods from images that were built
// here. No registry and no network are needed.
//
// It decides what such a host is; docs/explanation/lab-hosts.md says what it needs and what it is not.
package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/transplant-dev/transplant/lab/build"
)

// Cluster is a cluster of hosts, running or not. Its methods work from any process: what is on the disk and in the
// kernel says how things are.
type Cluster struct {
	Options
	hosts    []*Host
	binaries build.Binaries
}

const stateFile = "cluster.json"

// New returns the cluster that the options describe, without looking whether it exists.
func New(o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o}
	c.hosts = newHosts(c)
	return c, nil
}

// Open returns the cluster that was started with the name and directory of the options, which need say nothing else.
func Open(o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(o.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster %q in %q: start it with lab hosts up", o.Name, o.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading state of cluster: %w", err)
	}
	saved := Options{Progress: o.Progress, Root: o.Root}
	if err := json.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("reading state of cluster from %q: %w", o.Dir, err)
	}
	saved.Dir = o.Dir
	return New(saved)
}

// save writes what Open needs.
func (c *Cluster) save() error {
	data, err := json.MarshalIndent(c.Options, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding state of cluster: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, stateFile), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving state of cluster: %w", err)
	}
	return nil
}

// Hosts returns every host: the control planes, then the workers.
func (c *Cluster) Hosts() []*Host { return c.hosts }

// Host returns the host with the given name or node name, or an error that names it.
func (c *Cluster) Host(name string) (*Host, error) {
	for _, h := range c.hosts {
		if h.Name == name || h.NodeName == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("cluster %q has no host %q", c.Name, name)
}

// Kubeconfig is the path of the administrator's kubeconfig, which leads to the load balancer.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "admin.conf") }

// AuditFile is the path of the simulated cloud's audit log.
func (c *Cluster) AuditFile() string { return filepath.Join(c.Dir, "audit.jsonl") }

// CloudEndpoint is the URL of the simulated account.
func (c *Cluster) CloudEndpoint() string { return "http://" + c.endpoint(portCloud) }

// AdminEndpoint is the URL of the controls of the simulated account, below which awssim.AdminPath is served.
func (c *Cluster) AdminEndpoint() string { return "http://" + c.endpoint(portAdmin) }

// APIEndpoint is the host:port of the load balancer in front of the API servers.
func (c *Cluster) APIEndpoint() string { return c.endpoint(portAPI) }

func (c *Cluster) endpoint(port int) string { return c.address(1) + ":" + strconv.Itoa(port) }

func (c *Cluster) bridge() string { return "lab-" + c.Name }

func (c *Cluster) cgroup() string { return "/lab-hosts-" + c.Name }

func (c *Cluster) binDir() string { return filepath.Join(c.Dir, "bin") }

func (c *Cluster) imageDir() string { return filepath.Join(c.Dir, "images") }

// usrDir is what every host has below /usr next to the machine's own files.
func (c *Cluster) usrDir() string { return filepath.Join(c.Dir, "usr") }

func (c *Cluster) say(format string, args ...any) { fmt.Fprintf(c.Progress, format+"\n", args...) }
