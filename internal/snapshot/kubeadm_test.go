package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

const kubeadmMap = `apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
# kept: the old token was token=` + planted + `
clusterName: lab
kubernetesVersion: v1.26.0
controlPlaneEndpoint: lab.example.com:6443
imageRepository: registry.k8s.io
networking: {podSubnet: 10.200.0.0/16, serviceSubnet: 10.96.0.0/12}
apiServer:
  extraArgs:
    cloud-provider: aws
    oidc-client-secret: ` + planted + `
    feature-gates: "BoundServiceAccountTokenVolume=true,Other=false"
controllerManager:
  extraArgs: {cloud-provider: aws, configure-cloud-routes: "false", use-service-account-credentials: "true"}
  extraVolumes:
  - {name: cloud, hostPath: /etc/kubernetes/cloud.conf, mountPath: /etc/cloud.conf}
  - {name: again, hostPath: /etc/kubernetes/cloud.conf, mountPath: /etc/again.conf}
`

const kubeadmList = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controllerManager:
  extraArgs:
  - name: cloud-provider
    value: external
  - name: v
    value: 2
  - name: v
    value: 4
  - {name: some-token, value: ` + planted + `}
  extraEnvs:
  - {name: HTTPS_PROXY, value: "http://jane:` + planted + `@proxy:3128"}
  - {name: PLAIN, value: ` + planted + `}
`

func TestKubeadm(t *testing.T) {
	got := objects.Kubeadm(kubeadmMap)
	if diff := cmp.Diff(map[string]map[string]string{
		"apiServer":         {"cloud-provider": "aws", "oidc-client-secret": mask.Masked, "feature-gates": "BoundServiceAccountTokenVolume=true,Other=false"},
		"controllerManager": {"cloud-provider": "aws", "configure-cloud-routes": "false", "use-service-account-credentials": "true"},
	}, got.ExtraArgs); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"controllerManager": {"/etc/kubernetes/cloud.conf"}}, got.ExtraVolumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if got.ClusterName != "lab" || got.KubernetesVersion != "v1.26.0" || got.ControlPlaneEndpoint != "lab.example.com:6443" || got.PodSubnet != "10.200.0.0/16" ||
		got.SHA256 != hostaccess.SHA256([]byte(kubeadmMap)) ||
		got.Error != "" {
		t.Errorf("got %+v", got)
	}
	if strings.Contains(got.ClusterConfiguration, planted) || !strings.Contains(got.ClusterConfiguration, "configure-cloud-routes") {
		t.Errorf("the text is\n%s", got.ClusterConfiguration)
	}
}

func TestKubeadmWithListsOfArguments(t *testing.T) {
	got := objects.Kubeadm(kubeadmList)
	if diff := cmp.Diff(
		map[string]map[string]string{"controllerManager": {"cloud-provider": "external", "v": "4", "some-token": mask.Masked}},
		got.ExtraArgs,
	); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if strings.Contains(got.ClusterConfiguration, planted) || !strings.Contains(got.ClusterConfiguration, "HTTPS_PROXY") {
		t.Errorf("the text is\n%s", got.ClusterConfiguration)
	}
}

func TestAClusterConfigurationWithoutSecretsStaysAsItIs(t *testing.T) {
	const text = "# ours\napiVersion:   kubeadm.k8s.io/v1beta1\nkind: ClusterConfiguration\ncontrollerManager: {extraArgs: {cloud-provider: aws}}\n"
	if got := objects.Kubeadm(text); got.ClusterConfiguration != text || got.ExtraArgs["controllerManager"]["cloud-provider"] != "aws" {
		t.Errorf("got %+v", got)
	}
}

func TestAClusterConfigurationThatIsNotUnderstoodSaysSo(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":              {"a: [", "the ClusterConfiguration is not understood"},
		"nothing":              {"", `ConfigMap kubeadm-config holds no ClusterConfiguration (kind "")`},
		"something else":       {"apiVersion: v1\nkind: Pod\n", `holds no ClusterConfiguration (kind "Pod")`},
		"another group":        {"apiVersion: example.com/v1\nkind: ClusterConfiguration\n", `is of "example.com/v1", not of kubeadm.k8s.io`},
		"arguments as a text":  {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nscheduler: {extraArgs: x}\n", "scheduler.extraArgs: neither a map nor a list"},
		"arguments as a list":  {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nscheduler: {extraArgs: [x]}\n", "scheduler.extraArgs: entry 0 is not a name and a value"},
		"volumes as something": {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nscheduler: {extraVolumes: x}\n", "the ClusterConfiguration is not understood"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := objects.Kubeadm(tc.text); !strings.Contains(got.Error, tc.want) {
				t.Errorf("got %q, want %q", got.Error, tc.want)
			}
		})
	}
}

// TestALongConfigurationIsNotUnderstood: as YAML, a list of single letters takes a hundred times its bytes.
func TestALongConfigurationIsNotUnderstood(t *testing.T) {
	long := kubeadmMap + "\nx: [" + strings.Repeat("a,", 1<<20) + "a]\n"
	got := objects.Kubeadm(long)
	if want := "the ClusterConfiguration is not understood: it has 2"; !strings.HasPrefix(got.Error, want) || got.ClusterConfiguration != "" {
		t.Errorf("the error is %q, and %d bytes are kept", got.Error, len(got.ClusterConfiguration))
	}
	s := everything(t)
	s.Put(t, &corev1.ConfigMap{ObjectMeta: meta(component.Namespace, "kubelet-config"), Data: map[string]string{component.Kubelet: long}})
	live := Gather(t.Context(), live(t, s), collect.Options{})
	if w := why(live, "kubelet-defaults"); !strings.Contains(w, "and is read up to 256") || live.KubeletDefaults != nil {
		t.Errorf("kubelets' defaults are unknown because of %q: %v", w, live.KubeletDefaults)
	}
}
