package plan

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// kubelets makes every kubelet external that can be reached: those of the control plane first and one at a time, then one worker alone, the canary, and
// then as many at a time as the budget allows. A kubelet that does not come back keeps the others from being touched.
func (b *builder) kubelets() {
	batches := batcher{size: budgetOf(b.opts.MaxUnavailable, len(b.snap.Nodes))}
	canary := true
	for _, h := range b.kubeletHosts() {
		edits := b.kubeletEdits(h)
		if len(edits) == 0 {
			continue
		}
		s := v1.Step{
			ID: "external/kubelet@" + h.Name, Phase: PhaseKubelets, Kind: v1.StepKubelet, Title: "make the kubelet on " + h.Name + " external",
			Why:  "a registered node gets no taint by this; its identity and addresses stay",
			Host: h.Name, Component: kubeletName, Undo: "put the flags back and restart", EstimateSeconds: 5,
		}
		b.placed(h, &s, edits)
		s.Requires = []string{"cluster:uid"}
		s.Requires = append(s.Requires, b.kubeletFacts(h, s)...)
		if b.drained(h) {
			s.Drain, s.EstimateSeconds = true, 125
			s.Why = "volumes of the in-tree plugin are mounted here, and CSI could not unmount them: the node is drained first; " + s.Why
		}
		switch {
		case h.ControlPlane:
		case canary:
			canary, s.Canary = false, true
			s.Why += "; it is the first worker, and when it does not come back no other one is touched"
		default:
			s.Batch = batches.next()
		}
		s.Manual = b.kubeletCommands(h, s)
		b.add(s)
		b.kubeletConfigNote(h, s)
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
	gates, inConfig := b.configGates(h)
	credentials := b.credentialFlags(h)
	gates = append(gates, inTreeAgain(flags[gatesFlag], gateNoProviders)...)
	if len(credentials) > 0 || b.provider.Credentials == nil || b.hasCredentials(h) {
		gates = append(gates, inTreeAgain(flags[gatesFlag], gateNoCredentials)...)
	}
	if len(credentials) > 0 {
		gates = append(gates, gateChange{name: gateCredentials, to: gateOn})
	}
	edits = append(edits, gateEdits(flags[gatesFlag], kubeletName, n, gates)...)
	return append(append(edits, credentials...), inConfig...)
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
