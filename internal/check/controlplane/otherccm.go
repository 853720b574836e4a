package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var portTaken = rule.Check{
	Code:      "CP-011",
	Reason:    "PortTaken",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the process that has the port, and the pod that it belongs to",
	DependsOn: rule.OnHosts,
	Judge:     judgePorts,
}

func judgePorts(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	users, hosts, somewhere := ports(f)
	bad := portConflicts(f, users)
	for _, w := range f.Workloads {
		if complaint := surges(w); complaint != "" {
			bad.Add(w.Ref, "%s %s", w.Ref, complaint)
		}
	}
	const expected = "one process for each port of a host"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(v1.Fail, "%s on the hosts' network: %s", findings.Plural(len(bad), "conflict"), bad[0].Text),
			expected,
			"manifests, workloads",
			fmt.Sprintf("ss -ltnp 'sport = :%s'   # on each control-plane host", component.PortCCM),
		)
	case !somewhere.Empty():
		return findings.With(somewhere.Some(v1.Warn, "%s", somewhere[0].Text), expected, "workloads",
			"kubectl get pods -A -o wide --field-selector status.phase=Running | grep -w "+shell.Quote(facts.NameOf(somewhere[0].Object)))
	}
	return findings.Pass(
		"port %s is free for the cloud-controller-manager on %s",
		component.PortCCM,
		findings.Plural(hosts, "control-plane host"),
	)
}

// ports are the listeners on the control-plane hosts' networks, by host and port. They include on how many hosts that
// was read, and listeners whose port is not known.
func ports(f facts.Facts) (users map[string]map[string][]string, hosts int, somewhere findings.Problems) {
	users = map[string]map[string][]string{}
	for _, name := range components {
		for _, p := range f.InstancesOf(name) {
			if p.RunKind() == v1.RunsDeployment {
				continue
			}
			if users[p.Host.Name] == nil {
				users[p.Host.Name] = map[string][]string{}
			}
			port := p.Flag("secure-port", component.DefaultPorts[name])
			users[p.Host.Name][port] = append(users[p.Host.Name][port], name)
		}
	}
	for _, w := range f.Workloads {
		if isComponent(f, w.Ref) || w.Replicas == 0 {
			continue
		}
		for _, port := range hostPorts(w) {
			if len(w.Nodes) == 0 && (port == component.PortCCM || port == component.PortKCM) {
				somewhere.Add(w.Ref, "%s listens on port %s of its hosts, and where its pods run is not known", w.Ref, port)
			}
			for _, host := range hostsOf(f, w) {
				if users[host] != nil {
					users[host][port] = append(users[host][port], w.Ref)
				}
			}
		}
	}
	return users, len(users), somewhere
}

// portConflicts are the ports that two want, and the new manager's port if it is taken.
func portConflicts(f facts.Facts, users map[string]map[string][]string) findings.Problems {
	var bad findings.Problems
	for _, host := range slices.Sorted(maps.Keys(users)) {
		for _, port := range slices.Sorted(maps.Keys(users[host])) {
			who := users[host][port]
			switch {
			case len(who) > 1:
				bad.Add(host+":"+port, "port %s of host %s: %s", port, host, strings.Join(who, " and "))
			case port == component.PortCCM && who[0] != component.CCM && f.Stage() != facts.StageExternal:
				bad.Add(
					host+":"+port,
					"port %s of host %s, which the new cloud-controller-manager takes, has %s",
					port,
					host,
					who[0],
				)
			}
		}
	}
	return bad
}

// surges says why an update of a cloud-controller-manager on the host's network gets stuck; empty when it does not.
func surges(w v1.Workload) string {
	if w.Role != v1.RoleCCM || !w.HostNetwork || w.Replicas == 0 || !strings.HasPrefix(w.Ref, "Deployment/") ||
		w.Strategy != "RollingUpdate" {
		return ""
	}
	if w.MaxSurge == "0" || w.MaxSurge == "0%" {
		return ""
	}
	return fmt.Sprintf(
		"is updated with maxSurge %s on the host's network: the new pod cannot listen while the old one does",
		findings.OrElse(w.MaxSurge, "25%"),
	)
}

// isComponent reports whether a workload is already known as a component of the control plane.
func isComponent(f facts.Facts, ref string) bool {
	return slices.ContainsFunc(f.Hosted, func(c v1.Component) bool { return c.Manifest == ref })
}

