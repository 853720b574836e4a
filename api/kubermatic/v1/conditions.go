package v1

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConditions are the conditions of a cluster by type.
type ClusterConditions map[ClusterConditionType]ClusterCondition

// UnmarshalJSON also takes the list that the original wrote below its legacy group before it had the map. Otherwise one
// such object would make a list of five hundred unreadable. An entry of a list without a type is left out.
func (c *ClusterConditions) UnmarshalJSON(data []byte) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '[' {
		var byType map[ClusterConditionType]ClusterCondition
		if err := json.Unmarshal(data, &byType); err != nil {
			return fmt.Errorf("reading conditions: %w", err)
		}
		*c = byType
		return nil
	}
	var list []struct {
		Type             ClusterConditionType `json:"type"`
		ClusterCondition `json:",inline"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("reading conditions: %w", err)
	}
	out := make(ClusterConditions, len(list))
	for _, entry := range list {
		if entry.Type != "" {
			out[entry.Type] = entry.ClusterCondition
		}
	}
	*c = out
	return nil
}

// IsTrue reports whether a condition is there and True.
func (c ClusterConditions) IsTrue(t ClusterConditionType) bool {
	return c[t].Status == corev1.ConditionTrue
}

// Next returns the condition with its times and version filled in. A new condition has both times, and only a change of
// status moves the transition. changed is false when nothing but the heartbeat would differ; then there is nothing to
// write.
func (c ClusterConditions) Next(
	t ClusterConditionType,
	wanted ClusterCondition,
	now metav1.Time,
	version string,
) (next ClusterCondition, changed bool) {
	old, found := c[t]
	wanted.KubermaticVersion, wanted.LastHeartbeatTime, wanted.LastTransitionTime = version, now, now
	if found && old.Status == wanted.Status && !old.LastTransitionTime.IsZero() {
		wanted.LastTransitionTime = old.LastTransitionTime
	}
	same := found && old.Status == wanted.Status && old.Reason == wanted.Reason && old.Message == wanted.Message &&
		!old.LastTransitionTime.IsZero()
	return wanted, !same
}
