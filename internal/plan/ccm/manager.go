package ccm

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// RetryPeriod stays on the cloud-controller-manager for good. With upstream's 2 s (up to 4.4 s with its jitter) every
// planned restart leaves the loops without an owner for seconds. One read of a lease a second by each standby costs
// nothing next to that.
const RetryPeriod = "1s"

// graceSeconds is more than the manager needs to end its work (--drain-timeout, 20 s), to cut off what is left and to
// release its leases.
const graceSeconds = "30"

// ManagerFlags are the flags of the cloud-controller-manager that follows the kube-controller-manager m, without those
// that say where it finds the API.
func ManagerFlags(d *draft.Draft, m *v1.Component) []controlplane.Flag {
	flags := []controlplane.Flag{
		{Name: "leader-elect", Value: "true"},
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		flags = append(flags,
			controlplane.Flag{Name: "leader-elect-retry-period", Value: d.Options.RetryPeriod},
			controlplane.Flag{Name: "leader-elect-renew-deadline", Value: d.Options.RenewDeadline},
			controlplane.Flag{Name: "enable-leader-migration", Value: "true"},
			controlplane.Flag{Name: "leader-migration-config", Value: layout.CCMMigration})
	} else {
		flags = append(flags, controlplane.Flag{Name: "leader-elect-retry-period", Value: RetryPeriod})
	}
	flags = append(flags, controlplane.Flag{Name: "use-service-account-credentials", Value: "false"})
	flags = append(flags, InheritFlags(d, m)...)
	for _, more := range []controlplane.Flag{
		{
			Name:  "controllers",
			Value: ControllersFlag(d, m.Flags["controllers"]),
		}, {Name: flagvalue.FlagFeatureGates, Value: ManagerGates(d)}, {Name: "secure-port", Value: ServingPort(d)},
	} {
		if more.Value != "" {
			flags = append(flags, more)
		}
	}
	return flags
}

// ManagerGates are the gates that the manager's library needs for leader migration: in 0.21 it was alpha.
func ManagerGates(d *draft.Draft) string {
	g := catalogue.GateFor(component.CCM, flagvalue.GateLeaderMigration, d.Program.Minor)
	if d.Options.Strategy != planstep.LeaderMigration || !g.Known || g.Default {
		return ""
	}
	return flagvalue.GateLeaderMigration + "=true"
}

// ServingPort is where the manager serves, if that is not its default. It is the program's own port, else the default.
// If something on a host has that port, it is the first free one from 10270 on.
func ServingPort(d *draft.Draft) string {
	taken := takenPorts(d)
	port := cmp.Or(d.Program.ServingPort, component.PortCCM)
	for n := 10270; taken[port]; n++ {
		port = fmt.Sprint(n)
	}
	if port == component.PortCCM {
		return ""
	}
	return port
}

// takenPorts are the ports of the control-plane hosts that something listens on.
func takenPorts(d *draft.Draft) map[string]bool {
	taken := map[string]bool{}
	nodes := map[string]bool{}
	hosts := d.Hosts
	if len(hosts) == 0 { // a control plane of Deployments
		hosts = d.Snapshot.Hosts
	}
	for _, h := range hosts {
		if !h.ControlPlane {
			continue
		}
		nodes[h.NodeName] = true
		for _, c := range h.Components {
			if _, port, err := net.SplitHostPort(c.Address); err == nil {
				taken[port] = true
			}
			taken[c.Flags["secure-port"]] = true
		}
	}
	for _, w := range d.Snapshot.Workloads {
		if len(nodes) > 0 && len(w.Nodes) > 0 && !slices.ContainsFunc(w.Nodes, func(n string) bool { return nodes[n] }) {
			continue
		}
		for _, c := range w.Containers {
			for _, p := range c.HostPorts {
				taken[fmt.Sprint(p)] = true
			}
			if w.HostNetwork {
				taken[c.Flags["secure-port"]] = true
			}
		}
	}
	delete(taken, "")
	return taken
}

