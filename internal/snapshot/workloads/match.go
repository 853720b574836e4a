package workloads

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// addressFlags differ from host to host, if they are given with an address of the host.
var addressFlags = []string{"advertise-address", "bind-address"}

// MatchPods finds the Node of each host and the mirror pod of each component. A host is a place with files, a Node a
// name in the API; nothing says that the names are equal.
func MatchPods(g *collect.Collector) {
	objects.CheckClaims(g)
	for i := range g.Mirrors {
		p := &g.Mirrors[i]
		if slices.ContainsFunc(
			[]string{component.KAS, component.KCM, component.CCM},
			func(c string) bool { return IsPodOf(p, c) },
		) {
			g.Snap.ControlPlaneNodes = append(g.Snap.ControlPlaneNodes, p.Spec.NodeName)
		}
	}
	slices.Sort(g.Snap.ControlPlaneNodes)
	g.Snap.ControlPlaneNodes = slices.Compact(g.Snap.ControlPlaneNodes)

	pods, isNode := newMirrorPods(g), map[string]bool{}
	for i := range g.Snap.Nodes {
		isNode[g.Snap.Nodes[i].Name] = true
	}
	taken := map[string]bool{}
	for i := range g.Snap.Hosts {
		h := &g.Snap.Hosts[i]
		h.NodeName = nodeByName(g, h, isNode)
		taken[h.NodeName] = true
	}
	for i := range g.Snap.Hosts {
		h := &g.Snap.Hosts[i]
		if h.NodeName == "" {
			h.NodeName = nodeByPods(g, h, taken)
		}
		for j := range h.Components {
			h.Components[j].Pod = pods.describe(h.NodeName, h.Components[j].Name)
		}
	}
	addUnreached(g, pods)
}

// addUnreached adds a host for each Node with a part of the control plane whose host was not named. All that is known
// of it is its mirror pods. They lag behind the manifests, so nothing is planned from them, but they report whether a
// manager is there that no step would stop. While the Node of some named host is not known, none is added: it could be
// the same machine.
func addUnreached(g *collect.Collector, pods *mirrorPods) {
	// More than one of a component is a fault that is told of. An account that may create pods can add thousands.
	const maxUnreached = 10

	reached := map[string]bool{}
	for _, h := range g.Snap.Hosts {
		if h.ControlPlane && h.NodeName == "" {
			return
		}
		reached[h.NodeName] = true
	}
	for _, node := range g.Snap.ControlPlaneNodes {
		if reached[node] {
			continue
		}
		h := v1.Host{Name: node, NodeName: node, APIOnly: true}
		shown := map[string]int{}
		for _, p := range pods.byNode[node] {
			at := slices.IndexFunc(collect.ComponentNames, func(name string) bool { return IsPodOf(p, name) })
			if at < 0 || shown[collect.ComponentNames[at]] == maxUnreached {
				continue
			}
			shown[collect.ComponentNames[at]]++
			h.Components = append(h.Components, describeMirrorPod(pods, collect.ComponentNames[at], p))
		}
		slices.SortFunc(h.Components, func(a, b v1.Component) int { return strings.Compare(a.Name, b.Name) })
		h.ControlPlane = slices.ContainsFunc(
			h.Components,
			func(c v1.Component) bool { return c.Name == component.KCM || c.Name == component.KAS },
		)
		g.Snap.Hosts = append(g.Snap.Hosts, h)
	}
	slices.SortFunc(g.Snap.Hosts, func(a, b v1.Host) int { return strings.Compare(a.Name, b.Name) })
}

// describeMirrorPod is a component as its mirror pod shows it.
func describeMirrorPod(pods *mirrorPods, name string, p *corev1.Pod) v1.Component {
	out := v1.Component{Name: name, Manifest: "Pod/" + p.Namespace + "/" + p.Name}
	if len(p.Spec.Containers) > 0 {
		c := containerOf(&p.Spec.Containers[0])
		out.Image, out.Command, out.Flags, out.EnvNames, out.HostPaths = c.Image, c.Command, c.Flags, c.EnvNames, HostPaths(
			&p.Spec,
			0,
		)
	}
	out.Pod = pods.describe(p.Spec.NodeName, name)
	return out
}

// nodeByName is the Node that the kubelet was told to register as, or the one with the host's name. The flag is the
// host's own word. Where hosts are reached by their Nodes' names, it could claim the Node of another, and is not asked.
func nodeByName(g *collect.Collector, h *v1.Host, isNode map[string]bool) string {
	names := []string{h.Name}
	if h.Kubelet != nil && h.Kubelet.Flags["hostname-override"] != "" && !g.HostsAreNodes {
		names = []string{h.Kubelet.Flags["hostname-override"], h.Name}
	}
	for _, name := range names {
		if isNode[name] {
			return name
		}
	}
	return ""
}

