package migrate

import (
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Home is where the journal of a run, the snapshot from before it, the lock and the object through which it is paused are kept: in the cluster itself, or,
// for a cluster whose control plane another one hosts, in its namespace there.
type Home struct {
	Kube kubernetes.Interface
	// Namespace is kube-system when empty.
	Namespace string
	// Part is what the run's objects are told apart by from those of another run in the same namespace; empty for one that is alone or the first. The lock is
	// the same for all.
	Part string
	// sizes of what the journal is kept in; the usual ones when nil.
	sizes *sizes
}

// sizes bound what a journal keeps where, in bytes when packed.
type sizes struct {
	// inline is for a plan in the head, recent for records there, part for a ConfigMap.
	inline, recent, part int
}

var usual = sizes{inline: 32 << 10, recent: 32 << 10, part: chunk}

func (h Home) limits() sizes {
	if h.sizes == nil {
		return usual
	}
	return *h.sizes
}

// InCluster is the home of a run on a cluster that runs its own control plane.
func InCluster(kube kubernetes.Interface) Home { return Home{Kube: kube} }

func (h Home) namespace() string {
	if h.Namespace == "" {
		return namespace
	}
	return h.Namespace
}

// name of one of the run's ConfigMaps.
func (h Home) name(base string) string {
	if h.Part == "" {
		return base
	}
	return base + "-" + h.Part
}

// at is the name with its namespace, for sentences.
func (h Home) at(base string) string { return h.namespace() + "/" + h.name(base) }

// Journal is the first ConfigMap of the journal, as namespace/name.
func (h Home) Journal() string { return h.at(JournalName) }

func (h Home) lock() string { return h.namespace() + "/" + LockName }

func (h Home) maps() coreclient.ConfigMapInterface { return h.Kube.CoreV1().ConfigMaps(h.namespace()) }

func (h Home) leases() coordinationclient.LeaseInterface {
	return h.Kube.CoordinationV1().Leases(h.namespace())
}

// home is where the engine's run is kept.
func (e *Engine) home() Home {
	if e.journal != nil && e.journal.home.Kube != nil {
		return e.journal.home
	}
	return InCluster(e.Kube)
}
