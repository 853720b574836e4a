package plan

import (
	"fmt"
	"net"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// ccmRetryPeriod stays on the cloud-controller-manager for good: with upstream's 2 s (up to 4.4 s with its jitter) every planned restart
// leaves the loops without an owner for seconds; one read of a lease a second by each standby costs nothing beside that.
const ccmRetryPeriod = "1s"

// ccmGraceSeconds is more than the manager needs to end its work (--drain-timeout, 20 s), to cut off what is left and to release its leases.
const ccmGraceSeconds = "30"

// Ports of a cloud-controller-manager: the library's, and the one of Azure's own manifests.
const (
	ccmPort   = "10258"
	azurePort = "10267"
)

// ccmFlags are the flags of the cloud-controller-manager that follows the kube-controller-manager m, without those that say where it finds the API.
func (b *builder) ccmFlags(m *v1.Component) []controlplane.Flag {
	flags := []controlplane.Flag{
		{Name: "leader-elect", Value: "true"},
	}
	if b.opts.Strategy == LeaderMigration {
		flags = append(flags,
			controlplane.Flag{Name: "leader-elect-retry-period", Value: b.opts.RetryPeriod},
			controlplane.Flag{Name: "leader-elect-renew-deadline", Value: b.opts.RenewDeadline},
			controlplane.Flag{Name: "enable-leader-migration", Value: "true"},
			controlplane.Flag{Name: "leader-migration-config", Value: CCMMigration})
	} else {
		flags = append(flags, controlplane.Flag{Name: "leader-elect-retry-period", Value: ccmRetryPeriod})
	}
	flags = append(flags, controlplane.Flag{Name: "use-service-account-credentials", Value: "false"})
	flags = append(flags, b.carry(m)...)
	for _, more := range []controlplane.Flag{
		{Name: "controllers", Value: b.ccmControllers(m.Flags["controllers"])}, {Name: gatesFlag, Value: b.ccmGates()}, {Name: "secure-port", Value: b.port()},
	} {
		if more.Value != "" {
			flags = append(flags, more)
		}
	}
	return flags
}

// ccmGates are the gates that the manager's library needs for leader migration: in 0.21 it was alpha.
func (b *builder) ccmGates() string {
	g := catalogue.GateFor(CCM, gateLeaderMigration, b.program.minor)
	if b.opts.Strategy != LeaderMigration || !g.Known || g.Default {
		return ""
	}
	return gateLeaderMigration + "=true"
}

// port is where the manager serves, if that is not its default: Azure's own, else the first from the default on that nothing on a host has.
func (b *builder) port() string {
	taken := b.portsTaken()
	port := ccmPort
	if b.provider.Name == providerAzure {
		port = azurePort
	}
	for n := 10270; taken[port]; n++ {
		port = fmt.Sprint(n)
	}
	if port == ccmPort {
		return ""
	}
	return port
}

// portsTaken are the ports of the control-plane hosts that something listens on.
func (b *builder) portsTaken() map[string]bool {
	taken := map[string]bool{}
	nodes := map[string]bool{}
	hosts := b.hosts
	if len(hosts) == 0 { // a control plane of Deployments
		hosts = b.snap.Hosts
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
	for _, w := range b.snap.Workloads {
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

// environment are the variables of the manager on a host, and the files that they name.
func (b *builder) environment(host string) ([]controlplane.Env, []controlplane.HostPath) {
	var env []controlplane.Env
	var files []controlplane.HostPath
	for _, e := range b.opts.Env {
		name, value, _ := strings.Cut(e, "=")
		value = strings.ReplaceAll(value, "{host}", host)
		env = append(env, controlplane.Env{Name: name, Value: value})
		if strings.HasPrefix(value, "/etc/") {
			files = append(files, controlplane.HostPath{Path: value, Type: "File"})
		}
	}
	return env, files
}

// The variable by which our manager knows its own node, and the field of its pod that has the name.
const (
	envNodeName   = "NODE_NAME"
	nodeNameField = "spec.nodeName"
)

// namesNode reports whether the manager's pod is told its node: ours deletes no node while the cloud does not know its own. Other programs may take
// the variable for something else, and a variable of the options stays as it is.
func (b *builder) namesNode() bool {
	given := func(e string) bool { return strings.HasPrefix(e, envNodeName+"=") }
	return b.program.ours && !slices.ContainsFunc(b.opts.Env, given)
}

// nodeNameEnv is the variable as an object has it.
func nodeNameEnv() object {
	return object{"name": envNodeName, "valueFrom": object{"fieldRef": object{"fieldPath": nodeNameField}}}
}

// renewTokenFlag lets our manager renew the token that its kubeconfig names.
const renewTokenFlag = "renew-token"

// renderCCM returns the manifest of the cloud-controller-manager on a host that follows the kube-controller-manager m, and what to print about it.
func (b *builder) renderCCM(h v1.Host, m *v1.Component) (string, []v1.Change) {
	flags := append([]controlplane.Flag{
		{Name: "cloud-provider", Value: b.provider.Name},
		{Name: "cloud-config", Value: CCMCloudConf},
		{Name: "kubeconfig", Value: CCMKubeconfig},
		{Name: "authentication-kubeconfig", Value: CCMKubeconfig},
		{Name: "authorization-kubeconfig", Value: CCMKubeconfig},
		{Name: "bind-address", Value: bindHost(m)},
	}, b.ccmFlags(m)...)
	c := controlplane.CCM{
		Name: CCM, Program: b.program.command, Image: b.opts.Image, Host: h.Name, BindAddress: bindHost(m), Flags: flags, ReadyPath: b.program.readyPath,
		HostPaths: []controlplane.HostPath{{Path: CCMCloudConf, Type: "File"}, {Path: CCMKubeconfig, Type: "File"},
			{Path: CCMTokenDir, Type: "Directory", Writable: b.renewsToken()}},
	}
	if b.renewsToken() {
		flags = append(flags, controlplane.Flag{Name: renewTokenFlag, Value: "true"})
		c.Flags = flags
	}
	if b.program.command == "" {
		b.refused = append(b.refused, fmt.Errorf("where the program lies in image %s is not known, and the manifest of a static pod has to say it: plan with --shape=%s, or name another image with --image",
			b.opts.Image, v1.ShapeDaemonSet))
	}
	if b.isUnconfigured(m) {
		c.Flags = slices.DeleteFunc(c.Flags, func(f controlplane.Flag) bool { return f.Name == flagCloudConfig })
		c.HostPaths = c.HostPaths[1:]
		flags = c.Flags
	}
	if b.opts.Strategy == LeaderMigration {
		c.HostPaths = append(c.HostPaths, controlplane.HostPath{Path: CCMMigration, Type: "File", Name: "transplant-leader-migration"})
	}
	if b.program.ours {
		c.GraceSeconds = ccmGraceSeconds
	}
	env, files := b.environment(h.Name)
	if b.namesNode() {
		env = append([]controlplane.Env{{Name: envNodeName, FieldPath: nodeNameField}}, env...)
	}
	c.Env, c.HostPaths = env, append(append(append(c.HostPaths, files...), trust(m)...), namedFiles(h, m)...)
	return string(controlplane.RenderCCM(c)), b.printed(flags)
}

// printed is what a reader sees of a manager that comes.
func (b *builder) printed(flags []controlplane.Flag) []v1.Change {
	change := []v1.Change{{Field: "image", After: b.opts.Image}}
	for _, f := range flags {
		change = append(change, v1.Change{Field: "--" + f.Name, After: f.Value})
	}
	return change
}
