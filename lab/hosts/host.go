package hosts

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// Fixed facts of every cluster.
const (
	Version     = cluster.Version // of Kubernetes
	PodCIDR     = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	Region      = cluster.Region
	ClusterName = cluster.Name

	portAPI   = 6443
	portCloud = 4566
	portAdmin = 4567
)

var zones = []string{Region + "a", Region + "b"}

// Host is one machine of a cluster.
type Host struct {
	Name         string // for example "cp-1"
	NodeName     string // of its Node, and its host name: the private DNS name of its instance
	ControlPlane bool
	Address      string // its only address, of its instance too
	Zone         string
	InstanceID   string

	cluster *Cluster
	number  int          // from 1; the last byte of its address less 10
	last    atomic.Int64 // its first process, when that was looked up last
}

// newHosts lays out a cluster's machines: the control planes are .11 and on, the workers .21 and on.
func newHosts(c *Cluster) []*Host {
	var out []*Host
	for i := 1; i <= c.ControlPlanes; i++ {
		out = append(out, newHost(c, fmt.Sprintf("cp-%d", i), i, true))
	}
	for i := 1; i <= c.Workers; i++ {
		out = append(out, newHost(c, fmt.Sprintf("worker-%d", i), 10+i, false))
	}
	return out
}

func newHost(c *Cluster, name string, number int, controlPlane bool) *Host {
	ip := c.address(10 + number)
	return &Host{
		Name: name, NodeName: ec2.PrivateDNS(ip, Region), ControlPlane: controlPlane, Address: ip,
		Zone: zones[(number-1)%len(zones)], InstanceID: ec2.InstanceID(ip), cluster: c, number: number,
	}
}

// address is the n-th address of the cluster's subnet; the first is the bridge's.
func (c *Cluster) address(n int) string {
	a := netip.MustParsePrefix(c.Subnet).Addr().As4() // checked by withDefaults
	a[3] = byte(n)
	return netip.AddrFrom4(a).String()
}

func (h *Host) dir() string { return filepath.Join(h.cluster.Dir, "hosts", h.Name) }

func (h *Host) config() string { return filepath.Join(h.dir(), "host.json") }

// cgroup is where the pods of the host's kubelet are, in every hierarchy.
func (h *Host) cgroup() string { return h.cluster.cgroup() + "/" + h.Name }

// veth is the end of the host's link on the machine.
func (h *Host) veth() string {
	short := strings.NewReplacer("cp-", "c", "worker-", "w").Replace(h.Name)
	return "v-" + h.cluster.Name + "-" + short
}
