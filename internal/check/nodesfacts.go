package check

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// cloudName is the provider whose loops are to move: the one that the in-tree managers or the snapshot name, or else the new managers, or the inventory.
// Empty when nobody says, or the managers contradict each other.
func (f facts) cloudName() string {
	if name := f.provider(); name != "" || len(f.inTree()) > 0 {
		return name
	}
	var names []string
	for _, p := range f.all(ccm) {
		if name := p.flag("cloud-provider", ""); name != "" && name != "external" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(names) == 1:
		return names[0]
	case len(names) == 0 && f.Cloud != nil:
		return f.Cloud.Provider
	}
	return ""
}

// concerns tells whether a check is about the cluster's provider; the finding says why not when it isn't.
func (f facts) concerns(providers ...string) (v1.Finding, bool) {
	switch name := f.cloudName(); {
	case name == "":
		return skip("the cloud provider is not known: no manager names one, or they contradict each other (CP-001)"), false
	case !slices.Contains(providers, name):
		return skip("does not concern %s", name), false
	}
	return v1.Finding{}, true
}

// newMinor is the minor of the library in the manager that the migration brings in.
func (f facts) newMinor() int {
	cluster, _ := versionMinor(f.Cluster.Version)
	if _, m, ok := f.newImage(cluster); ok {
		return m
	}
	return DefaultCCMMinor
}

// inTreeMinor is the minor of the in-tree managers; 0 when it is not known.
func (f facts) inTreeMinor() int {
	for _, p := range f.inTree() {
		if m, ok := f.minorOf(p); ok {
			return m
		}
	}
	m, _ := versionMinor(f.Cluster.Version)
	return m
}

// instancesByNode are what the cloud said of each node's instance.
func (f facts) instancesByNode() map[string]v1.CloudInstance {
	out := make(map[string]v1.CloudInstance, len(f.Nodes))
	if f.Cloud == nil {
		return out
	}
	for _, i := range f.Cloud.Instances {
		out[i.Node] = i
	}
	return out
}

// ofType are the addresses of one type, in order, from entries of the form Type=address.
func ofType(addresses []string, kind string) []string {
	var out []string
	for _, a := range addresses {
		if ip, ok := strings.CutPrefix(a, kind+"="); ok {
			out = append(out, ip)
		}
	}
	return out
}

// counting returns "no node waits", "1 node waits" or "3 nodes wait".
func counting(n int, noun, one, many string) string {
	switch n {
	case 0:
		return "no " + noun + " " + one
	case 1:
		return "1 " + noun + " " + one
	}
	return plural(n, noun) + " " + many
}

// also returns what there is to add to a sentence about n things; nothing when there are none.
func also(n int, more string) string {
	if n == 0 {
		return ""
	}
	return more
}

// none returns the finding of a check for which a cluster has nothing to look at.
func none(what string) v1.Finding { return skip("there is no %s", what) }

const sourceNodes = "/api/v1/nodes"
