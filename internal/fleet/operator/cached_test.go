package operator

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// TestOfFeaturesOnlyOursAreCached: an owner of a Cluster may give it as many features as fit into an object.
func TestOfFeaturesOnlyOursAreCached(t *testing.T) {
	all := map[string]any{kubermaticv1.FeatureExternalCloudProvider: true, kubermaticv1.FeatureCCMClusterName: false}
	for i := range 1000 {
		all[fmt.Sprint("f", i)] = true
	}
	o, err := reduced(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubermatic.k8c.io/v1", "kind": "Cluster",
		"metadata": map[string]any{"name": "a"},
		"spec":     map[string]any{"version": "1.26.0", "features": all},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := o.(*kubermaticv1.Cluster).Spec.Features
	off, said := got[kubermaticv1.FeatureCCMClusterName]
	if len(got) != 2 || !got[kubermaticv1.FeatureExternalCloudProvider] || off || !said {
		t.Errorf("cached: %v", got)
	}
}
