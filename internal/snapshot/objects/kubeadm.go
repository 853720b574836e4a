package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherKubeadm reads what the next kubeadm upgrade would write into the manifests. A cluster without that ConfigMap
// was not made by kubeadm.
func GatherKubeadm(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("kubeadm", collect.NoAPI)
		return
	}
	cm, err := ReadConfigMap(ctx, g, "kubeadm-config")
	if err != nil {
		g.Unknown("kubeadm", g.Describe("reading ConfigMap "+component.Namespace+"/kubeadm-config", err))
		return
	}
	if cm != nil {
		g.Snap.Kubeadm = Kubeadm(cm.Data["ClusterConfiguration"])
	}
}

// ReadConfigMap reads one of kube-system; nil when it is not there.
func ReadConfigMap(ctx context.Context, g *collect.Collector, name string) (*corev1.ConfigMap, error) {
	ctx, cancel := g.Call(ctx)
	defer cancel()
	cm, err := g.Kube.CoreV1().ConfigMaps(component.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cm, err
}

// clusterConfiguration is what is read of kubeadm's, v1beta1 to v1beta4.
type clusterConfiguration struct {
	APIVersion           string `json:"apiVersion"`
	Kind                 string `json:"kind"`
	KubernetesVersion    string `json:"kubernetesVersion"`
	ClusterName          string `json:"clusterName"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	ImageRepository      string `json:"imageRepository"`
	Networking           struct {
		PodSubnet string `json:"podSubnet"`
	} `json:"networking"`
	APIServer         controlPlanePart `json:"apiServer"`
	ControllerManager controlPlanePart `json:"controllerManager"`
	Scheduler         controlPlanePart `json:"scheduler"`
}

type controlPlanePart struct {
	// ExtraArgs are a map until v1beta3, and a list of names and values, in which one may stand twice, since v1beta4.
	ExtraArgs    any `json:"extraArgs"`
	ExtraVolumes []struct {
		HostPath string `json:"hostPath"`
	} `json:"extraVolumes"`
}

// maxConfig is what a configuration of kubeadm or of kubelets may have. One of another user's that is a list of single
// letters would take a hundred times as much when it is understood.
const maxConfig = 256 << 10

// tooLong says that a configuration is not read; empty for one that is.
func tooLong(text string) string {
	if len(text) <= maxConfig {
		return ""
	}
	return fmt.Sprintf("it has %d KiB, and is read up to %d", len(text)>>10, maxConfig>>10)
}

// Kubeadm understands a ClusterConfiguration. What it cannot understand is told in Error.
func Kubeadm(text string) *v1.KubeadmConfig {
	out := &v1.KubeadmConfig{SHA256: hostaccess.SHA256([]byte(text))}
	if why := tooLong(text); why != "" {
		out.Error = "the ClusterConfiguration is not understood: " + why
		return out
	}
	var in clusterConfiguration
	if err := safeyaml.Unmarshal([]byte(text), &in); err != nil {
		out.Error = "the ClusterConfiguration is not understood: " + mask.Text(err.Error())
		return out
	}
	out.APIVersion, out.KubernetesVersion, out.ClusterName = in.APIVersion, in.KubernetesVersion, in.ClusterName
	out.ControlPlaneEndpoint = in.ControlPlaneEndpoint
	out.PodSubnet = in.Networking.PodSubnet
	out.ImageRepository = in.ImageRepository
	switch {
	case in.Kind != "ClusterConfiguration":
		out.Error = fmt.Sprintf("ConfigMap kubeadm-config holds no ClusterConfiguration (kind %q)", in.Kind)
		return out
	case !strings.HasPrefix(in.APIVersion, "kubeadm.k8s.io/"):
		out.Error = fmt.Sprintf("the ClusterConfiguration is of %q, not of kubeadm.k8s.io", in.APIVersion)
		return out
	}
	for name, part := range map[string]controlPlanePart{
		"apiServer":         in.APIServer,
		"controllerManager": in.ControllerManager,
		"scheduler":         in.Scheduler,
	} {
		args, err := extraArgs(part.ExtraArgs)
		if err != nil {
			out.Error = name + ".extraArgs: " + err.Error()
		}
		if len(args) > 0 {
			if out.ExtraArgs == nil {
				out.ExtraArgs = map[string]map[string]string{}
			}
			out.ExtraArgs[name] = mask.Map(args)
		}
		var paths []string
		for _, v := range part.ExtraVolumes {
			paths = append(paths, v.HostPath)
		}
		if slices.Sort(paths); len(paths) > 0 {
			if out.ExtraVolumes == nil {
				out.ExtraVolumes = map[string][]string{}
			}
			out.ExtraVolumes[name] = slices.Compact(paths)
		}
	}
	out.ClusterConfiguration = mask.YAML(text)
	return out
}

// extraArgs are flags by name; the last of a name wins, as in the component.
func extraArgs(in any) (map[string]string, error) {
	out := map[string]string{}
	switch args := in.(type) {
	case nil:
	case map[string]any:
		for name, value := range args {
			out[name] = fmt.Sprint(value)
		}
	case []any:
		for i, a := range args {
			pair, ok := a.(map[string]any)
			name, named := pair["name"].(string)
			if !ok || !named {
				return out, fmt.Errorf("entry %d is not a name and a value", i)
			}
			if pair["value"] != nil {
				out[name] = fmt.Sprint(pair["value"])
			} else {
				out[name] = ""
			}
		}
	default:
		return out, fmt.Errorf("neither a map nor a list of names and values")
	}
	return out, nil
}

// GatherKubeletDefaults reads what a kubelet that joins gets: kubelet-config, or kubelet-config-1.x before 1.24.
func GatherKubeletDefaults(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("kubelet-defaults", collect.NoAPI)
		return
	}
	names := []string{"kubelet-config"}
	if parts := strings.SplitN(strings.TrimPrefix(g.Snap.Cluster.Version, "v"), ".", 3); len(parts) >= 2 {
		names = append(names, "kubelet-config-"+parts[0]+"."+parts[1])
	}
	for _, name := range names {
		cm, err := ReadConfigMap(ctx, g, name)
		if err != nil {
			g.Unknown("kubelet-defaults", g.Describe("reading ConfigMap "+component.Namespace+"/"+name, err))
			return
		}
		if cm == nil {
			continue
		}
		text := cm.Data[component.Kubelet]
		if why := tooLong(text); why != "" {
			g.Unknown("kubelet-defaults", "reading ConfigMap "+component.Namespace+"/"+name+": "+why)
			return
		}
		out := &v1.KubeletDefaults{Name: name, SHA256: hostaccess.SHA256([]byte(text)), Text: mask.YAML(text)}
		var in struct {
			FeatureGates       map[string]bool `json:"featureGates"`
			ServerTLSBootstrap bool            `json:"serverTLSBootstrap"`
			ProviderID         string          `json:"providerID"`
		}
		if err := safeyaml.Unmarshal([]byte(text), &in); err != nil {
			g.Unknown("kubelet-defaults", "reading ConfigMap "+component.Namespace+"/"+name+": "+mask.Text(err.Error()))
		}
		out.FeatureGates, out.ServerTLSBootstrap, out.ProviderID = in.FeatureGates, in.ServerTLSBootstrap, in.ProviderID
		g.Snap.KubeletDefaults = out
		return
	}
}
