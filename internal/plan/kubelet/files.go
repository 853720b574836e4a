package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/manual"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// placeEdits gives a step the edits in the files where they belong. A flag is changed in every file in which it stands.
// A new one goes to the file of --cloud-provider. The files have one backup each, and the kubelet one restart.
func placeEdits(h v1.Host, s *v1.Step, edits []v1.Edit) {
	k := h.Kubelet
	s.Path = cmp.Or(k.Sources["cloud-provider"], k.Source)
	for _, e := range edits {
		at := []string{e.Path}
		if _, there := k.Flags[e.Name]; there && e.Path == "" {
			at = append(slices.Clone(k.Also[e.Name]), cmp.Or(k.Sources[e.Name], k.Source))
		}
		for _, file := range at {
			e.Path = file
			if file == s.Path {
				e.Path = ""
			}
			s.Edits = append(s.Edits, e)
			s.Changes = append(s.Changes, describeEdit(k, e))
			if e.Path != "" && !slices.Contains(s.Files, e.Path) {
				s.Files = append(s.Files, e.Path)
			}
		}
	}
	slices.Sort(s.Files)
}

// describeEdit is an edit as it is printed.
func describeEdit(k *v1.Kubelet, e v1.Edit) v1.Change {
	c := v1.Change{Field: "--" + e.Name, Before: k.Flags[e.Name], After: e.Value}
	if e.Op == v1.EditSetGate || e.Op == v1.EditUnsetGate {
		c.Field, c.Before = planstep.FieldGates+e.Name, ""
		if on, said := k.Config.FeatureGates[e.Name]; said {
			c.Before = fmt.Sprint(on)
		}
	}
	if e.Path != "" {
		c.Field += " in " + e.Path
	}
	return c
}

// configGates are the gates of CSI for a kubelet's flag, and the edits of its configuration file: a gate that stands
// there is changed there.
func configGates(d *draft.Draft, h v1.Host) (forFlag []flagvalue.GateChange, edits []v1.Edit) {
	c := h.Kubelet.Config
	flags := flagvalue.ParseGates(h.Kubelet.Flags[flagvalue.FlagFeatureGates])
	for _, g := range volume.CSIGates(d) {
		_, inFlag := flags[g.Name]
		on, inFile := false, false
		if c != nil {
			on, inFile = c.FeatureGates[g.Name]
		}
		if inFile && !on {
			edits = append(
				edits,
				v1.Edit{
					Op:    v1.EditSetGate,
					Name:  g.Name,
					Value: flagvalue.GateOn,
					Path:  gateFile(c, g.Name),
				},
			)
		}
		if inFlag || !inFile {
			forFlag = append(forFlag, g)
		}
	}
	if c == nil {
		return forFlag, edits
	}
	for _, name := range removedGates(d, h) {
		if on, said := c.FeatureGates[name]; said && !on {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetGate, Name: name, Path: gateFile(c, name)})
		}
	}
	return forFlag, edits
}

// removedGates are the gates that keep in-tree code in a kubelet and have to go with it.
func removedGates(d *draft.Draft, h v1.Host) []string {
	out := []string{catalogue.DisableCloudProviders}
	if d.Provider.Credentials == nil || hasCredentials(d, h) || len(credentialFlags(d, h)) > 0 {
		out = append(out, catalogue.DisableKubeletCloudCredentialProviders)
	}
	return out
}

// gateFile is the configuration file that decides about a gate.
func gateFile(c *v1.KubeletConfig, gate string) string {
	return cmp.Or(c.GateFiles[gate], c.Path)
}

// noteLeftGates names gates of a kubelet's configuration file that stay and keep in-tree code in: 1.31 refuses them.
func noteLeftGates(d *draft.Draft, h v1.Host, s v1.Step) {
	if h.Kubelet.Config == nil {
		return
	}
	for _, g := range []string{catalogue.DisableKubeletCloudCredentialProviders, catalogue.DisableCloudProviders} {
		taken := slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == v1.EditUnsetGate && e.Name == g })
		if on, said := h.Kubelet.Config.FeatureGates[g]; said && !on && !taken {
			d.Note(
				fmt.Sprintf(
					"to do by hand before Kubernetes 1.31: remove %s=false from featureGates in %s on every host; a kubelet of 1.31 does not start with it",
					g,
					gateFile(h.Kubelet.Config, g),
				),
			)
		}
	}
}

// commandsFor are the commands for a kubelet whose changes are in one file or in several.
func commandsFor(h v1.Host, s v1.Step) []string {
	if len(s.Files) == 0 {
		return manual.KubeletCommands(s, h.NodeName, h.Kubelet.Flags)
	}
	files, edits := planstep.EditsByFile(s)
	var all []string
	reload := false
	for _, at := range files {
		part := v1.Step{Host: s.Host, Path: at, Edits: edits[at]}
		script := gateScript(edits[at])
		if script == "" {
			script = manual.FlagScript(part, h.Kubelet.Flags)
		}
		all = append(all, "sudo sed -i"+script+" "+at)
		reload = reload || clusterview.IsInUnitDir(at)
	}
	if reload {
		all = append(all, "sudo systemctl daemon-reload")
	}
	out := []string{manual.RunOnHost(s.Host, strings.Join(append(all, "sudo systemctl restart kubelet"), " && "))}
	if s.Drain {
		out = append(
			[]string{"kubectl drain " + h.NodeName + " --ignore-daemonsets --delete-emptydir-data"},
			append(out, "kubectl uncordon "+h.NodeName)...)
	}
	return out
}

// gateScript are the expressions of sed for lines of featureGates that are there.
func gateScript(edits []v1.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		switch e.Op {
		case v1.EditSetGate:
			fmt.Fprintf(&b, ` -e "s|^\( *%s:\).*|\1 %s|"`, e.Name, e.Value)
		case v1.EditUnsetGate:
			fmt.Fprintf(&b, ` -e "/^ *%s: false/d"`, e.Name)
		default: // no other edit is about this
		}
	}
	return b.String()
}

// requireFacts are the facts that a change of a kubelet relies on. They say which files decide how the kubelet starts,
// and what is in each of them, whether the step changes it or not. A flag that is added in another file meanwhile would
// come into force with this restart, and might win.
func requireFacts(d *draft.Draft, h v1.Host, s v1.Step) []string {
	files := append([]string{s.Path}, s.Files...)
	var unit []string
	for _, f := range h.Kubelet.Files {
		if !slices.Contains(files, f.Path) {
			files = append(files, f.Path)
		}
		if f.Present && !isConfigFile(h.Kubelet, f.Path) {
			unit = append(unit, f.Path)
		}
	}
	out := make([]string, 0, len(files)+1)
	for _, at := range files {
		out = append(out, d.AddFileFact(h, at))
	}
	if len(unit) > 0 {
		slices.Sort(unit)
		out = append(out, d.AddFact(planstep.KubeletFilesFact(h.Name), strings.Join(slices.Compact(unit), " "), ""))
	}
	return out
}

// isConfigFile reports whether a file is the kubelet's configuration or a drop-in of that, and no part of its unit.
func isConfigFile(k *v1.Kubelet, at string) bool {
	if k.Config != nil && at == k.Config.Path {
		return true
	}
	dir := k.Flags["config-dir"]
	return dir != "" && strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}
