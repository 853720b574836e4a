package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
)

// ControlName is the ConfigMap in kube-system through which a run is asked to wait, from any machine. Who carries the run out makes it, so that to
// pause and to resume takes no other right than to update this one object.
const ControlName = "transplant-control"

// Keys of the control ConfigMap. They are words and not a document, so that somebody with kubectl alone can read and write them.
const (
	controlRun    = "run"
	controlBy     = "paused-by"
	controlAt     = "paused-at"
	controlReason = "reason"
)

// pauseInterval is how often a paused run looks whether it may go on.
const pauseInterval = 2 * time.Second

// PauseOf reads what the control ConfigMap asks of a run; nil when it may go on.
func PauseOf(cm *corev1.ConfigMap, run string) *v1.Pause {
	if cm == nil || cm.Data[controlBy] == "" || cm.Data[controlRun] != run {
		return nil
	}
	p := &v1.Pause{Run: run, By: cm.Data[controlBy], Reason: cm.Data[controlReason]}
	if at, err := time.Parse(time.RFC3339, cm.Data[controlAt]); err == nil { // somebody wrote it by hand; who and why count
		p.At = at
	}
	return p
}

// AskToPause asks the run to wait before its next step. A run that is asked already goes on being paused by who asked first, who is returned.
func AskToPause(ctx context.Context, kube kubernetes.Interface, want v1.Pause) (*v1.Pause, error) {
	return InCluster(kube).control(ctx, want.Run, func(data map[string]string, now *v1.Pause) (*v1.Pause, bool) {
		if now != nil {
			return now, false
		}
		data[controlBy], data[controlAt] = want.By, want.At.UTC().Format(time.RFC3339)
		if want.Reason != "" {
			data[controlReason] = want.Reason
		}
		return &want, true
	})
}

// AskToResume lets a paused run go on. It returns the pause that ends; nil when there was none.
func AskToResume(ctx context.Context, kube kubernetes.Interface, run string) (*v1.Pause, error) {
	return InCluster(kube).control(ctx, run, func(data map[string]string, now *v1.Pause) (*v1.Pause, bool) {
		delete(data, controlBy)
		delete(data, controlAt)
		delete(data, controlReason)
		return now, now != nil
	})
}

// control changes the control ConfigMap, once more where somebody else wrote it in between. One that is not there is made: a run that was begun by an
// earlier version has none.
func (h Home) control(ctx context.Context, run string, change func(data map[string]string, now *v1.Pause) (*v1.Pause, bool)) (*v1.Pause, error) {
	maps := h.maps()
	var out *v1.Pause
	err := Retry(ctx, writeBudget, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.name(ControlName), metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		data := map[string]string{controlRun: run}
		if !absent && cm.Data[controlRun] == run {
			data = cm.Data
		}
		var changed bool
		if out, changed = change(data, PauseOf(cm, run)); !changed {
			return nil
		}
		if absent {
			_, err = maps.Create(ctx, h.controlMap(data), metav1.CreateOptions{})
			return err
		}
		cm.Data = data
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return fmt.Errorf("somebody else wrote it at the same moment, run the same command again: %w", err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("writing the ConfigMap %s: %w", h.at(ControlName), err)
	}
	return out, nil
}

func (h Home) controlMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: h.name(ControlName), Namespace: h.namespace(), Labels: map[string]string{"app.kubernetes.io/managed-by": "transplant"}},
		Data:       data,
	}
}

