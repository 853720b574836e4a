package migrate

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/migrate/step/unit"
	"github.com/transplant-dev/transplant/internal/migrate/step/verify"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
)

// superseded reports whether a later step of the plan has started to change the same file or object, and the live one
// has its result. Of what people do, it reports whether they have gone on with what a later step waits for. Doing this
// one again would revert it. Leader migration would come on again in a manager that is external by now, and no manager
// would run the loops. For manifests, units and workloads a record alone is no proof. It is in a ConfigMap, and a
// planted one for the later step would skip this one.
func (e *Engine) superseded(ctx context.Context, s v1.Step) (bool, error) {
	later := false
	for _, other := range e.env.Plan.Steps {
		if other.ID == s.ID {
			later = true
			continue
		}
		sameFile := s.Path != "" && s.Host == other.Host && s.Path == other.Path
		sameObject := s.Ref != "" && s.Ref == other.Ref
		sameWait := s.Await != nil && other.Await != nil && e.env.Journal.Record(s.ID).IsEnded()
		if !later || !sameFile && !sameObject && !sameWait {
			continue
		}
		rec := e.env.Journal.Record(other.ID)
		if rec.Result == "" {
			continue
		}
		has, err := e.hasChange(ctx, s, other, rec)
		if err != nil {
			return false, fmt.Errorf("looking whether step %s has changed it since: %w", other.ID, err)
		}
		if has {
			return true, nil
		}
	}
	return false, nil
}

// hasChange reports whether the live file or object of a step that was started after another one has what the step
// makes of it. It may not run with that yet. Of kinds that change no manager's flags, the record is believed.
func (e *Engine) hasChange(ctx context.Context, before, s v1.Step, rec v1.StepRecord) (bool, error) {
	switch s.Kind {
	case v1.StepAwait:
		return verify.Await{Env: e.env}.IsOvertaken(ctx, before, s)
	case v1.StepEditManifest, v1.StepAddManifest, v1.StepRemoveManifest, v1.StepRestoreManifest:
		return e.manifestHasChange(ctx, s, rec)
	case v1.StepStopUnit, v1.StepEditUnit, v1.StepStartUnit:
		return e.unitHasChange(ctx, s)
	case v1.StepEditWorkload, v1.StepScale:
		live, err := object.ReadLive(ctx, e.env, s.Ref)
		if err != nil {
			return false, err
		}
		next, err := workload.Workload{Env: e.env}.Next(s, live)
		if stale := (*step.StaleError)(nil); errors.As(err, &stale) {
			return false, nil // do says so
		} else if err != nil {
			return false, err
		}
		return object.EqualJSON(live.Object["spec"], next.Object["spec"]), nil
	case v1.StepReplacePod: // which changes no template, and stands for no other host
		return false, nil
	case v1.StepDeleteObject:
		return e.isDeleted(ctx, s)
	default:
		return true, nil
	}
}

func (e *Engine) manifestHasChange(ctx context.Context, s v1.Step, rec v1.StepRecord) (bool, error) {
	f, sum, err := e.env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == step.Absent { // an owner is stopped before its manifest is changed
		return s.Kind == v1.StepRemoveManifest || rec.Result == v1.StepResultStarted, nil
	}
	switch {
	case s.Kind == v1.StepRemoveManifest:
		return false, nil
	case s.Kind == v1.StepAddManifest:
		return string(f.Data) == s.Content, nil
	case s.Kind == v1.StepEditManifest:
		want, err := controlplane.Apply(f.Data, s.Edits)
		return err == nil && string(want) == string(f.Data), err
	case len(s.Edits) > 0:
		want, _, err := staticpod.RestoreManifest{Env: e.env}.Edited(ctx, s)
		return err == nil && string(want) == string(f.Data), err
	}
	return sum == e.env.Journal.Record(s.Restore).BackupSHA256, nil
}

func (e *Engine) unitHasChange(ctx context.Context, s v1.Step) (bool, error) {
	if s.Kind == v1.StepStopUnit && len(s.Edits) == 0 {
		h, err := e.env.Host(s.Host)
		if err != nil {
			return false, err
		}
		procs, err := h.Processes(ctx, s.Component)
		return err == nil && len(procs) == 0, err
	}
	want, now, err := unit.Unit{Env: e.env}.Content(ctx, s)
	return err == nil && string(want) == string(now), err
}

// isDeleted reports whether a workload is gone, or about to be. Of other objects the record is believed.
func (e *Engine) isDeleted(ctx context.Context, s v1.Step) (bool, error) {
	if !object.IsWorkload(s.Ref) {
		return true, nil
	}
	live, err := object.ReadLive(ctx, e.env, s.Ref)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && live.GetDeletionTimestamp() != nil, err
}
