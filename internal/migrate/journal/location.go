package journal

import (
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
)

// ObjectLocation is where the journal of a run, the snapshot from before it, the lock and the pause object are kept.
// That is in the cluster itself, or in its namespace of the cluster that hosts its control plane.
type ObjectLocation struct {
	Kube kubernetes.Interface
	// Namespace is kube-system when empty.
	Namespace string
	// Part distinguishes the run's objects from those of another run in the same namespace. It is empty for one that is
	// alone or the first. The lock is the same for all.
	Part string
	// Sizes of what the journal is kept in; the usual ones when nil.
	Sizes *Sizes
	// Memory bounds, in bytes, what the journal and the snapshot from before take of their reader's memory. The usual
	// bound, for the largest supported cluster, when 0.
	Memory int64
}

func (h ObjectLocation) memoryLimit() int64 {
	if h.Memory == 0 {
		return maxMemory
	}
	return h.Memory
}

// Sizes bound what a journal keeps where, in bytes when packed.
type Sizes struct {
	// Inline is for a plan in the head, recent for records there, part for a ConfigMap.
	Inline, Recent, Part int
}

var usual = Sizes{Inline: 32 << 10, Recent: 32 << 10, Part: chunk}

func (h ObjectLocation) limits() Sizes {
	if h.Sizes == nil {
		return usual
	}
	return *h.Sizes
}

// InCluster is the home of a run on a cluster that runs its own control plane.
func InCluster(kube kubernetes.Interface) ObjectLocation { return ObjectLocation{Kube: kube} }

// NamespaceOrDefault returns the namespace of the objects.
func (h ObjectLocation) NamespaceOrDefault() string {
	if h.Namespace == "" {
		return component.Namespace
	}
	return h.Namespace
}

// Name of one of the run's ConfigMaps.
func (h ObjectLocation) Name(base string) string {
	if h.Part == "" {
		return base
	}
	return base + "-" + h.Part
}

// Describe is the name with its namespace, for sentences.
func (h ObjectLocation) Describe(base string) string {
	return h.NamespaceOrDefault() + "/" + h.Name(base)
}

// JournalName is the first ConfigMap of the journal, as namespace/name.
func (h ObjectLocation) JournalName() string { return h.Describe(Name) }

// Maps returns the client of ConfigMaps in the namespace.
func (h ObjectLocation) Maps() coreclient.ConfigMapInterface {
	return h.Kube.CoreV1().ConfigMaps(h.NamespaceOrDefault())
}

// Leases returns the client of Leases in the namespace.
func (h ObjectLocation) Leases() coordinationclient.LeaseInterface {
	return h.Kube.CoordinationV1().Leases(h.NamespaceOrDefault())
}
