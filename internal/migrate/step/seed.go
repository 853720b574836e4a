package step

import (
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Seed is the cluster in which the control plane runs of the one that is migrated. References to objects of Namespace
// are the seed's; all others are the migrated cluster's.
type Seed struct {
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Namespace string
}

// RolloutTimeout is for how long the old pods of a Deployment in the seed may take to end. New ones are scheduled, pull
// their image, wait for the API server and get ready before. The old ones have their grace period.
const RolloutTimeout = 6 * time.Minute

// isSeedNamespace reports whether an object is the seed's.
func (e *Env) isSeedNamespace(namespace string) bool {
	return e.Seed != nil && namespace == e.Seed.Namespace
}

// IsInSeed reports whether a reference is to an object of the seed.
func (e *Env) IsInSeed(ref string) bool {
	parts := strings.Split(ref, "/")
	return len(parts) == 3 && e.isSeedNamespace(parts[1])
}

// KubeOf is the API that has a namespace.
func (e *Env) KubeOf(namespace string) kubernetes.Interface {
	if e.isSeedNamespace(namespace) {
		return e.Seed.Kube
	}
	return e.Kube
}

// DynamicOf returns the client of the cluster that a namespace's objects are in.
func (e *Env) DynamicOf(namespace string) dynamic.Interface {
	if e.isSeedNamespace(namespace) {
		return e.Seed.Dynamic
	}
	return e.Dynamic
}
