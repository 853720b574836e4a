package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// unit changes, stops or starts a component that is a systemd unit.
//
// EditUnit changes its flags and restarts it; with Restore it puts back the file from before that step. StopUnit makes the edits and stops it then, so
// that a host that starts anew does not bring the old flags back. StartUnit makes the edits, or puts the file of Restore back, and starts it.
type unit struct{ *Engine }

func (x unit) done(ctx context.Context, s v1.Step) (bool, error) {
	h, err := x.units(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, s.Component)
	if err != nil {
		return false, err
	}
	if s.Kind == v1.StepStopUnit && (len(procs) > 0 || len(s.Edits) == 0) {
		return len(procs) == 0, nil
	}
	want, now, err := x.content(ctx, s)
	if err != nil || string(want) != string(now) {
		return false, err
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
	// The file says what will run; the process, what does. One that starts and dies of an unknown flag is not there at the next look.
	return active && len(procs) == 1 && sameFlags(flags, controlplane.FlagsOf(procs[0].Args)), nil
}

func (x unit) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	h, err := x.units(s.Host)
	if err != nil {
		return err
	}
	if _, _, err := x.content(ctx, s); isUntrusted(err) { // before an owner is moved
		return err
	}
	if err := x.moveOwners(ctx, s); err != nil {
		return err
	}
	if x.triedAndThere(ctx, s, *rec) {
		return nil
	}
	unbound, err := x.unbound(ctx, s, *rec)
	if err != nil {
		return err
	}
	if unbound {
		if err := x.bindOwners(ctx, s, rec); err != nil {
			return err
		}
	}
	rec.Before = `{"unit":"` + s.Unit + `"}`
	if s.Kind == v1.StepStopUnit && len(s.Edits) == 0 {
		return x.stopUnit(ctx, h, s, rec)
	}
	return x.rewrite(ctx, h, s, rec)
}

// unbound tells that the owner is to be bound: nothing was handed over yet, or the unit runs and owes a handover, or leads.
// Else what is owed is in the record.
func (x unit) unbound(ctx context.Context, s v1.Step, rec v1.StepRecord) (bool, error) {
	if rec.Before == "" || len(rec.Handovers) == 0 {
		return true, nil
	}
	h, err := x.units(s.Host)
	if err != nil {
		return false, err
	}
	if procs, err := h.Processes(ctx, s.Component); err != nil || len(procs) == 0 {
		return false, err
	}
	if !released(rec) {
		return true, nil
	}
	_, leads, err := x.ownsOn(ctx, s.Host, s.Component)
	return err == nil && leads, nil // one that does not answer is restarted, as it was going to be
}

// triedAndThere tells that an earlier try did all that there is to do, and only its proof took too long: restarted once more the unit could lose what it has come
// to own since.
func (x unit) triedAndThere(ctx context.Context, s v1.Step, rec v1.StepRecord) bool {
	if rec.Before == "" || !released(rec) {
		return false
	}
	there, err := x.done(ctx, s)
	return err == nil && there
}

// rewrite changes the unit's file, and stops the unit or starts it with that.
func (x unit) rewrite(ctx context.Context, h unitHost, s v1.Step, rec *v1.StepRecord) error {
	want, now, err := x.content(ctx, s)
	if err != nil {
		return err
	}
	if s.Restore != "" && string(want) != string(now) {
		if err := x.ours(s, now); err != nil {
			return err
		}
	}
	if err := x.backup(ctx, s, rec); err != nil {
		return err
	}
	if s.Kind == v1.StepStopUnit {
		if err := x.writeUnit(ctx, h, s, rec, want); err != nil {
			return err
		}
		return x.stopUnit(ctx, h, s, rec)
	}
	if len(rec.Handovers) > 0 && !released(*rec) {
		// An owner is stopped first and comes back as a standby: restarted in place it could win its leases back.
		if err := x.stopUnit(ctx, h, s, rec); err != nil {
			return err
		}
		x.awaitTakeover(ctx, s, *rec)
	}
	if err := x.writeUnit(ctx, h, s, rec, want); err != nil {
		return err
	}
	return h.Restart(ctx, s.Unit) // starts one that is stopped
}

