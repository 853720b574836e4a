package external

import (
	"cmp"
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// ChooseNodeIPAM decides where node IPAM runs afterwards, and says why in the plan.
//
// The leader migration document and KEP-2395 move it wherever the provider has a controller of its own. A plan moves it
// where pod CIDRs come from the cloud, because a manager without a cloud cannot allocate those. The allocator of
// --cluster-cidr asks no cloud: it stays where it is unless a move is asked for.
func ChooseNodeIPAM(d *draft.Draft, m *v1.Component) []error {
	allocator := cmp.Or(m.Flags["cidr-allocator-type"], component.RangeAllocator)
	cloud := slices.Contains(d.Provider.Allocators, allocator)
	runs := m.Flags["allocate-node-cidrs"] == "true" &&
		!flagvalue.IsLoopDisabled(m.Flags["controllers"], clusterview.NodeIPAM)
	if runs && cloud {
		if err := canNotMove(allocator); err != nil {
			return []error{err}
		}
	}
	switch {
	case !runs && d.Options.NodeIPAM == v1.IPAMMove:
		return []error{
			fmt.Errorf(
				"--node-ipam=%s: %s gives out no pod CIDRs (--allocate-node-cidrs, --controllers), so nothing can move: leave the option out",
				v1.IPAMMove,
				component.KCM,
			),
		}
	case !runs:
		return nil
	case d.Options.NodeIPAM == v1.IPAMKeep && cloud:
		return []error{
			fmt.Errorf(
				"--cidr-allocator-type=%s takes pod CIDRs from the cloud, and an external %s has none: node IPAM has to move (--node-ipam=%s)",
				component.CloudAllocator,
				component.KCM,
				v1.IPAMMove,
			),
		}
	case d.Options.NodeIPAM != v1.IPAMMove && !cloud:
		d.Note(whyIPAMStays(d))
		return nil
	case d.Program.Image != "" && d.Program.IPAMName == "":
		return []error{fmt.Errorf("node IPAM cannot move: the manager in image %s has no such controller", d.Program.Image)}
	}
	d.MoveIPAM = true
	why := "it was asked for with --node-ipam=" + v1.IPAMMove
	if cloud {
		why = "--cidr-allocator-type=" + allocator + " asks the cloud, which an external " + component.KCM + " cannot do"
	}
	d.Note(
		fmt.Sprintf(
			"node IPAM: moves to the %s, as the leader migration document has it, because %s; nodes keep the pod CIDRs that they have",
			component.CCM,
			why,
		),
	)
	return nil
}

// canNotMove is why no new manager can take an allocator that asks the cloud; nil where one can.
func canNotMove(allocator string) error {
	if allocator == component.CloudAllocator {
		return nil
	}
	return fmt.Errorf(
		"--cidr-allocator-type=%s takes pod CIDRs from the cloud in a way that no external manager knows: give them out by %s or %s first",
		allocator,
		component.RangeAllocator,
		component.CloudAllocator,
	)
}

// whyIPAMStays says why node IPAM is not moved, and how it would be.
func whyIPAMStays(d *draft.Draft) string {
	out := fmt.Sprintf(
		"node IPAM: stays in %s. It gives out pod CIDRs from --cluster-cidr and needs no cloud; a second allocator could give two nodes the same CIDR. ",
		component.KCM,
	)
	if d.Program.IPAMName == "" {
		return out + fmt.Sprintf("The manager in image %s has none", d.Program.Image)
	}
	return out + "To move it, as Kubernetes' page on leader migration does: --node-ipam=" + v1.IPAMMove
}

// NodeIPAMEdits remove node IPAM from a kube-controller-manager of a minor, where it moves.
func NodeIPAMEdits(d *draft.Draft, m *v1.Component, minor int) []v1.Edit {
	if !d.MoveIPAM {
		return nil
	}
	edits := []v1.Edit{{Op: v1.EditSetFlag, Name: "controllers", Value: ControllersWithoutIPAM(d, m, minor)}}
	if m.Flags["cidr-allocator-type"] == component.CloudAllocator {
		edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cidr-allocator-type"})
	}
	return edits
}

// ControllersWithoutIPAM is the --controllers list of a kube-controller-manager of a minor that runs no node IPAM.
func ControllersWithoutIPAM(d *draft.Draft, m *v1.Component, minor int) string {
	return flagvalue.DisableLoop(
		m.Flags["controllers"],
		controllernames.Name(controllernames.KubeControllerManager, minor, clusterview.NodeIPAM),
		clusterview.NodeIPAM,
	)
}
