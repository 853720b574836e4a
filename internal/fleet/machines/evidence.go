package machines

import (
	"strings"
	"time"
)

// Evidence is what is known of whether a kubelet is external. The API shows no kubelet's flags, so it is what the kubelet's flags lead to.
type Evidence string

// Evidence, the strongest first.
const (
	// EvidenceTaint: the node had the taint node.cloudprovider.kubernetes.io/uninitialized when it was first seen. Only an external kubelet registers so.
	EvidenceTaint Evidence = "Taint"
	// EvidenceInitialized: a cloud-controller-manager gave the node its providerID, which it does for tainted nodes only. An in-tree node that had no
	// providerID may have been tainted for that very purpose, later in its life; so a node of before the change has to have got it soon after it registered.
	EvidenceInitialized Evidence = "Initialized"
	// EvidenceCircumstance: the node, its machine and the MachineSet are all younger than the moment since which machines are made external, and the
	// annotation says so. Nothing of the node itself says otherwise.
	EvidenceCircumstance Evidence = "Circumstance"
	// EvidenceInTree: the kubelet gave the node its providerID, as the in-tree provider does at registration. It speaks against.
	EvidenceInTree Evidence = "InTree"
	// EvidenceNone: nothing is known.
	EvidenceNone Evidence = "None"
)

// kubeletManager is the field manager of a kubelet: the first part of its user agent.
const kubeletManager = "kubelet"

// soon is how long an external node may have waited for its cloud-controller-manager.
const soon = time.Hour

// proof is what the node itself shows.
func proof(n Node, r Record) Evidence {
	switch {
	case r.registeredTainted(n.UID):
		return EvidenceTaint
	case n.ProviderIDBy == kubeletManager:
		return EvidenceInTree
	case strings.Contains(n.ProviderIDBy, "cloud"): // <provider>-cloud-controller-manager, cloud-controller-manager, cloud-node-manager
		if old := r.ExternalSince == nil || n.Created.Before(*r.ExternalSince); old && n.ProviderIDAt.Sub(n.Created) > soon {
			return EvidenceNone
		}
		return EvidenceInitialized
	default: // machine-controller, a human, or an API server that does not say
		return EvidenceNone
	}
}
