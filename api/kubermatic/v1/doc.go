// Package v1 is the Cluster API of Kubermatic, as far as Transplant acts on it. Its objects are in a management
// ("seed") cluster. Each is a user cluster whose control plane runs there, in its own namespace.
//
// The same kinds are served under two groups: GroupVersion, the one of today, and LegacyGroupVersion, the one that the
// published guide to the migration shows. Which fields exist, what they are called and what their values mean is
// Kubermatic's. Everything that Transplant does not act on is kept as it is: unknown fields are preserved. What
// Transplant adds is in annotations and in conditions with names of their own.
//
// +groupName=kubermatic.k8c.io
// +kubebuilder:object:generate=true
package v1
