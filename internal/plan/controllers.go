package plan

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/controllernames"
)

// loopIPAM is node IPAM; rangeAllocator and cloudAllocator are the values of --cidr-allocator-type that take pod CIDRs from --cluster-cidr and from the cloud.
const (
	loopIPAM       = controllernames.NodeIPAM
	rangeAllocator = "RangeAllocator"
	cloudAllocator = "CloudAllocator"
)

// items splits a --controllers list.
func items(list string) []string {
	var out []string
	for _, i := range strings.Split(list, ",") {
		if i = strings.TrimSpace(i); i != "" {
			out = append(out, i)
		}
	}
	return out
}

// disabled tells that a --controllers list of a kube-controller-manager keeps a loop from running, whatever the dialect it is written in. An absent
// list is "*". A loop that is named either way is decided by that, the first one wins as in the manager itself; else the star decides.
func disabled(list string, loop controllernames.Loop) bool {
	all := items(list)
	if len(all) == 0 {
		return false
	}
	for _, i := range all {
		if l, _, ok := controllernames.Lookup(strings.TrimPrefix(i, "-")); ok && l == loop {
			return strings.HasPrefix(i, "-")
		}
	}
	return !slices.Contains(all, "*")
}

// without returns a --controllers list that says what it said and keeps a loop, under the name that the manager has for it, from running.
func without(list, name string, loop controllernames.Loop) string {
	all := items(list)
	if len(all) == 0 {
		all = []string{"*"}
	}
	if disabled(strings.Join(all, ","), loop) {
		return strings.Join(all, ",")
	}
	all = slices.DeleteFunc(all, func(i string) bool {
		l, _, ok := controllernames.Lookup(i)
		return ok && l == loop
	})
	if slices.Contains(all, "*") {
		all = append(all, "-"+name)
	}
	return strings.Join(all, ",")
}

// nodeController is what a cloud-controller-manager calls the loop that initialises nodes.
func nodeController(minor int) string {
	if controllernames.DialectOf(controllernames.CloudControllerManager, minor) == controllernames.Short {
		return "cloud-node"
	}
	return "cloud-node-controller"
}

// ccmControllers is the --controllers list of the cloud-controller-manager: what the owner of the cluster switched off in the
// kube-controller-manager stays off, Azure's node loop is the cloud-node-manager's, and node IPAM runs in one place. Empty means its default.
func (b *builder) ccmControllers(kcmList string) string {
	var more []string
	for _, loop := range controllernames.CloudLoops {
		if disabled(kcmList, loop) {
			more = append(more, "-"+controllernames.Name(controllernames.CloudControllerManager, b.program.minor, loop))
		}
	}
	if b.provider.Name == providerAzure {
		more = append(more, "-"+nodeController(b.program.minor))
	}
	switch {
	case b.moveIPAM && !b.program.ipamOn:
		more = append(more, b.program.ipamName)
	case !b.moveIPAM && b.program.ipamOn:
		more = append(more, "-"+b.program.ipamName)
	}
	if len(more) == 0 {
		return ""
	}
	return strings.Join(append([]string{"*"}, more...), ",")
}
