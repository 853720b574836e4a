package staticpod

import (
	"context"
	"fmt"
	"io/fs"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
)

// editManifest changes flags and mounts of a static pod.
type editManifest struct{ env *step.Env }

func (x editManifest) Done(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == step.Absent {
		return false, fmt.Errorf("manifest %s on host %s is gone", s.Path, s.Host)
	}
	want, err := controlplane.Apply(f.Data, s.Edits)
	if err != nil {
		return false, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	if string(want) != string(f.Data) {
		return false, step.Pending("manifest %s on host %s does not have the flags and mounts of this step", s.Path, s.Host)
	}
	return IsRunning(ctx, x.env, s, f.Data)
}

func (x editManifest) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if f, sum, err := x.env.ReadFile(ctx, s.Host, s.Path); err == nil && sum != step.Absent { // before an owner is moved
		if _, err := changed(x.env, s, f.Data); err != nil {
			return err
		}
	}
	if err := MoveOwners(ctx, x.env, s); err != nil {
		return err
	}
	return replaceManifest(ctx, x.env, s, rec, func(now []byte) ([]byte, fs.FileMode, error) {
		if now == nil {
			return nil, 0, fmt.Errorf("manifest %s on host %s is gone", s.Path, s.Host)
		}
		data, err := changed(x.env, s, now)
		return data, 0, err
	})
}

// changed are the bytes of a manifest as the step's edits change them.
func changed(e *step.Env, s v1.Step, now []byte) ([]byte, error) {
	m, err := controlplane.Parse(now)
	if err != nil {
		return nil, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	if err := isOf(s, m); err != nil {
		return nil, &trust.UntrustedError{What: "step " + s.ID, Err: err}
	}
	if err := e.CheckAllowedOn(s, m.Command()); err != nil {
		return nil, err
	}
	data, err := controlplane.Apply(now, s.Edits)
	if err != nil {
		return nil, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	return data, nil
}

// addManifest puts a static pod on a host.
type addManifest struct{ env *step.Env }

func (x addManifest) Done(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.env.ReadFile(ctx, s.Host, s.Path)
	if err == nil {
		err = contentProblem(s, sum, string(f.Data) == s.Content)
	}
	if err != nil {
		return false, err
	}
	return IsRunning(ctx, x.env, s, f.Data)
}

// contentProblem says why a manifest is not the one that a step writes; nil when it is.
func contentProblem(s v1.Step, sum string, isSame bool) error {
	switch {
	case sum == step.Absent:
		return step.Pending("manifest %s is not on host %s", s.Path, s.Host)
	case !isSame:
		return step.Pending("manifest %s on host %s has another content than this step gives it", s.Path, s.Host)
	}
	return nil
}

func (x addManifest) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	mode, err := step.FileMode(s)
	if err != nil {
		return err
	}
	return replaceManifest(
		ctx,
		x.env,
		s,
		rec,
		func([]byte) ([]byte, fs.FileMode, error) { return []byte(s.Content), mode, nil },
	)
}

// RestoreManifest puts back the bytes from before a step, or with edits, these bytes as the edits change them. So a
// stopped component is started with other flags, without ever running with the old ones.
type RestoreManifest struct{ Env *step.Env }

// Done reports whether the manifest is as it was before, and runs.
func (x RestoreManifest) Done(ctx context.Context, s v1.Step) (bool, error) {
	if len(s.Edits) > 0 {
		want, _, err := x.Edited(ctx, s)
		if err != nil {
			return false, err
		}
		f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
		if err == nil {
			err = contentProblem(s, sum, string(f.Data) == string(want))
		}
		if err != nil {
			return false, err
		}
		return IsRunning(ctx, x.Env, s, f.Data)
	}
	if x.Env.Journal.Record(s.Restore).BackupSHA256 == "" {
		return true, nil // the step was begun and changed nothing
	}
	f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if !step.IsRestored(x.Env.Journal.Record(s.Restore), sum) {
		return false, step.Pending("manifest %s on host %s is not as it was before step %s", s.Path, s.Host, s.Restore)
	}
	return IsRunning(ctx, x.Env, s, f.Data)
}

// Do puts the manifest back that was there before.
func (x RestoreManifest) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	data, mode, sum, err := x.Env.ReadBackupOf(ctx, s.Restore, s.Host)
	if err != nil {
		return err
	}
	if sum == step.Absent {
		return fmt.Errorf("%s on host %s was absent before step %s: there is nothing to put back", s.Path, s.Host, s.Restore)
	}
	if err := x.judgeBackup(ctx, s, data); err != nil {
		return err
	}
	if len(s.Edits) > 0 {
		if data, mode, err = x.Edited(ctx, s); err != nil {
			return err
		}
	}
	if err := MoveOwners(ctx, x.Env, s); err != nil {
		return err
	}
	return replaceManifest(ctx, x.Env, s, rec, func(now []byte) ([]byte, fs.FileMode, error) {
		if err := x.Env.CheckUnchanged(s, step.SumOf(now)); err != nil {
			return nil, 0, err
		}
		return data, mode, nil
	})
}

