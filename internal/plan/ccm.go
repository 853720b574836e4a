package plan

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// ccmRetryPeriod stays on the cloud-controller-manager for good: with upstream's 2 s (up to 4.4 s with its jitter) every planned restart
// leaves the loops without an owner for seconds; one read of a lease a second by each standby costs nothing beside that.
const ccmRetryPeriod = "1s"

// ccmGraceSeconds is more than the manager needs to end its work (--drain-timeout, 20 s), to cut off what is left and to release its leases.
const ccmGraceSeconds = "30"

// carriedFlags are read from the live kube-controller-manager and carried over: a different cluster name would orphan every load balancer,
// a different cluster CIDR every route.
var carriedFlags = []string{"cluster-name", "cluster-cidr", "configure-cloud-routes", "allocate-node-cidrs", "route-reconciliation-period", "concurrent-service-syncs",
	"node-monitor-period", "tls-cipher-suites", "tls-min-version", "v"}

// renderCCM returns the manifest of the cloud-controller-manager on a host, and what to print about it.
func (b *builder) renderCCM(h v1.Host, m *v1.Component) (string, []v1.Change) {
	flags := []controlplane.Flag{
		{Name: "cloud-provider", Value: ProviderAWS},
		{Name: "cloud-config", Value: CCMCloudConf},
		{Name: "kubeconfig", Value: CCMKubeconfig},
		{Name: "authentication-kubeconfig", Value: CCMKubeconfig},
		{Name: "authorization-kubeconfig", Value: CCMKubeconfig},
		{Name: "bind-address", Value: bindHost(m)},
		{Name: "leader-elect", Value: "true"},
		{Name: "leader-elect-retry-period", Value: b.opts.RetryPeriod},
		{Name: "leader-elect-renew-deadline", Value: b.opts.RenewDeadline},
		{Name: "enable-leader-migration", Value: "true"},
		{Name: "leader-migration-config", Value: CCMMigration},
		{Name: "use-service-account-credentials", Value: "false"},
	}
	carried := m.Flags
	if b.opts.ClusterName != "" {
		carried = withFlags(carried, map[string]string{"cluster-name": b.opts.ClusterName})
	}
	for _, name := range carriedFlags {
		if v, ok := carried[name]; ok {
			flags = append(flags, controlplane.Flag{Name: name, Value: v})
		}
	}
	c := controlplane.CCM{
		Name: CCM, Image: b.opts.Image, Host: h.Name, BindAddress: bindHost(m), Flags: flags,
		HostPaths: []controlplane.HostPath{
			{Path: CCMCloudConf, Type: "File"}, {Path: CCMKubeconfig, Type: "File"}, {Path: CCMMigration, Type: "File", Name: "transplant-leader-migration"},
		},
	}
	if proven.Ours(b.opts.Image) {
		c.ReadyPath, c.GraceSeconds = "/readyz", ccmGraceSeconds
	}
	for _, e := range b.opts.Env {
		name, value, _ := strings.Cut(e, "=")
		value = strings.ReplaceAll(value, "{host}", h.Name)
		c.Env = append(c.Env, controlplane.Env{Name: name, Value: value})
		if strings.HasPrefix(value, "/etc/") {
			c.HostPaths = append(c.HostPaths, controlplane.HostPath{Path: value, Type: "File"})
		}
	}
	change := []v1.Change{{Field: "image", After: b.opts.Image}}
	for _, f := range flags {
		change = append(change, v1.Change{Field: "--" + f.Name, After: f.Value})
	}
	return string(controlplane.RenderCCM(c)), change
}
