package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

const scheduler = "kube-scheduler"

// mainStorage are the storage objects without which VOL-001 is unknown. It reports why they are, so that one cause is one line.
var mainStorage = []string{"persistentvolumes", "storageclasses", "csinodes"}

// allStorage returns the storage objects when VOL-001 can be judged by them, else the finding that says why not.
func (f facts) allStorage() (*v1.Volumes, v1.Finding, bool) {
	for i, e := range f.Errors {
		if e.Fact == "volumes" {
			f.reported[i] = true
			return nil, unknown("%s", e.Error), false
		}
	}
	if finding, ok := f.missingStorage(mainStorage); ok {
		return nil, finding, false
	}
	if f.Volumes == nil {
		return nil, with(unknown("the snapshot holds no storage objects: take it again"), "persistent volumes, classes and CSI objects", "/apis/storage.k8s.io/v1", "transplant snapshot"), false
	}
	return f.Volumes, v1.Finding{}, true
}

func (f facts) missingStorage(parts []string) (v1.Finding, bool) {
	patterns := make([]string, 0, len(parts))
	for _, p := range parts {
		patterns = append(patterns, "volumes/"+p)
	}
	return f.missing(patterns...)
}

// storage returns the storage objects when these parts of them were gathered, else the finding that says why they are unknown, or that VOL-001 says so.
func (f facts) storage(parts ...string) (*v1.Volumes, v1.Finding, bool) {
	main := slices.ContainsFunc(f.Errors, func(e v1.GatherError) bool { return e.Fact == "volumes" })
	for _, p := range parts {
		_, missing := f.missingStorage([]string{p})
		main = main || missing && slices.Contains(mainStorage, p)
	}
	if main || f.Volumes == nil {
		return nil, dependent("VOL-001"), false
	}
	if finding, ok := f.missingStorage(parts); ok {
		return nil, finding, false
	}
	return f.Volumes, v1.Finding{}, true
}

// use is how much a cluster uses an in-tree volume plugin.
type use struct {
	catalogue.VolumePlugin
	provider catalogue.Provider
	volumes  int
	classes  []string
	// mounted counts the volumes on nodes that are in use through the plugin itself.
	mounted int
}

func (u use) String() string {
	var parts []string
	if u.volumes > 0 {
		parts = append(parts, plural(u.volumes, "volume"))
	}
	if len(u.classes) > 0 {
		parts = append(parts, plural(len(u.classes), "class"))
	}
	if u.mounted > 0 {
		parts = append(parts, fmt.Sprintf("%d mounted", u.mounted))
	}
	return fmt.Sprintf("%s (%s)", u.Name, strings.Join(parts, ", "))
}

