package snapshot

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

func TestNeedsOfSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		step v1.Step
		want []string
		not  []string
	}{
		"a file on a host needs nothing of its own": {
			v1.Step{Kind: v1.StepWriteFile}, nil, []string{"pods/eviction", "secrets", "escalate", "deployments"},
		},
		"a role is created, read and deleted, and gives rights that the caller may lack": {
			v1.Step{Kind: v1.StepEnsureObject, Ref: "Role/kube-system/x"},
			[]string{"create rbac.authorization.k8s.io/roles kube-system ", "delete,escalate,get rbac.authorization.k8s.io/roles kube-system x"}, nil,
		},
		"a binding needs bind on the role that it names": {
			v1.Step{Kind: v1.StepEnsureObject, Ref: "RoleBinding/kube-system/x", Object: `{"roleRef":{"kind":"ClusterRole","name":"view"}}`},
			[]string{"bind rbac.authorization.k8s.io/clusterroles  view"}, []string{"bind rbac.authorization.k8s.io/roles"},
		},
		"an object that is patched is updated": {
			v1.Step{Kind: v1.StepPatchObject, Ref: "DaemonSet/kube-system/ds"}, []string{"get,update apps/daemonsets kube-system ds"}, nil,
		},
		"a ConfigMap of kube-system is covered by the journal's right": {
			v1.Step{Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/kubeadm-config"}, nil, []string{"kubeadm-config"},
		},
		"a Deployment elsewhere is scaled, and its pods watched": {
			v1.Step{Kind: v1.StepScale, Ref: "Deployment/plane/kcm"}, []string{"get,update apps/deployments plane kcm", "get,list /pods plane "}, nil,
		},
		"a pod of a DaemonSet is deleted, and none is by an edit": {
			v1.Step{Kind: v1.StepReplacePod, Host: "cp-1", Ref: "DaemonSet/kube-system/ccm"},
			[]string{"get apps/daemonsets kube-system ccm", "list apps/controllerrevisions kube-system ", "delete,get,list /pods kube-system "}, nil,
		},
		"a DaemonSet that is edited": {
			v1.Step{Kind: v1.StepEditWorkload, Ref: "DaemonSet/kube-system/ccm"}, []string{"get,update apps/daemonsets kube-system ccm"}, []string{"delete /pods"},
		},
		"a node that is initialised is updated": {
			v1.Step{Kind: v1.StepInitializeNode, Ref: "Node/a"}, []string{"get,list,update /nodes  "}, nil,
		},
		"a node is compared with what it was like before its kubelet changed": {
			v1.Step{Kind: v1.StepKubelet}, []string{"get storage.k8s.io/csinodes  ", "list /pods  "}, []string{"pods/eviction"},
		},
		"a node that is drained": {
			v1.Step{Kind: v1.StepKubelet, Drain: true}, []string{"get,list,update /nodes  ", "create /pods/eviction  ", "list policy/poddisruptionbudgets  "}, nil,
		},
		"a node that may get a volume before it is left to CSI": {
			v1.Step{Kind: v1.StepKubelet, Changes: []v1.Change{{Field: "--feature-gates", Before: "CSIMigrationAWS=false", After: "CSIMigrationAWS=true"}}},
			[]string{"create /pods/eviction  "}, nil,
		},
		"the same by its configuration file, on the way back": {
			v1.Step{Kind: v1.StepKubelet, Changes: []v1.Change{{Field: "featureGates.CSIMigrationAWS", Before: "true", After: "false"}}},
			[]string{"create /pods/eviction  "}, nil,
		},
		"a node that leaves nothing to CSI": {
			v1.Step{Kind: v1.StepKubelet, Changes: []v1.Change{{Field: "--cloud-provider", Before: "aws", After: "external"}}},
			nil, []string{"pods/eviction"},
		},
		"a kind that is not known is asked about all the same": {
			v1.Step{Kind: v1.StepDeleteObject, Ref: "Gadget/ns/x"}, []string{"delete,get /gadgets ns x"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range permission.NeedsOf([]v1.Step{tc.step}) {
				got = append(got, strings.Join(n.Verbs, ",")+" "+n.Group+"/"+n.Resource+" "+n.Namespace+" "+n.Name)
			}
			all := strings.Join(got, "\n") + "\n"
			for _, want := range tc.want {
				if !strings.Contains(all, want+"\n") {
					t.Errorf("no %q in\n%s", want, all)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(all, not) {
					t.Errorf("%q in\n%s", not, all)
				}
			}
			if !strings.Contains(all, "create,delete,get,list,update coordination.k8s.io/leases kube-system \n") {
				t.Errorf("the lock is missing in\n%s", all)
			}
		})
	}
}