// ensureControl makes the control ConfigMap for this run, so that a pause needs to update it and no more. What was asked of this run stays; what was asked
// of an older one goes.
func (e *Engine) ensureControl(ctx context.Context) error {
	run := e.journal.Doc().Run
	h := e.home()
	maps := h.maps()
	return Retry(ctx, writeBudget, func(ctx context.Context) error {
		cm, err := maps.Get(ctx, h.name(ControlName), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = maps.Create(ctx, h.controlMap(map[string]string{controlRun: run}), metav1.CreateOptions{})
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

// pause looks, before a step, whether somebody asked the run to wait, and waits until it may go on. The lock stays held meanwhile. It ends with
// ErrInterrupted when the operator stops the run. A run that may not read the ConfigMap cannot be paused, which is said once.
func (e *Engine) pause(ctx context.Context, before v1.Step, stop <-chan struct{}) error {
	if e.deaf {
		return nil
	}
	if !e.controlled {
		if err := e.ensureControl(ctx); apierrors.IsForbidden(err) {
			e.deaf = true
			e.Tell(Event{Time: e.Clock.Now(), Kind: "progress", Message: "this run cannot be paused from elsewhere: " + err.Error()})
			return nil
		} else if err != nil {
			return fmt.Errorf("making the ConfigMap %s, through which a run is paused: %w", e.home().at(ControlName), err)
		}
		e.controlled = true
	}
	var asked *v1.Pause
	err := Retry(ctx, writeBudget, func(ctx context.Context) error {
		var err error
		asked, err = e.asked(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("looking whether the run is paused: %w", err)
	}
	if asked == nil {
		return nil
	}
	if behind := plan.IdleUntil(e.plan, e.number[before.ID]-1); behind != "" {
		if !e.putOff {
			e.putOff = true
			e.tell(before, "progress", PausedWords(*asked)+fmt.Sprintf("; this is the middle of the downtime, in which nobody runs the loops: it waits behind step %s", behind))
		}
		return nil
	}
	return e.waitOut(ctx, *asked, before, stop)
}

func (e *Engine) asked(ctx context.Context) (*v1.Pause, error) {
	h := e.home()
	cm, err := h.maps().Get(ctx, h.name(ControlName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // somebody took it away: nobody asks for anything
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return PauseOf(cm, e.journal.Doc().Run), nil
}

// waitOut waits for the end of a pause, and writes down how long it was.
func (e *Engine) waitOut(ctx context.Context, asked v1.Pause, before v1.Step, stop <-chan struct{}) error {
	rec := v1.PauseRecord{Pause: asked, From: e.Clock.Now().UTC(), Before: before.ID}
	if err := e.journal.SavePause(ctx, rec); err != nil {
		return err
	}
	e.tell(before, "paused", PausedWords(asked)+"; transplant resume lets it go on")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return errors.Join(ErrInterrupted, e.endPause(context.WithoutCancel(ctx), rec))
		case <-e.Clock.After(pauseInterval):
		}
		still, err := e.asked(ctx)
		if err != nil && !Transient(err) {
			return fmt.Errorf("looking whether the run is still paused: %w", err)
		}
		if err == nil && still == nil {
			break
		}
	}
	if err := e.endPause(ctx, rec); err != nil {
		return err
	}
	e.tell(before, "resumed", fmt.Sprintf("resumed after %s", e.Clock.Since(rec.From).Round(time.Second)))
	return nil
}

func (e *Engine) endPause(ctx context.Context, rec v1.PauseRecord) error {
	now := e.Clock.Now().UTC()
	rec.To = &now
	return e.journal.SavePause(ctx, rec)
}

// PausedWords say who paused a run, since when and why.
func PausedWords(p v1.Pause) string {
	s := "paused by " + p.By
	if !p.At.IsZero() {
		s += " at " + p.At.UTC().Format("15:04:05 UTC")
	}
	if p.Reason != "" {
		s += ": " + p.Reason
	}
	return s
}

// SavePause writes a pause into the journal; one that began at the same moment is replaced.
func (j *Journal) SavePause(ctx context.Context, rec v1.PauseRecord) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := false
	for i := range j.doc.Pauses {
		if j.doc.Pauses[i].From.Equal(rec.From) {
			j.doc.Pauses[i], found = rec, true
		}
	}
	if !found {
		j.doc.Pauses = append(j.doc.Pauses, rec)
	}
	return j.write(ctx)
}
