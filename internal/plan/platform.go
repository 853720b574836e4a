package plan

import (
	"fmt"
	"path"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// Downtime is the strategy for control planes that may be without a controller manager for a while: those of one host among them.
const Downtime = "downtime"

// edit completes a step that changes a component's flags, in the place where the component has them: its static pod manifest, its systemd unit,
// or its Deployment. It fills in the kind, where the change is made, the facts, and the printed difference of flags.
func (b *builder) edit(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s = b.place(h, c, s)
	switch c.Runs {
	case v1.RunsSystemd:
		s.Kind = v1.StepEditUnit
		s.Undo = "put " + s.Path + " back from its backup, reload systemd and restart the unit"
	case v1.RunsDeployment:
		s.Kind = v1.StepEditWorkload
		s.Undo = "put the pod template back as the record has it"
	default:
		s.Kind = v1.StepEditManifest
		s.Undo = "put the manifest back from its backup"
	}
	s.EstimateSeconds = restartSeconds(c)
	s.Changes = append(imageChange(c, s.Edits), changes(s.Edits, c.Flags)...)
	return s
}

// stop completes a step that stops a component: its manifest is moved out of the kubelet's directory, its unit stopped, its Deployment scaled to
// none. The step's record keeps what start needs.
//
// A unit that was stopped starts again with its host. So the edits of the step, those that start repeats, are written before it is stopped: whatever
// starts it again, it runs no longer with its old flags beside the next owner. A manifest that was moved away starts nothing, and needs no edits.
func (b *builder) stop(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	if c.Runs != v1.RunsSystemd {
		s.Edits = nil
	}
	s = b.place(h, c, s)
	s.EstimateSeconds, s.Undo = 10, "start it again"
	switch c.Runs {
	case v1.RunsSystemd:
		s.Kind, s.Undo = v1.StepStopUnit, "put "+s.Path+" back from its backup, reload systemd and start the unit"
		s.Changes = append(changes(s.Edits, c.Flags), v1.Change{Field: c.Unit, Before: "active", After: "stopped"})
	case v1.RunsDeployment:
		s.Kind, s.Replicas = v1.StepScale, new(int32)
		s.Changes = []v1.Change{{Field: "replicas", Before: fmt.Sprint(replicas(c)), After: "0"}}
	default:
		s.Kind, s.Changes = v1.StepRemoveManifest, []v1.Change{{Field: c.Manifest, Before: "runs", After: "moved out of the manifests directory"}}
	}
	return s
}

// start completes a step that starts what the step s.Restore stopped. The edits of the step are made before the component runs, so that it never
// runs with its old flags again.
func (b *builder) start(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s = b.place(h, c, s)
	s.EstimateSeconds, s.Undo = restartSeconds(c), "stop it, and start it as it was"
	switch c.Runs {
	case v1.RunsSystemd:
		s.Kind, s.Changes = v1.StepStartUnit, []v1.Change{{Field: c.Unit, Before: "stopped", After: "active"}}
	case v1.RunsDeployment:
		n := replicas(c)
		s.Kind, s.Replicas = v1.StepScale, &n
		s.Changes = []v1.Change{{Field: "replicas", Before: "0", After: fmt.Sprint(n)}}
	default:
		s.Kind = v1.StepRestoreManifest
	}
	s.Changes = append(append(s.Changes, imageChange(c, s.Edits)...), changes(s.Edits, c.Flags)...)
	return s
}

// addCCM completes a step that puts the cloud-controller-manager, rendered as a static pod, on a host.
//
// A control plane of systemd units gets it as a static pod, too, wherever its kubelet has a directory for them: what is published of a
// cloud-controller-manager is an image, and there is no binary that a unit could start. ccmShape says where that does not hold.
func (b *builder) addCCM(h v1.Host, rendered string, s v1.Step) v1.Step {
	s.Kind, s.Host, s.Component, s.Path = v1.StepAddManifest, h.Name, CCM, ccmManifest(h)
	s.Content, s.Mode = rendered, "0600"
	s.Requires = append(s.Requires, "cluster:uid", b.fileFact(h, s.Path))
	s.Undo, s.EstimateSeconds = "remove it", 20
	return s
}

// ccmShape is the shape in which a host's cloud-controller-manager can run: a static pod where the kubelet reads manifests from a directory, else a
// DaemonSet. A choice in the options goes first.
func (b *builder) ccmShape(h v1.Host) string {
	if b.opts.Shape != "" {
		return b.opts.Shape
	}
	if manifestDir(h) == "" {
		return v1.ShapeDaemonSet
	}
	return v1.ShapeStaticPod
}

// manifestDir is the directory from which the host's kubelet starts static pods; empty when there is none. A host with a static pod has one,
// whatever is known of its kubelet.
func manifestDir(h v1.Host) string {
	for _, c := range h.Components {
		if staticPod(c) && path.IsAbs(c.Manifest) {
			return path.Dir(c.Manifest)
		}
	}
	if k := h.Kubelet; k != nil {
		if dir := k.Flags["pod-manifest-path"]; dir != "" {
			return path.Clean(dir)
		}
		if k.Config != nil && k.Config.StaticPodPath != "" {
			return path.Clean(k.Config.StaticPodPath)
		}
	}
	return ""
}

func ccmManifest(h v1.Host) string {
	if dir := manifestDir(h); dir != "" && dir != controlplane.ManifestDir {
		return dir + "/" + path.Base(CCMManifest)
	}
	return CCMManifest
}

func staticPod(c v1.Component) bool { return c.Runs == "" || c.Runs == v1.RunsStaticPod }

// place says where a step changes a component, and which fact it requires of that place.
func (b *builder) place(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s.Component = c.Name
	switch c.Runs {
	case v1.RunsDeployment:
		s.Ref = c.Manifest
		s.Edits = withoutHostPaths(s.Edits)
		s.Requires = append(s.Requires, "cluster:uid", b.fact(WorkloadFact(c.Manifest), c.SHA256, strings.Join(c.Command, "\n")))
		return s
	case v1.RunsSystemd:
		s.Host, s.Unit = h.Name, c.Unit
		s.Edits = withoutHostPaths(s.Edits) // a unit sees the host's files
		s.Path = b.unitFile(h, c, s.Edits)
	default:
		s.Host, s.Path = h.Name, c.Manifest
	}
	s.Requires = append(s.Requires, "cluster:uid", b.fileFact(h, s.Path))
	return s
}

// DeriveKubeadm is the derivation of StepPatchObject that carries the step's edits out in kubeadm's ClusterConfiguration, for the step's component.
const DeriveKubeadm = "kubeadm-config"

// KubeadmFact is the ID of the fact that kubeadm's ClusterConfiguration is as it was; its value is KubeadmConfig.SHA256.
const KubeadmFact = "kubeadm:config"

// LocalFact is the ID of the fact that a file of the machine that runs apply has the content it had.
func LocalFact(path string) string { return "local:" + path }

// WorkloadFact is the ID of the fact that the pod template of a workload is as it was.
func WorkloadFact(ref string) string { return "workload:" + ref }

// unitFile is the one file in which all flags of the edits are written. A step has one file, one backup and one undo; flags that are spread over a
// unit and its drop-ins are refused with their names.
func (b *builder) unitFile(h v1.Host, c *v1.Component, edits []v1.Edit) string {
	files := map[string][]string{}
	for _, e := range edits {
		if _, there := c.Flags[e.Name]; there {
			file := c.Sources[e.Name]
			if file == "" {
				file = c.Manifest
			}
			files[file] = append(files[file], "--"+e.Name)
		}
	}
	var names []string
	for f := range files {
		names = append(names, f)
	}
	sort.Strings(names)
	switch len(names) {
	case 0:
		return c.Manifest
	case 1:
		return names[0]
	}
	var parts []string
	for _, f := range names {
		parts = append(parts, strings.Join(files[f], ", ")+" in "+f)
	}
	b.refused = append(b.refused, fmt.Errorf("the flags that change in unit %s on host %s are spread over files (%s): write them into one of these files, "+
		"run systemctl daemon-reload, restart the unit, and plan again", c.Unit, h.Name, strings.Join(parts, "; ")))
	return names[0]
}

func withoutHostPaths(in []v1.Edit) []v1.Edit {
	var out []v1.Edit
	for _, e := range in {
		if e.Op != "addHostPath" && e.Op != "removeHostPath" {
			out = append(out, e)
		}
	}
	return out
}

// replicas of a Deployment before the migration; one where that is not known.
func replicas(c *v1.Component) int32 {
	if c.Replicas == nil || *c.Replicas == 0 {
		return 1
	}
	return *c.Replicas
}

// restartSeconds is how long a component takes until it is ready again; measured with a real kubelet, a unit and a Deployment are quicker.
func restartSeconds(c *v1.Component) float64 {
	seconds := 25.0
	if c.Name == KAS {
		seconds = 55
	}
	if !staticPod(*c) {
		seconds -= 15
	}
	return seconds
}
