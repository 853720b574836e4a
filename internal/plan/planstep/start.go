package planstep

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// ManagerStart starts a cloud-controller-manager: on one host, or on all of the control plane when host is empty.
type ManagerStart struct {
	Index int
	Host  string
	Flags map[string]string
	// Spec of the pod.
	Spec map[string]any
	// Managed reports whether a controller makes the pods, so that they are scheduled.
	Managed bool
}

// LeavesNodes reports whether the manager is started without the loop that initialises nodes.
func (s ManagerStart) LeavesNodes() bool {
	loops := strings.Split(s.Flags["controllers"], ",")
	return slices.Contains(loops, "-cloud-node") || slices.Contains(loops, "-cloud-node-controller")
}

// ReadManagerStart reads the pod of a step that starts a cloud-controller-manager.
func ReadManagerStart(s v1.Step) (ManagerStart, error) {
	out := ManagerStart{Host: s.Host, Managed: s.Kind == v1.StepEnsureObject}
	text := s.Content
	if out.Managed {
		text = s.Object
	}
	var o map[string]any
	if err := safeyaml.Unmarshal([]byte(text), &o); err != nil {
		return out, err
	}
	out.Spec = ChildOf(o, "spec")
	if out.Managed {
		out.Spec = ChildOf(ChildOf(out.Spec, "template"), "spec")
	}
	containers, _ := out.Spec["containers"].([]any)
	for _, c := range containers {
		c, _ := c.(map[string]any)
		out.Flags = commandline.FlagsOf(append(StringsIn(c["command"]), StringsIn(c["args"])...))
		break
	}
	return out, nil
}

// ChildOf returns an object inside an object; nil when there is none.
func ChildOf(o map[string]any, key string) map[string]any {
	out, _ := o[key].(map[string]any)
	return out
}

// StringsIn returns the texts of a list.
func StringsIn(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, w := range list {
		if s, ok := w.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
