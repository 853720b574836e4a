package planstep

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// Words names a step by its kind and what it is about. Its title is in no digest, and who may write the journal writes
// it: what is shown of a journal is this.
func Words(s v1.Step) string {
	return strings.Join(strings.Fields(strings.Join([]string{string(s.Kind), s.Component, s.Path, s.Ref, s.Host}, " ")), " ")
}

// SumEstimates sums up the guesses of steps, in whole seconds.
func SumEstimates(steps []v1.Step) int {
	sum := 0.0
	for _, s := range steps {
		sum += s.EstimateSeconds
	}
	return int(sum + 0.5)
}

// CheckUniqueIDs refuses steps of which two have the same ID.
func CheckUniqueIDs(steps []v1.Step) error {
	seen := map[string]bool{}
	for _, s := range steps {
		if seen[s.ID] {
			return fmt.Errorf("step %q is there twice", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// IsToken reports whether a step writes a token of the cloud-controller-manager's account.
func IsToken(s v1.Step) bool {
	return s.Kind == v1.StepWriteFile && (s.Derive == layout.DeriveToken || s.Derive == layout.DeriveRenewingToken)
}

// ChangedPlace names the file or object that a step changes.
func ChangedPlace(s v1.Step) string {
	if s.Path == "" {
		return s.Ref
	}
	return s.Host + ":" + s.Path
}

// FirstPerPlace keeps the first step for each place.
func FirstPerPlace(steps []v1.Step) []v1.Step {
	seen := map[string]bool{}
	var out []v1.Step
	for _, s := range steps {
		if !seen[ChangedPlace(s)] {
			out = append(out, s)
		}
		seen[ChangedPlace(s)] = true
	}
	return out
}

// IsManagerWorkload reports whether an object runs the cloud-controller-manager, or another part of the cloud provider,
// and is not one that it needs.
func IsManagerWorkload(s v1.Step) bool {
	return s.Kind == v1.StepEnsureObject &&
		(strings.HasPrefix(s.Ref, "DaemonSet/") || strings.HasPrefix(s.Ref, "Deployment/"))
}

// StopsComponent reports whether a step stops a component.
func StopsComponent(s v1.Step) bool {
	return s.Kind == v1.StepRemoveManifest || s.Kind == v1.StepStopUnit
}

// WritesMask returns what of a step holds the mask of a secret, which must never be written; empty when nothing does.
func WritesMask(s v1.Step) string {
	for what, text := range map[string]string{"content": s.Content, "object": s.Object, "patch": s.Patch} {
		if strings.Contains(text, mask.Masked) {
			return "a mask in its " + what
		}
	}
	for _, e := range s.Edits {
		if strings.Contains(e.Value, mask.Masked) {
			return "a mask as --" + e.Name
		}
	}
	return ""
}

// CheckObjectRef says that an object is not the one that the step names.
func CheckObjectRef(s v1.Step) error {
	var o map[string]any
	if err := json.Unmarshal([]byte(s.Object), &o); err != nil {
		return fmt.Errorf("object is no JSON: %w", err)
	}
	if m, ok := o["metadata"].(map[string]any); !ok || m["name"] == nil || layout.Ref(o) != s.Ref {
		return fmt.Errorf("object is not the %s that ref names", s.Ref)
	}
	return nil
}
