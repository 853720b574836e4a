package snapshot

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostproof"
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
		if c.byNodes && c.node != nil && h.NodeName != c.node.Name {
			t.Errorf("%s: the host has claimed Node %s", name, h.NodeName)
		}
		known := objects.ControlPlane{HostsAreNodes: c.byNodes, Named: []string{"worker-1"}}
		if v, err := known.Judge(t.Context(), src.Kube, "worker-1"); err != nil || (v.Why == "") != c.holds || v.MayPass {
			t.Errorf("%s: the engine would be told %+v, %v", name, v, err)
		}
	}
}

// TestTheLabelAloneMakesNoControlPlaneWhereAPIServersAnnounceNodes: a storage driver's account on each worker may patch Nodes.
func TestTheLabelAloneMakesNoControlPlaneWhereAPIServersAnnounceNodes(t *testing.T) {
	t.Parallel()
	node := func(name string, ips ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
		for _, ip := range ips {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.0.0.1"})
		return n
	}
	slice := func(namespace, name string, addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: addresses}},
		}
	}
	for name, c := range map[string]struct {
		slice  *discoveryv1.EndpointSlice
		worker []string
		says   string
		passes bool // it may pass by itself
		named  []string
		bare   bool // the other Node has lost its addresses
	}{
		"at no API server's address":      {slice: slice("default", "kubernetes", "10.0.0.1"), worker: []string{"10.0.0.9"}, says: "its addresses (10.0.0.9)", passes: true},
		"without any address":             {slice: slice("default", "kubernetes", "10.0.0.1"), says: "it has none", passes: true},
		"at the address of another":       {slice: slice("default", "kubernetes", "10.0.0.1"), worker: []string{"10.0.0.9", "10.0.0.1"}, says: "Nodes cp-1, worker-1 all"},
		"at its own":                      {slice: slice("default", "kubernetes", "10.0.0.1", "10.0.0.9"), worker: []string{"10.0.0.9"}},
		"a load balancer is announced":    {slice: slice("default", "kubernetes", "10.0.0.100"), worker: []string{"10.0.0.9"}, says: "(10.0.0.100)", passes: true},
		"nothing is announced":            {worker: []string{"10.0.0.9"}, says: "none is announced", passes: true},
		"somebody's slice of the Service": {slice: slice("default", "kubernetes-x", "10.0.0.1"), worker: []string{"10.0.0.9"}, says: "none is announced", passes: true},
		"a slice of that name somewhere":  {slice: slice("tenant", "kubernetes", "10.0.0.1"), worker: []string{"10.0.0.9"}, says: "none is announced", passes: true},
		"the operator's word":             {slice: slice("default", "kubernetes", "10.0.0.100"), worker: []string{"10.0.0.9"}, named: []string{"worker-1"}},
		"the operator's word of another":  {worker: []string{"10.0.0.9"}, named: []string{"cp-1"}, says: "none is announced", passes: true},
		"a word against the addresses": {
			slice: slice("default", "kubernetes", "10.0.0.1"), worker: []string{"10.0.0.9"}, named: []string{"worker-1"}, says: "its addresses (10.0.0.9)", passes: true,
		},
		"the addresses of others are gone":   {slice: slice("default", "kubernetes", "10.0.0.1"), bare: true, worker: []string{"10.0.0.9"}, says: "(10.0.0.1)", passes: true},
		"at one of its several own, in IPv6": {slice: slice("default", "kubernetes", "10.0.0.1", "fd00::9"), worker: []string{"10.0.0.9", "FD00:0::9"}},
	} {
		s := apitest.New(t)
		if s.Put(t, node("cp-1", "10.0.0.1")); c.bare {
			s.Put(t, &corev1.Node{ObjectMeta: node("cp-1").ObjectMeta})
		}
		s.Put(t, node("worker-1", c.worker...))
		want := []string(nil)
		if c.slice != nil {
			s.Put(t, c.slice)
			if c.slice.Namespace == "default" && c.slice.Name == "kubernetes" {
				want = c.slice.Endpoints[0].Addresses
			}
		}
		dir := t.TempDir()
		write(t, dir, "worker-1/etc/kubernetes/manifests/kube-controller-manager.yaml", manifest(component.KCM, kcmImage, kcmArgs(1)...))
		src := live(t, s)
		src.Hosts, src.HostsAreNodes, src.NamedHosts = open(t, dir), true, c.named
		got := Gather(t.Context(), src, collect.Options{})
		if !slices.Equal(got.APIServers, want) {
			t.Errorf("%s: the API servers are at %q", name, got.APIServers)
		}
		why := hostproof.OfSnapshot(got).WhyNot(got, got.Hosts[0])
		v, err := objects.ControlPlane{HostsAreNodes: true, Named: c.named}.Judge(t.Context(), src.Kube, "worker-1")
		if err != nil || v.Why != why || v.MayPass != c.passes || (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: the engine would be told %+v, %v; the snapshot says %q", name, v, err, why)
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

// TestAnAddressThatMovedToAnotherNodeProvesNothing: who may patch the status of every Node could take the address of an
// API server away from the control plane and give it to a worker, while a migration runs.
func TestAnAddressThatMovedToAnotherNodeProvesNothing(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	node := func(name, ip string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}},
		}
	}
	s.Put(t, node("cp-1", "10.0.0.1"))
	s.Put(t, node("cp-2", "10.0.0.2"))
	s.Put(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1", "10.0.0.2"}}},
	})
	kube := live(t, s).Kube
	before, err := objects.ReadEvidence(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	s.Put(t, node("cp-1", "10.0.0.2"))
	s.Put(t, node("cp-2", "10.0.0.9"))
	for host, says := range map[string]string{"cp-1": "had the address 10.0.0.1 of an API server when this run began", "cp-2": "no API server announces"} {
		v, err := objects.ControlPlane{HostsAreNodes: true, Before: before}.Judge(t.Context(), kube, host)
		if err != nil || !strings.Contains(v.Why, says) || !v.MayPass {
			t.Errorf("%s: %+v, %v", host, v, err)
		}
	}
	s.Put(t, node("cp-1", "10.0.0.1"))
	if v, err := (objects.ControlPlane{HostsAreNodes: true, Before: before}).Judge(t.Context(), kube, "cp-1"); err != nil || v.Why != "" {
		t.Errorf("the address is back: %+v, %v", v, err)
	}
}