// nodeByPods is the Node whose mirror pods have an address flag that only this host's manifests have. A host's
// addresses are its own, while names and most flags are the same everywhere.
func nodeByPods(g *collect.Collector, h *v1.Host, taken map[string]bool) string {
	for _, c := range h.Components {
		for _, flag := range addressFlags {
			address := c.Flags[flag]
			if address == "" || isUsedElsewhere(g, h.Name, c.Name, flag, address) {
				continue
			}
			var nodes []string
			for i := range g.Mirrors {
				p := &g.Mirrors[i]
				if IsPodOf(p, c.Name) && hasFlag(podCommand(p), flag, address) && !taken[p.Spec.NodeName] {
					nodes = append(nodes, p.Spec.NodeName)
				}
			}
			if len(nodes) == 1 {
				return nodes[0]
			}
		}
	}
	return ""
}

func isUsedElsewhere(g *collect.Collector, host, component, flag, value string) bool {
	for _, h := range g.Snap.Hosts {
		if h.Name == host {
			continue
		}
		for _, c := range h.Components {
			if c.Name == component && c.Flags[flag] == value {
				return true
			}
		}
	}
	return false
}

func hasFlag(command []string, name, value string) bool {
	for i, arg := range command {
		if arg == "--"+name+"="+value || (arg == "--"+name && i+1 < len(command) && command[i+1] == value) {
			return true
		}
	}
	return false
}

// IsPodOf reports whether a mirror pod is of a component. It goes by the pod's name, to which the kubelet appends the
// Node's; a cloud-controller-manager's may have a cloud's name before it. Else it goes by the program that the pod
// runs, whatever its name is.
func IsPodOf(p *corev1.Pod, component string) bool {
	name, ok := strings.CutSuffix(p.Name, "-"+p.Spec.NodeName)
	if ok && isComponent(name, component) {
		return true
	}
	return isComponent(programOf(podCommand(p)), component)
}

func isComponent(name, wanted string) bool {
	return name == wanted || wanted == component.CCM && strings.HasSuffix(name, "-"+component.CCM)
}

// mirrorPods are the mirror pods by Node. A component's is looked for once: an account that may create pods can add
// thousands to one Node.
type mirrorPods struct {
	byNode map[string][]*corev1.Pod
	first  map[componentOn]*corev1.Pod
	// described are those of first. Each of a thousand mirror pods is shown with the first one's command.
	described map[componentOn]*v1.MirrorPod
}

// componentOn is a component on a Node.
type componentOn struct{ node, component string }

func newMirrorPods(g *collect.Collector) *mirrorPods {
	m := &mirrorPods{
		byNode:    map[string][]*corev1.Pod{},
		first:     map[componentOn]*corev1.Pod{},
		described: map[componentOn]*v1.MirrorPod{},
	}
	for i := range g.Mirrors {
		p := &g.Mirrors[i]
		m.byNode[p.Spec.NodeName] = append(m.byNode[p.Spec.NodeName], p)
	}
	return m
}

// firstPod is the first mirror pod of a component on a Node; nil when the API has none.
func (m *mirrorPods) firstPod(node, component string) *corev1.Pod {
	if node == "" {
		return nil
	}
	key := componentOn{node, component}
	pod, known := m.first[key]
	if known {
		return pod
	}
	if at := slices.IndexFunc(m.byNode[node], func(p *corev1.Pod) bool { return IsPodOf(p, component) }); at >= 0 {
		pod = m.byNode[node][at]
	}
	m.first[key] = pod
	return pod
}

// describe is the mirror pod of a component on a Node as a snapshot has it; nil when the API has none.
func (m *mirrorPods) describe(node, component string) *v1.MirrorPod {
	p := m.firstPod(node, component)
	if p == nil {
		return nil
	}
	key := componentOn{node, component}
	if before := m.described[key]; before != nil {
		out := *before
		return &out
	}
	out := &v1.MirrorPod{
		Name:    p.Name,
		UID:     string(p.UID),
		Hash:    p.Annotations["kubernetes.io/config.hash"],
		Command: mask.Command(podCommand(p)),
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	m.described[key] = out
	return out
}

// podCommand is the first container's command with its arguments.
func podCommand(p *corev1.Pod) []string {
	if len(p.Spec.Containers) == 0 {
		return nil
	}
	return slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args)
}
