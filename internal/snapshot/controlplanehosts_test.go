package snapshot

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// TestAWorkerIsNoControlPlaneByItsOwnWord: its root writes manifests of a control plane, and says that it is another Node.
func TestAWorkerIsNoControlPlaneByItsOwnWord(t *testing.T) {
	t.Parallel()
	labelled := func(label, value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: map[string]string{label: value}}}
	}
	for name, c := range map[string]struct {
		node    *corev1.Node
		byNodes bool
		holds   bool
	}{
		"nobody says so":                        {node: labelled("node-role.kubernetes.io/worker", ""), byNodes: true},
		"a worker's directory is named":         {node: labelled("node-role.kubernetes.io/worker", "")},
		"a label that its kubelet may set":      {node: labelled("node.kubernetes.io/role", "control-plane"), byNodes: true},
		"the label of its Node":                 {node: labelled("node-role.kubernetes.io/control-plane", ""), byNodes: true, holds: true},
		"the older label, and named":            {node: labelled("node-role.kubernetes.io/master", ""), holds: true},
		"named by somebody, and it has no Node": {holds: true},
		"its Node is gone":                      {byNodes: true},
	} {
		s := apitest.New(t)
		s.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
		if c.node != nil {
			s.Put(t, c.node)
		}
		dir := t.TempDir()
		write(t, dir, "worker-1/etc/kubernetes/manifests/kube-controller-manager.yaml", manifest(component.KCM, kcmImage, kcmArgs(1)...))
		write(t, dir, "worker-1/etc/kubernetes/manifests/kube-apiserver.yaml", manifest(component.KAS, kasImage, kasArgs(1)...))
		write(t, dir, "worker-1/etc/kubernetes/cloud/cloud.conf", cloudConf)
		write(t, dir, "worker-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--cloud-provider=aws --hostname-override=cp-1"`)
		src := live(t, s)
		src.Hosts, src.HostsAreNodes = open(t, dir), c.byNodes
		got := Gather(t.Context(), src, collect.Options{})
		h := got.Hosts[0]
		isClaim := slices.Equal(h.Claims, []string{component.KAS, component.KCM})
		if h.ControlPlane != c.holds || isClaim == c.holds || (len(h.Components) > 0) != c.holds || (h.CloudConfig != nil) != c.holds {
			t.Errorf("%s: control plane %v, claims %v, %d components, cloud config %v", name, h.ControlPlane, h.Claims, len(h.Components), h.CloudConfig)
		}
		if proven, err := objects.IsControlPlaneHost(t.Context(), src.Kube, "worker-1", c.byNodes); err != nil || proven != c.holds {
			t.Errorf("%s: the engine would be told %v, %v", name, proven, err)
		}
	}
}

// TestErrorsOfWhatAHostOnlyClaimsAreNotGathered: root on a worker could hold a migration up with a manifest that names files which are not there.
func TestErrorsOfWhatAHostOnlyClaimsAreNotGathered(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	s.Put(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})
	dir := t.TempDir()
	write(t, dir, "worker-1/etc/kubernetes/manifests/kube-controller-manager.yaml", manifest(component.KCM, kcmImage, kcmArgs(1)...))
	src := live(t, s)
	src.Hosts = open(t, dir)
	got := Gather(t.Context(), src, collect.Options{})
	if e := unknownsOf(got, "hosts/worker-1/cloud-config"); len(e) > 0 || !slices.Equal(got.Hosts[0].Claims, []string{component.KCM}) {
		t.Errorf("claims %v, unknown: %q", got.Hosts[0].Claims, e)
	}
}
