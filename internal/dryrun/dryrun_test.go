package dryrun

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	migrationstep "github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"kube-system"},"rules":[{"verbs":["get"]}]}`

func ensure(ref, object string) v1.Step {
	return v1.Step{Kind: v1.StepEnsureObject, Ref: ref, Object: object}
}

// server has what the steps of the tests are about.
func server(t *testing.T) *apitest.Server {
	t.Helper()
	s := apitest.New(t)
	s.Put(
		t,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
			Data: map[string]string{
				"a":                    "1",
				"b":                    "2",
				"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\ncontrollerManager:\n  extraArgs:\n    cloud-provider: aws\n",
			},
		},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "plane", Name: "kcm"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: "NoSchedule"}}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "there"}},
	)
	return s
}

var steps = []v1.Step{
	ensure("Role/kube-system/r", role),
	{Kind: v1.StepWriteFile, Host: "cp-1", Path: "/etc/x"},
	ensure(
		"ServiceAccount/kube-system/there",
		`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"there","namespace":"kube-system","labels":{"x":"y"}}}`,
	),
	{Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/kubeadm-config", Patch: `{"data":{"a":"3","b":null}}`},
	{Kind: v1.StepScale, Ref: "Deployment/plane/kcm", Replicas: ptr.To[int32](0)},
	{Kind: v1.StepEditWorkload, Ref: "Deployment/plane/kcm"},
	{Kind: v1.StepInitializeNode, Ref: "Node/a"},
	{Kind: v1.StepDeleteObject, Ref: "ServiceAccount/kube-system/there"},
	{Kind: v1.StepDeleteObject, Ref: "ServiceAccount/kube-system/gone"},
	{Kind: v1.StepVerify},
}

func TestEveryWriteIsTriedAndNothingIsWritten(t *testing.T) {
	s := server(t)
	var mu sync.Mutex
	var bodies []string
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet {
			dryRun, by := r.URL.Query().Get("dryRun"), r.URL.Query().Get("fieldManager")
			if r.Method == http.MethodDelete { // its options are the body
				data, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(data))
				if strings.Contains(string(data), `"dryRun":["All"]`) {
					dryRun, by = "All", Manager
				}
			}
			bodies = append(bodies, r.Method+" "+r.URL.Path+" "+dryRun+" "+by)
		}
		return false
	}
	_, client := s.Clients(t)
	got := Run(t.Context(), migrationstep.Options{Dynamic: client}, steps)
	want := []v1.DryRun{
		{Ref: "Role/kube-system/r", Verb: "create", OK: true}, {Ref: "ServiceAccount/kube-system/there", Verb: "update", OK: true},
		{Ref: "ConfigMap/kube-system/kubeadm-config", Verb: "update", OK: true}, {Ref: "Deployment/plane/kcm", Verb: "update", OK: true},
		{Ref: "Deployment/plane/kcm", Verb: "update", OK: true}, {Ref: "Node/a", Verb: "update", OK: true},
		{Ref: "ServiceAccount/kube-system/there", Verb: "delete", OK: true}, {Ref: "ServiceAccount/kube-system/gone", Verb: "delete", OK: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if writes := s.Writes(); len(writes) > 0 {
		t.Errorf("written: %q", writes)
	}
	for _, b := range bodies {
		if !strings.HasSuffix(b, " All transplant") {
			t.Errorf("sent without dry run: %s", b)
		}
	}
	if len(bodies) != 9 {
		t.Errorf("sent %q", bodies)
	}
}

// refusal answers one path as an API server does.
func refusal(method, path string, code int, reason, message string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
		return true
	}
}

