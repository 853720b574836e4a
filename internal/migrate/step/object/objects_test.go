package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnObjectIsThereAsAnAPIServerKeepsIt(t *testing.T) {
	probe := func(fields map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "DaemonSet", "spec": map[string]any{"readinessProbe": fields}}}
	}
	for name, c := range map[string]struct {
		want, live map[string]any
		same       bool
	}{
		"what is wanted to be nothing is left out":  {map[string]any{"initialDelaySeconds": int64(0), "exec": map[string]any{}, "host": ""}, map[string]any{}, true},
		"defaults are filled in":                    {map[string]any{"periodSeconds": int64(2)}, map[string]any{"periodSeconds": int64(2), "successThreshold": int64(1)}, true},
		"something is there that should be nothing": {map[string]any{"initialDelaySeconds": int64(0)}, map[string]any{"initialDelaySeconds": int64(9)}, false},
		"something is missing":                      {map[string]any{"initialDelaySeconds": int64(9)}, map[string]any{}, false},
	} {
		if got := isSameObject(probe(c.want), probe(c.live)); got != c.same {
			t.Errorf("%s: %t", name, got)
		}
	}
}
