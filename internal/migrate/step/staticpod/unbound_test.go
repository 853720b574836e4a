package staticpod

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestWhenAnOwnerIsBound: a manifest that is there, and is not what the step writes, may run and own the loops, whatever its record says. An
// owner that is not bound is restarted in place, and its loops stand still for a whole lease.
func TestWhenAnOwnerIsBound(t *testing.T) {
	released := []v1.HandoverRecord{{Lease: "kube-controller-manager", Note: "its holder has ended"}}
	for name, c := range map[string]struct {
		rec  v1.StepRecord
		sum  string
		want bool
	}{
		"a first try":                             {v1.StepRecord{}, "before", true},
		"stopped, and not written yet":            {v1.StepRecord{BackupSHA256: "before", AfterSHA256: "next", Handovers: released}, step.Absent, false},
		"written, and released":                   {v1.StepRecord{BackupSHA256: "before", AfterSHA256: "next", Handovers: released}, "next", false},
		"written, and put back by a person":       {v1.StepRecord{BackupSHA256: "before", AfterSHA256: "next", Handovers: released}, "before", true},
		"as it was, and said to be written":       {v1.StepRecord{BackupSHA256: step.Absent, AfterSHA256: "before"}, "before", true},
		"as it was, and said to be released, too": {v1.StepRecord{BackupSHA256: step.Absent, AfterSHA256: "before", Handovers: released}, "before", true},
	} {
		if got := needsBinding(c.rec, c.sum, "next"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
