package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/poll"
)

// MetricsAccount is the ServiceAccount in kube-system that may read /metrics of the managers, and nothing else.
const MetricsAccount = "transplant-metrics"

// installMetricsAccount creates the account with its role.
func installMetricsAccount(ctx context.Context, client kubernetes.Interface) error {
	inSystem := metav1.ObjectMeta{Name: MetricsAccount, Namespace: metav1.NamespaceSystem}
	_, err := client.CoreV1().
		ServiceAccounts(inSystem.Namespace).
		Create(ctx, &corev1.ServiceAccount{ObjectMeta: inSystem}, metav1.CreateOptions{})
	if err := existing(err); err != nil {
		return fmt.Errorf("creating ServiceAccount %q: %w", MetricsAccount, err)
	}
	return grant(ctx, client, MetricsAccount, rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
}

// grant gives an account of kube-system rights in the whole cluster, by a role of its name.
func grant(ctx context.Context, client kubernetes.Interface, account string, rules ...rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Name: account}
	_, err := client.RbacV1().
		ClusterRoles().
		Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err := existing(err); err != nil {
		return fmt.Errorf("creating ClusterRole %q: %w", account, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: metav1.NamespaceSystem}},
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err := existing(err); err != nil {
		return fmt.Errorf("creating ClusterRoleBinding %q: %w", account, err)
	}
	return nil
}

// metricsToken asks the API for a token of the metrics account that holds for a day.
func metricsToken(ctx context.Context, client kubernetes.Interface) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64((24 * time.Hour).Seconds())),
	}}
	out, err := client.CoreV1().
		ServiceAccounts(metav1.NamespaceSystem).
		CreateToken(ctx, MetricsAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting token of ServiceAccount %q: %w", MetricsAccount, err)
	}
	return out.Status.Token, nil
}

// installKubeadmConfig creates the ConfigMap that kubeadm leaves in the cluster.
func installKubeadmConfig(ctx context.Context, client kubernetes.Interface, s *site) error {
	data, err := yaml.Marshal(clusterConfiguration(s))
	if err != nil {
		return fmt.Errorf("encoding ClusterConfiguration: %w", err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": string(data)},
	}, metav1.CreateOptions{})
	if err := existing(err); err != nil {
		return fmt.Errorf("creating ConfigMap %q: %w", "kubeadm-config", err)
	}
	return nil
}

// clusterConfiguration is kubeadm's, in its version v1beta3.
func clusterConfiguration(s *site) map[string]any {
	cloudVolume := []map[string]any{
		{
			"name":      volumeCloud.name,
			"hostPath":  cloudConfig,
			"mountPath": cloudConfig,
			"readOnly":  true,
			"pathType":  string(volumeCloud.kind),
		},
	}
	apiArgs, managerArgs := extraArgs(s.kind, APIServer), extraArgs(s.kind, ControllerManager)
	if s.noCloudConfig {
		cloudVolume = []map[string]any{}
		delete(apiArgs, "cloud-config")
		delete(managerArgs, "cloud-config")
	}
	return map[string]any{
		"apiVersion":           "kubeadm.k8s.io/v1beta3",
		"kind":                 "ClusterConfiguration",
		"kubernetesVersion":    s.kind.Version(),
		"clusterName":          Name,
		"certificatesDir":      pkiDir,
		"imageRepository":      "registry.k8s.io",
		"controlPlaneEndpoint": s.block.endpoint(placeLoadBalancer, portAPIServer),
		"apiServer": map[string]any{
			"extraArgs": apiArgs, "extraVolumes": cloudVolume, "timeoutForControlPlane": "4m0s",
		},
		"controllerManager": map[string]any{"extraArgs": managerArgs, "extraVolumes": cloudVolume},
		"scheduler":         withExtraArgs(extraArgs(s.kind, Scheduler)),
		"dns":               map[string]any{},
		"etcd": map[string]any{"external": map[string]any{
			"endpoints": []string{"https://" + s.block.endpoint(placeEtcd, portEtcdClient)},
			"caFile":    pkiDir + "/etcd/ca.crt",
			"certFile":  pkiDir + "/apiserver-etcd-client.crt",
			"keyFile":   pkiDir + "/apiserver-etcd-client.key",
		}},
		"networking": map[string]any{"dnsDomain": "cluster.local", "podSubnet": PodCIDR, "serviceSubnet": ServiceCIDR},
	}
}

// withExtraArgs is a component of a ClusterConfiguration, with flags where there are any.
func withExtraArgs(flags map[string]string) map[string]any {
	if len(flags) == 0 {
		return map[string]any{}
	}
	return map[string]any{"extraArgs": flags}
}

// markControlPlane gives a host's Node the labels, the taint and the annotation that kubeadm puts on control planes. A
// kubelet may not: NodeRestriction refuses them from it.
func markControlPlane(ctx context.Context, client kubernetes.Interface, h *Host) error {
	const role = "node-role.kubernetes.io/control-plane"
	return poll.Until(
		ctx,
		100*time.Millisecond,
		fmt.Sprintf("node %q to be registered", h.NodeName),
		func(ctx context.Context) error {
			n, err := client.CoreV1().Nodes().Get(ctx, h.NodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{
					"resourceVersion": n.ResourceVersion, // the taints are replaced as a whole
					"labels": map[string]string{
						role: "", "node.kubernetes.io/exclude-from-external-load-balancers": "",
					},
					"annotations": map[string]string{
						"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///var/run/containerd/containerd.sock",
					},
				},
				"spec": map[string]any{
					"taints": append(n.Spec.Taints, corev1.Taint{Key: role, Effect: corev1.TaintEffectNoSchedule}),
				},
			})
			if err != nil {
				return poll.Final(fmt.Errorf("encoding patch: %w", err))
			}
			_, err = client.CoreV1().Nodes().Patch(ctx, h.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	)
}

// existing takes an object that is there already for created.
func existing(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
