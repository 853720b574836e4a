package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestLittleIsKeptOfWhatIsThereNow: a user cluster may have any number of objects with texts of any length.
func TestLittleIsKeptOfWhatIsThereNow(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	node := func(name, uid, provider string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Spec: corev1.NodeSpec{ProviderID: provider}}
	}
	balanced := func(name, uid string, addresses ...string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
		for _, a := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
		}
		return s
	}
	before := &v1.Snapshot{
		Nodes: []v1.Node{{Name: "same", UID: "1", ProviderID: "aws:///a"}, {Name: "changed", UID: "2", ProviderID: "aws:///b"}, {Name: "gone", UID: "3"}},
		Services: []v1.Service{
			{Namespace: "default", Name: "same", UID: "4", Addresses: []string{"192.0.2.1"}},
			{Namespace: "default", Name: "changed", UID: "5", Addresses: []string{"192.0.2.2"}},
			{Namespace: "default", Name: "deleted", UID: "6", Addresses: []string{"192.0.2.3"}},
		},
	}
	env := &step.Env{Options: step.Options{Before: before, Kube: fake.NewClientset(
		node("same", "1", "aws:///a"), node("changed", "2", long), node(long[:1000], "7", long),
		balanced("same", "4", "192.0.2.1"), balanced("changed", "5", long, long, long, long), balanced("new", "8", long),
	)}}
	nodes, err := nodesNow(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	services, err := servicesNow(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	cut := long[:maxText] + "..."
	for what, diff := range map[string]string{
		"nodes": cmp.Diff([]v1.Node{{Name: "changed", UID: "2", ProviderID: cut}, {Name: "same", UID: "1", ProviderID: "aws:///a"}}, nodes),
		"services": cmp.Diff([]v1.Service{
			{Namespace: "default", Name: "changed", UID: "5", Addresses: []string{cut, cut}},
			{Namespace: "default", Name: "same", UID: "4", Addresses: []string{"192.0.2.1"}},
		}, services),
		"differences of nodes": cmp.Diff([]string{
			`node changed has provider id "` + cut + `", it had "aws:///b"`,
			"node gone is gone",
		}, lostNodes(before.Nodes, nodes)),
		"differences of services": cmp.Diff([]string{
			"service default/changed has the addresses [" + cut + " " + cut + "], it had [192.0.2.2]",
		}, lostServices(before.Services, services)),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%.2000s", what, diff)
		}
	}
}
