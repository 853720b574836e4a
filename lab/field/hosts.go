package field

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/poll"
)

// component is a part of the control plane as kubeadm sets it up.
type component struct {
	name, port, kubeconfig string
	flags                  []string
	// loops that the owner's gauges show.
	loops []string
}

// components of every host. $ip and $host are the host's.
func (f *Field) components() []component {
	cloud := []string{"--cloud-config=/etc/kubernetes/cloud.conf", "--cloud-provider=" + f.options.Provider}
	if f.options.Provider == "gce" {
		cloud = append(cloud, "--feature-gates="+inTreeGates)
	}
	return []component{
		{name: "kube-apiserver", port: "6443", kubeconfig: "admin.conf", flags: append([]string{
			"--advertise-address=$ip",
			"--authorization-mode=Node,RBAC",
			"--client-ca-file=/etc/kubernetes/pki/ca.crt",
			"--enable-admission-plugins=NodeRestriction",
			"--etcd-servers=https://127.0.0.1:2379",
			"--secure-port=6443",
			"--service-cluster-ip-range=10.96.0.0/12",
		}, cloud...)},
		{
			name:       "kube-controller-manager",
			port:       "10257",
			kubeconfig: "controller-manager.conf",
			loops:      []string{"cloud-node-lifecycle", "nodeipam", "route", "service"},
			flags: append([]string{
				"--allocate-node-cidrs=true",
				"--bind-address=$host",
				"--cluster-cidr=10.200.0.0/16",
				"--cluster-name=prod",
				"--controllers=*,bootstrapsigner,tokencleaner",
				"--kubeconfig=/etc/kubernetes/controller-manager.conf",
				"--leader-elect=true",
				"--use-service-account-credentials=true",
			}, cloud...),
		},
		{name: "kube-scheduler", port: "10259", kubeconfig: "scheduler.conf", flags: []string{
			"--bind-address=$host", "--kubeconfig=/etc/kubernetes/scheduler.conf", "--leader-elect=true",
		}},
	}
}

// hosts makes the hosts' files and mirror pods, and starts a stand-in for each process.
func (f *Field) hosts(ctx context.Context) error {
	for i, h := range f.Hosts() {
		values := map[string]string{"ip": h.IP, "node": h.Node, "host": f.loopback(i)}
		if err := f.files(ctx, h, values); err != nil {
			return fmt.Errorf("writing the files of host %s: %w", h.Name, err)
		}
		for _, c := range f.components() {
			if err := f.component(ctx, h, c, values, i == 1); err != nil {
				return fmt.Errorf("setting up %s on host %s: %w", c.name, h.Name, err)
			}
		}
	}
	return nil
}

// loopback is an address of its own for the managers of each host, next to the API server's.
func (f *Field) loopback(host int) string {
	ip := net.ParseIP(strings.TrimSuffix(f.Server.Address(), ":6443")).To4()
	return net.IPv4(ip[0], ip[1], ip[2]^0x80, byte(11+host)).String()
}

func (f *Field) files(ctx context.Context, h Host, values map[string]string) error {
	config, err := seeds.ReadFile("seeds/" + f.options.Provider + ".conf")
	if err != nil {
		return err
	}
	for path, text := range map[string]string{
		"/etc/kubernetes/cloud.conf":              string(config),
		"/etc/kubernetes/controller-manager.conf": "apiVersion: v1\nkind: Config\nclusters: []\n",
		"/var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--cloud-provider=" + f.options.Provider + f.kubeletGates() +
			" --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock --hostname-override=$node --node-ip=$ip --pod-infra-container-image=registry.k8s.io/pause:3.9\"\n",
		"/var/lib/kubelet/config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true\nstaticPodPath: /etc/kubernetes/manifests\n",
		"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "[Service]\nEnvironment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf " +
			"--kubeconfig=/etc/kubernetes/kubelet.conf\"\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n" +
			"EnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
		"/usr/lib/systemd/system/kubelet.service": "[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n[Install]\nWantedBy=multi-user.target\n",
	} {
		if err := write(
			f.path("hosts", h.Name, path),
			[]byte(filled(f.fit(text), map[string]string{"node": values["node"], "ip": values["ip"]})),
		); err != nil {
			return err
		}
	}
	return f.standIn(
		ctx,
		h,
		"kubelet",
		"",
		append(
			strings.Fields(f.kubeletGates()),
			"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
			"--kubeconfig=/etc/kubernetes/kubelet.conf",
			"--config=/var/lib/kubelet/config.yaml",
			"--cloud-provider="+f.options.Provider,
			"--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock",
			"--hostname-override="+h.Node,
			"--node-ip="+h.IP,
			"--pod-infra-container-image=registry.k8s.io/pause:3.9",
		),
		nil,
	)
}

