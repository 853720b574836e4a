package exposition

import (
	"slices"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hosted"
)

// phaseOf returns the operator's phase that a state means; empty where none is under way or done, or none is known.
//
//	state                                    phase
//	applying, rolling-back, stalled          Handover, or Finish of that part
//	stopped                                  the same; Held after the step that it was told to stop after
//	paused                                   Held
//	failed                                   Failed
//	applied                                  Completed; Machines after the handover of a hosted control plane
//	not-started, rolled-back, unknown        none
func phaseOf(s v1.Status, part hosted.Part) string {
	underWay := kubermaticv1.PhaseHandover
	if part == hosted.Finish {
		underWay = kubermaticv1.PhaseFinish
	}
	switch s.State {
	case v1.StateApplying, v1.StateRollingBack, v1.StateStalled:
		return underWay
	case v1.StateStopped:
		if s.StoppedBehind != "" {
			return kubermaticv1.PhaseHeld
		}
		return underWay
	case v1.StatePaused:
		return kubermaticv1.PhaseHeld
	case v1.StateFailed:
		return kubermaticv1.PhaseFailed
	case v1.StateApplied:
		if part == hosted.Handover {
			return kubermaticv1.PhaseMachines
		}
		return kubermaticv1.PhaseCompleted
	}
	return ""
}

// holdUps are the codes of what holds a run up that a command executes. Nodes and pods that are not Ready are none:
// steps wait for them, and a step that waits for too long is slow.
var holdUps = []v1.BlockerCode{
	v1.BlockerStepSlow, v1.BlockerLockSilent, v1.BlockerLockExpired, v1.BlockerJournalUntrusted,
}

// isStuck reports whether a migration does not get on. As with the operator, one that failed is not stuck, which has an
// alert of its own. Nor is one that waits because a user wants it to.
func isStuck(s v1.Status) bool {
	switch s.State {
	case v1.StateStalled:
		return true
	case v1.StateStopped:
		return s.StoppedBehind == ""
	case v1.StateApplying, v1.StateRollingBack:
		return s.Paused == nil && slices.ContainsFunc(s.Health, func(b v1.Blocker) bool {
			return slices.Contains(holdUps, b.Code)
		})
	}
	return false
}
