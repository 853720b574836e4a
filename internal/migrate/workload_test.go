package migrate

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// A machine of AWS is called ip-10-0-0-11, or what its owner calls it, and its Node by the cloud's DNS name: the manager names itself by the first.
func TestAManagerOnItsHostsNetworkIsKnownByTheHostsName(t *testing.T) {
	t.Parallel()
	const node = "ip-10-0-0-11.ec2.internal"
	tests := map[string]struct {
		holder      string
		hostNetwork bool
		label       string
		leads       bool
	}{
		"the Node's name":                {node + "_a", true, node, true},
		"without its domain":             {"ip-10-0-0-11_a", true, node, true},
		"the name on its label":          {"master-1_a", true, "master-1", true},
		"the label's without its domain": {"master-1.example.com_a", true, "master-1", true},
		"another host":                   {"ip-10-0-0-12_a", true, node, false},
		"a longer name":                  {"ip-10-0-0-111_a", true, node, false},
		"the pod, which has its own":     {"manager-1_a", false, node, true},
		"its host, which is not asked":   {"ip-10-0-0-11_a", false, node, false},
		"nobody":                         {"", true, node, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.deployed(1)
			w.more = nil
			now := metav1.NewMicroTime(w.clock.Now())
			w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: tt.label}}})
			w.api.Put(w.t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "manager-1", Namespace: component.Namespace, Labels: map[string]string{"app": "kcm"}},
				Spec:       corev1.PodSpec{NodeName: node, HostNetwork: tt.hostNetwork}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
			w.api.Put(w.t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "deployed", Namespace: component.Namespace}, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(tt.holder), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now,
			}})
			w.given()
			e := w.engine()
			live, err := object.ReadLive(t.Context(), workload.Workload{Env: e.env}.Env, "Deployment/kube-system/"+component.KCM)
			if err != nil {
				t.Fatal(err)
			}
			why, err := object.LeaderProblem(t.Context(), e.env, live, "deployed")
			if err != nil || (why == "") != tt.leads || !tt.leads && !strings.Contains(why, "none of the pods of kube-system/"+component.KCM) {
				t.Errorf("%q leads: %q, %v", tt.holder, why, err)
			}
		})
	}
}

// onNode is what a DaemonSet's controller writes into the pod for a node.
func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}},
	}}}
}

// A machine that is switched off must not hold up a migration; one that runs without its manager must, since it would keep its taint.
func TestAManagerOfNodesIsWaitedForWhereTheNodeIsReady(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want int32
		pods map[string]bool // by node, those that are Ready
		says string
	}{
		"everywhere":         {2, map[string]bool{"up": true, "down": true}, ""},
		"not on a dead node": {2, map[string]bool{"up": true, "down": false}, ""},
		"not on a live node": {2, map[string]bool{"up": false, "down": true}, "not ready on up"},
		"bound to no node":   {1, map[string]bool{"": false}, "a node that its pod was not bound to"},
		"no node":            {0, nil, ""},
		"not on a live node that its pod is meant for":    {1, map[string]bool{"for up": false}, "not ready on up"},
		"not on a dead node that its pod is meant for":    {1, map[string]bool{"for down": false}, ""},
		"not on a virtual node":                           {2, map[string]bool{"up": true, "virtual": false}, ""},
		"not on a machine elsewhere":                      {2, map[string]bool{"up": true, "elsewhere": false}, ""},
		"not on a live node, next to a machine elsewhere": {2, map[string]bool{"up": false, "elsewhere": false}, "not ready on up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			for node, is := range map[string]corev1.ConditionStatus{"up": corev1.ConditionTrue, "down": corev1.ConditionUnknown} {
				w.api.Put(w.t, &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: node},
					Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}}},
				})
			}
			ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
			w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{"type": "virtual-kubelet"}}, Status: ready})
			w.api.Put(w.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: corev1.NodeSpec{ProviderID: "metal://rack-7"}, Status: ready})
			own := map[string]string{"component": layout.NodeManager}
			readyPods := int32(0)
			for node, isReady := range tt.pods {
				p := readyPod("of-"+node, isReady, nil)
				p.Namespace, p.Labels, p.Spec.NodeName = component.Namespace, own, node
				if meant, ok := strings.CutPrefix(node, "for "); ok {
					p.Name, p.Spec.NodeName, p.Spec.Affinity = "unbound", "", onNode(meant)
				}
				w.api.Put(w.t, p)
				if isReady {
					readyPods++
				}
			}
			w.api.Put(w.t, &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: layout.NodeManager, Namespace: component.Namespace},
				Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: own}},
				Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: tt.want, UpdatedNumberScheduled: tt.want, NumberReady: readyPods},
			})
			w.given()
			e := w.engine()
			live, err := object.ReadLive(t.Context(), e.env, layout.NodeManagerDaemonSet)
			if err != nil {
				t.Fatal(err)
			}
			e.env.Plan = &v1.Plan{Cluster: v1.Cluster{Provider: "azure"}}
			why, err := object.RolloutProblem(t.Context(), e.env, live)
			if err != nil || (why == "") != (tt.says == "") || !strings.Contains(why, tt.says) {
				t.Errorf("it waits for %q, want %q (error %v)", why, tt.says, err)
			}
		})
	}
}
