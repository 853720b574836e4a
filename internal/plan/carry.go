package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// carriedFlag is read from the live kube-controller-manager and given to the cloud-controller-manager.
type carriedFlag struct {
	name string
	// why says what would happen with another value.
	why string
	// ipam tells that only a manager with node IPAM takes it.
	ipam bool
}

// carried are all such flags, in the order in which they are written.
var carried = []carriedFlag{
	{name: "cluster-name", why: "it names load balancers and cloud tags: with another one every load balancer is orphaned and made anew (OpenStack, GCE, Azure)"},
	{name: "cluster-cidr", why: "routes outside of it are left alone, those inside without a node are deleted: with another one every route is orphaned or lost"},
	{name: "configure-cloud-routes", why: "it is true unless said otherwise: where the CNI routes, the table would fill up with routes beside it"},
	{name: "allocate-node-cidrs", why: "without it there is no route loop; where node IPAM runs is said by --controllers"},
	{name: "route-reconciliation-period", why: "the rate at which routes are repaired stays"},
	{name: "concurrent-service-syncs", why: "the rate at which load balancers are made stays, and with it the load on the cloud"},
	{name: "node-monitor-period", why: "how soon a node whose instance is gone is deleted"},
	{name: "allow-untagged-cloud", why: "a cluster whose instances carry no tag of it is refused otherwise"},
	{name: "cidr-allocator-type", why: "who decides which pod CIDR a node gets", ipam: true},
	{name: "node-cidr-mask-size", why: "nodes to come get blocks of the size of those that are there", ipam: true},
	{name: "node-cidr-mask-size-ipv4", why: "nodes to come get blocks of the size of those that are there", ipam: true},
	{name: "node-cidr-mask-size-ipv6", why: "nodes to come get blocks of the size of those that are there", ipam: true},
	{name: "service-cluster-ip-range", why: "no node gets a block of the Services' range", ipam: true},
	{name: "tls-cipher-suites", why: "what the cluster's owner allows on the serving port"},
	{name: "tls-min-version", why: "what the cluster's owner allows on the serving port"},
	{name: "v", why: "logs stay as detailed as they were"},
}

// defaultClusterName is what a kube-controller-manager without --cluster-name calls the cluster.
const defaultClusterName = "kubernetes"

// carry are the values that a cloud-controller-manager gets of the flags of the live kube-controller-manager m.
func (b *builder) carry(m *v1.Component) []controlplane.Flag {
	values := withFlags(map[string]string{"cluster-name": defaultClusterName}, m.Flags)
	if b.opts.ClusterName != "" {
		values["cluster-name"] = b.opts.ClusterName
	}
	var out []controlplane.Flag
	for _, c := range carried {
		if v, ok := values[c.name]; ok && (!c.ipam || b.moveIPAM) && b.program.knows(c.name) {
			out = append(out, controlplane.Flag{Name: c.name, Value: v})
		}
	}
	return out
}

func withFlags(flags, more map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{flags, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// trustDirs are the directories with certificates of authorities on the distributions that kubeadm knows. They are links into each other, so that all
// that the kube-controller-manager has are mounted.
var trustDirs = []string{"/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki", "/usr/local/share/ca-certificates", "/usr/share/ca-certificates"}

// trust are the mounts by which the kube-controller-manager trusts a private authority of the cloud's endpoints.
func trust(m *v1.Component) []controlplane.HostPath {
	var out []controlplane.HostPath
	if m.Runs == v1.RunsSystemd { // a unit sees the host's own: those of Debian's and of Red Hat's family
		return []controlplane.HostPath{{Path: "/etc/ssl/certs", Type: "DirectoryOrCreate"}, {Path: "/etc/pki", Type: "DirectoryOrCreate"}}
	}
	for _, dir := range trustDirs {
		if m.HostPaths[dir] == dir {
			out = append(out, controlplane.HostPath{Path: dir, Type: "DirectoryOrCreate"})
		}
	}
	return out
}

// namedFiles are the files that a host's cloud config names, e.g. the authority of the cloud's endpoints or a client certificate: without one of them the
// manager does not start. What lies in a directory that is mounted anyway is left out.
func namedFiles(h v1.Host, m *v1.Component) []controlplane.HostPath {
	if h.CloudConfig == nil {
		return nil
	}
	var out []controlplane.HostPath
	for _, key := range slices.Sorted(maps.Keys(h.CloudConfig.Settings)) {
		value := h.CloudConfig.Settings[key]
		name := strings.ToLower(key[strings.LastIndex(key, ".")+1:])
		if !path.IsAbs(value) || path.Clean(value) != value || !strings.HasSuffix(name, "file") && !strings.HasSuffix(name, "certpath") {
			continue
		}
		if !slices.ContainsFunc(trust(m), func(d controlplane.HostPath) bool { return strings.HasPrefix(value, d.Path+"/") }) {
			out = append(out, controlplane.HostPath{Path: value, Type: "File"})
		}
	}
	return out
}

// proxyNames are the environment variables by which a manager reaches the cloud, and whom it trusts on the way.
var proxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// proxiesLeftOut are the variables of the kube-controller-managers that the options do not give the cloud-controller-manager. A snapshot has no values.
func (b *builder) proxiesLeftOut() []string {
	given := map[string]bool{}
	for _, e := range b.opts.Env {
		name, _, _ := strings.Cut(e, "=")
		given[strings.ToUpper(name)] = true
	}
	var managers []*v1.Component
	for _, h := range b.hosts {
		managers = append(managers, component(h, KCM))
	}
	if m := hosted(b.snap, KCM); m != nil {
		managers = append(managers, m)
	}
	var out []string
	for _, name := range proxyNames {
		for _, m := range managers {
			if has(m.EnvNames, name) && !given[name] {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

func has(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