// judgeBackup returns why a backup must not be put back. It is compared with the manifest that is there. If that was
// stopped, it is compared with what was seen of the component.
func (x RestoreManifest) judgeBackup(ctx context.Context, s v1.Step, back []byte) error {
	if x.Env.Unjudged {
		return nil
	}
	f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	doc := x.Env.Journal.Doc()
	if sum != step.Absent {
		if err := x.Env.CheckUnchanged(s, sum); err != nil {
			return err
		}
		err = allowed.CheckManifest(&doc.Plan, s, f.Data, back)
	} else {
		err = x.judgeStopped(&doc.Plan, s, back)
	}
	if err != nil {
		return &trust.UntrustedError{What: "what step " + s.ID + " would put back", Err: err}
	}
	return nil
}

// judgeStopped is judgeBackup for a component whose manifest is not there.
func (x RestoreManifest) judgeStopped(p *v1.Plan, s v1.Step, back []byte) error {
	if err := allowed.CheckBackup(s, back); err != nil {
		return err
	}
	seen := ""
	for _, h := range trust.BeforeHosts(x.Env.Live) {
		for _, c := range h.Components {
			if c.Name == s.Component && c.Image != "" && (seen == "" || h.Name == s.Host) {
				seen = c.Image
			}
		}
	}
	if seen == "" {
		return nil // it runs nowhere, and refusing would leave the loops without an owner
	}
	return allowed.CheckImage(p, s, seen, back)
}

// Edited are the bytes from before a step, as the edits change them.
func (x RestoreManifest) Edited(ctx context.Context, s v1.Step) ([]byte, fs.FileMode, error) {
	data, mode, sum, err := x.Env.ReadBackupOf(ctx, s.Restore, s.Host)
	if err != nil || sum == step.Absent {
		return nil, 0, err
	}
	out, err := changed(x.Env, s, data)
	return out, mode, err
}

// removeManifest takes a static pod off a host.
type removeManifest struct{ env *step.Env }

func (x removeManifest) Done(ctx context.Context, s v1.Step) (bool, error) {
	_, sum, err := x.env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum != step.Absent {
		return false, step.Pending("manifest %s is still on host %s", s.Path, s.Host)
	}
	h, err := x.env.Host(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, s.Component)
	if err == nil && len(procs) > 0 {
		err = step.Pending(
			"process %d of %s still runs on host %s, whose manifest was removed",
			procs[0].PID,
			s.Component,
			s.Host,
		)
	}
	return err == nil, err
}

func (x removeManifest) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	return replaceManifest(ctx, x.env, s, rec, func(now []byte) ([]byte, fs.FileMode, error) {
		if now == nil {
			return nil, 0, nil
		}
		return nil, 0, isManifestOf("step "+s.ID, s, now)
	})
}

// needsBinding reports whether the owner is to be bound for a step whose manifest has a sum, and is to have next. It is
// if the step is tried for the first time, or the manifest is there and not what the step writes. Its process may run
// then and own the loops, whatever the record says. Else what is owed is in the record.
func needsBinding(rec v1.StepRecord, sum, next string) bool {
	if rec.AfterSHA256 == "" || len(rec.Handovers) == 0 && sum != step.Absent && sum == rec.BackupSHA256 {
		return true
	}
	return sum != step.Absent && (sum != rec.AfterSHA256 || sum != next || !takeover.IsReleased(rec))
}

// replaceManifest changes a manifest: it backs it up, hands over what its process owns, and writes (or removes, when
// next gives no bytes).
//
// An owner is stopped first, and comes back as a standby once another manager has its leases. If its manifest were
// edited in place, the new process could win them back. The API server next to it would then still have an owner that
// depends on it.
func replaceManifest(
	ctx context.Context,
	e *step.Env,
	s v1.Step,
	rec *v1.StepRecord,
	next func(now []byte) ([]byte, fs.FileMode, error),
) error {
	f, sum, err := e.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if sum == step.Absent && rec.Backup != "" { // a crash after the owner was stopped
		if f.Data, f.Mode, _, err = e.ReadBackup(ctx, s, *rec); err != nil {
			return err
		}
	}
	data, mode, err := next(f.Data)
	if err != nil {
		return err
	}
	if mode == 0 {
		mode = f.Mode.Perm() // kubeadm writes 0600, and so it stays
	}
	if needsBinding(*rec, sum, sumOf(data)) {
		if err := takeover.BindOwners(ctx, e, s, rec); err != nil {
			return err
		}
	}
	if err := e.BackUp(ctx, s, rec); err != nil {
		return err
	}
	if data == nil || len(rec.Handovers) > 0 {
		if err := stop(ctx, e, s, rec, data); err != nil {
			return err
		}
	}
	if err := takeover.ReleaseLeases(ctx, e, s, rec); err != nil {
		return err
	}
	if data == nil {
		return nil
	}
	takeover.AwaitTakeover(ctx, e, s, *rec)
	return e.WriteFile(ctx, s, rec, data, mode)
}

// sumOf is the SHA-256 of a manifest, or what stands for one that is to go.
func sumOf(next []byte) string {
	if next == nil {
		return step.Absent
	}
	return hostaccess.SHA256(next)
}

// stop takes the manifest away, unless what comes next is there already; the record that says so is saved first.
func stop(ctx context.Context, e *step.Env, s v1.Step, rec *v1.StepRecord, next []byte) error {
	_, sum, err := e.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	rec.AfterSHA256 = sumOf(next)
	if err := e.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	e.Hook("during", s.ID)
	if sum == step.Absent || sum == rec.AfterSHA256 && takeover.IsReleased(*rec) {
		return nil
	}
	h, err := e.Host(s.Host)
	if err != nil {
		return err
	}
	return h.Remove(ctx, s.Path)
}
