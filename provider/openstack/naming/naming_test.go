package naming

import (
	"strings"
	"testing"
)

func TestOwnersByNames(t *testing.T) {
	const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for name, want := range map[string]Owner{
		"a0b1c2d3e4f5061728394a5b6c7d8e9f":  {UID: "0b1c2d3e4f5061728394a5b6c7d8e9f"},
		"kube_service_lab_default_web":      {Cluster: "lab", Namespace: "default", Name: "web"},
		"kube_service_a_b_default_web":      {Cluster: "a_b", Namespace: "default", Name: "web"},
		"kube_service__default_web":         {Namespace: "default", Name: "web"},
		"a0b1c2d3e4f5061728394a5b6c7d8e9":   {},
		"a0b1c2d3e4f5061728394a5b6c7d8e9f0": {},
		"kube_service_lab_default_":         {},
		"kube_service_default_web":          {},
		"web":                               {},
		"":                                  {},
		"kube_service_lab_default_" + strings.Repeat("w", 230): {},
	} {
		got, ok := OfBalancer(name)
		if got != want || ok != (want != Owner{}) {
			t.Errorf("%q: %+v, %v", name, got, ok)
		}
	}
	inTree, _ := OfBalancer("a0b1c2d3e4f5061728394a5b6c7d8e9f")
	if !inTree.Is(uid, "x", "y") || inTree.Is("1"+uid[1:], "x", "y") || inTree.Service() != "0b1c2d3e4f5061728394a5b6c7d8e9f" {
		t.Errorf("the in-tree owner %+v", inTree)
	}
	external, _ := OfBalancer("kube_service_lab_default_web")
	if !external.Is(uid, "default", "web") || external.Is(uid, "default", "we") || external.Service() != "default/web" {
		t.Errorf("the external owner %+v", external)
	}
	ip, ok := OfFloatingIP("Floating IP for Kubernetes external service default/web from cluster a b")
	if want := (Owner{Cluster: "a b", Namespace: "default", Name: "web"}); ip != want || !ok {
		t.Errorf("the floating IP's owner %+v, %v", ip, ok)
	}
	if _, ok := OfFloatingIP("shop.example.com"); ok {
		t.Error("a floating IP of a user has an owner")
	}
	if got, rest, ok := OfGroup("lb-sg-" + uid + "-default-web"); got != uid || rest != "default-web" || !ok {
		t.Errorf("the group's owner %s, %s, %v", got, rest, ok)
	}
	for _, name := range []string{"lb-sg-9-default-web", "lb-sg-" + uid, "lb-sg-" + uid + "-", "workers"} {
		if _, _, ok := OfGroup(name); ok {
			t.Errorf("group %s has an owner", name)
		}
	}
}
