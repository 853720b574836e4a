package plan

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// kubelets makes every kubelet external that can be reached, one at a time: those of the control plane first, then the workers, of which the first
// one is the canary: a kubelet that does not come back keeps the others from being touched.
func (b *builder) kubelets() {
	canary := true
	for _, h := range b.kubeletHosts() {
		edits := b.kubeletEdits(h)
		if len(edits) == 0 {
			continue
		}
		s := v1.Step{
			ID: "external/kubelet@" + h.Name, Phase: PhaseKubelets, Kind: v1.StepKubelet, Title: "make the kubelet on " + h.Name + " external",
			Why:  "a registered node gets no taint by this; its identity and addresses stay",
			Host: h.Name, Component: kubeletName, Path: b.kubeletFile(h, edits), Edits: edits,
			Changes: changes(edits, h.Kubelet.Flags), Undo: "put the flags back and restart", EstimateSeconds: 5,
		}
		s.Requires = []string{"cluster:uid", b.fileFact(h, s.Path)}
		if b.drained(h) {
			s.Drain, s.EstimateSeconds = true, 125
			s.Why = "volumes of the in-tree plugin are mounted here, and CSI could not unmount them: the node is drained first; " + s.Why
		}
		if canary && len(b.snap.Nodes) > len(b.hosts) && !h.ControlPlane {
			canary = false
			s.Why += "; it is the first worker, and when it does not come back no other one is touched"
		}
		s.Manual = manualKubelet(s, h.NodeName, h.Kubelet.Flags)
		b.add(s)
		b.kubeletConfigNote(h)
	}
	b.hostnameNote()
}

// kubeletHosts are the hosts whose kubelets run with the in-tree provider: the control plane's first, in the snapshot's order.
func (b *builder) kubeletHosts() []v1.Host {
	var out []v1.Host
	for _, h := range b.snap.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" && !h.APIOnly && h.Kubelet.Flags["cloud-provider"] == b.provider.Name {
			out = append(out, h)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].ControlPlane && !out[j].ControlPlane })
	return out
}

// kubeletEdits change the flags of the provider and no other, save that a kubelet that would come back under another name is told its own: its name,
// addresses, providerID and taints stay what they are.
func (b *builder) kubeletEdits(h v1.Host) []v1.Edit {
	flags, n := h.Kubelet.Flags, b.kubeletMinor(h)
	edits := []v1.Edit{{Op: "setFlag", Name: "cloud-provider", Value: "external"}}
	if _, ok := flags[flagCloudConfig]; ok {
		edits = append(edits, v1.Edit{Op: "unsetFlag", Name: flagCloudConfig})
	}
	if h.NodeName != "" && keptName(h, b.node(h.NodeName), flags[flagHostname]) != h.NodeName {
		edits = append(edits, v1.Edit{Op: "setFlag", Name: flagHostname, Value: h.NodeName})
	}
	gates := b.csiGates()
	for i, g := range gates {
		if h.Kubelet.Config != nil {
			on, said := h.Kubelet.Config.FeatureGates[g.name]
			gates[i].force = said && !on
		}
	}
	credentials := b.credentialFlags(h)
	gates = append(gates, inTreeAgain(flags[gatesFlag], gateNoProviders)...)
	if len(credentials) > 0 || b.provider.Credentials == nil || b.hasCredentials(h) {
		gates = append(gates, inTreeAgain(flags[gatesFlag], gateNoCredentials)...)
	}
	if len(credentials) > 0 {
		gates = append(gates, gateChange{name: gateCredentials, to: gateOn})
	}
	edits = append(edits, gateEdits(flags[gatesFlag], kubeletName, n, gates)...)
	return append(edits, credentials...)
}

// flagHostname names a kubelet; labelHostname is the label by which a kubelet shows the host's own name, or that flag.
const (
	flagHostname  = "hostname-override"
	labelHostname = "kubernetes.io/hostname"
)

// keptName is the name under which an external kubelet registers. An in-tree one asks its cloud, an external one takes --hostname-override or the
// host's own name, which is known by the label that it set; empty when it is not known. Kubelets write both in lower case.
func keptName(h v1.Host, n *v1.Node, override string) string {
	switch {
	case override != "":
		return strings.ToLower(strings.TrimSpace(override))
	case n == nil || n.Name != h.NodeName:
		return ""
	}
	return n.Labels[labelHostname]
}

// hostnameNote names the nodes whose label of the host's name changes with --hostname-override, and what may depend on it.
func (b *builder) hostnameNote() {
	var changed []string
	for _, s := range b.steps {
		e, ok := edit(s, flagHostname)
		if !ok || s.Kind != v1.StepKubelet {
			continue
		}
		if n := b.node(e.Value); n != nil && n.Labels[labelHostname] != "" && n.Labels[labelHostname] != e.Value {
			changed = append(changed, n.Labels[labelHostname])
		}
	}
	if len(changed) == 0 {
		return
	}
	b.noteOnce(fmt.Sprintf("the label %s of %s becomes the node's name (it is %s now), since an external kubelet keeps its name by --%s alone: what selects nodes by the old value, "+
		"local volumes among it, does not find them any longer; --node-labels=%s=<old value> on a kubelet keeps it", labelHostname, count(len(changed), "node"), few(changed), flagHostname, labelHostname))
}

// drained tells that a node has volumes that only the in-tree plugin can unmount and that its kubelet is about to leave to CSI.
func (b *builder) drained(h v1.Host) bool {
	n := b.node(h.NodeName)
	if n == nil || !b.volumes.csi {
		return false
	}
	for _, p := range b.volumes.plugins {
		if mounted(*n, p) && !b.kubeletMigrated(h, p) {
			return true
		}
	}
	return false
}

// kubeletFile is the one file that holds the flags that change; a step has one backup and one undo.
func (b *builder) kubeletFile(h v1.Host, edits []v1.Edit) string {
	files := map[string][]string{}
	for _, e := range edits {
		if _, there := h.Kubelet.Flags[e.Name]; !there {
			continue
		}
		file := h.Kubelet.Sources[e.Name]
		if file == "" {
			file = h.Kubelet.Source
		}
		files[file] = append(files[file], "--"+e.Name)
	}
	var names []string
	for f := range files {
		names = append(names, f)
	}
	sort.Strings(names)
	switch len(names) {
	case 0:
		return h.Kubelet.Source
	case 1:
		return names[0]
	}
	parts := make([]string, len(names))
	for i, f := range names {
		parts[i] = strings.Join(files[f], ", ") + " in " + f
	}
	b.refused = append(b.refused, fmt.Errorf("the flags of the kubelet on host %s that change are spread over files (%s): write them into one of these files, restart the kubelet, and plan again",
		h.Name, strings.Join(parts, "; ")))
	return names[0]
}

// kubeletConfigNote names gates of a kubelet's configuration file that keep in-tree code in; a plan edits flags only, and 1.31 refuses them.
func (b *builder) kubeletConfigNote(h v1.Host) {
	if h.Kubelet.Config == nil {
		return
	}
	for _, g := range []string{gateNoCredentials, gateNoProviders} {
		if on, said := h.Kubelet.Config.FeatureGates[g]; said && !on {
			b.noteOnce(fmt.Sprintf("to do by hand before Kubernetes 1.31: take %s=false out of featureGates in %s on every host; a kubelet of 1.31 does not start with it", g, h.Kubelet.Config.Path))
		}
	}
}
