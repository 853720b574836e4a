package ccm

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// StartDaemonSet puts the manager on every control-plane node at once; only under the migration lease, or when no
// in-tree manager is left, may it.
func StartDaemonSet(d *draft.Draft, phase string) {
	set, flags := daemonSet(d)
	raw := layout.EncodeObject(set)
	d.Add(v1.Step{
		ID:              "start/" + component.CCM,
		Phase:           phase,
		Kind:            v1.StepEnsureObject,
		Title:           "start " + component.CCM + " on the control-plane nodes",
		Why:             "the next owner runs, has its main lease and reaches the cloud before the old one is stopped; updates wait for the old pod's deletion, so that no replica is restarted unasked",
		Component:       component.CCM,
		Ref:             layout.CCMDaemonSet,
		Object:          raw,
		Requires:        []string{"cluster:uid"},
		Undo:            "delete it, if this migration made it",
		EstimateSeconds: 30,
		Changes:         DescribeFlags(d, flags),
	})
	if len(d.Hosts) > 1 {
		d.EnsureObjects(phase, "an eviction never takes the last replica", []layout.Object{DisruptionBudget(d.APIMinor)})
	}
}

// DisruptionBudget keeps one replica through every voluntary eviction. Its API is policy/v1 from 1.21 on.
func DisruptionBudget(apiMinor int) layout.Object {
	version := "policy/v1"
	if apiMinor < 21 {
		version = "policy/v1beta1"
	}
	return layout.Object{
		"apiVersion": version, "kind": "PodDisruptionBudget", "metadata": layout.Metadata(component.CCM, component.Namespace),
		"spec": layout.Object{"minAvailable": 1, "selector": layout.Object{"matchLabels": Labels(component.CCM)}},
	}
}

// StartStaticPod puts the cloud-controller-manager on a host.
func StartStaticPod(d *draft.Draft, h v1.Host, phase, group, why string) {
	manifest, change := RenderStaticPod(d, h, clusterview.FindComponent(h, component.KCM))
	d.Add(addStaticPod(d, h, manifest, v1.Step{
		ID:      "start/" + component.CCM + "@" + h.Name,
		Phase:   phase,
		Title:   "start " + component.CCM + " on " + h.Name,
		Why:     why,
		Group:   group,
		Changes: change,
	}))
}

// addStaticPod completes a step that puts the cloud-controller-manager, rendered as a static pod, on a host.
//
// A control plane of systemd units gets it as a static pod, too, wherever its kubelet has a directory for them. What is
// published of a cloud-controller-manager is an image, and there is no binary that a unit could start. ShapeFor says
// where that does not hold.
func addStaticPod(d *draft.Draft, h v1.Host, rendered string, s v1.Step) v1.Step {
	s.Kind, s.Host, s.Component, s.Path = v1.StepAddManifest, h.Name, component.CCM, clusterview.ManagerManifest(h)
	s.Content, s.Mode = rendered, "0600"
	s.Requires = append(s.Requires, "cluster:uid", d.AddFileFact(h, s.Path))
	s.Undo, s.EstimateSeconds = "remove it", 20
	return s
}

// ShapeFor is the shape in which a host's cloud-controller-manager can run: a static pod where the kubelet reads
// manifests from a directory, else a DaemonSet. A choice in the options goes first.
func ShapeFor(d *draft.Draft, h v1.Host) string {
	if d.Options.Shape != "" {
		return d.Options.Shape
	}
	if clusterview.ManifestDir(h) == "" {
		return v1.ShapeDaemonSet
	}
	return v1.ShapeStaticPod
}

// fillContainer puts the program and its flags into a container. Where the image starts its program by itself, the
// flags are its arguments.
func fillContainer(p program.Program, container layout.Object, flags []controlplane.Flag) {
	args := make([]any, 0, len(flags))
	for _, f := range flags {
		args = append(args, "--"+f.Name+"="+f.Value)
	}
	if p.Command == "" {
		container["args"] = args
		return
	}
	container["command"] = append([]any{p.Command}, args...)
}
