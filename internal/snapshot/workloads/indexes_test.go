package workloads

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// firstMatch looks at each workload for a Service.
func firstMatch(g *collect.Collector, namespace, service string) string {
	selects := g.Selectors[service]
	for _, w := range g.Found {
		if len(selects) > 0 && w.Namespace == namespace && labels.SelectorFromSet(selects).Matches(labels.Set(w.Template.Labels)) {
			return w.Ref
		}
	}
	return ""
}

func TestABackendIsTheFirstWorkloadThatAServiceSelects(t *testing.T) {
	g := &collect.Collector{Selectors: map[string]map[string]string{}}
	add := func(namespace string, labels map[string]string) {
		w := collect.Workload{Namespace: namespace, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}
		w.Ref = fmt.Sprintf("Deployment/%s/w-%d", namespace, len(g.Found))
		g.Found = append(g.Found, w)
	}
	sets := []map[string]string{
		nil, {"app": "a"}, {"app": "a", "tier": "1"}, {"app": "b", "tier": "1"}, {"tier": "1"}, {"app": "a", "tier": "2", "x": ""}, {"x": ""},
	}
	for _, namespace := range []string{"one", "two"} {
		for i := range sets {
			add(namespace, sets[(i*3+len(namespace))%len(sets)])
		}
	}
	namespaces := map[string]string{}
	var services []string
	for _, namespace := range []string{"one", "two", "three"} {
		for i, set := range append(sets, map[string]string{"app": "none", "tier": "1"}) {
			name := fmt.Sprintf("%s/s-%d", namespace, i)
			g.Selectors[name], namespaces[name] = set, namespace
			services = append(services, name)
		}
	}
	services = append(services, "one/not-listed")
	marked := map[string]bool{}
	b := newBackends(g, services)
	for range 2 { // the second time, it is known
		for _, service := range services {
			got, want := b.workloadFor(service), firstMatch(g, namespaces[service], service)
			if got != want {
				t.Errorf("%s, which selects %v: have %q, want %q", service, g.Selectors[service], got, want)
			}
			marked[want] = true
		}
	}
	for _, w := range g.Found {
		if w.Backs != marked[w.Ref] {
			t.Errorf("%s backs a webhook: have %t", w.Ref, w.Backs)
		}
	}
}

func TestAMirrorPodIsTheFirstOfItsComponentOnTheNode(t *testing.T) {
	g := &collect.Collector{}
	for i, name := range []string{component.KAS, component.KCM, "aws-" + component.CCM, component.KAS, "etcd", component.CCM} {
		for _, node := range []string{"cp-1", "cp-2", ""} {
			p := corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
			p.Name, p.UID = name+"-"+node, "uid"
			if i%2 == 1 {
				p.Name = fmt.Sprintf("p-%d", i)
				p.Spec.Containers = []corev1.Container{{Command: []string{name, "--v=2"}}}
			}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			g.Mirrors = append(g.Mirrors, p)
		}
	}
	pods := newMirrorPods(g)
	for range 2 {
		for _, node := range []string{"", "cp-1", "cp-2", "cp-3"} {
			for _, name := range []string{component.KAS, component.KCM, component.CCM, component.Scheduler} {
				var want *v1.MirrorPod
				for i := range g.Mirrors {
					if p := &g.Mirrors[i]; want == nil && node != "" && p.Spec.NodeName == node && IsPodOf(p, name) {
						want = &v1.MirrorPod{Name: p.Name, UID: "uid", Command: podCommand(p), Ready: true}
					}
				}
				got := pods.describe(node, name)
				if got != nil && len(got.Command) == 0 {
					got.Command = nil
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s on %q: have %+v, want %+v", name, node, got, want)
				}
			}
		}
	}
}

// TestManyMirrorPodsShareOneDescription: the first one's command may have a megabyte, and an account that may create pods
// can add a thousand others to its Node.
func TestManyMirrorPodsShareOneDescription(t *testing.T) {
	g := &collect.Collector{Snap: &v1.Snapshot{ControlPlaneNodes: []string{"n1"}}}
	for i := range 1000 {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: fmt.Sprintf("kube-controller-manager-%04d", i)}}
		p.Spec.NodeName = "n1"
		p.Spec.Containers = []corev1.Container{{Command: []string{component.KCM}}}
		if i == 0 {
			p.Spec.Containers[0].Args = make([]string, 10_000)
		}
		g.Mirrors = append(g.Mirrors, p)
	}
	addUnreached(g, newMirrorPods(g))
	if len(g.Snap.Hosts) != 1 || len(g.Snap.Hosts[0].Components) != 10 {
		t.Fatalf("%d hosts, %d components", len(g.Snap.Hosts), len(g.Snap.Hosts[0].Components))
	}
	first := g.Snap.Hosts[0].Components[0].Pod
	for _, c := range g.Snap.Hosts[0].Components {
		if c.Name != component.KCM || c.Pod == nil || c.Pod.Name != "kube-controller-manager-0000" || &c.Pod.Command[0] != &first.Command[0] {
			t.Errorf("%s has a description of its own", c.Manifest)
		}
	}
}
