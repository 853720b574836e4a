package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

func TestTheFactsOfANode(t *testing.T) {
	since := now.Add(-time.Hour)
	n := node("a")
	n.Annotations = map[string]string{
		"alpha.kubernetes.io/provided-node-ip": "10.0.0.11",
		"projectcalico.org/IPv4Address":        "10.0.0.11/16",
		"cluster.k8s.io/machine":               "kube-system/a",
	}
	n.Spec.Unschedulable = true
	n.Status = corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: "v1.26.0", SystemUUID: "u", OperatingSystem: "linux",
			OSImage: "Ubuntu 22.04.3 LTS", ContainerRuntimeVersion: "containerd://1.6.8",
		},
		Conditions: []corev1.NodeCondition{
			{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionUnknown,
				LastTransitionTime: metav1.NewTime(since),
			},
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue},
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
		},
		VolumesInUse: []corev1.UniqueVolumeName{"kubernetes.io/csi/x", "kubernetes.io/aws-ebs/vol-1"},
		Allocatable:  corev1.ResourceList{"cpu": resource.MustParse("2"), "attachable-volumes-aws-ebs": resource.MustParse("39")},
		Images: []corev1.ContainerImage{
			{Names: []string{"602401143452.dkr.ecr.eu-west-1.amazonaws.com/pause@sha256:0", "602401143452.dkr.ecr.eu-west-1.amazonaws.com/pause:3"}},
			{
				Names: []string{
					"k8s.gcr.io/pause:3",
					"gcr.io/team/app:1",
					"europe-docker.pkg.dev/p/app:1",
					"registry.k8s.io/pause:3",
					"busybox:1",
					"example.azurecr.io/app:1",
				},
			},
		},
	}
	want := v1.Node{
		Name:               "a",
		UID:                "uid-a",
		ProviderID:         n.Spec.ProviderID,
		Taints:             []string{"a=b:NoExecute", "z=:NoSchedule"},
		PodCIDRs:           []string{"10.200.0.0/24"},
		KubeletVersion:     "v1.26.0",
		Ready:              "Unknown",
		ReadySince:         &since,
		Created:            now,
		NetworkUnavailable: "True",
		Unschedulable:      true,
		SystemUUID:         "u",
		OS:                 "linux",
		OSImage:            "Ubuntu 22.04.3 LTS",
		ContainerRuntime:   "containerd://1.6.8",
		Annotations:        map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.0.0.11", "cluster.k8s.io/machine": "kube-system/a"},
		VolumesInUse:       []string{"kubernetes.io/aws-ebs/vol-1", "kubernetes.io/csi/x"},
		Attachable:         map[string]string{"attachable-volumes-aws-ebs": "39"},
		Registries:         []string{"602401143452.dkr.ecr.eu-west-1.amazonaws.com", "europe-docker.pkg.dev", "example.azurecr.io", "gcr.io"},
	}
	if diff := cmp.Diff(want, objects.Node(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g := &collect.Collector{Snap: &v1.Snapshot{Cluster: v1.Cluster{Provider: "aws"}, Nodes: []v1.Node{objects.Node(n)}}}
	objects.SummarizeRegistries(g)
	if diff := cmp.Diff([]string{"602401143452.dkr.ecr.eu-west-1.amazonaws.com"}, g.Snap.Nodes[0].Registries); diff != "" {
		t.Errorf("registries on AWS (-want +got):\n%s", diff)
	}
}

func TestTheFactsOfAService(t *testing.T) {
	at := metav1.NewTime(now)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "shop",
			Name:              "web",
			UID:               "u",
			CreationTimestamp: at,
			DeletionTimestamp: &at,
			Finalizers:        []string{"service.kubernetes.io/load-balancer-cleanup"},
		},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeLoadBalancer,
			LoadBalancerIP:        "192.0.2.7",
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			HealthCheckNodePort:   30303,
			IPFamilies:            []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol},
		},
		Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "LoadBalancerPortsError", Status: "True", Reason: "Full"}}},
	}
	want := v1.Service{
		Namespace:             "shop",
		Name:                  "web",
		UID:                   "u",
		Finalizers:            []string{"service.kubernetes.io/load-balancer-cleanup"},
		Created:               now,
		Deleting:              true,
		ExternalTrafficPolicy: "Local",
		HealthCheckNodePort:   30303,
		LoadBalancerIP:        "192.0.2.7",
		IPFamilies:            []string{"IPv6", "IPv4"},
		Conditions:            []string{"LoadBalancerPortsError=True(Full)"},
	}
	if diff := cmp.Diff(want, objects.Service(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
