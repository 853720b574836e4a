package leadermigration

import (
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
)

// knownHolders are the known holders of managers' leases, indexed once for all Leases.
type knownHolders struct {
	leads  map[string]bool // the leases by which a known manager says that it leads
	silent bool            // some manager could not be asked, or did not answer
	// hosts and short are the names of hosts and their Nodes in lower case: whole, and up to the first dot.
	hosts, short map[string]bool
	// nodes are those with a pod of a workload that runs managers.
	nodes map[string]bool
	pods  prefixSet
}

func newKnownHolders(f facts.Facts) knownHolders {
	k := knownHolders{
		leads: map[string]bool{},
		hosts: map[string]bool{},
		short: map[string]bool{},
		nodes: map[string]bool{},
	}
	for _, p := range f.AllManagers() {
		all := f.Scrapes(p)
		k.silent = k.silent || len(all) == 0
		for _, m := range all {
			for _, lease := range m.Leads {
				k.leads[lease] = true
			}
			k.silent = k.silent || m.Error != ""
		}
	}
	for _, h := range f.Hosts {
		for _, name := range []string{h.Name, h.NodeName} {
			if name != "" {
				k.hosts[strings.ToLower(name)] = true
				k.short[shortName(name)] = true
			}
		}
	}
	var workloads []string
	for _, c := range f.Hosted {
		workloads = append(workloads, facts.NameOf(c.Manifest))
	}
	external := f.Stage() == facts.StageExternal
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCCM || !external {
			continue
		}
		workloads = append(workloads, facts.NameOf(w.Ref))
		for _, n := range w.Nodes {
			k.nodes[n] = true
		}
	}
	k.pods = newPrefixSet(workloads)
	return k
}

// shortName is the first part of a host's name, in lower case.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return strings.ToLower(short)
}

// leader reports whether one of the known managers says that it leads by a lease, and otherwise whether one that might
// was silent.
func (k knownHolders) leader(lease string) (led, silent bool) {
	led = k.leads[lease]
	return led, k.silent && !led
}

// knows reports whether a holder's identity, host name and uuid, names a host, its Node, or a pod of a workload that
// runs managers.
func (k knownHolders) knows(holder string) bool {
	name, _, _ := strings.Cut(holder, "_")
	return k.hosts[strings.ToLower(name)] || k.short[shortName(name)] || k.nodes[name] || k.pods.beginsOf(name)
}

// prefixSet are beginnings of names. A lookup costs the number of their lengths and not the number of beginnings.
type prefixSet struct {
	prefixes map[string]bool
	lengths  []int // each once, ascending
}

func newPrefixSet(prefixes []string) prefixSet {
	s := prefixSet{prefixes: map[string]bool{}}
	lengths := map[int]bool{}
	for _, p := range prefixes {
		s.prefixes[p], lengths[len(p)] = true, true
	}
	s.lengths = slices.Sorted(maps.Keys(lengths))
	return s
}

// beginsOf reports whether a name begins with one of the set.
func (s prefixSet) beginsOf(name string) bool {
	for _, n := range s.lengths {
		if n > len(name) {
			return false
		}
		if s.prefixes[name[:n]] {
			return true
		}
	}
	return false
}
