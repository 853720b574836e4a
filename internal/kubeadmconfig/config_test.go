package kubeadmconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const kcm = "kube-controller-manager"

// beta3 is what kubeadm v1.26 writes, with an in-tree provider.
const beta3 = `apiServer:
  extraArgs:
    authorization-mode: Node,RBAC
    cloud-provider: aws
  timeoutForControlPlane: 4m0s
apiVersion: kubeadm.k8s.io/v1beta3
certificatesDir: /etc/kubernetes/pki
clusterName: prod # the tag of the load balancers
controllerManager:
  extraArgs:
    cloud-config: /etc/kubernetes/cloud.conf
    cloud-provider: aws
  extraVolumes:
  - hostPath: /etc/kubernetes/cloud.conf
    mountPath: /etc/kubernetes/cloud.conf
    name: cloud-config
dns: {}
kind: ClusterConfiguration
kubernetesVersion: v1.26.0
scheduler: {}
`

const beta4 = `apiServer:
  extraArgs:
  - name: cloud-provider
    value: aws
apiVersion: kubeadm.k8s.io/v1beta4
controllerManager: {}
kind: ClusterConfiguration
`

func TestEditsAndTheWayBack(t *testing.T) {
	for _, c := range []struct {
		name, in, component string
		edits               []v1.Edit
		want                [2]string // what is replaced by what
	}{
		{"an argument is changed", beta3, kcm, []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
			[2]string{"cloud.conf\n    cloud-provider: aws", "cloud.conf\n    cloud-provider: external"}},
		{"an argument goes", beta3, kcm, []v1.Edit{{Op: v1.EditUnsetFlag, Name: "cloud-config"}}, [2]string{"    cloud-config: /etc/kubernetes/cloud.conf\n", ""}},
		{"an argument comes, quoted where it is no text", beta3, "kube-scheduler", []v1.Edit{{Op: v1.EditSetFlag, Name: "v", Value: "4"}}, [2]string{"scheduler: {}", "scheduler:\n  extraArgs:\n    v: \"4\""}},
		{"nothing to do leaves the bytes", beta3, kcm, []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "aws"}, {Op: v1.EditUnsetFlag, Name: "x"}}, [2]string{"", ""}},
		{"a volume comes", beta3, "kube-apiserver", []v1.Edit{{Op: v1.EditAddHostPath, Name: "a", Value: "/etc/a", PathType: "File"}},
			[2]string{"  timeoutForControlPlane", "  extraVolumes:\n  - hostPath: /etc/a\n    mountPath: /etc/a\n    name: a\n    pathType: File\n    readOnly: true\n  timeoutForControlPlane"}},
		{"an argument of v1beta4 is changed", beta4, "kube-apiserver", []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}, [2]string{"value: aws", "value: external"}},
		{"an argument of v1beta4 comes", beta4, kcm, []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
			[2]string{"controllerManager: {}", "controllerManager:\n  extraArgs:\n  - name: cloud-provider\n    value: external"}},
		{"the version changes", beta3, "", []v1.Edit{{Op: v1.EditSetVersion, Name: "kubernetesVersion", Value: "v1.27.4"}},
			[2]string{"kubernetesVersion: v1.26.0", "kubernetesVersion: v1.27.4"}},
		{"a version comes where there was none", beta4, "", []v1.Edit{{Op: v1.EditSetVersion, Name: "kubernetesVersion", Value: "v1.27.4"}},
			[2]string{"kind: ClusterConfiguration\n", "kind: ClusterConfiguration\nkubernetesVersion: v1.27.4\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, err := Apply([]byte(c.in), c.component, c.edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Replace(c.in, c.want[0], c.want[1], 1), string(have)); diff != "" {
				t.Errorf("(-want +have):\n%s", diff)
			}
			undo, err := Inverse([]byte(c.in), c.component, c.edits)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Apply(have, c.component, undo)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Apply(back, c.component, c.edits)
			if err != nil || string(again) != string(have) {
				t.Errorf("there and back and there again is another text (%v):\n%s", err, again)
			}
			if c.name != "an argument goes" && string(back) != c.in { // what was removed comes back at the end
				t.Errorf("the way back ends in another text:\n%s", cmp.Diff(c.in, string(back)))
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct{ name, in, component, op, want string }{
		{"no YAML", "a: [", kcm, "setFlag", "no YAML"},
		{"another kind", "kind: InitConfiguration\n", kcm, "setFlag", "not of kind ClusterConfiguration"},
		{"a text", "hello", kcm, "setFlag", "no object"},
		{"a component that kubeadm does not configure", beta3, "etcd", "setFlag", `"etcd"`},
		{"an operation that is none", beta3, kcm, "rename", "not known"},
		{"a flag of no component", beta3, "", "setFlag", `""`},
		{"a version under another name", beta3, "", "setVersion", "kubernetesVersion"},
		{"a list where a map should be", strings.Replace(beta4, "v1beta4", "v1beta3", 1), "kube-apiserver", "setFlag", "apiServer.extraArgs is not what kubeadm's kubeadm.k8s.io/v1beta3 has there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Apply([]byte(c.in), c.component, []v1.Edit{{Op: v1.EditOp(c.op), Name: "a", Value: "b"}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it should say %q: %v", c.want, err)
			}
		})
	}
}
