package view

import (
	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Object is a Cluster and the API group that it was read from, which its own TypeMeta does not say everywhere.
type Object struct {
	// Group is kubermatic.k8c.io or kubermatic.k8s.io.
	Group   string
	Cluster *kubermaticv1.Cluster
}

// Key names a Cluster object among all of both groups.
type Key struct{ Group, Name string }

// Key of the object.
func (o Object) Key() Key { return Key{Group: o.Group, Name: o.Cluster.Name} }

// String is the name, with the group where that is not today's.
func (k Key) String() string {
	if k.Group == kubermaticv1.GroupName || k.Group == "" {
		return k.Name
	}
	return k.Name + "." + k.Group
}
