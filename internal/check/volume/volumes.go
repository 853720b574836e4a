package volume

import (
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// mainStorage are the storage objects without which VOL-001 is unknown. It reports why they are, so that one cause is
// one line.
var mainStorage = []string{"persistentvolumes", "storageclasses", "csinodes"}

// allStorage returns the storage objects when VOL-001 can be judged by them, else the finding that says why not.
func allStorage(f facts.Facts) (*v1.Volumes, v1.Finding, bool) {
	for i, e := range f.Errors {
		if e.Fact == "volumes" {
			f.Reported[i] = true
			return nil, findings.Unknown("%s", e.Error), false
		}
	}
	if finding, ok := missingStorage(f, mainStorage); ok {
		return nil, finding, false
	}
	if f.Volumes == nil {
		return nil, findings.With(
			findings.Unknown("the snapshot holds no storage objects: take it again"),
			"persistent volumes, classes and CSI objects",
			"/apis/storage.k8s.io/v1",
			"transplant snapshot",
		), false
	}
	return f.Volumes, v1.Finding{}, true
}

func missingStorage(f facts.Facts, parts []string) (v1.Finding, bool) {
	patterns := make([]string, 0, len(parts))
	for _, p := range parts {
		patterns = append(patterns, "volumes/"+p)
	}
	return f.Missing(patterns...)
}

// storage returns the storage objects when these parts of them were gathered. Otherwise it returns the finding that
// says why they are unknown, or that VOL-001 says so.
func storage(f facts.Facts, parts ...string) (*v1.Volumes, v1.Finding, bool) {
	main := slices.ContainsFunc(f.Errors, func(e v1.GatherError) bool { return e.Fact == "volumes" })
	for _, p := range parts {
		_, missing := missingStorage(f, []string{p})
		main = main || missing && slices.Contains(mainStorage, p)
	}
	if main || f.Volumes == nil {
		return nil, findings.Dependent("VOL-001"), false
	}
	if finding, ok := missingStorage(f, parts); ok {
		return nil, finding, false
	}
	return f.Volumes, v1.Finding{}, true
}

// MountsOf returns how many volumes each plugin or driver has in use on a node; drivers count under their own name.
func MountsOf(n v1.Node) map[string]int {
	out := map[string]int{}
	for _, v := range n.VolumesInUse {
		if rest, ok := strings.CutPrefix(v, "kubernetes.io/csi/"); ok {
			driver, _, _ := strings.Cut(rest, "^")
			out[driver]++
			continue
		}
		out[facts.PluginOfMount(v)]++
	}
	return out
}

// setGates are the feature gates that a component is given.
func setGates(p facts.Instance) map[string]bool {
	out := map[string]bool{}
	for name, value := range p.Gates() {
		if on, err := strconv.ParseBool(value); err == nil {
			out[name] = on
		}
	}
	return out
}

// leaves reports whether a component leaves a plugin's volumes to its CSI driver; the second result is false when its
// version is not known.
func leaves(f facts.Facts, p facts.Instance, plugin cloudprovider.VolumePlugin) (leaves, known bool) {
	minor, ok := f.MinorOf(p)
	if !ok {
		return false, false
	}
	if minor > plugin.LastInTree {
		return true, true // its volumes are the driver's, whatever is set
	}
	set := setGates(p)
	if catalogue.GateAt(facts.MasterGate, minor).Known && !facts.Effective(facts.MasterGate, set, minor) {
		return false, true
	}
	return facts.Effective(plugin.MigrationGate, set, minor), true
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