// uses returns the in-tree cloud plugins that volumes, classes or nodes use, sorted by name.
func (f facts) uses(vols *v1.Volumes) []use {
	byName := map[string]*use{}
	of := func(plugin string) *use {
		if u, ok := byName[plugin]; ok {
			return u
		}
		p, provider, ok := catalogue.PluginOf(plugin)
		if !ok {
			return nil
		}
		byName[plugin] = &use{VolumePlugin: p, provider: provider}
		return byName[plugin]
	}
	for _, pv := range vols.PersistentVolumes {
		if u := of(pv.Plugin); u != nil {
			u.volumes++
		}
	}
	for _, c := range vols.StorageClasses {
		if u := of(c.Provisioner); u != nil {
			u.classes = append(u.classes, c.Name)
		}
	}
	for _, n := range f.Nodes {
		for _, v := range n.VolumesInUse {
			if u := of(pluginOfMount(v)); u != nil {
				u.mounted++
			}
		}
	}
	out := make([]use, 0, len(byName))
	for _, u := range byName {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b use) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// pluginOfMount is kubernetes.io/aws-ebs of kubernetes.io/aws-ebs/aws://us-east-1a/vol-1, an entry of a node's status.volumesInUse.
func pluginOfMount(volume string) string {
	group, rest, _ := strings.Cut(volume, "/")
	name, _, _ := strings.Cut(rest, "/")
	return group + "/" + name
}

// mountsOf tells how many volumes each plugin or driver has in use on a node; drivers count under their own name.
func mountsOf(n v1.Node) map[string]int {
	out := map[string]int{}
	for _, v := range n.VolumesInUse {
		if rest, ok := strings.CutPrefix(v, "kubernetes.io/csi/"); ok {
			driver, _, _ := strings.Cut(rest, "^")
			out[driver]++
			continue
		}
		out[pluginOfMount(v)]++
	}
	return out
}

// gatesIn reads --feature-gates: A=true,B=false.
func gatesIn(flag string) map[string]bool {
	out := map[string]bool{}
	for entry := range strings.SplitSeq(flag, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if on, err := strconv.ParseBool(strings.TrimSpace(value)); ok && err == nil {
			out[name] = on
		}
	}
	return out
}

// setGates are the feature gates that a component is given.
func (p placed) setGates() map[string]bool {
	out := map[string]bool{}
	for name, value := range p.gates() {
		if on, err := strconv.ParseBool(value); err == nil {
			out[name] = on
		}
	}
	return out
}

// effective is the value of a feature gate in a component of a minor with these settings. A gate that the catalogue knows of an earlier minor and
// not of this one has become the rule.
func effective(gate string, set map[string]bool, minor int) bool {
	g := catalogue.GateAt(gate, minor)
	switch v, given := set[gate]; {
	case !g.Known:
		return graduated(gate, minor)
	case given && !g.Locked:
		return v
	}
	return g.Default
}

func graduated(gate string, minor int) bool {
	for m := min(minor, catalogue.Newest); m >= catalogue.Oldest; m-- {
		if g := catalogue.GateAt(gate, m); g.Known {
			return g.Default && g.Locked
		}
	}
	return false
}

// masterGate is the gate of KEP-625 that the ones of the plugins need beside them.
const masterGate = "CSIMigration"

// leaves tells whether a component leaves a plugin's volumes to its CSI driver; the second result is false when its version is not known.
func (f facts) leaves(p placed, plugin catalogue.VolumePlugin) (leaves, known bool) {
	minor, ok := f.minorOf(p)
	if !ok {
		return false, false
	}
	if minor > plugin.LastInTree {
		return true, true // its volumes are the driver's, whatever is set
	}
	set := p.setGates()
	if catalogue.GateAt(masterGate, minor).Known && !effective(masterGate, set, minor) {
		return false, true
	}
	return effective(plugin.MigrationGate, set, minor), true
}

// migratedNodes are the plugins that the kubelet of each node leaves to CSI, as its CSINode says.
func migratedNodes(vols *v1.Volumes) map[string]map[string]bool {
	out := make(map[string]map[string]bool, len(vols.CSINodes))
	for _, n := range vols.CSINodes {
		plugins := make(map[string]bool, len(n.MigratedPlugins))
		for _, p := range n.MigratedPlugins {
			plugins[p] = true
		}
		out[n.Name] = plugins
	}
	return out
}

// shown is how many objects a finding names when there may be thousands.
const shown = 10

// some is the finding of complaints about objects of which there may be thousands: by object, it says a few and counts the rest, and says what several
// objects share once. Objects are all of them.
func (c *complaints) some(outcome v1.Outcome, format string, a ...any) v1.Finding {
	order := make([]int, len(c.lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.objects[a], c.objects[b]) })
	var few complaints
	said := make(map[string]bool, len(order))
	for _, i := range order {
		switch {
		case said[c.lines[i]], len(few.lines) == shown: // another object of the same complaint, or one too many to say
			few.objects = append(few.objects, c.objects[i])
		default:
			few.add(c.objects[i], "%s", c.lines[i])
		}
		said[c.lines[i]] = true
	}
	finding := few.finding(outcome, format, a...)
	if rest := len(said) - len(few.lines); rest > 0 {
		finding.Found += fmt.Sprintf("; and %d more", rest)
	}
	return finding
}

// few joins names, the first of them when there are many.
func few(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// worst puts what warns behind what fails in one finding; ok is false when there is nothing of either.
func worst(failing, warning *complaints) (all complaints, outcome v1.Outcome, ok bool) {
	all.lines, all.objects = slices.Concat(failing.lines, warning.lines), slices.Concat(failing.objects, warning.objects)
	outcome = v1.Warn
	if !failing.empty() {
		outcome = v1.Fail
	}
	return all, outcome, !all.empty()
}
