package v1

import "testing"

// TestTheNamespaceOfAControlPlaneFollowsFromTheName: whoever may write the status of one Cluster must not lead the operator, and
// the rights that it is given by namespace, to the control plane of another one or to the seed's own.
func TestTheNamespaceOfAControlPlaneFollowsFromTheName(t *testing.T) {
	for _, status := range []string{"", "cluster-a", "cluster-b", "kube-system", "a/b"} {
		c := &Cluster{Status: ClusterStatus{NamespaceName: status}}
		c.Name = "a"
		if got := c.ControlPlaneNamespace(); got != "cluster-a" {
			t.Errorf("with %q in its status the control plane is taken to be in %s", status, got)
		}
	}
}
