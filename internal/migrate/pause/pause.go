// Package pause decides whether a run waits between two steps because an operator asked for it.
package pause

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/visible"
)

// ControlName is the ConfigMap in kube-system through which a run is asked to wait, from any machine. Who executes the
// run makes it, so that to pause and to resume takes no other right than to update this one object.
const ControlName = "transplant-control"

// Keys of the control ConfigMap. They are words and not a document, so that an administrator with only kubectl can read
// and write them.
const (
	controlRun    = "run"
	controlBy     = "paused-by"
	controlAt     = "paused-at"
	controlReason = "reason"
)

// PauseInterval is how often a paused run looks whether it may go on.
const PauseInterval = 2 * time.Second

// Requested reads what the control ConfigMap asks of a run; nil when it may go on.
func Requested(cm *corev1.ConfigMap, run string) *v1.Pause {
	if cm == nil || cm.Data[controlBy] == "" || cm.Data[controlRun] != run {
		return nil
	}
	p := &v1.Pause{Run: run, By: mask.Text(cm.Data[controlBy]), Reason: mask.Text(cm.Data[controlReason])}
	// it was written by hand; who and why count
	if at, err := time.Parse(time.RFC3339, cm.Data[controlAt]); err == nil {
		p.At = at
	}
	return p
}

// Request asks the run to wait before its next step. A run that is asked already goes on being paused by who asked
// first, who is returned.
func Request(ctx context.Context, at journal.ObjectLocation, want v1.Pause) (*v1.Pause, error) {
	return control(ctx, at, want.Run, func(data map[string]string, now *v1.Pause) (*v1.Pause, bool) {
		if now != nil {
			return now, false
		}
		want.By, want.Reason = mask.Text(want.By), mask.Text(want.Reason) // each onlooker reads them
		data[controlBy], data[controlAt] = want.By, want.At.UTC().Format(time.RFC3339)
		if want.Reason != "" {
			data[controlReason] = want.Reason
		}
		return &want, true
	})
}

// Resume lets a paused run go on. It returns the pause that ends; nil when there was none.
func Resume(ctx context.Context, at journal.ObjectLocation, run string) (*v1.Pause, error) {
	return control(ctx, at, run, func(data map[string]string, now *v1.Pause) (*v1.Pause, bool) {
		delete(data, controlBy)
		delete(data, controlAt)
		delete(data, controlReason)
		return now, now != nil
	})
}

// HowToResume is the command that lifts the pause of a run.
func HowToResume(at journal.ObjectLocation) string {
	command := "transplant resume"
	if at.NamespaceOrDefault() != component.Namespace {
		command += " --seed-namespace " + at.Namespace
	}
	if at.Part != "" {
		command += " --part " + at.Part
	}
	return command
}

// control changes the control ConfigMap, once more if another client wrote it in between. One that is not there is
// made: a run that was begun by an earlier version has none.
func control(
	ctx context.Context,
	h journal.ObjectLocation,
	run string,
	change func(data map[string]string, now *v1.Pause) (*v1.Pause, bool),
) (*v1.Pause, error) {
	maps := h.Maps()
	var out *v1.Pause
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.Name(ControlName), metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		data := map[string]string{controlRun: run}
		if !absent && cm.Data[controlRun] == run {
			data = cm.Data
		}
		var changed bool
		if out, changed = change(data, Requested(cm, run)); !changed {
			return nil
		}
		if absent {
			_, err = maps.Create(ctx, controlMap(h, data), metav1.CreateOptions{})
			return err
		}
		cm.Data = data
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return fmt.Errorf("another client wrote it at the same moment, run the same command again: %w", err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("writing the ConfigMap %s: %w", h.Describe(ControlName), err)
	}
	return out, nil
}

func controlMap(h journal.ObjectLocation, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      h.Name(ControlName),
			Namespace: h.NamespaceOrDefault(),
			Labels:    map[string]string{"app.kubernetes.io/managed-by": "transplant"},
		},
		Data: data,
	}
}

// Pauser lets a run wait when an administrator asks it to.
type Pauser struct {
	Env *step.Env
	// objectReady reports whether the ConfigMap through which the run is paused was made.
	objectReady bool
	// forbidden reports whether it may not be read.
	forbidden bool
	// deferredReported reports whether it was said of a pause that it waits for the end of a downtime.
	deferredReported bool
}

// ensureControl makes the control ConfigMap for this run, so that a pause needs to update it and no more. What was
// asked of this run stays; what was asked of an older one goes.
func (e *Pauser) ensureControl(ctx context.Context) error {
	run := e.Env.Journal.Doc().Run
	h := e.Env.Location()
	maps := h.Maps()
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.Name(ControlName), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = maps.Create(ctx, controlMap(h, map[string]string{controlRun: run}), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
		case err == nil && cm.Data[controlRun] != run:
			cm.Data = map[string]string{controlRun: run}
			_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		}
		return err
	})
}

