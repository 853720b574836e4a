package planstep

import v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"

// KubeletConfigFact is the ID of the fact that the ConfigMap of a name holds the KubeletConfiguration that it held.
func KubeletConfigFact(name string) string { return "kubelet-config:" + name }

// KubeletFilesFact is the ID of the fact that the kubelet's unit on a host consists of the files of which it did.
func KubeletFilesFact(host string) string { return "kubelet-files:" + host }

// NodeFact is the ID of the fact that a node has the providerID that it had.
func NodeFact(node string) string { return "node:" + node + ":providerID" }

// FileFact is the ID of the fact that a file on a host has the content it had.
func FileFact(host, path string) string { return "file:" + host + ":" + path }

// KubeadmFact is the ID of the fact that kubeadm's ClusterConfiguration is as it was; its value is
// KubeadmConfig.SHA256.
const KubeadmFact = "kubeadm:config"

// LocalFact is the ID of the fact that a file of the machine that runs apply has the content it had.
func LocalFact(path string) string { return "local:" + path }

// WorkloadFact is the ID of the fact that the pod template of a workload is as it was.
func WorkloadFact(ref string) string { return "workload:" + ref }

// SeedFact is the ID of the fact that a component in the seed runs with the command that it had.
func SeedFact(c *v1.Component) string { return "command:" + c.Manifest + "/" + c.Name }
