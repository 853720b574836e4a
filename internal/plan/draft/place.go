package draft

import (
	"fmt"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// EditComponent completes a step that changes a component's flags, in the place where the component has them. That is
// its static pod manifest, its systemd unit, or its Deployment. It fills in the kind, where the change is made, the
// facts, and the printed difference of flags.
func (d *Draft) EditComponent(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s = d.placeStep(h, c, s)
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
	s.EstimateSeconds = clusterview.EstimateRestart(c)
	s.Changes = append(planstep.DescribeImageEdit(c, s.Edits), planstep.DescribeFlagEdits(s.Edits, c.Flags)...)
	return s
}

// StopComponent completes a step that stops a component: its manifest is moved out of the kubelet's directory, its unit
// stopped, its Deployment scaled to none. The step's record keeps what start needs.
//
// A unit that was stopped starts again with its host. So the edits of the step, those that start repeats, are written
// before it is stopped. Whatever starts it again, it no longer runs with its old flags next to the next owner. A
// manifest that was moved away starts nothing, and needs no edits.
func (d *Draft) StopComponent(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	if c.Runs != v1.RunsSystemd {
		s.Edits = nil
	}
	s = d.placeStep(h, c, s)
	s.EstimateSeconds, s.Undo = 10, "start it again"
	switch c.Runs {
	case v1.RunsSystemd:
		s.Kind, s.Undo = v1.StepStopUnit, "put "+s.Path+" back from its backup, reload systemd and start the unit"
		s.Changes = append(
			planstep.DescribeFlagEdits(s.Edits, c.Flags),
			v1.Change{Field: c.Unit, Before: "active", After: "stopped"},
		)
	case v1.RunsDeployment:
		s.Kind, s.Replicas = v1.StepScale, new(int32)
		s.Changes = []v1.Change{{Field: "replicas", Before: fmt.Sprint(clusterview.ReplicasOf(c)), After: "0"}}
	default:
		s.Kind, s.Changes = v1.StepRemoveManifest, []v1.Change{
			{Field: c.Manifest, Before: "runs", After: "moved out of the manifests directory"},
		}
	}
	return s
}

// StartComponent completes a step that starts what the step s.Restore stopped. The edits of the step are made before
// the component runs, so that it never runs with its old flags again.
func (d *Draft) StartComponent(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s = d.placeStep(h, c, s)
	s.EstimateSeconds, s.Undo = clusterview.EstimateRestart(c), "stop it, and start it as it was"
	switch c.Runs {
	case v1.RunsSystemd:
		s.Kind, s.Changes = v1.StepStartUnit, []v1.Change{{Field: c.Unit, Before: "stopped", After: "active"}}
	case v1.RunsDeployment:
		n := clusterview.ReplicasOf(c)
		s.Kind, s.Replicas = v1.StepScale, &n
		s.Changes = []v1.Change{{Field: "replicas", Before: "0", After: fmt.Sprint(n)}}
	default:
		s.Kind = v1.StepRestoreManifest
	}
	s.Changes = append(
		append(s.Changes, planstep.DescribeImageEdit(c, s.Edits)...),
		planstep.DescribeFlagEdits(s.Edits, c.Flags)...)
	return s
}

// placeStep says where a step changes a component, and which fact it requires of that place.
func (d *Draft) placeStep(h v1.Host, c *v1.Component, s v1.Step) v1.Step {
	s.Component = c.Name
	switch c.Runs {
	case v1.RunsDeployment:
		s.Ref = c.Manifest
		s.Edits = planstep.WithoutHostPaths(s.Edits)
		s.Requires = append(
			s.Requires,
			"cluster:uid",
			d.AddFact(planstep.WorkloadFact(c.Manifest), c.SHA256, strings.Join(c.Command, "\n")),
		)
		return s
	case v1.RunsSystemd:
		s.Host, s.Unit = h.Name, c.Unit
		s.Edits = planstep.WithoutHostPaths(s.Edits) // a unit sees the host's files
		s.Path = d.unitFile(h, c, s.Edits)
	default:
		s.Host, s.Path = h.Name, c.Manifest
	}
	s.Requires = append(s.Requires, "cluster:uid", d.AddFileFact(h, s.Path))
	return s
}

// unitFile is the one file in which all flags of the edits are written. A step has one file, one backup and one undo;
// flags that are spread over a unit and its drop-ins are refused with their names.
func (d *Draft) unitFile(h v1.Host, c *v1.Component, edits []v1.Edit) string {
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
	d.Refusals = append(
		d.Refusals,
		fmt.Errorf(
			"the flags that change in unit %s on host %s are spread over files (%s); write them into one of these files, "+
				"run systemctl daemon-reload, restart the unit, and plan again",
			c.Unit,
			h.Name,
			strings.Join(parts, "; "),
		),
	)
	return names[0]
}
