package parts

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/transplant-dev/transplant/internal/component"
)

const (
	socketVolume  = "socket"
	secretVolume  = "credentials"
	kubeletVolume = component.Kubelet
	kubeletDir    = "/var/lib/kubelet"
	socketFile    = "csi.sock"
	sidecarDir    = "/csi" // where sidecars see the socket
)

func (d driver) controllerName() string { return d.short + "-controller" }

func (d driver) nodeName() string { return d.short + "-node" }

func (d driver) selector(name string) map[string]string { return map[string]string{"app": name} }

// controllerWorkload provisions, attaches and resizes. Two of it run, of which one acts, so that attaching goes on
// while its node is replaced.
func (d driver) controllerWorkload(i images, cluster string) *appsv1.Deployment {
	name := d.controllerName()
	provisioner := []string{
		"--csi-address=" + sidecarDir + "/" + socketFile,
		"--v=2",
		"--timeout=300s",
		"--leader-election",
		"--extra-create-metadata",
	}
	if d.topology {
		provisioner = append(provisioner, "--feature-gates=Topology=true")
	}
	if !d.noAttach {
		provisioner = append(provisioner, "--default-fstype=ext4")
	}
	pod := corev1.PodSpec{
		ServiceAccountName: d.account(
			"controller",
		),
		PriorityClassName: "system-cluster-critical",
		NodeSelector:      map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:       []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{
						Weight: 100,
						PodAffinityTerm: corev1.PodAffinityTerm{
							LabelSelector: &metav1.LabelSelector{MatchLabels: d.selector(name)},
							TopologyKey:   corev1.LabelHostname,
						},
					},
				},
			},
		},
		Volumes: append(
			[]corev1.Volume{{Name: socketVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			d.secretVolumes(d.controller)...),
		Containers: []corev1.Container{
			d.container(d.controller, i.driver, cluster, nil),
			sidecar("csi-provisioner", i.sidecar("csi-provisioner", i.provisioner), provisioner...),
			sidecar(
				"csi-resizer",
				i.sidecar("csi-resizer", i.resizer),
				"--csi-address="+sidecarDir+"/"+socketFile,
				"--v=2",
				"--timeout=240s",
				"--leader-election",
				"--handle-volume-inuse-error=false",
			),
		},
	}
	if !d.noAttach {
		pod.Containers = append(
			pod.Containers,
			sidecar(
				"csi-attacher",
				i.sidecar("csi-attacher", i.attacher),
				"--csi-address="+sidecarDir+"/"+socketFile,
				"--v=2",
				"--timeout=300s",
				"--leader-election",
			),
		)
	}
	if d.also != nil {
		pod.Containers = append(pod.Containers, d.container(*d.also, i.also, cluster, nil))
	}
	if !d.noProbe {
		pod.Containers = append(pod.Containers, healthProbe(i, d.controller.port))
	}
	return &appsv1.Deployment{
		TypeMeta: kind(appsv1.SchemeGroupVersion, "Deployment"), ObjectMeta: d.meta(name, component.Namespace),
		Spec: appsv1.DeploymentSpec{
			Replicas: pointer(
				int32(2),
			),
			Selector:             &metav1.LabelSelector{MatchLabels: d.selector(name)},
			RevisionHistoryLimit: pointer(int32(2)),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: pointer(intstr.FromInt32(1)),
					MaxSurge:       pointer(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: d.selector(name)}, Spec: pod},
		},
	}
}

