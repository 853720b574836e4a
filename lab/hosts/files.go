package hosts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/transplant-dev/transplant/lab/cluster"
)

// kubeletUnit is the service that Debian's package of the kubelet has; kubeadm's package adds the drop-in.
const kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/home/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`

const kubeadmDropIn = `# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  # Where CAP_SYS_RESOURCE is missing, runc may not lower a score: without this no pod starts.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
`

// cniConfig is one bridge per host. Pods of different hosts reach each other only through their hosts' addresses.
const cniConfig = `{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.%d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// Paths on a host.
const (
	CloudConfigPath = "/etc/kubernetes/aws.conf"
	// CredentialsPath holds the access key of the new manager of a control-plane host, in the format of AWS' shared
	// credentials file.
	CredentialsPath = "/etc/kubernetes/cloud-controller-manager.credentials"

	patchDir = "/etc/kubernetes/patches"
)

// file is a file to be written on a host.
type file struct {
	path, text string
	mode       os.FileMode
}

// files are what a machine image for such a cluster brings along, and what its user data write.
func (h *Host) files() []file {
	out := []file{
		{"/etc/hostname", h.NodeName + "\n", 0o644},
		{"/etc/hosts", h.hostsFile(), 0o644},
		{"/etc/resolv.conf", "", 0o644},
		{"/etc/containerd/config.toml", containerdConfig, 0o644},
		{"/etc/cni/net.d/10-lab.conflist", fmt.Sprintf(cniConfig, h.number), 0o644},
		{"/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\n", 0o644},
		{"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", kubeadmDropIn, 0o644},
		{"/etc/systemd/system/kubelet.service.d/20-aws.conf", dropIn(cloudEnv(cluster.KeyKubelet)), 0o600},
		{CloudConfigPath, h.cluster.cloudConfig(), 0o644},
		{
			patchDir + "/kube-controller-manager+strategic.yaml",
			envPatch(cluster.ControllerManager, cloudEnv(AccessKey(h.Name, cluster.ControllerManager))),
			0o600,
		},
	}
	if h.ControlPlane {
		key := AccessKey(h.Name, cluster.CloudControllerManager)
		out = append(
			out,
			file{CredentialsPath, "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = lab-only\n", 0o600},
		)
	}
	return out
}

func (h *Host) hostsFile() string {
	var out strings.Builder
	out.WriteString("127.0.0.1 localhost\n")
	for _, other := range h.cluster.hosts {
		fmt.Fprintf(&out, "%s %s %s\n", other.Address, other.NodeName, strings.Split(other.NodeName, ".")[0])
	}
	return out.String()
}

// cloudConfig is the in-tree provider's configuration: what it can learn from the instance's metadata it is not told.
func (c *Cluster) cloudConfig() string {
	var out strings.Builder
	fmt.Fprintf(&out, "[Global]\nKubernetesClusterID = %s\nDisableSecurityGroupIngress = false\n", ClusterName)
	for i, service := range []string{"ec2", "elasticloadbalancing"} { // the second covers both generations
		fmt.Fprintf(
			&out,
			"\n[ServiceOverride \"%d\"]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\nSigningName = %s\nSigningMethod = v4\n",
			i+1,
			service,
			Region,
			c.CloudEndpoint(),
			Region,
			service,
		)
	}
	return out.String()
}

// cloudEnv is the environment of a caller of the cloud. The proxy leads nowhere: what misses an endpoint must not reach
// the real AWS.
func cloudEnv(key string) [][2]string {
	return [][2]string{
		{"AWS_ACCESS_KEY_ID", key},
		{"AWS_SECRET_ACCESS_KEY", "lab-only"}, // the simulator does not check signatures
		{"HTTPS_PROXY", "http://127.0.0.1:9"},
		{"NO_PROXY", "127.0.0.0/8,10.0.0.0/8,169.254.169.254,localhost"},
	}
}

func dropIn(env [][2]string) string {
	out := "[Service]\n"
	for _, v := range env {
		out += fmt.Sprintf("Environment=%s=%s\n", v[0], v[1])
	}
	return out
}

// envPatch is a patch of kubeadm's that gives a static pod an environment; kubeadm's configuration has no place for it.
func envPatch(component string, env [][2]string) string {
	out := "spec:\n  containers:\n  - name: " + component + "\n    env:\n"
	for _, v := range env {
		out += fmt.Sprintf("    - name: %s\n      value: %q\n", v[0], v[1])
	}
	return out
}

// WriteFile writes a file on a running host, with its directories. A file that is there is replaced in one step.
func (h *Host) WriteFile(ctx context.Context, name string, data string, mode os.FileMode) error {
	script := fmt.Sprintf(
		`set -e; mkdir -p "$1"; t=$(mktemp "$1/.lab-XXXXXX"); cat > "$t"; chmod %o "$t"; mv "$t" "$2"`,
		mode,
	)
	var said strings.Builder
	if err := h.Exec(
		ctx,
		strings.NewReader(data),
		io.Discard,
		&said,
		"sh",
		"-c",
		script,
		"sh",
		path.Dir(name),
		name,
	); err != nil {
		return fmt.Errorf("writing %s on host %s: %w: %s", name, h.Name, err, tail(said.String()))
	}
	return nil
}

// ReadFile reads a file of a running host.
func (h *Host) ReadFile(ctx context.Context, name string) (string, error) {
	return h.Output(ctx, "cat", "--", name)
}
