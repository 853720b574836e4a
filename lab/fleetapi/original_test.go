package fleetapi

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/served"
)

var original = flag.String("fleetapi.original", "testdata/original-crd.yaml", "the original's definition of Clusters")

// withOriginal is a seed on which the original was there first, with a cluster in it.
func withOriginal(t *testing.T) (*seed, *unstructured.Unstructured) {
	t.Helper()
	s := bare(t, old)
	data, err := os.ReadFile(*original)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.dynamic.Resource(definitions).Create(t.Context(), parsed(t, string(data)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the original's group is served", func() bool {
		_, err := s.clusters(kubermatic.GroupName).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return s, s.rich(t, kubermatic.GroupName)
}

func TestTheOriginalsDefinitionAndItsObjectsStayAsTheyAre(t *testing.T) {
	s, before := withOriginal(t)
	definition, err := s.dynamic.Resource(definitions).Get(t.Context(), "clusters."+kubermatic.GroupName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		verdicts, err := served.Install(t.Context(), s.dynamic)
		if err != nil {
			t.Fatal(err)
		}
		want := []served.Verdict{{Group: kubermatic.GroupName, Present: true}, {Group: kubermatic.LegacyGroupName, Present: true, Ours: true}}
		if diff := cmp.Diff(want, verdicts); diff != "" {
			t.Error(diff)
		}
	}
	after, err := s.dynamic.Resource(definitions).Get(t.Context(), "clusters."+kubermatic.GroupName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.GetResourceVersion() != definition.GetResourceVersion() {
		t.Error("the definition was written")
	}
	changeAndCompare(t, s, before)
}

// The original's schema has no rules of ours, so the webhook alone refuses what the operator's own look would find otherwise.
func TestTheWebhooksServeTheOriginalsObjectsAsWell(t *testing.T) {
	s, before := withOriginal(t)
	if _, err := served.Install(t.Context(), s.dynamic); err != nil { // the other group
		t.Fatal(err)
	}
	s.install(t, "webhooks.yaml", s.operator(t, admission.Options{}).address)
	s.trusted(t, kubermatic.LegacyGroupName)
	enabled, err := s.patch(t, before, `{"spec":{"features":{"externalCloudProvider":true}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := enabled.GetAnnotations()[kubermatic.CCMMigrationNeeded]; !ok {
		t.Errorf("the annotations are %v", enabled.GetAnnotations())
	}
	if _, err := s.patch(t, before, `{"spec":{"features":{"externalCloudProvider":false}}}`); !refused(err, "cannot be disabled once it's enabled") {
		t.Errorf("disabling: %v", err)
	}
}

// legacyOriginal is the definition of releases up to 2.19: it keeps everything, says nothing of it, and has no status of its own. Their conditions are a list.
const legacyOriginal = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusters.kubermatic.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, legacy API"}
spec:
  group: kubermatic.k8s.io
  scope: Cluster
  names: {kind: Cluster, listKind: ClusterList, plural: clusters, singular: cluster, shortNames: [cl]}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestALegacyDefinitionWithConditionsInAListIsLeftAloneWithItsObjects(t *testing.T) {
	s := bare(t, old)
	if _, err := s.dynamic.Resource(definitions).Create(t.Context(), parsed(t, legacyOriginal), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitServed(t, kubermatic.LegacyGroupName)
	o := parsed(t, guideWritten)
	o.Object["address"] = map[string]any{"url": "https://legacy:6443"}
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "ClusterInitialized", "status": "True", "lastTransitionTime": nil}}}
	before := s.made(t, o)
	verdicts, err := served.Install(t.Context(), s.dynamic)
	if err != nil {
		t.Fatal(err)
	}
	if legacy := verdicts[1]; !legacy.Present || legacy.Ours || legacy.Usable() {
		t.Errorf("it is taken for one that can be worked with: %s", legacy)
	}
	if !verdicts[0].Usable() {
		t.Errorf("the other group is not: %s", verdicts[0])
	}
	after, err := s.clusters(kubermatic.LegacyGroupName).Get(t.Context(), before.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Error(diff)
	}
	read, err := objects.Decode(after)
	if err != nil || !read.Status.Conditions.IsTrue("ClusterInitialized") || !read.External() {
		t.Errorf("it cannot even be read: %+v, %v", read, err)
	}
}
