package snapshot

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// TestWhereAManagerOfADeploymentIsAsked: on the network of a host it is that host's, else the API server leads to its pod.
func TestWhereAManagerOfADeploymentIsAsked(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{"node-1": "cp-1"}
	const workload = "Deployment/kube-system/kcm"
	for name, tc := range map[string]struct {
		pod           collect.SeedPod
		host, address string
	}{
		"on its host's network": {collect.SeedPod{Node: "node-1", HostNetwork: true, Address: "10.0.0.1:10257"}, "cp-1", "127.0.0.1:10257"},
		"on every address": {
			collect.SeedPod{Node: "node-1", HostNetwork: true, Address: "10.0.0.1:10257", Flags: map[string]string{"bind-address": "0.0.0.0"}},
			"cp-1",
			"127.0.0.1:10257",
		},
		"on every address of IPv6": {collect.SeedPod{Node: "node-1", HostNetwork: true, Address: "10.0.0.1:10257", Flags: map[string]string{"bind-address": "::"}}, "cp-1", "[::1]:10257"},
		"on one address": {
			collect.SeedPod{Node: "node-1", HostNetwork: true, Address: "10.0.0.1:10257", Flags: map[string]string{"bind-address": "10.0.9.9"}},
			"cp-1",
			"10.0.9.9:10257",
		},
		"on a variable": {
			collect.SeedPod{Node: "node-1", HostNetwork: true, Address: "10.0.0.1:10257", Flags: map[string]string{"bind-address": "$(HOST_IP)"}},
			"cp-1",
			"10.0.0.1:10257",
		},
		"on the pods' network":       {collect.SeedPod{Name: "p", Workload: workload, Node: "node-1", Address: "10.244.0.7:10257"}, workload + "/p", "10.244.0.7:10257"},
		"on a host without access":   {collect.SeedPod{Name: "p", Workload: workload, Node: "node-2", HostNetwork: true, Address: "10.0.0.2:10257"}, workload + "/p", "10.0.0.2:10257"},
		"on a host, not yet started": {collect.SeedPod{Name: "p", Workload: workload, Node: "node-1", HostNetwork: true}, workload + "/p", ""},
	} {
		if host, address := tc.pod.Place(hosts); host != tc.host || address != tc.address {
			t.Errorf("%s: asked on %q at %q, want %q at %q", name, host, address, tc.host, tc.address)
		}
	}
	if namespace, pod, ok := workloads.PodOfPlace(workload + "/p"); !ok || namespace != "kube-system" || pod != "p" {
		t.Errorf("pod %q of namespace %q (%v)", pod, namespace, ok)
	}
	for _, place := range []string{"cp-1", workload, "DaemonSet/kube-system/kcm/p"} {
		if _, _, ok := workloads.PodOfPlace(place); ok {
			t.Errorf("%s is taken for a pod", place)
		}
	}
}

// TestTheManagersOfDeploymentsAreAsked which loops they run: each pod once, and none that does not run.
func TestTheManagersOfDeploymentsAreAsked(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	manager := func(name, owner string, host string, own bool, running bool) *corev1.Pod {
		container := corev1.Container{Name: "kcm", Image: kcmImage, Command: []string{component.KCM, "--cloud-provider=aws"}}
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name:      name,
				Namespace: component.Namespace,
				Labels:    map[string]string{"pod-template-hash": "abc"},
				OwnerReferences: []metav1.OwnerReference{
					{Kind: "ReplicaSet", Name: owner + "-abc", Controller: ptr.To(true)},
				},
			},
			Spec:   corev1.PodSpec{NodeName: host, HostNetwork: !own, Containers: []corev1.Container{container}},
			Status: corev1.PodStatus{PodIP: "10.9.0.1", Phase: corev1.PodRunning},
		}
		if running {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "kcm", ContainerID: "containerd://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}
		}
		return p
	}
	s.Put(
		t,
		deployment(
			component.Namespace,
			component.KCM,
			template(nil, corev1.Container{Name: "kcm", Image: kcmImage, Command: []string{component.KCM, "--cloud-provider=aws"}}),
		),
		manager(
			"first",
			component.KCM,
			"worker-9",
			false,
			true,
		),
		manager("second", component.KCM, "worker-8", true, true),
		manager("third", component.KCM, "worker-8", true, false),
		manager("others", "somebody-else", "worker-9", false, true),
	)
	src := live(t, s)
	var mu sync.Mutex
	var asked []string
	src.Scrape = func(_ context.Context, component, host, address string) v1.Manager {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, component+" "+host+" "+address)
		return v1.Manager{Loops: []string{"service"}}
	}
	got := Gather(t.Context(), src, collect.Options{})
	slices.Sort(asked)
	want := []string{
		component.KCM + " Deployment/kube-system/kube-controller-manager/first 10.9.0.1:10257",
		component.KCM + " Deployment/kube-system/kube-controller-manager/second 10.9.0.1:10257",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if len(got.Managers) != 2 || got.Managers[0].Error != "" || !slices.Contains(got.Managers[1].Loops, "service") {
		t.Errorf("managers %+v", got.Managers)
	}
}

// TestTheManagersOfADaemonSetAreAsked, as those that the manifests install: else nothing would say which loops they run.
func TestTheManagersOfADaemonSetAreAsked(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	pod := func(name string, state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: component.Namespace,
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ccm", Controller: ptr.To(true)}},
			},
			Spec: corev1.PodSpec{HostNetwork: true, NodeName: "worker-9", Containers: []corev1.Container{
				{Name: "ccm", Image: "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
			}},
			Status: corev1.PodStatus{PodIP: "10.9.0.1", Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "ccm", State: state},
			}},
		}
	}
	s.Put(
		t,
		pod("first", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
		pod("second", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}),
	)
	src := live(t, s)
	var mu sync.Mutex
	var asked []string
	src.Scrape = func(_ context.Context, component, host, address string) v1.Manager {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, component+" "+host+" "+address)
		return v1.Manager{Loops: []string{"service"}}
	}
	Gather(t.Context(), src, collect.Options{})
	want := []string{component.CCM + " DaemonSet/kube-system/ccm/first 10.9.0.1:10258"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
