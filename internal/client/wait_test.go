package client

import (
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestAWaitLooksLessOftenWhileNothingChanges, and sooner where the API alone says what blocks.
func TestAWaitLooksLessOftenWhileNothingChanges(t *testing.T) {
	found := func(code, says string) blocking {
		return blockers(v1.CheckReport{Findings: []v1.Finding{{Code: code, Outcome: v1.Fail, Summary: says}}}, false)
	}
	nodes, owners, own := found("SCHED-002", "3 pods"), found("LM-006", "unknown"), found("HCP-001", "no Deployment")
	if nodes.isHopeless || owners.isHopeless || own.isHopeless || nodes.isSlow || !owners.isSlow {
		t.Fatalf("%+v, %+v, %+v", nodes, owners, own)
	}
	var p pace
	now := time.Now()
	for i, c := range []struct {
		found blocking
		took  time.Duration
		want  time.Duration
		isDue bool
	}{
		{nodes, 0, 2 * time.Second, true},
		{nodes, 0, 4 * time.Second, false},
		{nodes, 0, 8 * time.Second, false},
		{nodes, 0, 16 * time.Second, false},
		{nodes, 40 * time.Second, 40 * time.Second, true}, // it is said again, and a long look is not repeated at once
		{nodes, 0, 16 * time.Second, false},
		{found("SCHED-002", "2 pods"), 0, 2 * time.Second, true},
		{owners, 0, 6 * time.Second, true},
		{owners, 0, 12 * time.Second, false},
	} {
		wait, isDue := p.next(c.found, now, now.Add(c.took))
		now = now.Add(c.took)
		if wait != c.want || isDue != c.isDue {
			t.Errorf("look %d: wait %s, said %v; want %s, %v", i, wait, isDue, c.want, c.isDue)
		}
	}
}