// WaitWhilePaused checks, before a step, whether a pause was requested, and waits until the run may go on. The lock
// stays held meanwhile. It ends with ErrInterrupted when the operator stops the run. A run that may not read the
// ConfigMap cannot be paused, which is said once.
func (e *Pauser) WaitWhilePaused(ctx context.Context, before v1.Step, stop <-chan struct{}) error {
	if e.Env.Journal.Record(before.ID).IsEnded() {
		return nil // an earlier run is gone on with, and may be in a downtime
	}
	if e.forbidden {
		return e.stopOnBreach()
	}
	if !e.objectReady {
		if err := e.ensureControl(ctx); apierrors.IsForbidden(err) {
			e.forbidden = true
			e.Env.Tell(
				step.Event{
					Time:    e.Env.Clock.Now(),
					Kind:    step.EventProgress,
					Message: "this run cannot be paused from elsewhere: " + err.Error(),
				},
			)
			return e.stopOnBreach()
		} else if err != nil {
			return fmt.Errorf(
				"making the ConfigMap %s, through which a run is paused: %w",
				e.Env.Location().Describe(ControlName),
				err,
			)
		}
		e.objectReady = true
	}
	if err := e.pauseOnBreach(ctx); err != nil {
		return err
	}
	var asked *v1.Pause
	err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		var err error
		asked, err = e.requestedPause(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("looking whether the run is paused: %w", err)
	}
	if asked == nil {
		return nil
	}
	if asked.By == breachedBy && e.isLifted() {
		_, err := Resume(ctx, e.Env.Location(), e.Env.Journal.Doc().Run)
		return err
	}
	if behind := e.idleUntil(before); behind != "" {
		if !e.deferredReported {
			e.deferredReported = true
			e.Env.Report(
				before,
				step.EventProgress,
				Describe(
					*asked,
				)+fmt.Sprintf(
					"; this is the middle of the downtime, in which no manager runs the loops: it waits after step %s",
					behind,
				),
			)
		}
		return nil
	}
	return e.waitOut(ctx, *asked, before, stop)
}

// idleUntil is the step after which a manager runs the loops again, if none runs them before a step. One that was begun
// may have ended the last one.
func (e *Pauser) idleUntil(before v1.Step) string {
	done := e.Env.Numbers[before.ID] - 1
	behind := planstep.IdleUntil(e.Env.Plan, done)
	if behind == "" && e.Env.Journal.Record(before.ID).Result == v1.StepResultStarted {
		behind = planstep.IdleUntil(e.Env.Plan, done+1)
	}
	return behind
}

// isLifted reports whether a pause that an earlier run asked for itself is no longer wanted. The way back does not wait
// for what was counted on the way there.
func (e *Pauser) isLifted() bool {
	return e.Env.Objectives == nil || e.Env.Plan.Direction == planstep.Rollback && e.Env.Objectives.Breach() == ""
}

// breachedBy is who pauses a run whose managers do not keep their objectives.
const breachedBy = "the run itself"

// howToGoOn is what an operator can do about a breach.
const howToGoOn = "look at the logs of that manager and at what the cloud answers; --slo=off goes on whatever managers count"

// pauseOnBreach asks the run to wait where managers do not keep the objectives of KEP-2395, or load balancers. A
// migration that goes on would take a provider that fails to the next hosts.
func (e *Pauser) pauseOnBreach(ctx context.Context) error {
	breach := e.Env.Objectives.Breach()
	if breach == "" {
		return nil
	}
	want := v1.Pause{
		Run:    e.Env.Journal.Doc().Run,
		By:     breachedBy,
		At:     e.Env.Clock.Now(),
		Reason: breach + "; " + howToGoOn,
	}
	_, err := Request(ctx, e.Env.Location(), want)
	return err
}

// stopOnBreach ends a run that cannot be paused.
func (e *Pauser) stopOnBreach() error {
	if breach := e.Env.Objectives.Breach(); breach != "" {
		return fmt.Errorf("the managers do not keep their objectives: %s; %s", breach, howToGoOn)
	}
	return nil
}

func (e *Pauser) requestedPause(ctx context.Context) (*v1.Pause, error) {
	h := e.Env.Location()
	cm, err := h.Maps().Get(ctx, h.Name(ControlName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // it was deleted: no pause is requested
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return Requested(cm, e.Env.Journal.Doc().Run), nil
}

// waitOut waits for the end of a pause, and writes down how long it was.
func (e *Pauser) waitOut(ctx context.Context, asked v1.Pause, before v1.Step, stop <-chan struct{}) error {
	rec := v1.PauseRecord{Pause: asked, From: e.Env.Clock.Now().UTC(), Before: before.ID}
	if err := e.Env.Journal.SavePause(ctx, rec); err != nil {
		return err
	}
	e.Env.Report(before, step.EventPaused, Describe(asked)+"; "+HowToResume(e.Env.Location())+" lets it go on")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return errors.Join(step.ErrInterrupted, e.endPause(context.WithoutCancel(ctx), rec))
		case <-e.Env.Clock.After(PauseInterval):
		}
		still, err := e.requestedPause(ctx)
		if err != nil && !retry.IsTransient(err) {
			return fmt.Errorf("looking whether the run is still paused: %w", err)
		}
		if err == nil && still == nil {
			break
		}
	}
	if err := e.endPause(ctx, rec); err != nil {
		return err
	}
	e.Env.Objectives.Restart(e.Env.Clock.Now())
	e.Env.Report(before, step.EventResumed, fmt.Sprintf("resumed after %s", e.Env.Clock.Since(rec.From).Round(time.Second)))
	return nil
}

func (e *Pauser) endPause(ctx context.Context, rec v1.PauseRecord) error {
	now := e.Env.Clock.Now().UTC()
	rec.To = &now
	return e.Env.Journal.SavePause(ctx, rec)
}

// Describe say who paused a run, since when and why.
func Describe(p v1.Pause) string {
	s := "paused by " + visible.Line(p.By)
	if !p.At.IsZero() {
		s += " at " + p.At.UTC().Format("15:04:05 UTC")
	}
	if p.Reason != "" {
		s += ": " + visible.Line(p.Reason)
	}
	return s
}
