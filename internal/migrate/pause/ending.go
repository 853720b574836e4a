package pause

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
)

// Keys of the control ConfigMap that say how the last command on the run ended.
const (
	controlFailure     = "failure"
	controlFailureAt   = "failed-at"
	controlFailureStep = "failed-step"
	controlBehind      = "stopped-behind"
)

// maxFailure bounds what is kept of an error, in bytes.
const maxFailure = 4 << 10

// Ending is how the last command on a run ended, where the journal does not say it. It ended with an error, or behind a
// step, as asked. A step that was not begun has no record, and onlookers would not learn why the run does not go on.
type Ending struct {
	// Step that failed, empty where it was none; or the one behind which the run was told to stop.
	Step string
	// Reason of the failure; empty where there was none.
	Reason string
	At     time.Time
}

// EndingOf reads how the last command on a run ended; nil where it executed all, or goes on. Who may pause can write
// it.
func EndingOf(cm *corev1.ConfigMap, run string) *Ending {
	switch {
	case cm == nil || cm.Data[controlRun] != run:
		return nil
	case cm.Data[controlFailure] == "" && cm.Data[controlBehind] == "":
		return nil
	case cm.Data[controlFailure] == "":
		return &Ending{Step: mask.Cut(cm.Data[controlBehind], maxFailure)}
	}
	f := &Ending{
		Step:   mask.Cut(cm.Data[controlFailureStep], maxFailure),
		Reason: mask.Cut(cm.Data[controlFailure], maxFailure),
	}
	if at, err := time.Parse(time.RFC3339, cm.Data[controlFailureAt]); err == nil {
		f.At = at
	}
	return f
}

// NoteEnding keeps how a command on a run ended, and forgets it where there is nothing to keep. Where it may not be
// written, onlookers learn less.
func NoteEnding(ctx context.Context, h journal.ObjectLocation, run string, f *Ending) error {
	maps := h.Maps()
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.Name(ControlName), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && cm.Data[controlRun] != run {
			return nil // made before the first step
		}
		if err != nil {
			return err
		}
		if f == nil && EndingOf(cm, run) == nil {
			return nil
		}
		for _, key := range []string{controlFailure, controlFailureAt, controlFailureStep, controlBehind} {
			delete(cm.Data, key)
		}
		switch {
		case f == nil:
		case f.Reason == "":
			cm.Data[controlBehind] = f.Step
		default:
			cm.Data[controlFailure] = mask.Cut(f.Reason, maxFailure)
			cm.Data[controlFailureStep] = f.Step
			cm.Data[controlFailureAt] = f.At.UTC().Format(time.RFC3339)
		}
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
}
