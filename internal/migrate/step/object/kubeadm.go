package object

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// KubeadmRef is the reference of kubeadm's ConfigMap.
const KubeadmRef = "ConfigMap/" + component.Namespace + "/" + kubeadmconfig.Name

// kubeadmPatch is the merge patch that executes a step's edits in kubeadm's ClusterConfiguration, as the ConfigMap
// holds it now. A plan does not hold the text itself: the snapshot that it was made from masks what may be secret in
// there.
func kubeadmPatch(e *step.Env, s v1.Step, live *unstructured.Unstructured) (map[string]any, error) {
	text, err := clusterConfiguration(s, live)
	if err != nil {
		return nil, err
	}
	if err := allowedOnKubeadm(e, s, text); err != nil {
		return nil, err
	}
	return kubeadmApplied(s, live)
}

// kubeadmApplied is the merge patch of edits that were judged.
func kubeadmApplied(s v1.Step, live *unstructured.Unstructured) (map[string]any, error) {
	text, err := clusterConfiguration(s, live)
	if err != nil {
		return nil, err
	}
	out, err := kubeadmconfig.Apply([]byte(text), s.Component, s.Edits)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", kubeadmconfig.Key, s.Ref, err)
	}
	return map[string]any{"data": map[string]any{kubeadmconfig.Key: string(out)}}, nil
}

// allowedOnKubeadm is allowedOn for what kubeadm writes: a flag begins with its value there, or with that of the
// component on a host.
func allowedOnKubeadm(e *step.Env, s v1.Step, text string) error {
	if e.Unjudged {
		return nil
	}
	var now v1.Snapshot
	if seen := e.LatestSnapshot(); seen != nil {
		now = *seen
	}
	now.Kubeadm = objects.Kubeadm(text)
	if err := allowed.CheckFlags(e.Plan, s, allowed.FlagBases(s, &now)...); err != nil {
		return &trust.UntrustedError{What: "step " + s.ID, Err: err}
	}
	return nil
}

// KubeadmTakenBack are the edits of a record that take a step's own back. Of a list only the items that the step has
// changed are put back.
func KubeadmTakenBack(
	e *step.Env,
	original v1.Step,
	was v1.StepRecord,
	live *unstructured.Unstructured,
) (v1.Step, error) {
	undo := original
	undo.Edits = nil // or the edits of the journal's step would be written over
	if err := json.Unmarshal([]byte(was.Before), &undo.Edits); err != nil {
		return undo, fmt.Errorf("record of step %s: %w", original.ID, err)
	}
	if e.Unjudged {
		return undo, nil
	}
	if err := allowed.CheckUndo(undo, original.Edits, e.Plan.Options); err != nil {
		return undo, &trust.UntrustedError{What: "the record of step " + original.ID, Err: err}
	}
	text, err := clusterConfiguration(original, live)
	if err != nil {
		return undo, err
	}
	bases := allowed.FlagBases(original, &v1.Snapshot{Kubeadm: objects.Kubeadm(text)})
	for i, edit := range undo.Edits {
		if edit.Op == v1.EditSetFlag && len(bases) > 0 {
			undo.Edits[i].Value = allowed.RestoreValue(e.Plan, original, edit.Name, bases[0][edit.Name], edit.Value)
		}
	}
	return undo, nil
}

// kubeadmUndo are the edits that take a step's edits back, as JSON.
func kubeadmUndo(s v1.Step, live *unstructured.Unstructured) (string, error) {
	text, err := clusterConfiguration(s, live)
	if err != nil {
		return "", err
	}
	undo, err := kubeadmconfig.Inverse([]byte(text), s.Component, s.Edits)
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", kubeadmconfig.Key, s.Ref, err)
	}
	data, err := json.Marshal(undo)
	if err != nil {
		return "", fmt.Errorf("keeping what %s had: %w", s.Ref, err)
	}
	return string(data), nil
}

func clusterConfiguration(s v1.Step, live *unstructured.Unstructured) (string, error) {
	text, ok, err := unstructured.NestedString(live.Object, "data", kubeadmconfig.Key)
	if err != nil || !ok {
		return "", fmt.Errorf("%s has no %s: it is not what kubeadm writes", s.Ref, kubeadmconfig.Key)
	}
	return text, nil
}