// nodeWorkload mounts, on every node. It tolerates every taint: a node that waits to be initialized has volumes, too.
func (d driver) nodeWorkload(i images, cluster string) *appsv1.DaemonSet {
	name, plugin := d.nodeName(), kubeletDir+"/plugins/"+d.name
	volumes := []corev1.Volume{
		hostPath(socketVolume, plugin, corev1.HostPathDirectoryOrCreate),
		hostPath("registration", kubeletDir+"/plugins_registry", corev1.HostPathDirectory),
		hostPath(kubeletVolume, kubeletDir, corev1.HostPathDirectory),
	}
	mounts := []corev1.VolumeMount{
		{Name: kubeletVolume, MountPath: kubeletDir, MountPropagation: pointer(corev1.MountPropagationBidirectional)},
	}
	for n, path := range d.node.paths {
		volume := fmt.Sprintf("host-%d", n)
		volumes = append(volumes, hostPath(volume, path, corev1.HostPathDirectory))
		mounts = append(mounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
	main := d.container(d.node, i.driver, cluster, mounts)
	main.SecurityContext = &corev1.SecurityContext{Privileged: pointer(true)}
	registrar := sidecar(
		"node-driver-registrar",
		i.sidecar("csi-node-driver-registrar", i.registrar),
		"--csi-address="+sidecarDir+"/"+socketFile,
		"--kubelet-registration-path="+plugin+"/"+socketFile,
		"--v=2",
	)
	registrar.VolumeMounts = append(
		registrar.VolumeMounts,
		corev1.VolumeMount{Name: "registration", MountPath: "/registration"},
	)
	pod := corev1.PodSpec{
		ServiceAccountName: d.account(
			"node",
		),
		PriorityClassName: "system-node-critical",
		NodeSelector:      map[string]string{corev1.LabelOSStable: "linux"},
		HostNetwork:       d.node.hostNetwork,
		Tolerations: []corev1.Toleration{
			{Operator: corev1.TolerationOpExists},
		},
		Volumes:    append(volumes, d.secretVolumes(d.node)...),
		Containers: []corev1.Container{main, registrar},
	}
	if d.node.hostNetwork {
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	if !d.noProbe {
		pod.Containers = append(pod.Containers, healthProbe(i, d.node.port))
	}
	return &appsv1.DaemonSet{
		TypeMeta: kind(appsv1.SchemeGroupVersion, "DaemonSet"), ObjectMeta: d.meta(name, component.Namespace),
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: d.selector(name)},
			RevisionHistoryLimit: pointer(int32(2)),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: pointer(intstr.FromString("10%"))},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: d.selector(name)}, Spec: pod},
		},
	}
}

func hostPath(name, path string, t corev1.HostPathType) corev1.Volume {
	return corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &t}},
	}
}

// secretVolumes mount the credentials of a program. Its files have to be there, so that a driver does not start with
// none.
func (d driver) secretVolumes(p program) []corev1.Volume {
	if len(p.files) == 0 {
		return nil
	}
	var items []corev1.KeyToPath
	for _, f := range p.files {
		items = append(items, corev1.KeyToPath{Key: f, Path: f})
	}
	return []corev1.Volume{
		{
			Name:         secretVolume,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: credentials, Items: items}},
		},
	}
}

// container is a container of the driver's own.
func (d driver) container(p program, image, cluster string, mounts []corev1.VolumeMount) corev1.Container {
	c := corev1.Container{
		Name:         p.name,
		Image:        image,
		Args:         p.arguments(cluster),
		Env:          append([]corev1.EnvVar(nil), p.env...),
		VolumeMounts: mounts,
		Resources:    small("40Mi"),
	}
	for _, name := range p.variables {
		c.Env = append(
			c.Env,
			corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				// without keys the instance's own role counts
				LocalObjectReference: corev1.LocalObjectReference{Name: credentials}, Key: name, Optional: pointer(true),
			}}},
		)
	}
	if p.socket != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: socketVolume, MountPath: p.socket})
	}
	if p.directory != "" {
		c.VolumeMounts = append(
			c.VolumeMounts,
			corev1.VolumeMount{Name: secretVolume, MountPath: p.directory, ReadOnly: true},
		)
	}
	if p.port != 0 {
		c.Ports = []corev1.ContainerPort{{Name: "healthz", ContainerPort: p.port, Protocol: corev1.ProtocolTCP}}
		if p.hostNetwork {
			c.Ports[0].HostPort = p.port // the server fills it in, and would find a change each time otherwise
		}
		c.LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("healthz")},
			},
			InitialDelaySeconds: 10,
			TimeoutSeconds:      10,
			PeriodSeconds:       30,
			FailureThreshold:    5,
		}
	}
	if strings.HasPrefix(c.Args[0], "/") { // the image starts nothing by itself
		c.Command, c.Args = c.Args[:1], c.Args[1:]
	}
	return c
}

func sidecar(name, image string, args ...string) corev1.Container {
	return corev1.Container{
		Name:         name,
		Image:        image,
		Args:         args,
		VolumeMounts: []corev1.VolumeMount{{Name: socketVolume, MountPath: sidecarDir}},
		Resources:    small("20Mi"),
	}
}

func healthProbe(i images, port int32) corev1.Container {
	return sidecar(
		"liveness-probe",
		i.sidecar("livenessprobe", i.healthProbe),
		"--csi-address="+sidecarDir+"/"+socketFile,
		fmt.Sprintf("--health-port=%d", port),
		"--v=2",
	)
}

func small(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse(memory),
		},
	}
}
