package cli

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

func TestRightsAreRoleBindingsInTheNamespacesOfClusters(t *testing.T) {
	w := newSeed(t)
	w.plain("c0", "c1")
	r := w.run("rights")
	for _, words := range []string{"kind: RoleBinding", "namespace: cluster-c0\n", "namespace: cluster-c1\n", "kind: ClusterRole\n  name: transplant-operator-control-plane", "namespace: transplant-system"} {
		if r.code != exitcode.OK || !strings.Contains(r.out, words) {
			t.Fatalf("no %q in\n%s", words, r.text(nil))
		}
	}
	if strings.Contains(r.out, "ClusterRoleBinding") {
		t.Error("rights for the whole seed are given")
	}
	if r = w.run("rights", "c1"); r.code != exitcode.OK || strings.Contains(r.out, "cluster-c0") {
		t.Error(r.text(nil))
	}
	r = w.run("rights", "c1", "--operator-account=platform", "--operator-namespace=ops")
	if r.code != exitcode.OK || !strings.Contains(r.out, "- kind: ServiceAccount\n  name: platform\n  namespace: ops\n") {
		t.Errorf("another account is not bound: %s", r.text(nil))
	}
	fails(t, w.run("rights", "c9"), exitcode.Error, "there is no cluster c9")
}
