package mergepatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/mergepatch"
)

func TestAPatchIsMergedIntoACopy(t *testing.T) {
	object := func() map[string]any {
		return map[string]any{"data": map[string]any{"a": "1", "b": "2", "c": map[string]any{"x": "y"}}, "kind": "x", "n": int64(1)}
	}
	before := object()
	got := mergepatch.Apply(before, map[string]any{
		"data": map[string]any{"a": "3", "b": nil, "c": "plain", "d": map[string]any{"e": nil, "f": "g"}}, "kind": map[string]any{"h": nil},
	})
	want := map[string]any{
		"data": map[string]any{"a": "3", "c": "plain", "d": map[string]any{"f": "g"}}, "kind": map[string]any{}, "n": int64(1),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the object with the patch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object(), before); diff != "" {
		t.Errorf("the object that was patched (-want +got):\n%s", diff)
	}
	if got := mergepatch.Apply(nil, map[string]any{"a": nil}); len(got) != 0 || got == nil {
		t.Errorf("nothing with a patch is %#v", got)
	}
}