// kubeletGates are the gates of a kubelet, behind its provider.
func (f *Field) kubeletGates() string {
	if f.options.Provider != "gce" {
		return ""
	}
	return " --feature-gates=" + inTreeGates
}

// component writes the manifest, makes the mirror pod and starts the stand-in.
func (f *Field) component(ctx context.Context, h Host, c component, values map[string]string, owner bool) error {
	var flags []string
	for _, flag := range c.flags {
		flags = append(flags, filled(flag, values))
	}
	manifest, err := f.template("manifest.yaml", map[string]string{
		"component":  c.name,
		"port":       c.port,
		"kubeconfig": c.kubeconfig,
		"ip":         values["ip"],
		"host":       values["host"],
		"flags":      "    - " + strings.Join(flags, "\n    - "),
	})
	if err != nil {
		return err
	}
	at := "/etc/kubernetes/manifests/" + c.name + ".yaml"
	if err := write(f.path("hosts", h.Name, at), append(manifest, '\n')); err != nil {
		return err
	}
	if err := f.mirror(ctx, h, c.name, manifest); err != nil {
		return err
	}
	var loops []string
	if owner {
		loops = c.loops
	}
	serve := ""
	if c.name == "kube-controller-manager" {
		serve = values["host"] + ":" + c.port
	}
	return f.standIn(ctx, h, c.name, serve, flags, loops)
}

// mirror makes the pod with which a kubelet shows a static pod in the API.
func (f *Field) mirror(ctx context.Context, h Host, name string, manifest []byte) error {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return err
	}
	sum := sha256.Sum256(manifest)
	pod.Name, pod.Spec.NodeName = name+"-"+h.Node, h.Node
	pod.Annotations = map[string]string{
		corev1.MirrorPodAnnotationKey: hex.EncodeToString(
			sum[:16],
		),
		"kubernetes.io/config.hash":   hex.EncodeToString(sum[:16]),
		"kubernetes.io/config.source": "file",
	}
	made, err := f.kube.CoreV1().Pods(pod.Namespace).Create(ctx, &pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: name, Image: pod.Spec.Containers[0].Image, Ready: true}},
	}
	_, err = f.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// leases are held by the stand-ins of cp-2.
func (f *Field) leases(ctx context.Context) error {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		now, since := metav1.NewMicroTime(time.Now()), metav1.NewMicroTime(time.Now().Add(-3*24*time.Hour))
		holder, seconds, transitions := "cp-2_5c0d3b1e", int32(15), int32(3)
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       &holder,
				LeaseDurationSeconds: &seconds,
				LeaseTransitions:     &transitions,
				AcquireTime:          &since,
				RenewTime:            &now,
			},
		}
		if _, err := f.kube.CoordinationV1().Leases("kube-system").Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making lease %s: %w", name, err)
		}
	}
	return nil
}

// standIn starts a process of the component's name in the host's directory, and waits until it answers where it serves.
// It is this program again, by another name; see RunStandIn.
func (f *Field) standIn(ctx context.Context, h Host, name, serve string, args, loops []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := f.path("hosts", h.Name)
	program := f.path("bin", name)
	if err := os.MkdirAll(f.path("bin"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(self, program); err != nil && !os.IsExist(err) {
		return err
	}
	p, err := process.Start(process.Options{
		Name: name + " on " + h.Name, Path: program, Args: args, Dir: dir, Output: f.path(h.Name + "-" + name + ".log"),
		Env: []string{standInVariable + "=" + serve, loopsVariable + "=" + strings.Join(loops, ",")},
	})
	if err != nil {
		return err
	}
	f.processes = append(f.processes, p)
	if serve == "" {
		return nil
	}
	what := fmt.Sprintf("%s on %s to answer at %s", name, h.Name, serve)
	return poll.Within(ctx, 10*time.Millisecond, 30*time.Second, what, func(context.Context) error {
		conn, err := net.Dial("tcp", serve)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
