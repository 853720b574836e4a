// Package v1 is the Cluster API of Kubermatic, as far as Transplant acts on it: the objects of a management ("seed")
// cluster that stand for user clusters whose control planes run there, in a namespace each.
//
// The same kinds are served under two groups: GroupVersion, the one of today, and LegacyGroupVersion, the one that the
// published guide to the migration shows. Which fields exist, what they are called and what their values mean is
// Kubermatic's; everything that Transplant does not act on is kept as it is (unknown fields are preserved), so that an
// object of the original goes through unharmed. What Transplant adds is in annotations and in conditions with names of
// their own.
//
// +groupName=kubermatic.k8c.io
// +kubebuilder:object:generate=true
package v1
