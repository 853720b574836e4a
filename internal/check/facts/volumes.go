package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/shell"
)

// KindOf returns the kind in Kind/namespace/name.
func KindOf(ref string) string { kind, _, _ := strings.Cut(ref, "/"); return kind }

// NameOf returns the name in Kind/namespace/name.
func NameOf(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// NamespaceOf returns the namespace in Kind/namespace/name; empty when there is none.
func NamespaceOf(ref string) string {
	parts := strings.Split(ref, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// Named is what kubectl does with an object Kind/namespace/name: its namespace, the verb, and its name.
func Named(verb, ref string) string {
	return "-n " + shell.Quote(NamespaceOf(ref)) + " " + verb + " " + shell.Quote(strings.ToLower(KindOf(ref))) + " " +
		shell.Quote(NameOf(ref))
}

// InTreeMounts are the in-tree cloud plugins by which a node has volumes in use.
func InTreeMounts(f Facts, n v1.Node) []VolumeUse {
	one := Facts{Snapshot: &v1.Snapshot{Nodes: []v1.Node{n}}}
	return Uses(one, &v1.Volumes{})
}

// Uses returns the in-tree cloud plugins that volumes, classes or nodes use, sorted by name.
func Uses(f Facts, vols *v1.Volumes) []VolumeUse {
	byName := map[string]*VolumeUse{}
	of := func(plugin string) *VolumeUse {
		if u, ok := byName[plugin]; ok {
			return u
		}
		p, provider, ok := cloudprovider.PluginOf(plugin)
		if !ok {
			return nil
		}
		byName[plugin] = &VolumeUse{VolumePlugin: p, Provider: provider}
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
			if u := of(PluginOfMount(v)); u != nil {
				u.Mounted++
			}
		}
	}
	out := make([]VolumeUse, 0, len(byName))
	for _, u := range byName {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b VolumeUse) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// VolumeUse is how much a cluster uses an in-tree volume plugin.
type VolumeUse struct {
	cloudprovider.VolumePlugin
	Provider cloudprovider.Provider
	volumes  int
	classes  []string
	// Mounted counts the volumes on nodes that are in use through the plugin itself.
	Mounted int
}

// String returns the plugin and what is made of it.
func (u VolumeUse) String() string {
	var parts []string
	if u.volumes > 0 {
		parts = append(parts, findings.Plural(u.volumes, "volume"))
	}
	if len(u.classes) > 0 {
		parts = append(parts, findings.Plural(len(u.classes), "class"))
	}
	if u.Mounted > 0 {
		parts = append(parts, fmt.Sprintf("%d mounted", u.Mounted))
	}
	return fmt.Sprintf("%s (%s)", u.Name, strings.Join(parts, ", "))
}

// Installed is a container of a workload that holds a CSI driver.
type Installed struct {
	Driver    csidriver.Driver
	Workload  v1.Workload
	Container v1.Container
}

// PluginOfMount is kubernetes.io/aws-ebs of kubernetes.io/aws-ebs/aws://us-east-1a/vol-1, an entry of a node's
// status.volumesInUse.
func PluginOfMount(volume string) string {
	group, rest, _ := strings.Cut(volume, "/")
	name, _, _ := strings.Cut(rest, "/")
	return group + "/" + name
}
