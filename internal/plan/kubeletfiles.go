package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// Operations on gates in a kubelet's configuration file.
const (
	opSetGate   = "setGate"
	opUnsetGate = "unsetGate"
)

// EditsByFile are the edits of a step by the file that they change, and those files in the order in which the step names them.
func EditsByFile(s v1.Step) (files []string, edits map[string][]v1.Edit) {
	edits = map[string][]v1.Edit{}
	for _, e := range s.Edits {
		at := cmp.Or(e.Path, s.Path)
		edits[at] = append(edits[at], e)
	}
	for _, at := range append([]string{s.Path}, s.Files...) {
		if len(edits[at]) > 0 {
			files = append(files, at)
		}
	}
	return files, edits
}

// placed gives a step the edits in the files where they belong: a flag is changed in every file in which it stands, a new one goes to the file of
// --cloud-provider. The files have one backup each, and the kubelet one restart.
func (b *builder) placed(h v1.Host, s *v1.Step, edits []v1.Edit) {
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
			s.Changes = append(s.Changes, kubeletChange(k, e))
			if e.Path != "" && !slices.Contains(s.Files, e.Path) {
				s.Files = append(s.Files, e.Path)
			}
		}
	}
	slices.Sort(s.Files)
}

// kubeletChange is an edit as it is printed.
func kubeletChange(k *v1.Kubelet, e v1.Edit) v1.Change {
	c := v1.Change{Field: "--" + e.Name, Before: k.Flags[e.Name], After: e.Value}
	if e.Op == opSetGate || e.Op == opUnsetGate {
		c.Field, c.Before = gatesField+e.Name, ""
		if on, said := k.Config.FeatureGates[e.Name]; said {
			c.Before = fmt.Sprint(on)
		}
	}
	if e.Path != "" {
		c.Field += " in " + e.Path
	}
	return c
}

const gatesField = "featureGates."

// configGates are the gates of CSI for a kubelet's flag, and the edits of its configuration file: a gate that stands there is changed there.
func (b *builder) configGates(h v1.Host) (forFlag []gateChange, edits []v1.Edit) {
	c := h.Kubelet.Config
	flags := readGates(h.Kubelet.Flags[gatesFlag])
	for _, g := range b.csiGates() {
		_, inFlag := flags[g.name]
		on, inFile := false, false
		if c != nil {
			on, inFile = c.FeatureGates[g.name]
		}
		if inFile && !on {
			edits = append(edits, v1.Edit{Op: opSetGate, Name: g.name, Value: gateOn, Path: b.gateFile(c, g.name)})
		}
		if inFlag || !inFile {
			forFlag = append(forFlag, g)
		}
	}
	if c == nil {
		return forFlag, edits
	}
	for _, name := range b.gone(h) {
		if on, said := c.FeatureGates[name]; said && !on {
			edits = append(edits, v1.Edit{Op: opUnsetGate, Name: name, Path: b.gateFile(c, name)})
		}
	}
	return forFlag, edits
}

// gone are the gates that keep in-tree code in a kubelet and have to go with it.
func (b *builder) gone(h v1.Host) []string {
	out := []string{gateNoProviders}
	if b.provider.Credentials == nil || b.hasCredentials(h) || len(b.credentialFlags(h)) > 0 {
		out = append(out, gateNoCredentials)
	}
	return out
}

// gateFile is the configuration file that decides about a gate.
func (b *builder) gateFile(c *v1.KubeletConfig, gate string) string {
	return cmp.Or(c.GateFiles[gate], c.Path)
}

// kubeletConfigNote names gates of a kubelet's configuration file that stay and keep in-tree code in: 1.31 refuses them.
func (b *builder) kubeletConfigNote(h v1.Host, s v1.Step) {
	if h.Kubelet.Config == nil {
		return
	}
	for _, g := range []string{gateNoCredentials, gateNoProviders} {
		taken := slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == opUnsetGate && e.Name == g })
		if on, said := h.Kubelet.Config.FeatureGates[g]; said && !on && !taken {
			b.noteOnce(fmt.Sprintf("to do by hand before Kubernetes 1.31: take %s=false out of featureGates in %s on every host; a kubelet of 1.31 does not start with it", g, b.gateFile(h.Kubelet.Config, g)))
		}
	}
}

// kubeletCommands are the commands for a kubelet whose changes are in one file or in several.
func (b *builder) kubeletCommands(h v1.Host, s v1.Step) []string {
	if len(s.Files) == 0 {
		return manualKubelet(s, h.NodeName, h.Kubelet.Flags)
	}
	files, edits := EditsByFile(s)
	var all []string
	reload := false
	for _, at := range files {
		part := v1.Step{Host: s.Host, Path: at, Edits: edits[at]}
		script := gateScript(edits[at])
		if script == "" {
			script = wordScript(part, h.Kubelet.Flags)
		}
		all = append(all, "sudo sed -i"+script+" "+at)
		reload = reload || inUnitDir(at)
	}
	if reload {
		all = append(all, "sudo systemctl daemon-reload")
	}
	out := []string{onHost(s.Host, strings.Join(append(all, "sudo systemctl restart kubelet"), " && "))}
	if s.Drain {
		out = append([]string{"kubectl drain " + h.NodeName + " --ignore-daemonsets --delete-emptydir-data"}, append(out, "kubectl uncordon "+h.NodeName)...)
	}
	return out
}

// gateScript are the expressions of sed for lines of featureGates that are there.
func gateScript(edits []v1.Edit) string {
	var b strings.Builder
	for _, e := range edits {
		switch e.Op {
		case opSetGate:
			fmt.Fprintf(&b, ` -e "s|^\( *%s:\).*|\1 %s|"`, e.Name, e.Value)
		case opUnsetGate:
			fmt.Fprintf(&b, ` -e "/^ *%s: false/d"`, e.Name)
		}
	}
	return b.String()
}

func inUnitDir(at string) bool {
	return slices.ContainsFunc(controlplane.UnitDirs, func(dir string) bool { return strings.HasPrefix(at, dir+"/") })
}

// KubeletFilesFact is the ID of the fact that the kubelet's unit on a host consists of the files of which it did.
func KubeletFilesFact(host string) string { return "kubelet-files:" + host }

// kubeletFacts are the facts that a change of a kubelet relies on: what is in each file that decides how the kubelet starts, whether the step changes it or
// not, and which files these are. A flag that somebody adds in another file meanwhile would come into force with this restart, and might win.
func (b *builder) kubeletFacts(h v1.Host, s v1.Step) []string {
	files := append([]string{s.Path}, s.Files...)
	var unit []string
	for _, f := range h.Kubelet.Files {
		if !slices.Contains(files, f.Path) {
			files = append(files, f.Path)
		}
		if f.Present && !ofConfiguration(h.Kubelet, f.Path) {
			unit = append(unit, f.Path)
		}
	}
	out := make([]string, 0, len(files)+1)
	for _, at := range files {
		out = append(out, b.fileFact(h, at))
	}
	if len(unit) > 0 {
		slices.Sort(unit)
		out = append(out, b.fact(KubeletFilesFact(h.Name), strings.Join(slices.Compact(unit), " "), ""))
	}
	return out
}

// ofConfiguration tells that a file is the kubelet's configuration or a drop-in of that, and no part of its unit.
func ofConfiguration(k *v1.Kubelet, at string) bool {
	if k.Config != nil && at == k.Config.Path {
		return true
	}
	dir := k.Flags["config-dir"]
	return dir != "" && strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}
