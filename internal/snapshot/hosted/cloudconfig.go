package hosted

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// UsualCloudConfig is where Kubermatic mounts the cloud config of a cluster into its kube-controller-manager, whether a
// flag names it or not.
const UsualCloudConfig = "/etc/kubernetes/cloud/config"

// seedUnnamedConfig finds the cloud config of an external cluster, which no flag of its kube-controller-manager names.
// It looks in the Secret that a person made for the cloud-controller-manager, else where Kubermatic mounts it. It is
// nil when there is neither.
func seedUnnamedConfig(
	ctx context.Context,
	g *collect.Collector,
	spec *corev1.PodSpec,
	c *corev1.Container,
) *v1.CloudConfig {
	if g.Seed.ConfigSecret == "" {
		return nil
	}
	secret, err := g.Seed.Kube.CoreV1().Secrets(g.Seed.Namespace).Get(ctx, g.Seed.ConfigSecret, metav1.GetOptions{})
	switch {
	case err == nil:
		out := &v1.CloudConfig{
			Path:     "Secret/" + g.Seed.Namespace + "/" + g.Seed.ConfigSecret,
			Provider: host.External,
			UsedBy:   []string{component.CCM},
		}
		data, ok := secret.Data[g.Seed.ConfigKey]
		if !ok {
			out.Error = fmt.Sprintf("%s has no key %s", out.Path, g.Seed.ConfigKey)
		}
		out.SHA256 = hostaccess.SHA256(data)
		return out
	case !apierrors.IsNotFound(err):
		g.Unknown(
			"seed/cloud-config",
			fmt.Sprintf("reading Secret %s/%s of the seed: %v", g.Seed.Namespace, g.Seed.ConfigSecret, err),
		)
		return nil
	}
	if _, mounted := mountOf(c, UsualCloudConfig); !mounted {
		return nil
	}
	return seedCloudConfig(ctx, g, spec, c, UsualCloudConfig, g.Seed.Provider)
}

// PodCloudConfig describes the cloud config of a provider with which a component runs in a pod of a seed. It reads the
// ConfigMap or Secret that is mounted there, and returns nil when there is none.
func PodCloudConfig(
	ctx context.Context,
	kube kubernetes.Interface,
	pod *corev1.Pod,
	component, provider string,
) (*v1.CloudConfig, error) {
	for at := range pod.Spec.Containers {
		c := &pod.Spec.Containers[at]
		if workloads.SeedComponent(c) != component {
			continue
		}
		out := &v1.CloudConfig{Path: workloads.FlagsOf(c)["cloud-config"], Provider: provider, UsedBy: []string{component}}
		if out.Path == "" {
			return nil, nil
		}
		data, err := Mounted(ctx, kube, pod.Namespace, &pod.Spec, c, out.Path)
		if err != nil {
			return nil, err
		}
		return out, host.DescribeConfig(out, data, false)
	}
	return nil, nil
}
