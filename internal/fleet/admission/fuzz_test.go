package admission

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever two objects say: nothing panics, what completes never refuses, and its patch applies and changes nothing but what it may.
func FuzzAnyTwoObjectsAreAnswered(f *testing.F) {
	f.Add(`{"spec":{`+aws+`}}`, `{"spec":{`+aws+`,"features":{"externalCloudProvider":true}}}`)
	f.Add(``, `{"metadata":{"annotations":null},"spec":{"features":null,"cloud":{"openstack":{"useOctavia":false}}}}`)
	f.Add(`{}`, `{"spec":{"cloud":[]},"status":{"conditions":[{"type":"A"}]}}`)
	f.Add(`{"spec":{"version":"1.26.0"}}`, `{"spec":{"version":"v99999999999999999999.1"},"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		w := New(Options{VSphereCSI: "v2.3.0"})
		r := request(before, after)
		w.Validate(t.Context(), r)
		answer := w.Mutate(t.Context(), r)
		if !answer.Allowed {
			t.Fatal("a webhook that completes has refused")
		}
		if answer.Patch == nil {
			return
		}
		var was map[string]any
		if err := json.Unmarshal([]byte(after), &was); err != nil {
			t.Fatalf("a patch of something that is no object: %v", err)
		}
		got := patched(t, after, answer.Patch)
		for _, o := range []map[string]any{was, got} {
			if spec, ok := o["spec"].(map[string]any); ok {
				delete(spec, "features")
				delete(spec, "disableCsiDriver")
				if cloud, ok := spec["cloud"].(map[string]any); ok {
					delete(cloud, "openstack")
				}
				if len(spec) == 0 {
					delete(o, "spec")
				}
			}
			if o["spec"] == nil {
				delete(o, "spec")
			}
			if metadata, ok := o["metadata"].(map[string]any); ok {
				delete(metadata, "annotations")
				if len(metadata) == 0 {
					delete(o, "metadata")
				}
			}
			if o["metadata"] == nil {
				delete(o, "metadata")
			}
		}
		if diff := cmp.Diff(was, got); diff != "" {
			t.Errorf("something else was changed:\n%s", diff)
		}
	})
}
