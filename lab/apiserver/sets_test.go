package apiserver

import (
	"strings"
	"testing"
)

func TestTheServerIsOfASetThatHasOne(t *testing.T) {
	for version, want := range map[string]string{
		"v1.26.0":  "kubernetes-v1.26.0", // there is a set of kubelets of the same version
		"v1.27.4":  "kubernetes-v1.27.4",
		"v1.30.14": "kube-apiserver-v1.30.14",
	} {
		ids, etcd, err := sets(version)
		if err != nil || len(ids) != 2 || !strings.HasPrefix(ids[0], "etcd-") || ids[1] != want || etcd == "" {
			t.Errorf("sets of %s are %v with etcd %s (%v), want etcd's and %s", version, ids, etcd, err, want)
		}
	}
	if _, _, err := sets("v1.0.0"); err == nil {
		t.Error("there is a set of a version that nobody can build")
	}
}
