package objects

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

func read() *kubermatic.Cluster {
	return &kubermatic.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "crh4xbxz5f", UID: "u1", ResourceVersion: "7"}}
}

func TestAPatchNamesWhatChangesAndNothingElse(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	next, _ := kubermatic.ClusterConditions(nil).Next(kubermatic.ConditionStuck, kubermatic.ClusterCondition{Status: corev1.ConditionFalse}, now, "v1")
	for name, test := range map[string]struct {
		change       *Change
		main, status string
	}{
		"nothing":                          {Of("g", read()), "", ""},
		"a feature":                        {Of("g", read()).Feature("externalCloudProvider", true), `{"metadata":{"resourceVersion":"7","uid":"u1"},"spec":{"features":{"externalCloudProvider":true}}}`, ""},
		"an annotation that goes":          {Of("g", read()).Unannotate("a").Annotate("b", ""), `{"metadata":{"annotations":{"a":null,"b":""},"resourceVersion":"7","uid":"u1"}}`, ""},
		"a field of a provider":            {Of("g", read()).Spec(true, "cloud", "openstack", "useOctavia").Unconditional(), `{"metadata":{"uid":"u1"},"spec":{"cloud":{"openstack":{"useOctavia":true}}}}`, ""},
		"a condition, with both its times": {Of("g", read()).Condition(kubermatic.ConditionStuck, next), "", `{"metadata":{"resourceVersion":"7","uid":"u1"},"status":{"conditions":{"TransplantStuck":{"kubermaticVersion":"v1","lastHeartbeatTime":"2026-01-02T03:04:05Z","lastTransitionTime":"2026-01-02T03:04:05Z","message":null,"reason":null,"status":"False"}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			main, err := test.change.MainPatch()
			if err != nil {
				t.Fatal(err)
			}
			status, err := test.change.StatusPatch()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.main, test.status}, []string{string(main), string(status)}); diff != "" {
				t.Error(diff)
			}
			if want := test.main+test.status == ""; test.change.Empty() != want {
				t.Errorf("empty: %t", !want)
			}
		})
	}
}

func TestStaleIsWhatReadingAgainMayMend(t *testing.T) {
	resource := schema.GroupResource{Group: "g", Resource: "clusters"}
	made := apierrors.NewInvalid(
		schema.GroupKind{Kind: "Cluster"},
		"x",
		field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u1", "field is immutable")},
	)
	other := apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "x", field.ErrorList{field.Invalid(field.NewPath("spec"), "", "no")})
	for _, test := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewConflict(resource, "x", errors.New("changed")), true},
		{fmt.Errorf("patching: %w", apierrors.NewNotFound(resource, "x")), true},
		{made, true}, {other, false},
		{apierrors.NewForbidden(resource, "x", errors.New("no")), false}, {errors.New("connection refused"), false}, {nil, false},
	} {
		if got := IsStale(test.err); got != test.want {
			t.Errorf("%v is stale: %t, want %t", test.err, got, test.want)
		}
	}
}