// writeUnit writes the step's file and makes the service manager read it. What runs goes on as it is.
func (x unit) writeUnit(ctx context.Context, h unitHost, s v1.Step, rec *v1.StepRecord, want []byte) error {
	f, _, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if err := x.write(ctx, s, rec, want, f.Mode.Perm()); err != nil {
		return err
	}
	return h.DaemonReload(ctx)
}

func (x unit) stopUnit(ctx context.Context, h unitHost, s v1.Step, rec *v1.StepRecord) error {
	if err := x.journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Hook("during", s.ID)
	if err := h.Stop(ctx, s.Unit); err != nil {
		return err
	}
	return x.release(ctx, s, rec)
}

// content is what the step's file shall hold, and what it holds.
func (x unit) content(ctx context.Context, s v1.Step) (want, now []byte, err error) {
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return nil, nil, err
	}
	if sum == absent {
		return nil, nil, fmt.Errorf("%s of unit %s on host %s is gone", s.Path, s.Unit, s.Host)
	}
	if s.Restore != "" && len(s.Edits) == 0 {
		rec := x.journal.Record(s.Restore)
		if rec.BackupSHA256 == "" || rec.BackupSHA256 == sum {
			return f.Data, f.Data, nil // nothing was changed, or it is back already
		}
		want, _, _, err := x.backedUp(ctx, s.Restore, s.Host)
		return want, f.Data, err
	}
	if len(s.Edits) == 0 {
		return f.Data, f.Data, nil
	}
	changed, err := x.apply(ctx, s)
	if isUntrusted(err) {
		return nil, nil, err
	} else if err != nil {
		return nil, nil, fmt.Errorf("unit %s on host %s: %w", s.Unit, s.Host, err)
	}
	for path := range changed {
		if path != s.Path {
			return nil, nil, &StaleError{Changed: []string{fmt.Sprintf("unit %s on host %s has a flag of step %s in %s by now, not in %s", s.Unit, s.Host, s.ID, path, s.Path)}}
		}
	}
	if data, ok := changed[s.Path]; ok {
		return data, f.Data, nil
	}
	return f.Data, f.Data, nil
}

type unitHost interface {
	hostaccess.Host
	hostaccess.Units
}

func (e *Engine) units(name string) (unitHost, error) {
	h, err := e.host(name)
	if err != nil {
		return nil, err
	}
	u, ok := h.(unitHost)
	if !ok {
		return nil, fmt.Errorf("the access to host %s cannot stop and start systemd units: use another --host-access for it", name)
	}
	return u, nil
}

// copyFile puts a file of this machine on a host, byte for byte.
type copyFile struct{ *Engine }

func (x copyFile) done(ctx context.Context, s v1.Step) (bool, error) {
	h, err := x.host(s.Host)
	if err != nil {
		return false, err
	}
	sum, mode, err := hostaccess.Digest(ctx, h, s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	want, err := fileMode(s)
	return err == nil && sum == s.Content && mode.Perm() == want, err
}

// isProgram tells what Linux starts from what it does not: a kubeconfig, for one.
func isProgram(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x7fELF")) || bytes.HasPrefix(data, []byte("#!"))
}

func (x copyFile) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	mode, err := fileMode(s)
	if err != nil {
		return err
	}
	data, err := x.ReadLocal(s.Source)
	if err != nil {
		return fmt.Errorf("reading %s, which goes to %s on host %s: %w", s.Source, s.Path, s.Host, err)
	}
	if sum := hostaccess.SHA256(data); sum != s.Content {
		// Its own sum is not said: the name may be from a journal that somebody planted, and what is said is kept in it.
		return &StaleError{Changed: []string{fmt.Sprintf("%s on this machine is not the file with SHA-256 %s that the plan was made with", s.Source, s.Content)}}
	}
	if !isProgram(data) && !x.unjudged {
		return &UntrustedError{What: "step " + s.ID, Err: fmt.Errorf("%s is no program (it begins as neither a binary nor a script): only the image credential provider is copied to a host", s.Source)}
	}
	if err := x.backup(ctx, s, rec); err != nil {
		return err
	}
	rec.AfterSHA256 = s.Content
	if err := x.journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Hook("during", s.ID)
	h, err := x.host(s.Host)
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, s.Path, data, mode) // also where only the mode differs
}
