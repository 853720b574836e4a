package snapshot

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// podPlace is what a manager in a pod with a network of its own is called by: the Ref of its Deployment, and its pod.
// No host is called so, since a name of a host has no slash.
const podPlace = "Deployment/"

// Place is where the manager of a Deployment is, and at which address it is asked there. On the network of a host that is
// known it is a manager of that host. Elsewhere only the API server leads to its port, and the place names the pod; see
// PodOfPlace. The hosts are by the names of their nodes.
func (p SeedPod) Place(hosts map[string]string) (host, address string) {
	_, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return p.Workload + "/" + p.Name, ""
	}
	host, known := hosts[p.Node]
	if !known || !p.HostNetwork {
		return p.Workload + "/" + p.Name, p.Address
	}
	ip := net.ParseIP(p.Flags["bind-address"])
	switch {
	case p.Flags["bind-address"] == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return host, net.JoinHostPort("127.0.0.1", port)
	case ip != nil && ip.IsUnspecified():
		return host, net.JoinHostPort("::1", port)
	case ip != nil:
		return host, net.JoinHostPort(ip.String(), port)
	}
	return host, p.Address // a variable such as $(HOST_IP), which the address of the pod stands for
}

// PodOfPlace returns the pod that a place of Place names; ok is false for a host.
func PodOfPlace(place string) (namespace, pod string, ok bool) {
	parts := strings.Split(place, "/")
	if !strings.HasPrefix(place, podPlace) || len(parts) != 4 {
		return "", "", false
	}
	return parts[1], parts[3], true
}

// RunsNow reports whether the container of the pod may run: one that was never started does not, nor one that has ended.
func (p SeedPod) RunsNow() bool { return !p.Ended && (p.Container != "" || p.Running) }

// deployedManagers asks the pods of each manager that runs as a Deployment for its gauges.
func (g *gatherer) deployedManagers(ctx context.Context) {
	hosts := map[string]string{}
	for _, h := range g.snap.Hosts {
		if !h.APIOnly && h.NodeName != "" {
			hosts[h.NodeName] = h.Name
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	add := func(m v1.Manager, fact, of string) {
		if m.Error != "" {
			g.unknown("managers/"+fact+"/"+m.Component, "asking "+m.Component+" of "+of+" which loops it runs: "+m.Error)
		}
		mu.Lock()
		defer mu.Unlock()
		g.snap.Managers = append(g.snap.Managers, m)
	}
	for _, c := range g.snap.Hosted {
		if c.Name != kcm && c.Name != ccm {
			continue
		}
		asked := map[string]bool{}
		for _, p := range g.podsRunning(c) {
			host, address := g.runningAs(ctx, p, hosts).Place(hosts)
			if asked[host] {
				continue // of two pods of one host, which share its port, one ends
			}
			asked[host] = true
			wg.Go(func() {
				m := v1.Manager{Component: c.Name, Host: host, Error: "its pod " + p.Name + " has no address"}
				if address != "" {
					m = g.manager(ctx, v1.Component{Name: c.Name, Address: address}, host)
				}
				add(m, c.Manifest+"/"+p.Name, c.Manifest)
			})
		}
		if len(asked) == 0 && (c.Replicas == nil || *c.Replicas != 0) {
			add(v1.Manager{Component: c.Name, Host: c.Manifest, Error: g.whyNoPod()}, c.Manifest, c.Manifest)
		}
	}
	wg.Wait()
}

// podsRunning are the pods of a component's Deployment whose managers may run.
func (g *gatherer) podsRunning(c v1.Component) []SeedPod {
	var out []SeedPod
	for _, p := range g.managerPods {
		if p.Component == c.Name && p.Workload == c.Manifest && p.RunsNow() {
			out = append(out, p)
		}
	}
	return out
}

// runningAs is RunningAs of the host of the pod's node.
func (g *gatherer) runningAs(ctx context.Context, p SeedPod, hosts map[string]string) SeedPod {
	at := slices.IndexFunc(g.Hosts, func(h hostaccess.Host) bool { return h.Name() == hosts[p.Node] })
	if at < 0 {
		return p
	}
	ctx, cancel := g.call(ctx)
	defer cancel()
	return p.RunningAs(ctx, g.Hosts[at])
}

// RunningAs is the pod with the flags of its process on its host, where that can be seen: in these a variable of the template
// has its value.
func (p SeedPod) RunningAs(ctx context.Context, h hostaccess.Host) SeedPod {
	if !p.HostNetwork {
		return p
	}
	processes, err := h.Processes(ctx, p.Component)
	if err != nil || len(processes) != 1 {
		return p // its template says nearly the same
	}
	p.Flags = commandline.FlagsOf(processes[0].Args)
	return p
}

// whyNoPod says why no pod of a Deployment can be asked.
func (g *gatherer) whyNoPod() string {
	if g.runsOn == nil {
		return "the pods in " + namespace + " could not be listed"
	}
	return "none of its pods runs"
}
