package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// UsualCloudConfig is where Kubermatic mounts the cloud config of a cluster into its kube-controller-manager, whether a flag names it or not.
const UsualCloudConfig = "/etc/kubernetes/cloud/config"

// seedUnnamedConfig finds the cloud config of an external cluster, which no flag of its kube-controller-manager names: in the Secret that a person made
// for the cloud-controller-manager, else where Kubermatic mounts it. It is nil when there is neither.
func (g *gatherer) seedUnnamedConfig(ctx context.Context, spec *corev1.PodSpec, c *corev1.Container) *v1.CloudConfig {
	if g.Seed.ConfigSecret == "" {
		return nil
	}
	secret, err := g.Seed.Kube.CoreV1().Secrets(g.Seed.Namespace).Get(ctx, g.Seed.ConfigSecret, metav1.GetOptions{})
	switch {
	case err == nil:
		out := &v1.CloudConfig{Path: "Secret/" + g.Seed.Namespace + "/" + g.Seed.ConfigSecret, Provider: external, UsedBy: []string{ccm}}
		data, ok := secret.Data[g.Seed.ConfigKey]
		if !ok {
			out.Error = fmt.Sprintf("%s has no key %s", out.Path, g.Seed.ConfigKey)
		}
		out.SHA256 = hostaccess.SHA256(data)
		return out
	case !apierrors.IsNotFound(err):
		g.unknown("seed/cloud-config", fmt.Sprintf("reading Secret %s/%s of the seed: %v", g.Seed.Namespace, g.Seed.ConfigSecret, err))
		return nil
	}
	if _, mounted := mountOf(c, UsualCloudConfig); !mounted {
		return nil
	}
	return g.seedCloudConfig(ctx, spec, c, UsualCloudConfig, g.Seed.Provider)
}
