package state

import (
	corev1 "k8s.io/api/core/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// events reports what changed from one set of conditions to the next. It reports each transition once, and nothing
// about a cluster that never had to be migrated. That something could not be seen for a while, and is as it was, is no
// transition.
func events(before, after conditionMap) []Event {
	var out []Event
	was, is := before[kubermaticv1.ConditionMigration], after[kubermaticv1.ConditionMigration]
	if was.Reason != is.Reason && (was.Reason != "" || is.Reason != kubermaticv1.PhaseNotNeeded) {
		warning := is.Reason == kubermaticv1.PhaseBlocked || is.Reason == kubermaticv1.PhaseFailed
		out = append(out, Event{Warning: warning, Reason: is.Reason, Note: is.Message})
	}
	for _, t := range []struct {
		condition kubermaticv1.ClusterConditionType
		becomes   corev1.ConditionStatus
		reason    string // "" for any
		warning   bool
	}{
		{kubermaticv1.ConditionLoopsOff, corev1.ConditionTrue, "", false},
		{kubermaticv1.ConditionLoopsOff, corev1.ConditionFalse, ReasonTwoOwners, true},
		{kubermaticv1.ConditionCCMReady, corev1.ConditionTrue, "", false},
		{kubermaticv1.ConditionMachines, corev1.ConditionFalse, ReasonNotExternal, true},
		{kubermaticv1.ConditionMachines, corev1.ConditionFalse, ReasonRegression, true},
		{kubermaticv1.ConditionStuck, corev1.ConditionTrue, "", true},
		{kubermaticv1.ConditionCSIKubeletMigrationCompleted, corev1.ConditionTrue, "", false},
	} {
		was, is := before[t.condition], after[t.condition]
		changed := lastKnown(was) != is.Status || t.reason != "" && was.Reason != is.Reason
		if !changed || is.Status != t.becomes || t.reason != "" && is.Reason != t.reason {
			continue
		}
		reason := is.Reason
		if reason == ReasonObserved {
			reason = string(t.condition)
		}
		out = append(out, Event{Warning: t.warning, Reason: reason, Note: is.Message})
	}
	return out
}
