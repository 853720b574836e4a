package process

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestTheOperatorIsNoAdministratorOfTheSeed: of the whole seed it may read which Clusters there are, and no Secret. What a
// control plane takes is bound by an administrator, in the namespaces of clusters alone (transplant fleet rights).
func TestTheOperatorIsNoAdministratorOfTheSeed(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/operator/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const controlPlane = "ClusterRole/transplant-operator-control-plane"
	want := map[string][]string{
		"everywhere": {
			"authentication.k8s.io/tokenreviews create", "authorization.k8s.io/subjectaccessreviews create", "core/namespaces get",
			"kubermatic.k8c.io/clusters get,list,watch,patch", "kubermatic.k8c.io/clusters/status patch", "kubermatic.k8c.io/seeds list",
			"kubermatic.k8s.io/clusters get,list,watch,patch", "kubermatic.k8s.io/clusters/status patch",
			"admissionregistration.k8s.io/mutatingwebhookconfigurations get,patch of transplant-operator,transplant-operator-strict",
			"admissionregistration.k8s.io/validatingwebhookconfigurations get,patch of transplant-operator,transplant-operator-strict",
			"apiextensions.k8s.io/customresourcedefinitions get of clusters.kubermatic.k8c.io,clusters.kubermatic.k8s.io",
		},
		"default": {"core/events create,patch,list"},
		"transplant-system": {
			"coordination.k8s.io/leases get,update,watch of transplant-operator", "coordination.k8s.io/leases create",
			"core/secrets get,update of transplant-operator-webhooks", "core/secrets create",
		},
	}
	got := boundRules(t, data, controlPlane)
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("rights are given in %q", slices.Sorted(maps.Keys(got)))
	}
	for where, rules := range want {
		slices.Sort(rules)
		slices.Sort(got[where])
		if !slices.Equal(rules, got[where]) {
			t.Errorf("%s:\n have %s\n want %s", where, strings.Join(got[where], "\n      "), strings.Join(rules, "\n      "))
		}
	}
	// What as good as an administrator of the seed has stands in roles of its own, which can be left out.
	for _, rule := range rulesOf(t, data, "transplant-operator") {
		if strings.Contains(rule, "webhook") {
			t.Errorf("the role that every installation has gives %s", rule)
		}
	}
	// The check can fail: a binding of the control planes' role for the whole seed is seen.
	attack := []byte("\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: transplant-operator-control-plane}\n")
	if rules := boundRules(t, slices.Concat(data, attack), "")["everywhere"]; !slices.Contains(rules, "core/secrets get,create") {
		t.Errorf("the whole seed's Secrets are not seen among %q", rules)
	}
}

// TestTheOperatorHasNoRightInAControlPlaneThatItsCodeDoesNotUse: nothing in a control plane is patched, nor is a ReplicaSet read.
func TestTheOperatorHasNoRightInAControlPlaneThatItsCodeDoesNotUse(t *testing.T) {
	want := []string{
		"apps/deployments get,list,watch,create,update,delete",
		"coordination.k8s.io/leases create", "coordination.k8s.io/leases get,update,delete of transplant-lock",
		"core/configmaps get,create,update,delete", "core/events list", "core/pods get,list,watch,create,delete", "core/pods/log get",
		"core/secrets get,create", "core/secrets update,delete of cloud-controller-manager-kubeconfig,cloud-controller-manager-cloud-config",
	}
	slices.Sort(want)
	for _, file := range []string{"../../../deploy/operator/rbac.yaml", "../../../deploy/charts/transplant-operator/templates/rbac.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := rulesOf(t, data, "transplant-operator-control-plane")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// rulesOf are the rules of a ClusterRole in manifests, which may be a chart's.
func rulesOf(t *testing.T, manifests []byte, name string) (out []string) {
	t.Helper()
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("\nkind: ClusterRole\n")) || !bytes.Contains(document, []byte("\n  name: "+name+"\n")) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(regexp.MustCompile(`(?m)^\s*\{\{.*\}\}$`).ReplaceAll(document, nil), &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			out = append(out, ruleTexts(r)...)
		}
	}
	return out
}

// boundRules are the rules of the roles in manifests that are bound there, by the namespace in which they are. The role
// that is never to be bound there is an error.
func boundRules(t *testing.T, manifests []byte, never string) map[string][]string {
	t.Helper()
	roles, out := map[string][]rbacv1.PolicyRule{}, map[string][]string{}
	var bindings []rbacv1.RoleBinding
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		var role rbacv1.Role
		var binding rbacv1.RoleBinding
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		switch role.Kind {
		case "ClusterRole", "Role":
			roles[roleKey(role.Kind, role.Namespace, role.Name)] = role.Rules
		case "ClusterRoleBinding", "RoleBinding":
			if err := yaml.UnmarshalStrict(document, &binding); err != nil {
				t.Fatal(err)
			}
			bindings = append(bindings, binding)
		default:
			t.Fatalf("a %q among the rights", role.Kind)
		}
	}
	for _, b := range bindings {
		key, where := roleKey(b.RoleRef.Kind, b.Namespace, b.RoleRef.Name), b.Namespace
		if b.Kind == "ClusterRoleBinding" {
			where = "everywhere"
		}
		if key == never {
			t.Errorf("%s %s binds %s", b.Kind, b.Name, key)
		}
		if roles[key] == nil {
			t.Errorf("%s %s binds %s, which is not there", b.Kind, b.Name, key)
		}
		for _, r := range roles[key] {
			out[where] = append(out[where], ruleTexts(r)...)
		}
	}
	return out
}

func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}

// ruleTexts are a text for each resource of a rule.
func ruleTexts(r rbacv1.PolicyRule) (out []string) {
	of := ""
	if len(r.ResourceNames) > 0 {
		of = " of " + strings.Join(r.ResourceNames, ",")
	}
	for _, group := range r.APIGroups {
		if group == "" {
			group = "core"
		}
		for _, resource := range r.Resources {
			out = append(out, fmt.Sprintf("%s/%s %s%s", group, resource, strings.Join(r.Verbs, ","), of))
		}
	}
	for _, url := range r.NonResourceURLs {
		out = append(out, url+" "+strings.Join(r.Verbs, ","))
	}
	return out
}
