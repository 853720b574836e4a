package served

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/transplant-dev/transplant/internal/apitest"
)

func ours(t *testing.T, group string) *unstructured.Unstructured {
	t.Helper()
	out, err := definition(group)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// schemaOf is the schema of a definition's first version.
func schemaOf(crd *unstructured.Unstructured) map[string]any {
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	return version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
}

func at(schema map[string]any, path ...string) map[string]any {
	for _, key := range path {
		schema = schema["properties"].(map[string]any)[key].(map[string]any)
	}
	return schema
}

func TestADefinitionIsUsableWhenItKeepsWhatAMigrationWrites(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(crd *unstructured.Unstructured)
		ours    bool
		missing string
	}{
		"ours":            {edit: func(*unstructured.Unstructured) {}, ours: true},
		"somebody else's": {edit: func(crd *unstructured.Unstructured) { crd.SetLabels(nil) }},
		"one that prunes, with every field": {edit: func(crd *unstructured.Unstructured) {
			crd.SetLabels(nil)
			for _, part := range []map[string]any{schemaOf(crd), at(schemaOf(crd), "spec"), at(schemaOf(crd), "spec", "cloud"), at(schemaOf(crd), "status")} {
				delete(part, "x-kubernetes-preserve-unknown-fields")
			}
		}},
		"one without features": {ours: true, missing: "it does not keep spec.features.externalCloudProvider", edit: func(crd *unstructured.Unstructured) {
			spec := at(schemaOf(crd), "spec")
			delete(spec, "x-kubernetes-preserve-unknown-fields")
			delete(spec["properties"].(map[string]any), "features")
		}},
		"conditions in a list": {ours: true, missing: "it does not keep status.conditions.TransplantMigration.status", edit: func(crd *unstructured.Unstructured) {
			conditions := at(schemaOf(crd), "status", "conditions")
			clear(conditions)
			maps.Copy(conditions, map[string]any{"type": "array", "items": map[string]any{"type": "object"}})
		}},
		"no status subresource": {ours: true, missing: "it has no status subresource", edit: func(crd *unstructured.Unstructured) {
			delete(crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any), "subresources")
		}},
		"another version": {ours: true, missing: "it does not serve v1", edit: func(crd *unstructured.Unstructured) {
			crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["name"] = "v2"
		}},
		"namespaced": {ours: true, missing: "not cluster-scoped", edit: func(crd *unstructured.Unstructured) { crd.Object["spec"].(map[string]any)["scope"] = "Namespaced" }},
		"a schema that keeps everything and says nothing, as the legacy group's": {missing: "it does not say that status.conditions is a map", edit: func(crd *unstructured.Unstructured) {
			crd.SetLabels(nil)
			clear(schemaOf(crd))
			maps.Copy(schemaOf(crd), map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			crd := ours(t, Groups[0])
			test.edit(crd)
			got := Judge(Groups[0], crd)
			if !got.Present || got.Ours != test.ours || got.Usable() != (test.missing == "") || !strings.Contains(strings.Join(got.Missing, "\n"), test.missing) {
				t.Errorf("%+v, want ours %t, missing %q", got, test.ours, test.missing)
			}
			if got.String() == "" {
				t.Error("a verdict without words")
			}
		})
	}
	if got := Judge("g", nil); got.Usable() || got.Present {
		t.Errorf("a definition that is not there: %+v", got)
	}
}

func TestWhatIsInstalledIsOursAndNothingElseIsWritten(t *testing.T) {
	server := apitest.New(t)
	_, dyn := server.Clients(t)
	foreign := ours(t, Groups[0])
	foreign.SetLabels(nil)
	foreign.SetAnnotations(map[string]string{"theirs": "yes"})
	if _, err := dyn.Resource(definitions).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		verdicts, err := Install(t.Context(), dyn)
		if err != nil {
			t.Fatal(err)
		}
		want := []Verdict{{Group: Groups[0], Present: true}, {Group: Groups[1], Present: true, Ours: true}}
		if diff := cmp.Diff(want, verdicts); diff != "" {
			t.Error(diff)
		}
	}
	for _, write := range server.Writes()[1:] {
		if strings.HasSuffix(write, Groups[0]) {
			t.Errorf("the definition that is not ours was written: %s", write)
		}
	}
}
