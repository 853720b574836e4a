package unit

import (
	"context"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// Unit changes, stops or starts a component that is a systemd unit.
//
// EditUnit changes its flags and restarts it; with Restore it puts back the file from before that step. StopUnit makes
// the edits and stops it then, so that a host that starts again does not bring the old flags back. StartUnit makes the
// edits, or puts the file of Restore back, and starts it.
type Unit struct{ Env *step.Env }

// Done reports whether the unit is as the step makes it, and its process runs so.
func (x Unit) Done(ctx context.Context, s v1.Step) (bool, error) {
	h, err := x.Env.UnitHost(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, s.Component)
	if err != nil {
		return false, err
	}
	if s.Kind == v1.StepStopUnit && (len(procs) > 0 || len(s.Edits) == 0) {
		if len(procs) == 0 {
			return true, nil
		}
		return false, step.Pending("process %d of unit %s still runs on host %s", procs[0].PID, s.Unit, s.Host)
	}
	want, now, err := x.Content(ctx, s)
	if err != nil {
		return false, err
	}
	if string(want) != string(now) {
		return false, step.Pending("%s of unit %s on host %s is not as this step makes it", s.Path, s.Unit, s.Host)
	}
	if s.Kind == v1.StepStopUnit {
		return true, nil
	}
	active, err := h.Active(ctx, s.Unit)
	if err != nil {
		return false, err
	}
	flags, err := x.flags(ctx, s)
	if err != nil {
		return false, err
	}
	// The file says what will run; the process, what does. One that starts and dies of an unknown flag is not there at the
	// next look.
	if !active {
		return false, step.Pending(
			"unit %s on host %s is not active: look there at systemctl status %s",
			s.Unit,
			s.Host,
			s.Unit,
		)
	}
	if why := staticpod.ProcessProblem(s, procs, flags); why != "" {
		return false, step.PendingError(why)
	}
	return true, nil
}

// Do changes, stops or starts the unit.
func (x Unit) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	h, err := x.Env.UnitHost(s.Host)
	if err != nil {
		return err
	}
	if err := x.checkContent(ctx, s); err != nil { // before an owner is moved
		return err
	}
	if err := staticpod.MoveOwners(ctx, x.Env, s); err != nil {
		return err
	}
	if x.wasAppliedBefore(ctx, s, *rec) {
		return nil
	}
	unbound, err := x.unbound(ctx, s, *rec)
	if err != nil {
		return err
	}
	if unbound {
		if err := takeover.BindOwners(ctx, x.Env, s, rec); err != nil {
			return err
		}
	}
	rec.Before = `{"unit":"` + s.Unit + `"}`
	if s.Kind == v1.StepStopUnit && len(s.Edits) == 0 {
		return x.stopUnit(ctx, h, s, rec)
	}
	return x.rewrite(ctx, h, s, rec)
}

// unbound reports whether the owner is to be bound: nothing was handed over yet, or the unit runs and owes a handover,
// or leads. Else what is owed is in the record.
func (x Unit) unbound(ctx context.Context, s v1.Step, rec v1.StepRecord) (bool, error) {
	if rec.Before == "" || len(rec.Handovers) == 0 {
		return true, nil
	}
	h, err := x.Env.UnitHost(s.Host)
	if err != nil {
		return false, err
	}
	if procs, err := h.Processes(ctx, s.Component); err != nil || len(procs) == 0 {
		return false, err
	}
	if !takeover.IsReleased(rec) {
		return true, nil
	}
	_, leads, err := manager.LeadsOn(ctx, x.Env, s.Host, s.Component)
	return err == nil && leads, nil // one that does not answer is restarted, as it was going to be
}

// wasAppliedBefore reports whether an earlier try did everything, and only its proof took too long. After one more
// restart the unit could lose what it owns since.
func (x Unit) wasAppliedBefore(ctx context.Context, s v1.Step, rec v1.StepRecord) bool {
	if rec.Before == "" || !takeover.IsReleased(rec) {
		return false
	}
	there, err := x.Done(ctx, s)
	return err == nil && there
}

// rewrite changes the unit's file, and stops the unit or starts it with that.
func (x Unit) rewrite(ctx context.Context, h step.UnitManager, s v1.Step, rec *v1.StepRecord) error {
	want, now, err := x.Content(ctx, s)
	if err != nil {
		return err
	}
	if s.Restore != "" && string(want) != string(now) {
		if err := x.Env.CheckUnchanged(s, step.SumOf(now)); err != nil {
			return err
		}
	}
	if err := x.Env.BackUp(ctx, s, rec); err != nil {
		return err
	}
	if s.Kind == v1.StepStopUnit {
		if err := x.writeUnit(ctx, h, s, rec, want); err != nil {
			return err
		}
		return x.stopUnit(ctx, h, s, rec)
	}
	if len(rec.Handovers) > 0 && !takeover.IsReleased(*rec) {
		// An owner is stopped first and comes back as a standby: restarted in place it could win its leases back.
		if err := x.stopUnit(ctx, h, s, rec); err != nil {
			return err
		}
		takeover.AwaitTakeover(ctx, x.Env, s, *rec)
	}
	if err := x.writeUnit(ctx, h, s, rec, want); err != nil {
		return err
	}
	return h.Restart(ctx, s.Unit) // starts one that is stopped
}

// writeUnit writes the step's file and makes the service manager read it. What runs goes on as it is.
func (x Unit) writeUnit(ctx context.Context, h step.UnitManager, s v1.Step, rec *v1.StepRecord, want []byte) error {
	f, _, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if err := x.Env.WriteFile(ctx, s, rec, want, f.Mode.Perm()); err != nil {
		return err
	}
	return h.DaemonReload(ctx)
}

func (x Unit) stopUnit(ctx context.Context, h step.UnitManager, s v1.Step, rec *v1.StepRecord) error {
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	if err := h.Stop(ctx, s.Unit); err != nil {
		return err
	}
	return takeover.ReleaseLeases(ctx, x.Env, s, rec)
}

// Content is what the step's file shall hold, and what it holds.
func (x Unit) Content(ctx context.Context, s v1.Step) (want, now []byte, err error) {
	f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return nil, nil, err
	}
	if sum == step.Absent {
		return nil, nil, fmt.Errorf("%s of unit %s on host %s is gone", s.Path, s.Unit, s.Host)
	}
	if s.Restore != "" && len(s.Edits) == 0 {
		rec := x.Env.Journal.Record(s.Restore)
		if rec.BackupSHA256 == "" || rec.BackupSHA256 == sum {
			return f.Data, f.Data, nil // nothing was changed, or it is back already
		}
		want, _, _, err := x.Env.ReadBackupOf(ctx, s.Restore, s.Host)
		return want, f.Data, err
	}
	if len(s.Edits) == 0 {
		return f.Data, f.Data, nil
	}
	changed, err := x.apply(ctx, s)
	if trust.IsUntrusted(err) {
		return nil, nil, err
	} else if err != nil {
		return nil, nil, fmt.Errorf("unit %s on host %s: %w", s.Unit, s.Host, err)
	}
	for path := range changed {
		if path != s.Path {
			return nil, nil, step.NewStale(
				"unit %s on host %s has a flag of step %s in %s by now, not in %s",
				s.Unit,
				s.Host,
				s.ID,
				path,
				s.Path,
			)
		}
	}
	if data, ok := changed[s.Path]; ok {
		return data, f.Data, nil
	}
	return f.Data, f.Data, nil
}
