package plan

import (
	"cmp"
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// chooseIPAM decides where node IPAM runs afterwards, and says why in the plan.
//
// The leader migration document and KEP-2395 move it wherever the provider has a controller of its own. A plan moves it where pod CIDRs come from the cloud,
// because a manager without a cloud cannot allocate those. The allocator of --cluster-cidr asks no cloud: it stays where it is unless a move is asked for.
func (b *builder) chooseIPAM(m *v1.Component) []error {
	allocator := cmp.Or(m.Flags["cidr-allocator-type"], rangeAllocator)
	cloud := slices.Contains(b.provider.Allocators, allocator)
	runs := m.Flags["allocate-node-cidrs"] == "true" && !disabled(m.Flags["controllers"], loopIPAM)
	switch {
	case !runs && b.opts.NodeIPAM == v1.IPAMMove:
		return []error{fmt.Errorf("--node-ipam=%s: %s gives out no pod CIDRs (--allocate-node-cidrs, --controllers), so nothing can move: leave the option out", v1.IPAMMove, KCM)}
	case !runs:
		return nil
	case cloud && allocator != cloudAllocator:
		return []error{fmt.Errorf("--cidr-allocator-type=%s takes pod CIDRs from the cloud in a way that no external manager knows: give them out by %s or %s first", allocator, rangeAllocator, cloudAllocator)}
	case b.opts.NodeIPAM == v1.IPAMKeep && cloud:
		return []error{fmt.Errorf("--cidr-allocator-type=%s takes pod CIDRs from the cloud, and an external %s has none: node IPAM has to move (--node-ipam=%s)", cloudAllocator, KCM, v1.IPAMMove)}
	case b.opts.NodeIPAM != v1.IPAMMove && !cloud:
		b.noteOnce(b.ipamStays())
		return nil
	case b.program.image != "" && b.program.ipamName == "":
		return []error{fmt.Errorf("node IPAM cannot move: the manager in image %s has no such controller", b.program.image)}
	}
	b.moveIPAM = true
	why := "it was asked for with --node-ipam=" + v1.IPAMMove
	if cloud {
		why = "--cidr-allocator-type=" + allocator + " asks the cloud, which an external " + KCM + " cannot do"
	}
	b.noteOnce(fmt.Sprintf("node IPAM: moves to the %s, as the leader migration document has it, because %s; nodes keep the pod CIDRs that they have", CCM, why))
	return nil
}

// ipamStays says why node IPAM is not moved, and how it would be.
func (b *builder) ipamStays() string {
	out := fmt.Sprintf("node IPAM: stays in %s, because it gives out pod CIDRs from --cluster-cidr and asks no cloud for them; a second allocator could only give two nodes the same one. ", KCM)
	if b.program.ipamName == "" {
		return out + fmt.Sprintf("The manager in image %s has none", b.program.image)
	}
	return out + "The leader migration document moves it where a provider has its own: plan with --node-ipam=" + v1.IPAMMove + " for that"
}

// ipamEdits take node IPAM out of a kube-controller-manager of a minor, where it moves.
func (b *builder) ipamEdits(m *v1.Component, minor int) []v1.Edit {
	if !b.moveIPAM {
		return nil
	}
	edits := []v1.Edit{{Op: "setFlag", Name: "controllers", Value: b.withoutIPAM(m, minor)}}
	if m.Flags["cidr-allocator-type"] == cloudAllocator {
		edits = append(edits, v1.Edit{Op: "unsetFlag", Name: "cidr-allocator-type"})
	}
	return edits
}

// withoutIPAM is the --controllers list of a kube-controller-manager of a minor that runs no node IPAM.
func (b *builder) withoutIPAM(m *v1.Component, minor int) string {
	return without(m.Flags["controllers"], controllernames.Name(controllernames.KubeControllerManager, minor, loopIPAM), loopIPAM)
}
