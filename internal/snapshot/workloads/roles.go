package workloads

import (
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// role is how a workload is recognised: by what an image is called in its registry, or by the program that a container
// runs. A workload's own name is never looked at: it is its owner's to choose.
type role struct {
	name string
	// images are repositories without registry, as whole path elements counted from the end: node matches no image of
	// calico/node. A star stands for the rest of an element.
	images []string
	// programs are base names.
	programs []string
}

// roles in the order in which they are tried; the first that one of the containers has is the workload's. CSI comes
// after the control plane and before the CNI: a CSI driver's pods hold sidecars of several kinds.
var roles = []role{
	{
		name:     v1.RoleKAS,
		images:   []string{component.KAS, "kube-apiserver-*", "hardened-kube-apiserver"},
		programs: []string{component.KAS},
	},
	{
		name:     v1.RoleKCM,
		images:   []string{component.KCM, "kube-controller-manager-*"},
		programs: []string{component.KCM},
	},
	{name: v1.RoleScheduler, images: []string{component.Scheduler, "kube-scheduler-*"}, programs: []string{component.Scheduler}},
	{
		name:     v1.RoleNodeManager,
		images:   []string{"azure-cloud-node-manager", "cloud-node-manager"},
		programs: []string{"cloud-node-manager", "azure-cloud-node-manager"},
	},
	{
		name: v1.RoleCCM,
		images: []string{
			component.CCM,
			"*-cloud-controller-manager",
			"cloud-controller-manager-*",
			"cpi/release/manager",
			"cloud-provider-vsphere",
			"cloud-provider-vsphere-cpi-release-manager",
			"cloud-provider-equinix-metal",
			"cloud-provider-gcp",
			"k8s-cloud-provider-gcp",
		},
		programs: []string{component.CCM, "*-cloud-controller-manager", "vsphere-cloud-controller-manager"},
	},
	{
		name: v1.RoleCSIController,
		images: []string{
			"csi-provisioner",
			"csi-attacher",
			"csi-resizer",
			"csi-snapshotter",
			"external-provisioner",
			"external-attacher",
			"external-resizer",
			"external-snapshotter",
		},
		programs: []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"},
	},
	{
		name: v1.RoleCSINode,
		images: []string{
			"csi-node-driver-registrar",
			"node-driver-registrar",
			"aws-ebs-csi-driver",
			"azuredisk-csi",
			"azurefile-csi",
			"gcp-compute-persistent-disk-csi-driver",
			"cinder-csi-plugin",
			"csi/driver",
			"csi/release/driver",
			"csi-vsphere",
			"vsphere-csi-driver",
		},
		programs: []string{
			"csi-node-driver-registrar",
			"aws-ebs-csi-driver",
			"cinder-csi-plugin",
			"azurediskplugin",
			"azurefileplugin",
			"gce-pd-csi-driver",
			"vsphere-csi",
		},
	},
	{
		name: v1.RoleCNI,
		images: []string{
			"calico/node",
			"calico-node",
			"calico/typha",
			"calico-typha",
			"calico/kube-controllers",
			"calico-kube-controllers",
			"tigera/operator",
			"cilium",
			"cilium/operator",
			"cilium/operator-*",
			"cilium-operator-*",
			"flannel",
			"flannel-flannel",
			"flannel/flannel",
			"weave-kube",
			"weave-npc",
			"canal",
			"kube-router",
			"antrea-ubuntu",
			"antrea-agent-*",
			"antrea-controller-*",
			"amazon-k8s-cni",
			"aws-network-policy-agent",
			"azure-cns",
			"kube-ovn",
			"ovn-kubernetes",
			"ovn-daemonset-*",
			"multus-cni",
			"multus",
			"kindnetd",
			"romana-agent",
			"contiv-*",
			"cni-plugins",
		},
		programs: []string{
			"calico-node",
			"calico-typha",
			"cilium-agent",
			"cilium-operator",
			"cilium-operator-*",
			"flanneld",
			"kube-router",
			"antrea-agent",
			"aws-k8s-agent",
			"kindnetd",
			"ovnkube",
		},
	},
	{
		name: v1.RoleDNS,
		images: []string{
			"coredns",
			"coredns-coredns",
			"k8s-dns-kube-dns",
			"k8s-dns-kube-dns-*",
			"k8s-dns-node-cache",
			"kubedns-*",
		},
		programs: []string{"coredns", "kube-dns", "node-cache"},
	},
	{name: v1.RoleProxy, images: []string{"kube-proxy", "kube-proxy-*"}, programs: []string{"kube-proxy"}},
	{
		name: v1.RoleAutoscaler,
		images: []string{
			"cluster-autoscaler",
			"cluster-autoscaler-*",
			"karpenter",
			"karpenter/controller",
			"karpenter/karpenter",
		},
		programs: []string{"cluster-autoscaler", "karpenter"},
	},
	{
		name: v1.RoleMachineController,
		images: []string{
			"machine-controller",
			"machine-controller-manager",
			"operating-system-manager",
			"cluster-api-controller",
			"cluster-api-*-controller",
			"kubeadm-control-plane-controller",
			"kubeadm-bootstrap-controller",
			"cluster-api/cluster-api-*",
		},
		programs: []string{"machine-controller", "machine-controller-manager", "operating-system-manager"},
	},
	{
		name: v1.RoleKonnectivity,
		images: []string{
			"kas-network-proxy/proxy-agent",
			"kas-network-proxy/proxy-server",
			"kas-network-proxy-agent",
			"kas-network-proxy-server",
			"proxy-agent-*",
			"konnectivity-agent",
		},
		programs: []string{"konnectivity-agent"},
	},
	{
		name: v1.RoleCSRApprover,
		images: []string{
			"kubelet-csr-approver",
			"kubelet-serving-cert-approver",
			"kubelet-rubber-stamp",
			"machine-approver",
			"csr-approver",
			"gcp-controller-manager",
			"node-csr-approver",
		},
		programs: []string{
			"kubelet-csr-approver",
			"kubelet-serving-cert-approver",
			"kubelet-rubber-stamp",
			"csr-approver",
			"machine-approver",
		},
	},
}

// RoleOf is the role of a workload of a kind with these containers; empty when they tell of none.
func RoleOf(kind string, containers []v1.Container) string {
	for _, r := range roles {
		for _, c := range containers {
			if !r.has(c) {
				continue
			}
			// The driver itself and its registrar run on every node; next to the sidecars of a controller they are that
			// controller.
			if r.name == v1.RoleCSIController && kind == "DaemonSet" {
				return v1.RoleCSINode
			}
			if r.name == v1.RoleCSINode && kind != "DaemonSet" {
				return v1.RoleCSIController
			}
			return r.name
		}
	}
	return ""
}

func (r role) has(c v1.Container) bool {
	if program := programOf(
		c.Command,
	); program != "" &&
		slices.ContainsFunc(r.programs, func(p string) bool { return matchesPattern(p, program) }) {
		return true
	}
	repository := repositoryOf(c.Image)
	return slices.ContainsFunc(r.images, func(pattern string) bool { return endsLike(pattern, repository) })
}

// matchesPattern matches with at most one star.
func matchesPattern(pattern, text string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	return len(text) > len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// endsLike matches the last elements of a path.
func endsLike(pattern, repository string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(repository, "/")
	if len(have) < len(want) {
		return false
	}
	have = have[len(have)-len(want):]
	for i := range want {
		if !matchesPattern(want[i], have[i]) {
			return false
		}
	}
	return true
}

// repositoryOf is an image's name without tag and digest, and without the prefix by which some mirrors mark theirs.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	dir, base := path.Split(image)
	for _, prefix := range []string{"mirrored-", "hardened-"} {
		base = strings.TrimPrefix(base, prefix)
	}
	return dir + base
}

// wrappers are programs that start the one that is meant.
var wrappers = []string{
	"sh",
	"bash",
	"ash",
	"dash",
	"busybox",
	"env",
	"tini",
	"dumb-init",
	"go-runner",
	"hyperkube",
	"http-prober",
	"exec",
	"nice",
	"timeout",
}

// words are what a shell, or a prober's JSON, is made of.
var words = regexp.MustCompile(`[\w./-]+`)

// programOf is the base name of the program that a command line ends up running; empty when the image decides.
func programOf(command []string) string {
	if len(command) == 0 || strings.HasPrefix(command[0], "-") {
		return ""
	}
	first := path.Base(command[0])
	if !slices.Contains(wrappers, first) {
		return first
	}
	for _, arg := range command[1:] {
		for _, word := range words.FindAllString(arg, -1) {
			if base := path.Base(word); !strings.HasPrefix(word, "-") && isProgram(base) {
				return base
			}
		}
	}
	if first == "hyperkube" && len(command) > 1 {
		return hyperkube[command[1]]
	}
	return first
}

// hyperkube's short names of programs.
var hyperkube = map[string]string{
	"apiserver":          component.KAS,
	"controller-manager": component.KCM,
	"scheduler":          component.Scheduler,
	"proxy":              "kube-proxy",
}

func isProgram(base string) bool {
	return slices.ContainsFunc(roles, func(r role) bool {
		return slices.ContainsFunc(r.programs, func(p string) bool { return matchesPattern(p, base) })
	})
}