// flagBindAddress is where a manager listens.
const flagBindAddress = "bind-address"

// bindAddress is where the successor of a kube-controller-manager listens: where that one does. What scrapes the
// metrics of the one from elsewhere reaches the other. Both ask for a token.
func bindAddress(m *v1.Component) string {
	if given := m.Flags[flagBindAddress]; isUnspecified(given) {
		return given
	}
	return clusterview.BindHost(m)
}

// isUnspecified reports whether an address stands for all addresses of a host.
func isUnspecified(address string) bool {
	ip := net.ParseIP(address)
	return ip != nil && ip.IsUnspecified()
}

// FlagRenewToken lets our manager renew the token that its kubeconfig names.
const FlagRenewToken = "renew-token"

// RenderStaticPod returns the manifest of the cloud-controller-manager on a host that follows the
// kube-controller-manager m, and what to print about it.
func RenderStaticPod(d *draft.Draft, h v1.Host, m *v1.Component) (string, []v1.Change) {
	flags := append([]controlplane.Flag{
		{Name: "cloud-provider", Value: d.Provider.Name},
		{Name: "cloud-config", Value: layout.CCMCloudConf},
		{Name: "kubeconfig", Value: layout.CCMKubeconfig},
		{Name: "authentication-kubeconfig", Value: layout.CCMKubeconfig},
		{Name: "authorization-kubeconfig", Value: layout.CCMKubeconfig},
		{Name: flagBindAddress, Value: bindAddress(m)},
	}, ManagerFlags(d, m)...)
	c := controlplane.CCM{
		Name:        component.CCM,
		Program:     d.Program.Command,
		Image:       d.Options.Image,
		Host:        h.Name,
		BindAddress: bindAddress(m),
		Flags:       flags,
		ReadyPath:   d.Program.ReadyPath,
		HostPaths: []controlplane.HostPath{
			{Path: layout.CCMCloudConf, Type: "File"},
			{Path: layout.CCMKubeconfig, Type: "File"},
			{Path: layout.CCMTokenDir, Type: "Directory", Writable: renewsToken(d)},
		},
	}
	if renewsToken(d) {
		flags = append(flags, controlplane.Flag{Name: FlagRenewToken, Value: "true"})
		c.Flags = flags
	}
	if d.Program.Command == "" {
		d.Refusals = append(
			d.Refusals,
			fmt.Errorf(
				"the program's path in image %s is not known, and the manifest of a static pod needs it; plan with --shape=%s, or name another image with --image",
				d.Options.Image,
				v1.ShapeDaemonSet,
			),
		)
	}
	if IsUnconfigured(d, m) {
		c.Flags = slices.DeleteFunc(c.Flags, func(f controlplane.Flag) bool { return f.Name == flagvalue.FlagCloudConfig })
		c.HostPaths = c.HostPaths[1:]
		flags = c.Flags
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		c.HostPaths = append(
			c.HostPaths,
			controlplane.HostPath{Path: layout.CCMMigration, Type: "File", Name: "transplant-leader-migration"},
		)
	}
	if d.Program.Ours {
		c.GraceSeconds = graceSeconds
	}
	env, files := Environment(d, h.Name)
	var own []controlplane.Env
	for _, name := range ownVariablesOf(d) {
		own = append(own, controlplane.Env{Name: name, FieldPath: OwnFields[name]})
	}
	env = append(own, env...)
	c.Env, c.HostPaths = env, append(
		append(append(c.HostPaths, files...), clusterview.TrustMounts(m)...),
		clusterview.ConfigFileMounts(h, m)...)
	return string(controlplane.RenderCCM(c)), DescribeFlags(d, flags)
}

// DescribeFlags is what a reader sees of a manager that comes.
func DescribeFlags(d *draft.Draft, flags []controlplane.Flag) []v1.Change {
	change := []v1.Change{{Field: "image", After: d.Options.Image}}
	for _, f := range flags {
		change = append(change, v1.Change{Field: "--" + f.Name, After: f.Value})
	}
	return change
}