// hostPorts are the ports of its host on which a workload listens, as its pods say. These are those it declares and, on
// the host's network, --secure-port.
func hostPorts(w v1.Workload) []string {
	ports := map[string]bool{}
	for _, c := range w.Containers {
		for _, p := range c.HostPorts {
			ports[strconv.Itoa(int(p))] = true
		}
		if !w.HostNetwork {
			continue
		}
		if p := c.Flags["secure-port"]; p != "" && p != "0" {
			ports[p] = true
		} else if w.Role == v1.RoleCCM && p == "" {
			ports[component.PortCCM] = true
		}
	}
	return slices.Sorted(maps.Keys(ports))
}

// hostsOf are the hosts on whose Nodes a workload runs.
func hostsOf(f facts.Facts, w v1.Workload) []string {
	var out []string
	for _, h := range f.Hosts {
		if h.NodeName != "" && slices.Contains(w.Nodes, h.NodeName) {
			out = append(out, h.Name)
		}
	}
	return out
}

var otherCCM = rule.Check{
	Code:      "CP-012",
	Reason:    "OtherCCM",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	OnlyIf:    "no other tool installs it again, and the in-tree managers run the loops",
	Warning:   "the cloud-controller-manager that is installed stops on every node; its configuration is kept nowhere: save it first with -o yaml",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeOtherCCM,
}

func judgeOtherCCM(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	var live, idle findings.Problems
	leases := map[string][]string{}
	for _, p := range f.InstancesOf(component.CCM) {
		if p.RunKind() != v1.RunsDeployment {
			leases[leaseOf(p.Flags)] = append(leases[leaseOf(p.Flags)], p.String())
		}
	}
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCCM {
			continue
		}
		lease := leaseOf(ccmFlags(w))
		leases[lease] = append(leases[lease], w.Ref)
		if w.Replicas == 0 {
			idle.Add(w.Ref, "%s (%s) is scaled to 0", w.Ref, imageOf(w))
			continue
		}
		live.Add(
			w.Ref,
			"%s (%s) has %s ready and elects by %s",
			w.Ref,
			imageOf(w),
			findings.Plural(int(w.Ready), "pod"),
			lease,
		)
	}
	for _, w := range f.Foreign {
		idle.Add(
			w.Ref,
			"%s (%s) is a cloud-controller-manager outside of the control plane's namespace: it is a second owner of the loops if it has this cluster's credentials",
			w.Ref,
			imageOf(w),
		)
	}
	const expected, source = "no other cloud-controller-manager", "/apis/apps/v1/deployments, /apis/apps/v1/daemonsets"
	inTree := len(f.InTree()) > 0
	switch {
	case !live.Empty() && inTree && !f.Opts.InProgress:
		return findings.With(
			live.Finding(v1.Fail, "a cloud-controller-manager runs next to in-tree managers: %s", live[0].Text),
			expected,
			source,
			facts.DeleteCommand(live[0].Object),
		)
	case !live.Empty() && len(leases) > 1:
		return findings.With(
			live.Finding(
				v1.Fail,
				"cloud-controller-managers elect by %d leases (%s): each has a leader of its own",
				len(leases),
				strings.Join(slices.Sorted(maps.Keys(leases)), ", "),
			),
			expected,
			source,
			facts.DeleteCommand(live[0].Object),
		)
	case !idle.Empty():
		return findings.With(
			idle.Finding(v1.Warn, "%s", idle[0].Text),
			expected,
			source,
			facts.DeleteCommand(idle[0].Object),
		)
	case !live.Empty():
		return findings.Pass("one cloud-controller-manager is in the cluster: %s", live[0].Text)
	}
	return findings.Pass("no workload runs a cloud-controller-manager")
}

// leaseOf names the lock by which a manager with these flags is elected.
func leaseOf(flags map[string]string) string {
	if v := flags["leader-elect"]; v == "false" || v == "0" {
		return "no lease at all (--leader-elect=false)"
	}
	return "Lease/" + findings.OrElse(
		flags["leader-elect-resource-namespace"],
		component.Namespace,
	) + "/" + findings.OrElse(
		flags["leader-elect-resource-name"],
		component.CCM,
	)
}

func ccmFlags(w v1.Workload) map[string]string {
	if len(w.Containers) == 0 {
		return nil
	}
	return facts.ManagerOf(w).Flags
}

func imageOf(w v1.Workload) string {
	if len(w.Containers) == 0 {
		return "no image"
	}
	return facts.ManagerOf(w).Image
}
