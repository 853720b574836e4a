package kubelet

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Kind is what can make the same change of a kubelet end in another way on one worker than on another. A worker that
// came back proves the change for the workers of its own kind, and for no others.
type Kind struct {
	os, arch string
	// version is the whole one: a patch release may start otherwise, too.
	version string
	// runtime is its name and major.minor: patch releases of a runtime keep how a kubelet talks to it.
	runtime string
	// image decides about the service manager, and about which paths are read-only.
	image string
	// flagsIn is the file with --cloud-provider, and files are all from which the kubelet starts, a line each: the one
	// that is read last wins.
	flagsIn, files string
}

// KindOf returns the kind of a worker, by its host and by its Node, which is nil where the snapshot has none. That a
// part is not known counts as a value of it.
func KindOf(h v1.Host, n *v1.Node) Kind {
	if n == nil {
		n = &v1.Node{}
	}
	var files []string
	for _, f := range h.Kubelet.Files {
		if f.Present {
			files = append(files, planstep.WithoutHostName(f.Path, h.Name))
		}
	}
	slices.Sort(files)
	return Kind{
		os:      n.OS,
		arch:    n.Labels[planstep.ArchLabel],
		version: cmp.Or(h.Kubelet.Version, n.KubeletVersion),
		runtime: describeRuntime(n.ContainerRuntime),
		image:   n.OSImage,
		flagsIn: planstep.WithoutHostName(cmp.Or(h.Kubelet.Sources["cloud-provider"], h.Kubelet.Source), h.Name),
		files:   strings.Join(slices.Compact(files), "\n"),
	}
}

// describeRuntime returns "containerd 1.6" for "containerd://1.6.8".
func describeRuntime(reported string) string {
	name, version, _ := strings.Cut(reported, "://")
	if parts := strings.SplitN(version, ".", 3); len(parts) > 2 {
		version = parts[0] + "." + parts[1]
	}
	return strings.TrimSpace(name + " " + version)
}

// traits are the parts of a kind in words, but for its files. Each has its place, whether it is known or not.
func (k Kind) traits() []string {
	return []string{
		cmp.Or(k.os, "an unknown operating system"),
		cmp.Or(k.arch, "an unknown architecture"),
		"kubelet " + cmp.Or(k.version, "of an unknown version"),
		cmp.Or(k.runtime, "an unknown container runtime"),
		cmp.Or(k.image, "an unknown OS image"),
		"kubelet flags in " + k.flagsIn,
	}
}

func (k Kind) paths() []string {
	return strings.FieldsFunc(k.files, func(r rune) bool { return r == '\n' })
}

// describeKinds returns for each kind of a plan by what the kinds differ, as it follows the word "with".
func describeKinds(kinds []Kind) []string {
	traits, readers := make([][]string, len(kinds)), map[string]int{}
	for i, k := range kinds {
		traits[i] = k.traits()
		for _, at := range k.paths() {
			readers[at]++
		}
	}
	words := make([][]string, len(kinds))
	for t := range traits[0] {
		if !slices.ContainsFunc(traits, func(o []string) bool { return o[t] != traits[0][t] }) {
			continue
		}
		for i := range kinds {
			words[i] = append(words[i], readableWord(traits[i][t]))
		}
	}
	differ := slices.ContainsFunc(kinds, func(o Kind) bool { return o.files != kinds[0].files })
	out := make([]string, len(kinds))
	for i, k := range kinds {
		if differ {
			words[i] = append(words[i], describeFiles(k, func(at string) bool { return readers[at] < len(kinds) }))
		}
		out[i] = english.Series("and", words[i])
	}
	return out
}

// describeFiles names the files of a kind's kubelets that not all kinds have.
func describeFiles(k Kind, isOwn func(at string) bool) string {
	const named = 2
	var own []string
	for _, at := range k.paths() {
		if isOwn(at) {
			own = append(own, readableWord(at))
		}
	}
	if len(own) == 0 {
		return "a kubelet that reads no further file"
	}
	return "a kubelet that also reads " + english.FirstOf(named, own)
}

// readableWord returns a text of a Node or a host as a plan may have it. A kubelet writes what it likes into the status
// of its Node. A plan with characters that are not seen would be refused in the middle of its run.
func readableWord(s string) string {
	const most = 100
	return visible.Cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s), most)
}

// change is what makes the kubelet of a host external.
type change struct {
	host v1.Host
	step v1.Step
}

// canariesFirst makes the first worker of each kind a canary. Canaries come behind the control plane and before the
// other workers, in the order of the snapshot.
func canariesFirst(d *draft.Draft, all []change) {
	var kinds []Kind
	var canaries []*v1.Step
	seen := map[Kind]bool{}
	for i := range all {
		h := all[i].host
		if h.ControlPlane {
			continue
		}
		if kind := KindOf(h, d.FindNode(h.NodeName)); !seen[kind] {
			seen[kind], all[i].step.Canary = true, true
			kinds, canaries = append(kinds, kind), append(canaries, &all[i].step)
		}
	}
	if len(kinds) > 0 {
		nameCanaries(d, canaries, kinds)
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(turnOf(a), turnOf(b)) })
}

// turnOf is the place of a change among those of kubelets: lower ones come first.
func turnOf(c change) int {
	switch {
	case c.host.ControlPlane:
		return 0
	case c.step.Canary:
		return 1
	}
	return 2
}

// nameCanaries says of each canary what it is, and of which kind where there are several.
func nameCanaries(d *draft.Draft, canaries []*v1.Step, kinds []Kind) {
	if len(kinds) == 1 {
		canaries[0].Why += "; it is the first worker, and when it does not come back no other one is touched"
		return
	}
	const named = 5
	var hosts []string
	for i, words := range describeKinds(kinds) {
		s := canaries[i]
		s.Title += ", the first of its kind"
		s.Why += "; it is the first worker with " + words + ", and when it does not come back no further one is touched"
		hosts = append(hosts, s.Host)
	}
	d.Note("workers are of " + english.Count(len(kinds), "kind") +
		", and the first of each changes alone before the others: " + english.FirstOf(named, hosts))
}
