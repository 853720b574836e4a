// Package kubelet decides how kubelets become external. It says which files change, in which order and batches, what
// kubelets pull images with, and which nodes get a providerID.
package kubelet

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// MakeExternal makes every kubelet external that can be reached. Those of the control plane come first and one at a
// time. Then comes the first worker of each kind, one at a time: the canaries. The other workers follow, as many at a
// time as the budget allows. A kubelet that does not come back keeps the others from being touched.
func MakeExternal(d *draft.Draft) {
	var changes []change
	for _, h := range inTreeHosts(d) {
		if edits := editsFor(d, h); len(edits) > 0 {
			changes = append(changes, change{host: h, step: externalStep(d, h, edits)})
		}
	}
	canariesFirst(d, changes)
	batches := batcher{size: options.CountUnavailable(d.Options.MaxUnavailable, len(d.Snapshot.Nodes))}
	for _, c := range changes {
		s := c.step
		if !c.host.ControlPlane && !s.Canary {
			s.Batch = batches.next()
		}
		s.Manual = commandsFor(c.host, s)
		d.Add(s)
		noteLeftGates(d, c.host, s)
	}
	noteHostnames(d)
}

// externalStep is the step that makes the kubelet of a host external.
func externalStep(d *draft.Draft, h v1.Host, edits []v1.Edit) v1.Step {
	s := v1.Step{
		ID:              "external/kubelet@" + h.Name,
		Phase:           planstep.PhaseKubelets,
		Kind:            v1.StepKubelet,
		Title:           "make the kubelet on " + h.Name + " external",
		Why:             "a registered node gets no taint by this; its identity and addresses stay",
		Host:            h.Name,
		Component:       component.Kubelet,
		Undo:            "put the flags back and restart",
		EstimateSeconds: 5,
	}
	placeEdits(h, &s, edits)
	s.Requires = []string{"cluster:uid"}
	s.Requires = append(s.Requires, requireFacts(d, h, s)...)
	if needsDrain(d, h) {
		s.Drain, s.EstimateSeconds = true, 125
		s.Why = "volumes of the in-tree plugin are mounted here, and CSI could not unmount them: the node is drained first; " + s.Why
	}
	return s
}

// inTreeHosts are the hosts whose kubelets run with the in-tree provider: the control plane's first, in the snapshot's
// order.
func inTreeHosts(d *draft.Draft) []v1.Host {
	var out []v1.Host
	for _, h := range d.Snapshot.Hosts {
		if h.Kubelet != nil && h.Kubelet.Error == "" && !h.APIOnly && h.Kubelet.Flags["cloud-provider"] == d.Provider.Name {
			out = append(out, h)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].ControlPlane && !out[j].ControlPlane })
	return out
}

// editsFor change the flags of the provider, the feature gates that go with them, and where the credentials for images
// come from. Only a kubelet that would come back under another name is told its own, too. A node's name, addresses,
// providerID and taints stay what they are.
func editsFor(d *draft.Draft, h v1.Host) []v1.Edit {
	flags, n := h.Kubelet.Flags, d.KubeletMinor(h)
	edits := []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}
	if _, ok := flags[flagvalue.FlagCloudConfig]; ok {
		edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagCloudConfig})
	}
	if h.NodeName != "" && RegisteredName(h, d.FindNode(h.NodeName), flags[flagvalue.FlagHostname]) != h.NodeName {
		edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagHostname, Value: h.NodeName})
	}
	gates, inConfig := configGates(d, h)
	credentials := credentialFlags(d, h)
	set, disable := flags[flagvalue.FlagFeatureGates], d.Options.DisableInTree
	gates = append(gates, flagvalue.DropInTreeGates(set, disable, catalogue.DisableCloudProviders)...)
	if wantsCredentials(d, h) || d.Provider.Credentials == nil || hasCredentials(d, h) {
		gates = append(gates, flagvalue.DropInTreeGates(set, disable, catalogue.DisableKubeletCloudCredentialProviders)...)
	}
	if len(credentials) > 0 {
		gates = append(gates, flagvalue.GateChange{Name: flagvalue.GateCredentialProviders, To: flagvalue.GateOn})
	}
	edits = append(edits, flagvalue.EditGates(set, component.Kubelet, n, gates)...)
	return append(append(edits, credentials...), inConfig...)
}

// LabelHostname is the label by which a kubelet shows the host's own name, or the name that its flag gives.
const LabelHostname = "kubernetes.io/hostname"

// RegisteredName is the name under which an external kubelet registers. An in-tree one asks its cloud, an external one
// takes --hostname-override or the host's own name, which is known by the label that it set. It is empty when it is not
// known. Kubelets write both in lower case.
func RegisteredName(h v1.Host, n *v1.Node, override string) string {
	switch {
	case override != "":
		return strings.ToLower(strings.TrimSpace(override))
	case n == nil || n.Name != h.NodeName:
		return ""
	}
	return n.Labels[LabelHostname]
}

// noteHostnames names the nodes whose label of the host's name changes with --hostname-override, and what may depend on
// it.
func noteHostnames(d *draft.Draft) {
	var changed []string
	for _, s := range d.Steps {
		e, ok := planstep.LastEdit(s, flagvalue.FlagHostname)
		if !ok || s.Kind != v1.StepKubelet {
			continue
		}
		if n := d.FindNode(e.Value); n != nil && n.Labels[LabelHostname] != "" && n.Labels[LabelHostname] != e.Value {
			changed = append(changed, n.Labels[LabelHostname])
		}
	}
	if len(changed) == 0 {
		return
	}
	d.Note(
		fmt.Sprintf(
			"the label %s of %s becomes the node's name (it is %s now), since an external kubelet keeps its name by --%s alone; what selects nodes by the old value, "+
				"such as local volumes, does not find them any longer; --node-labels=%s=<old value> on a kubelet keeps it",
			LabelHostname,
			english.Count(len(changed), "node"),
			english.FirstOf(5, changed),
			flagvalue.FlagHostname,
			LabelHostname,
		),
	)
}

// needsDrain reports whether a node has volumes that only the in-tree plugin can unmount and that its kubelet is about
// to leave to CSI.
func needsDrain(d *draft.Draft, h v1.Host) bool {
	n := d.FindNode(h.NodeName)
	if n == nil || !d.Volumes.CSI {
		return false
	}
	for _, p := range d.Volumes.Plugins {
		if clusterview.HasMountedVolumes(*n, p) && !volume.IsKubeletMigrated(d, h, p) {
			return true
		}
	}
	return false
}
