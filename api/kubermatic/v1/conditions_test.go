package v1

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionsAreReadFromTheMapAndFromTheListOfBefore(t *testing.T) {
	want := ClusterConditions{"A": {Status: corev1.ConditionTrue, Reason: "R"}}
	for name, test := range map[string]struct {
		in   string
		want ClusterConditions
	}{
		"map":                {`{"A":{"status":"True","reason":"R"}}`, want},
		"list":               {` [{"type":"A","status":"True","reason":"R"},{"status":"False"}]`, want},
		"null":               {`null`, nil},
		"times that are nil": {`{"A":{"status":"True","reason":"R","lastTransitionTime":null}}`, want},
	} {
		t.Run(name, func(t *testing.T) {
			var got ClusterStatus
			if err := json.Unmarshal([]byte(`{"conditions":`+test.in+`}`), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Conditions); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{`"x"`, `7`, `["x"]`, `{"A":"x"}`} {
		if err := json.Unmarshal([]byte(bad), &ClusterConditions{}); err == nil {
			t.Errorf("%s was taken for conditions", bad)
		}
	}
}

func TestAConditionsTransitionMovesWithItsStatusOnly(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)) }
	held := ClusterConditions{"A": {Status: corev1.ConditionFalse, Reason: "R", LastTransitionTime: at(1)}, "Old": {Status: corev1.ConditionFalse}}
	for name, test := range map[string]struct {
		of         ClusterConditionType
		wanted     ClusterCondition
		transition metav1.Time
		changed    bool
	}{
		"a new condition has a transition": {"B", ClusterCondition{Status: corev1.ConditionFalse}, at(9), true},
		"the same again":                   {"A", ClusterCondition{Status: corev1.ConditionFalse, Reason: "R"}, at(1), false},
		"another reason":                   {"A", ClusterCondition{Status: corev1.ConditionFalse, Reason: "S"}, at(1), true},
		"another status":                   {"A", ClusterCondition{Status: corev1.ConditionTrue, Reason: "R"}, at(9), true},
		"one that was written without":     {"Old", ClusterCondition{Status: corev1.ConditionFalse}, at(9), true},
	} {
		t.Run(name, func(t *testing.T) {
			next, changed := held.Next(test.of, test.wanted, at(9), "v1")
			want := test.wanted
			want.KubermaticVersion, want.LastHeartbeatTime, want.LastTransitionTime = "v1", at(9), test.transition
			if diff := cmp.Diff(want, next); diff != "" || changed != test.changed {
				t.Errorf("changed: %t, want %t\n%s", changed, test.changed, diff)
			}
		})
	}
}

func TestAMigrationIsNeededWhileBothAnnotationsStandAndTheConditionDoesNot(t *testing.T) {
	both := map[string]string{CCMMigrationNeeded: "", CSIMigrationNeeded: ""}
	done := ClusterConditions{ConditionCSIKubeletMigrationCompleted: {Status: corev1.ConditionTrue}}
	for name, test := range map[string]struct {
		annotations map[string]string
		conditions  ClusterConditions
		want        bool
	}{
		"none": {}, "one": {annotations: map[string]string{CCMMigrationNeeded: ""}}, "both": {annotations: both, want: true}, "over": {annotations: both, conditions: done},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cluster{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: test.annotations}, Status: ClusterStatus{Conditions: test.conditions}}
			if got := c.NeedsMigration(); got != test.want {
				t.Errorf("needs migration: %t, want %t", got, test.want)
			}
		})
	}
}

func TestAFeatureThatIsFalseIsOff(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want [2]bool // external, CSI driver disabled
	}{
		"unset":                  {`{}`, [2]bool{}},
		"explicit false":         {`{"spec":{"features":{"externalCloudProvider":false}}}`, [2]bool{}},
		"true":                   {`{"spec":{"features":{"externalCloudProvider":true}}}`, [2]bool{true, false}},
		"the original's name":    {`{"spec":{"disableCsiDriver":true}}`, [2]bool{false, true}},
		"the name people expect": {`{"spec":{"disableCSIDriver":true}}`, [2]bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var c Cluster
			if err := json.Unmarshal([]byte(test.in), &c); err != nil {
				t.Fatal(err)
			}
			if got := [2]bool{c.External(), c.Spec.CSIDriverDisabled()}; got != test.want {
				t.Errorf("external and disabled: %v, want %v", got, test.want)
			}
		})
	}
}
