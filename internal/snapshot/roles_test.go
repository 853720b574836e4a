package snapshot

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

func TestRoleOfAWorkload(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, image string
		command     []string
		want        string
	}{
		"AWS's manager":                       {"DaemonSet", "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0", nil, v1.RoleCCM},
		"ours":                                {"Deployment", "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0", nil, v1.RoleCCM},
		"vSphere's, whose image is a manager": {"DaemonSet", "gcr.io/cloud-provider-vsphere/cpi/release/manager:v1.26.0", nil, v1.RoleCCM},
		"some other manager":                  {"Deployment", "example.com/release/manager:v1", []string{"/manager"}, ""},
		"OpenStack's by digest":               {"DaemonSet", "registry.k8s.io/provider-os/openstack-cloud-controller-manager@sha256:0123", nil, v1.RoleCCM},
		"Azure's for each node":               {"DaemonSet", "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager:v1.26.0", nil, v1.RoleNodeManager},
		"an own image that runs the program":  {"Deployment", "registry.internal:5000/platform:1", []string{"/bin/aws-cloud-controller-manager", "--v=2"}, v1.RoleCCM},
		"hyperkube":                           {"Deployment", "k8s.gcr.io/hyperkube:v1.18.0", []string{"/hyperkube", "kube-controller-manager"}, v1.RoleKCM},
		"hyperkube's short name":              {"Deployment", "k8s.gcr.io/hyperkube:v1.15.0", []string{"/hyperkube", "controller-manager"}, v1.RoleKCM},
		"a shell that starts it":              {"Deployment", "example.com/x:1", []string{"/bin/sh", "-c", "exec /usr/local/bin/kube-controller-manager --v=2"}, v1.RoleKCM},
		"an argument that names a component":  {"Deployment", "example.com/watcher:1", []string{"/watcher", "kube-apiserver"}, ""},
		"a mirrored CNI":                      {"DaemonSet", "rancher/mirrored-calico-node:v3.27.0", nil, v1.RoleCNI},
		"somebody's node":                     {"Deployment", "docker.io/library/node:20", nil, ""},
		"an operator that is Cilium's":        {"Deployment", "quay.io/cilium/operator-generic:v1.15", nil, v1.RoleCNI},
		"an operator that is not":             {"Deployment", "quay.io/strimzi/operator:0.40", nil, ""},
		"CoreDNS":                             {"Deployment", "registry.k8s.io/coredns/coredns:v1.11.1", nil, v1.RoleDNS},
		"kube-proxy":                          {"DaemonSet", "registry.k8s.io/kube-proxy:v1.26.0", nil, v1.RoleProxy},
		"the autoscaler for another machine":  {"Deployment", "registry.k8s.io/autoscaling/cluster-autoscaler-arm64:v1.26.0", nil, v1.RoleAutoscaler},
		"machine-controller":                  {"Deployment", "quay.io/kubermatic/machine-controller:v1.59.0", nil, v1.RoleMachineController},
		"a Cluster API provider":              {"Deployment", "registry.k8s.io/cluster-api-aws/cluster-api-aws-controller:v2", nil, v1.RoleMachineController},
		"the network proxy's agent":           {"DaemonSet", "registry.k8s.io/kas-network-proxy/proxy-agent:v0.30.0", nil, v1.RoleKonnectivity},
		"somebody's proxy-agent":              {"DaemonSet", "example.com/proxy-agent:1", nil, ""},
		"an approver":                         {"Deployment", "ghcr.io/postfinance/kubelet-csr-approver:v1.1.0", nil, v1.RoleCSRApprover},
		"a CSI driver on each node":           {"DaemonSet", "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.30.0", nil, v1.RoleCSINode},
		"a CSI driver's controller":           {"Deployment", "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.30.0", nil, v1.RoleCSIController},
		"a sidecar on each node":              {"DaemonSet", "registry.k8s.io/sig-storage/csi-provisioner:v5", nil, v1.RoleCSINode},
	} {
		t.Run(name, func(t *testing.T) {
			if got := workloads.RoleOf(tc.kind, []v1.Container{{Image: tc.image, Command: tc.command}}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheControlPlaneWinsOverItsSidecars(t *testing.T) {
	got := workloads.RoleOf(
		"Deployment",
		[]v1.Container{{Image: "registry.k8s.io/kas-network-proxy/proxy-server:v0.30.0"}, {Image: "registry.k8s.io/kube-apiserver:v1.26.0"}},
	)
	if got != v1.RoleKAS {
		t.Errorf("got %q", got)
	}
}