func TestRefusalsAreToldApart(t *testing.T) {
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
	for name, tc := range map[string]struct {
		step       v1.Step
		intercept  func(http.ResponseWriter, *http.Request) bool
		says       string
		unanswered bool
	}{
		"the caller may not": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 403, "Forbidden", `roles is forbidden: User "jane" cannot create resource`), `forbidden: roles is forbidden: User "jane"`, false,
		},
		"a webhook refuses": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 403, "Forbidden", `admission webhook "keeper.example.com" denied the request: no`), "a webhook refused it: ", false,
		},
		"a webhook that must answer is dead": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 500, "InternalError", `Internal error occurred: failed calling webhook "keeper": dial tcp: refused`), "a webhook that must be asked did not answer: ", false,
		},
		"a webhook knows no dry run": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 400, "BadRequest", `admission webhook "keeper" does not support dry run`), "a webhook has side effects and does not support dry run", true,
		},
		"a binding of a role that only the plan makes": {
			ensure("RoleBinding/kube-system/r", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"r","namespace":"kube-system"}}`),
			refusal("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings", 404, "NotFound", `roles.rbac.authorization.k8s.io "r" not found`),
			"its role is made by the plan too", true,
		},
		"the object is not valid": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 422, "Invalid", `Role is invalid`), "invalid: Role is invalid", false,
		},
		"the server does not answer": {
			ensure("Role/kube-system/r", role), refusal("POST", roles, 504, "Timeout", `request did not complete`), "no answer: request did not complete", true,
		},
		"what is to be changed is not there": {
			v1.Step{Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/absent", Patch: `{}`}, nil, `not found: configmaps "absent" not found`, false,
		},
		"it changes all the time": {
			v1.Step{Kind: v1.StepInitializeNode, Ref: "Node/a"}, refusal("PUT", "/api/v1/nodes/a", 409, "Conflict", "the object has been modified"), "conflict: the object has been modified", false,
		},
		"the plan's object is no JSON":    {ensure("Role/kube-system/r", "{"), nil, "reading the object of the plan: ", false},
		"the plan's patch is no JSON":     {v1.Step{Kind: v1.StepPatchObject, Ref: "Node/a", Patch: "["}, nil, "reading the patch of the plan: ", false},
		"the plan's object is of no kind": {v1.Step{Kind: v1.StepPatchObject, Ref: "Gadget/a", Patch: "{}"}, nil, `object "Gadget/a" is not known`, false},
		"a change that the caller may not": {
			v1.Step{Kind: v1.StepScale, Ref: "Deployment/plane/kcm", Replicas: new(int32)},
			refusal("PUT", "/apis/apps/v1/namespaces/plane/deployments/kcm", 403, "Forbidden", "no"),
			"forbidden: no",
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			s.Intercept = tc.intercept
			_, client := s.Clients(t)
			got := Run(t.Context(), migrationstep.Options{Dynamic: client}, []v1.Step{tc.step})
			if len(got) != 1 || got[0].OK || !strings.HasPrefix(got[0].Error, tc.says) || got[0].Unanswered != tc.unanswered {
				t.Errorf("got %+v, want %q, unanswered %t", got, tc.says, tc.unanswered)
			}
		})
	}
}

func TestEditsOfKubeadmsConfigurationAreTriedOnItAsItStands(t *testing.T) {
	s := server(t)
	sent := ""
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			data, _ := io.ReadAll(r.Body)
			sent, r.Body = string(data), io.NopCloser(bytes.NewReader(data))
		}
		return false
	}
	_, client := s.Clients(t)
	step := v1.Step{
		Kind: v1.StepPatchObject, Ref: "ConfigMap/kube-system/kubeadm-config", Derive: layout.DeriveKubeadm, Component: component.KCM,
		Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
	}
	got := Run(t.Context(), migrationstep.Options{Dynamic: client}, []v1.Step{step})
	if diff := cmp.Diff([]v1.DryRun{{Ref: step.Ref, Verb: "update", OK: true}}, got); diff != "" || !strings.Contains(sent, "cloud-provider: external") {
		t.Errorf("(-want +got):\n%s sent %s", diff, sent)
	}
	s.Put(
		t,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}, Data: map[string]string{"ClusterConfiguration": "a: ["}},
	)
	got = Run(t.Context(), migrationstep.Options{Dynamic: client}, []v1.Step{step})
	if got[0].OK || got[0].Unanswered ||
		!strings.HasPrefix(got[0].Error, "the plan's change does not fit what is there: ClusterConfiguration of ConfigMap/kube-system/kubeadm-config: ") {
		t.Errorf("got %+v", got)
	}
}

func TestAnObjectThatIsThereNeedsNoRightToUpdate(t *testing.T) {
	s := server(t)
	s.Deny("update", "serviceaccounts")
	_, client := s.Clients(t)
	got := Run(
		t.Context(),
		migrationstep.Options{Dynamic: client},
		[]v1.Step{ensure("ServiceAccount/kube-system/there", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"there","namespace":"kube-system"}}`)},
	)
	if diff := cmp.Diff([]v1.DryRun{{Ref: "ServiceAccount/kube-system/there", Verb: "create", OK: true}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnAPIServerThatIsGoneIsNoRefusal(t *testing.T) {
	s := server(t)
	s.URL = "http://127.0.0.1:1"
	_, client := s.Clients(t)
	got := Run(t.Context(), migrationstep.Options{Dynamic: client}, steps[:1])
	if len(got) != 1 || got[0].OK || !got[0].Unanswered || !strings.Contains(got[0].Error, "connection refused") {
		t.Errorf("got %+v", got)
	}
}
