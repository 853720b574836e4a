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
)

// maxFailure bounds what is kept of an error, in bytes.
const maxFailure = 4 << 10

// Failure is how the last command on a run ended where it ended with an error. A step that was not begun has no record
// in the journal, and onlookers would not learn why the run does not go on.
type Failure struct {
	// Step is empty where it was none.
	Step   string
	Reason string
	At     time.Time
}

// FailureOf reads how the last command on a run ended; nil where it ended well, or goes on. Who may pause can write it.
func FailureOf(cm *corev1.ConfigMap, run string) *Failure {
	if cm == nil || cm.Data[controlRun] != run || cm.Data[controlFailure] == "" {
		return nil
	}
	f := &Failure{
		Step:   mask.Cut(cm.Data[controlFailureStep], maxFailure),
		Reason: mask.Cut(cm.Data[controlFailure], maxFailure),
	}
	if at, err := time.Parse(time.RFC3339, cm.Data[controlFailureAt]); err == nil {
		f.At = at
	}
	return f
}

// NoteFailure keeps how a command on a run ended, and forgets it where there is nothing to keep. Where it may not be
// written, onlookers learn less.
func NoteFailure(ctx context.Context, h journal.ObjectLocation, run string, f *Failure) error {
	maps := h.Maps()
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.Name(ControlName), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && cm.Data[controlRun] != run {
			return nil // made before the first step
		}
		if err != nil {
			return err
		}
		if f == nil && cm.Data[controlFailure] == "" {
			return nil
		}
		delete(cm.Data, controlFailure)
		delete(cm.Data, controlFailureAt)
		delete(cm.Data, controlFailureStep)
		if f != nil {
			cm.Data[controlFailure] = mask.Cut(f.Reason, maxFailure)
			cm.Data[controlFailureStep] = f.Step
			cm.Data[controlFailureAt] = f.At.UTC().Format(time.RFC3339)
		}
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
}
