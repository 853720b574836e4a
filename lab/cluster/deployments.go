package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/poll"
)

// anyHost stands for the host that a pod of a Deployment comes to: what depends on the host is in files of the same
// name on each.
var anyHost = &Host{Name: "any", Address: "$(" + envHostIP + ")", ControlPlane: true}

const (
	envHostIP    = "HOST_IP"
	envAccessKey = "AWS_ACCESS_KEY_ID"
	labelRole    = "node-role.kubernetes.io/control-plane"
)

// deployments are the components of a control plane that runs in its own cluster.
func (c *Cluster) deployments() []*appsv1.Deployment {
	etcd := "https://" + c.site.block.endpoint(placeEtcd, portEtcdClient)
	var out []*appsv1.Deployment
	kind := c.site.kind
	for _, part := range []component{
		apiServer(kind, anyHost, etcd), controllerManager(kind, anyHost, c.site.cloud()), scheduler(kind, anyHost),
	} {
		out = append(out, c.deployment(c.site.unconfigured(anyHost, part)))
	}
	return out
}

// deployment is a component's, a pod on the network of each control-plane host. Old and new pods share their host's
// ports, so one ends before another starts.
func (c *Cluster) deployment(part component) *appsv1.Deployment {
	labels := map[string]string{"app": part.name}
	part.host, part.annotations, part.hostPort = "", nil, true
	part.env = append(
		[]corev1.EnvVar{
			{
				Name:      envHostIP,
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}},
			},
		},
		part.env...)
	pod := part.pod()
	c.mountConfig(pod)
	pod.Spec.Priority, pod.Spec.PriorityClassName = nil, "system-cluster-critical"
	pod.Spec.AutomountServiceAccountToken = new(bool)
	pod.Spec.NodeSelector = map[string]string{labelRole: ""}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
	if part.readyPath == "" {
		pod.Spec.Containers[0].ReadinessProbe = part.probe(part.livePath, 1, 3)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: part.name, Namespace: metav1.NamespaceSystem, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(
				int32(c.opts.ControlPlanes),
			),
			Selector: &metav1.LabelSelector{MatchLabels: labels}, //nolint:gosec // three at most
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}

// configDir is where a Deployment's pods find their cloud config, of a ConfigMap: the file of a host leads to that
// host's own way to the cloud.
const configDir = "/etc/kubernetes/cloud"

// mountConfig puts the ConfigMap in the place of the host's cloud config.
func (c *Cluster) mountConfig(pod *corev1.Pod) {
	container := &pod.Spec.Containers[0]
	for i, w := range container.Command {
		if w == "--cloud-config="+cloudConfig {
			container.Command[i] = "--cloud-config=" + configDir + "/config"
		}
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volumeCloud.name {
			pod.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: volumeCloud.name}},
			}
		}
	}
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].Name == volumeCloud.name {
			container.VolumeMounts[i].MountPath = configDir
		}
	}
}

// pivot moves the control plane from static pods into Deployments, host by host, as a bootstrap does: those of a host
// free its ports, and the pods that wait for them are scheduled to it. Somebody has to schedule and control meanwhile,
// so there are two hosts at least.
func (c *Cluster) pivot(ctx context.Context) error {
	made := c.deployments()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: volumeCloud.name},
		Data:       map[string]string{"config": c.site.kind.Config(anyHost, c.site.cloud())},
	}
	if _, err := c.client.CoreV1().
		ConfigMaps(metav1.NamespaceSystem).
		Create(ctx, config, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating ConfigMap %q: %w", config.Name, err)
	}
	for _, d := range made {
		if _, err := c.client.AppsV1().Deployments(d.Namespace).Create(ctx, d, metav1.CreateOptions{}); existing(err) != nil {
			return fmt.Errorf("creating Deployment %q: %w", d.Name, err)
		}
	}
	for _, h := range c.ControlPlanes() {
		for _, name := range staticPods {
			if err := os.Remove(filepath.Join(h.Path(manifestDir), name+".yaml")); err != nil {
				return fmt.Errorf("moving %s of host %q into its Deployment: %w", name, h.Name, err)
			}
		}
		err := poll.Until(ctx, pollInterval, "the Deployments' pods on host "+h.Name, func(ctx context.Context) error {
			var missing []error
			for _, name := range staticPods {
				missing = append(missing, c.checkReplica(ctx, h, name))
			}
			return errors.Join(missing...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkReplica sees that a host has a ready pod of a component's Deployment.
func (c *Cluster) checkReplica(ctx context.Context, h *Host, name string) error {
	pods, err := c.client.CoreV1().
		Pods(metav1.NamespaceSystem).
		List(ctx, metav1.ListOptions{LabelSelector: "app=" + name, FieldSelector: "spec.nodeName=" + h.NodeName})
	if err != nil {
		return fmt.Errorf("listing pods of %s: %w", name, err)
	}
	for i := range pods.Items {
		if podReady(&pods.Items[i]) && pods.Items[i].DeletionTimestamp == nil {
			return nil
		}
	}
	return fmt.Errorf("%s on host %q is not ready (%d pods)", name, h.Name, len(pods.Items))
}

// checkDeployments sees that each Deployment of the control plane has a ready pod on each host.
func (c *Cluster) checkDeployments(ctx context.Context) error {
	var missing []error
	for _, h := range c.ControlPlanes() {
		for _, name := range staticPods {
			if _, err := os.Stat(filepath.Join(h.Path(manifestDir), name+".yaml")); err == nil {
				missing = append(missing, fmt.Errorf("%s on host %q is a static pod", name, h.Name))
			}
			missing = append(missing, c.checkReplica(ctx, h, name))
		}
	}
	return errors.Join(missing...)
}

// podOptions let a host run what the API binds to it; nil where nothing but static pods shall run.
func (c *Cluster) podOptions(h *Host) *kubelet.PodOptions {
	if c.opts.Shape != Deployments && !c.opts.RunPods && !c.opts.Volumes {
		return nil
	}
	out := &kubelet.PodOptions{
		HostNetwork: true,
		Address: func() (string, error) {
			return "", errors.New("the lab's hosts have no network for pods: use the host's")
		},
		Program: c.podProgram,
		Server:  c.site.adminServer(),
		// One template stands for all hosts, and the cloud's audit log knows the managers of each by their keys.
		Variable: func(_ *corev1.Pod, name, value string) string {
			if name == envAccessKey && value == AccessKey(anyHost.Name, ControllerManager) {
				return AccessKey(h.Name, ControllerManager)
			}
			return value
		},
	}
	if c.opts.Volumes {
		c.mountVolumes(h, out)
	}
	return out
}

// podProgram finds what a container of a Deployment is run by. As in an image, there is one program, by its name.
func (c *Cluster) podProgram(container *corev1.Container) (kubelet.Program, error) {
	file, err := c.resolve(container.Image)
	if err != nil {
		return kubelet.Program{}, err
	}
	if len(container.Command) > 0 && path.Base(container.Command[0]) != filepath.Base(file) {
		return kubelet.Program{}, fmt.Errorf(
			"exec: %q: executable file not found in image %s, whose program is %s",
			container.Command[0],
			container.Image,
			filepath.Base(file),
		)
	}
	out := kubelet.Program{Path: file}
	if strings.HasSuffix(file, CloudControllerManager) {
		// In place of all addresses, and of the in-cluster configuration.
		out.Args = append(out.Args, "--bind-address=0.0.0.0")
		for _, flag := range []string{"kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"} {
			out.Args = append(out.Args, "--"+flag+"=$(KUBECONFIG)")
		}
	}
	return out, nil
}
