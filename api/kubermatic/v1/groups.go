package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupName is the group of today's Kubermatic.
const GroupName = "kubermatic.k8c.io"

// LegacyGroupName is the group that the guide to the CCM and CSI migration shows. It lies below k8s.io, which is
// protected: its CRD says that it is unapproved.
const LegacyGroupName = "kubermatic.k8s.io"

// The versions of both groups.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1"}
	LegacyGroupVersion = schema.GroupVersion{Group: LegacyGroupName, Version: "v1"}
)

// AddToScheme registers the kinds of the group of today. Objects of the other group have the same shape. They are read
// through a scheme of their own: a Go type stands for one group in a scheme.
func AddToScheme(s *runtime.Scheme) error { return add(s, GroupVersion) }

// AddLegacyToScheme registers the kinds of the legacy group.
func AddLegacyToScheme(s *runtime.Scheme) error { return add(s, LegacyGroupVersion) }

func add(s *runtime.Scheme, gv schema.GroupVersion) error {
	s.AddKnownTypes(gv, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}
