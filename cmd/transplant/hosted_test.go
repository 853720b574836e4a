package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
)

func TestACommandForAHostedControlPlaneReachesBothClusters(t *testing.T) {
	seed, user := apitest.New(t), apitest.New(t)
	seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-x", UID: "ns"}})
	user.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "user"}})
	to := []string{"--seed-kubeconfig", seed.Kubeconfig(t), "--seed-namespace", "cluster-x"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a namespace is missing":      {[]string{"check", "--seed-kubeconfig", "x"}, exitError, "--seed-kubeconfig needs --seed-namespace"},
		"the cluster is not known":    {append([]string{"status"}, to...), exitError, "Secret cluster-x/admin-kubeconfig"},
		"a part that nobody has":      {append([]string{"apply", "--part", "all", "--kubeconfig", user.Kubeconfig(t)}, to...), exitError, "the parts are handover and finish"},
		"no control plane is there":   {append([]string{"check", "--problems", "--kubeconfig", user.Kubeconfig(t)}, to...), exitBlocked, "no Deployment that runs kube-controller-manager"},
		"nothing was begun":           {append([]string{"status", "--kubeconfig", user.Kubeconfig(t)}, to...), exitOK, "no migration was started"},
		"there is nothing to go back": {append([]string{"rollback", "--yes", "--kubeconfig", user.Kubeconfig(t)}, to...), exitError, "nothing to roll back"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			code := run(t.Context(), c.args, streams{in: strings.NewReader(""), out: &out, err: &errs})
			if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", code, c.code, c.says, said)
			}
		})
	}
}
