package migrate

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
)

const kubeadmRef = "ConfigMap/" + kubeadmconfig.Namespace + "/" + kubeadmconfig.Name

// kubeadmPatch is the merge patch that carries out a step's edits in kubeadm's ClusterConfiguration, as the ConfigMap holds it now. A plan does not
// hold the text itself: the snapshot that it was made from masks what may be secret in there.
func kubeadmPatch(s v1.Step, live *unstructured.Unstructured) (map[string]any, error) {
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
