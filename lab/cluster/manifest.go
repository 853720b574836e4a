package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/pki"
)

const (
	manifestDir = "/etc/kubernetes/manifests"
	pkiDir      = "/etc/kubernetes/pki"
	cloudConfig = "/etc/kubernetes/cloud.conf"
	// flexVolumeDir is the controller manager's default. The flag is given all the same: only what a manifest says can
	// be moved into the host's directory, and the default would be made on the machine itself.
	flexVolumeDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
)

// component is what differs between the static pods of a control plane; the rest is kubeadm's shape.
type component struct {
	name        string
	flags       map[string]string
	cpu         string
	version     string // of its image
	port        int32
	hostPort    bool   // the pod says that it takes the host's port
	host        string // where probes go
	livePath    string
	readyPath   string // empty: no readiness probe, as for the managers
	env         []corev1.EnvVar
	volumes     []volume
	annotations map[string]string
}

// volume is a file or directory of the host that the pod sees under the same path.
type volume struct {
	name, path string
	kind       corev1.HostPathType
	writable   bool
}

var (
	volumeCerts = volume{name: "ca-certs", path: "/etc/ssl/certs", kind: corev1.HostPathDirectoryOrCreate}
	volumePKI   = volume{name: "k8s-certs", path: pkiDir, kind: corev1.HostPathDirectoryOrCreate}
	volumeFlex  = volume{
		name:     "flexvolume-dir",
		path:     flexVolumeDir,
		kind:     corev1.HostPathDirectoryOrCreate,
		writable: true,
	}
	volumeCloud    = volume{name: "cloud-config", path: cloudConfig, kind: corev1.HostPathFile}
	kubeconfigKind = corev1.HostPathFileOrCreate
)

// pod returns the static pod of the component as kubeadm v1.26 writes it.
func (c component) pod() *corev1.Pod {
	command := []string{c.name}
	for _, name := range slices.Sorted(maps.Keys(c.flags)) { // kubeadm's order
		command = append(command, "--"+name+"="+c.flags[name])
	}
	container := corev1.Container{
		Name:            c.name,
		Image:           "registry.k8s.io/" + c.name + ":" + c.version,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         command,
		Env:             c.env,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.cpu)},
		},
		LivenessProbe: c.probe(c.livePath, 10, 8),
		StartupProbe:  c.probe(c.livePath, 10, 24),
	}
	if c.hostPort {
		container.Ports = []corev1.ContainerPort{
			{Name: "https", ContainerPort: c.port, HostPort: c.port, Protocol: corev1.ProtocolTCP},
		}
	}
	if c.readyPath != "" {
		container.ReadinessProbe = c.probe(c.readyPath, 1, 3)
		container.ReadinessProbe.InitialDelaySeconds = 0
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: c.name, Namespace: metav1.NamespaceSystem, Annotations: c.annotations,
			Labels: map[string]string{"component": c.name, "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			Priority:          new(int32(2000001000)),
			PriorityClassName: "system-node-critical",
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
	for _, v := range c.volumes {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: v.name, MountPath: v.path, ReadOnly: !v.writable,
		})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name:         v.name,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.path, Type: new(v.kind)}},
		})
	}
	pod.Spec.Containers = []corev1.Container{container}
	return pod
}

func (c component) probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: c.host, Path: path, Port: intstr.FromInt32(c.port), Scheme: corev1.URISchemeHTTPS,
		}},
		InitialDelaySeconds: 10, PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 15,
	}
}

// writeManifest puts the component's manifest on the host.
func writeManifest(h *Host, c component) error {
	data, err := yaml.Marshal(c.pod())
	if err != nil {
		return fmt.Errorf("encoding manifest of %s: %w", c.name, err)
	}
	return placeManifest(h, c.name+".yaml", data)
}

// placeManifest puts a static pod's manifest on the host in one step, with kubeadm's mode. It is written outside of the
// manifest directory first: a kubelet takes every file in there for a pod.
func placeManifest(h *Host, name string, data []byte) error {
	temporary := h.Path("/etc/kubernetes/." + name)
	if err := pki.WriteSecret(temporary, data); err != nil {
		return err
	}
	dir := h.Path(manifestDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating manifest directory of host %q: %w", h.Name, err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("placing manifest %s on host %q: %w", name, h.Name, err)
	}
	return nil
}
