package hosts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/pki"
)

const (
	kubeadmAPI  = "kubeadm.k8s.io/v1beta3"
	kubeadmFile = "/etc/kubernetes/kubeadm.yaml"
	initTimeout = 3 * time.Minute
)

// secrets let further hosts join.
type secrets struct {
	token          string // of the bootstrap
	certificateKey string
}

func newSecrets() (secrets, error) {
	random := make([]byte, 11+32)
	if _, err := rand.Read(random); err != nil {
		return secrets{}, fmt.Errorf("making bootstrap token: %w", err)
	}
	text := hex.EncodeToString(random[:11])
	return secrets{token: text[:6] + "." + text[6:22], certificateKey: hex.EncodeToString(random[11:])}, nil
}

type object = map[string]any

// registration says how the host's kubelet is set up.
func (h *Host) registration() object {
	return object{
		"name": h.NodeName, "criSocket": "unix:///run/containerd/containerd.sock", "imagePullPolicy": "Never",
		"kubeletExtraArgs": object{
			"cloud-provider": "aws", "cloud-config": CloudConfigPath,
			"cgroup-root": h.cgroup(), // not in the KubeletConfiguration, which all hosts share
		},
	}
}

// clusterConfiguration is what kubeadm keeps in the cluster.
func (c *Cluster) clusterConfiguration() object {
	volumes := []object{
		{
			"name":      "cloud-config",
			"hostPath":  CloudConfigPath,
			"mountPath": CloudConfigPath,
			"readOnly":  true,
			"pathType":  "File",
		},
	}
	provider := func(more object) object {
		more["cloud-provider"], more["cloud-config"] = "aws", CloudConfigPath
		return more
	}
	return object{
		"apiVersion": kubeadmAPI, "kind": "ClusterConfiguration", "kubernetesVersion": Version, "clusterName": ClusterName,
		"controlPlaneEndpoint": c.APIEndpoint(),
		"networking":           object{"podSubnet": PodCIDR, "serviceSubnet": ServiceCIDR},
		"etcd":                 object{"local": object{"imageTag": etcdTag}},
		"apiServer":            object{"extraArgs": provider(object{}), "extraVolumes": volumes},
		"controllerManager": object{
			"extraArgs": provider(
				object{
					"allocate-node-cidrs":    "true",
					"configure-cloud-routes": "true",
					"cluster-cidr":           PodCIDR,
					"cluster-name":           ClusterName,
				},
			),
			"extraVolumes": volumes,
		},
	}
}

// kubeletConfiguration is shared by all hosts. Nothing is evicted for a full disk: a test that fills one wants to see
// what its program does.
func kubeletConfiguration() object {
	return object{
		"apiVersion":   "kubelet.config.k8s.io/v1beta1",
		"kind":         "KubeletConfiguration",
		"cgroupDriver": "cgroupfs",
		"failSwapOn":   false,
		"evictionHard": object{
			"memory.available":  "100Mi",
			"nodefs.available":  "0%",
			"nodefs.inodesFree": "0%",
			"imagefs.available": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	}
}

// skipped are kubeadm's phases that a cluster without a registry and without a network of pods has no use for.
var skipped = []string{"preflight", "addon/coredns", "addon/kube-proxy"}

// initialise makes the first control plane.
func (h *Host) initialise(ctx context.Context, s secrets) error {
	documents := []object{
		{
			"apiVersion":       kubeadmAPI,
			"kind":             "InitConfiguration",
			"localAPIEndpoint": object{"advertiseAddress": h.Address, "bindPort": portAPI},
			"bootstrapTokens": []object{
				{
					"token":  s.token,
					"ttl":    "2h0m0s",
					"usages": []string{"signing", "authentication"},
					"groups": []string{"system:bootstrappers:kubeadm:default-node-token"},
				},
			},
			"certificateKey":   s.certificateKey,
			"nodeRegistration": h.registration(),
			"skipPhases":       skipped,
			"patches":          object{"directory": patchDir},
		},
		h.cluster.clusterConfiguration(),
		kubeletConfiguration(),
	}
	return h.kubeadm(ctx, documents, "init", "--upload-certs")
}

// join makes the host part of the cluster.
func (h *Host) join(ctx context.Context, s secrets) error {
	configuration := object{
		"apiVersion": kubeadmAPI,
		"kind":       "JoinConfiguration",
		// The authority is not pinned: there is one machine, and the token was made a moment ago.
		"discovery": object{
			"bootstrapToken": object{
				"token":                    s.token,
				"apiServerEndpoint":        h.cluster.APIEndpoint(),
				"unsafeSkipCAVerification": true,
			},
		},
		"nodeRegistration": h.registration(),
		"skipPhases":       skipped[:1],
		"patches":          object{"directory": patchDir},
	}
	if h.ControlPlane {
		configuration["controlPlane"] = object{
			"localAPIEndpoint": object{"advertiseAddress": h.Address, "bindPort": portAPI}, "certificateKey": s.certificateKey,
		}
	}
	return h.kubeadm(ctx, []object{configuration}, "join")
}

// kubeadm runs a command of kubeadm with a configuration that is removed afterwards, since it holds the secrets.
func (h *Host) kubeadm(ctx context.Context, documents []object, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	var text strings.Builder
	for _, d := range documents {
		data, err := yaml.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding configuration of kubeadm: %w", err)
		}
		fmt.Fprintf(&text, "---\n%s", data)
	}
	if err := h.WriteFile(ctx, kubeadmFile, text.String(), 0o600); err != nil {
		return err
	}
	argv = append([]string{"kubeadm"}, append(argv, "--config", kubeadmFile, "--v=1")...)
	_, err := h.Output(ctx, argv...)
	if err != nil {
		return err
	}
	_, err = h.Output(ctx, "rm", kubeadmFile)
	return err
}

// takeKubeconfig keeps the administrator's kubeconfig for the machine.
func (c *Cluster) takeKubeconfig(ctx context.Context) error {
	text, err := c.hosts[0].ReadFile(ctx, "/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(filepath.Join(c.Dir, "admin.conf"), []byte(text)); err != nil {
		return fmt.Errorf("keeping kubeconfig: %w", err)
	}
	return nil
}

// logOf is where a host's log lies on the machine, for errors to name.
func (h *Host) logOf(name string) string {
	file := filepath.Join(h.dir(), "data", "log", name)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}
