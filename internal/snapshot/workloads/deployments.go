package workloads

import (
	"context"
	"slices"
	"strings"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/together"
)

// PodOfPlace returns the pod that a place of Place names; ok is false for a host.
func PodOfPlace(place string) (namespace, pod string, ok bool) {
	parts := strings.Split(place, "/")
	if !strings.HasPrefix(place, collect.PodPlace) || len(parts) != 4 {
		return "", "", false
	}
	return parts[1], parts[3], true
}

// AskDeployedManagers asks the pods of each manager that runs as a Deployment, or as the DaemonSet that manifests and
// charts install, for its gauges.
func AskDeployedManagers(ctx context.Context, g *collect.Collector) {
	hosts := map[string]string{}
	for _, h := range g.Snap.Hosts {
		if !h.APIOnly && h.NodeName != "" {
			hosts[h.NodeName] = h.Name
		}
	}
	var wg together.Group
	var mu sync.Mutex
	add := func(m v1.Manager, fact, of string) {
		if m.Error != "" {
			g.Unknown("managers/"+fact+"/"+m.Component, "asking "+m.Component+" of "+of+" which loops it runs: "+m.Error)
		}
		mu.Lock()
		defer mu.Unlock()
		g.Snap.Managers = append(g.Snap.Managers, m)
	}
	for _, c := range append(slices.Clone(g.Snap.Hosted), daemonSets(g)...) {
		if c.Name != component.KCM && c.Name != component.CCM {
			continue
		}
		asked := map[string]bool{}
		for _, p := range podsRunning(g, c) {
			host, address := runningAs(ctx, g, p, hosts).Place(hosts)
			if asked[host] {
				continue // of two pods of one host, which share its port, one ends
			}
			asked[host] = true
			wg.Go(func() {
				m := v1.Manager{Component: c.Name, Host: host, Error: "its pod " + p.Name + " has no address"}
				if address != "" {
					m = g.AskManager(ctx, v1.Component{Name: c.Name, Address: address}, host)
				}
				add(m, c.Manifest+"/"+p.Name, c.Manifest)
			})
		}
		if len(asked) == 0 && (c.Replicas == nil || *c.Replicas != 0) {
			add(v1.Manager{Component: c.Name, Host: c.Manifest, Error: missingPodReason(g)}, c.Manifest, c.Manifest)
		}
	}
	wg.Wait()
}

// daemonSets are the DaemonSets of kube-system that have pods with a cloud-controller-manager.
func daemonSets(g *collect.Collector) []v1.Component {
	var out []v1.Component
	for _, p := range g.ManagerPods {
		c := v1.Component{Name: component.CCM, Manifest: p.Workload}
		isKnown := slices.ContainsFunc(out, func(o v1.Component) bool { return o.Manifest == c.Manifest })
		if p.Component == c.Name && strings.HasPrefix(c.Manifest, "DaemonSet/") && !isKnown {
			out = append(out, c)
		}
	}
	return out
}

// podsRunning are the pods of a component's workload whose managers may run.
func podsRunning(g *collect.Collector, c v1.Component) []collect.SeedPod {
	var out []collect.SeedPod
	for _, p := range g.ManagerPods {
		if p.Component == c.Name && p.Workload == c.Manifest && p.RunsNow() {
			out = append(out, p)
		}
	}
	return out
}

// runningAs is RunningAs of the host of the pod's node.
func runningAs(ctx context.Context, g *collect.Collector, p collect.SeedPod, hosts map[string]string) collect.SeedPod {
	at := slices.IndexFunc(g.Hosts, func(h hostaccess.Host) bool { return h.Name() == hosts[p.Node] })
	if at < 0 {
		return p
	}
	ctx, cancel := g.Call(ctx)
	defer cancel()
	return p.RunningAs(ctx, g.Hosts[at])
}

// missingPodReason says why no pod of a Deployment can be asked.
func missingPodReason(g *collect.Collector) string {
	if g.RunsOn == nil {
		return "the pods in " + component.Namespace + " could not be listed"
	}
	return "none of its pods runs"
}
