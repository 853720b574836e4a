package migrate

import (
	"context"
	"fmt"
	"io/fs"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan"
)

// editManifest changes flags and mounts of a static pod.
type editManifest struct{ *Engine }

func (x editManifest) done(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == absent {
		return false, fmt.Errorf("manifest %s on host %s is gone", s.Path, s.Host)
	}
	want, err := controlplane.Apply(f.Data, s.Edits)
	if err != nil {
		return false, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	if string(want) != string(f.Data) {
		return false, nil
	}
	return x.running(ctx, s, f.Data)
}

func (x editManifest) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if f, sum, err := x.read(ctx, s.Host, s.Path); err == nil && sum != absent { // before an owner is moved
		if _, err := x.changed(s, f.Data); err != nil {
			return err
		}
	}
	if err := x.moveOwners(ctx, s); err != nil {
		return err
	}
	return x.replace(ctx, s, rec, func(now []byte) ([]byte, fs.FileMode, error) {
		if now == nil {
			return nil, 0, fmt.Errorf("manifest %s on host %s is gone", s.Path, s.Host)
		}
		data, err := x.changed(s, now)
		return data, 0, err
	})
}

// changed are the bytes of a manifest as the step's edits change them.
func (e *Engine) changed(s v1.Step, now []byte) ([]byte, error) {
	m, err := controlplane.Parse(now)
	if err != nil {
		return nil, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	if err := e.allowedOn(s, m.Command()); err != nil {
		return nil, err
	}
	data, err := controlplane.Apply(now, s.Edits)
	if err != nil {
		return nil, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	return data, nil
}

// addManifest puts a static pod on a host.
type addManifest struct{ *Engine }

func (x addManifest) done(ctx context.Context, s v1.Step) (bool, error) {
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil || sum == absent || string(f.Data) != s.Content {
		return false, err
	}
	return x.running(ctx, s, f.Data)
}

func (x addManifest) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	mode, err := fileMode(s)
	if err != nil {
		return err
	}
	return x.replace(ctx, s, rec, func([]byte) ([]byte, fs.FileMode, error) { return []byte(s.Content), mode, nil })
}

// restoreManifest puts back the bytes from before a step; with edits, these bytes as the edits change them: that is how a component that was stopped
// is started with other flags, without ever running with the old ones.
type restoreManifest struct{ *Engine }

func (x restoreManifest) done(ctx context.Context, s v1.Step) (bool, error) {
	if len(s.Edits) > 0 {
		want, _, err := x.edited(ctx, s)
		if err != nil {
			return false, err
		}
		f, sum, err := x.read(ctx, s.Host, s.Path)
		if err != nil || sum == absent || string(f.Data) != string(want) {
			return false, err
		}
		return x.running(ctx, s, f.Data)
	}
	if x.journal.Record(s.Restore).BackupSHA256 == "" {
		return true, nil // the step was begun and changed nothing
	}
	f, restored, err := x.restored(ctx, s)
	if err != nil || !restored {
		return false, err
	}
	return x.running(ctx, s, f.Data)
}

func (x restoreManifest) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	data, mode, sum, err := x.backedUp(ctx, s.Restore, s.Host)
	if err != nil {
		return err
	}
	if sum == absent {
		return fmt.Errorf("%s on host %s was absent before step %s: there is nothing to put back", s.Path, s.Host, s.Restore)
	}
	if err := x.judgeBackup(ctx, s, data); err != nil {
		return err
	}
	if len(s.Edits) > 0 {
		if data, mode, err = x.edited(ctx, s); err != nil {
			return err
		}
	}
	if err := x.moveOwners(ctx, s); err != nil {
		return err
	}
	return x.replace(ctx, s, rec, func(now []byte) ([]byte, fs.FileMode, error) {
		if err := x.ours(s, now); err != nil {
			return nil, 0, err
		}
		return data, mode, nil
	})
}

// judgeBackup returns why a backup must not be put back: it is compared with the manifest that is there, and where that
// was stopped, with what was seen of the component.
func (x restoreManifest) judgeBackup(ctx context.Context, s v1.Step, back []byte) error {
	if x.unjudged {
		return nil
	}
	f, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	doc := x.journal.Doc()
	if sum != absent {
		if err := x.ours(s, f.Data); err != nil {
			return err
		}
		err = plan.AllowedManifest(&doc.Plan, s, f.Data, back)
	} else {
		err = x.judgeStopped(&doc.Plan, s, back)
	}
	if err != nil {
		return &UntrustedError{What: "what step " + s.ID + " would put back", Err: err}
	}
	return nil
}

// judgeStopped is judgeBackup for a component whose manifest is not there.
func (x restoreManifest) judgeStopped(p *v1.Plan, s v1.Step, back []byte) error {
	if err := plan.AllowedBackup(s, back); err != nil {
		return err
	}
	seen := ""
	for _, h := range beforeHosts(x.Live) {
		for _, c := range h.Components {
			if c.Name == s.Component && c.Image != "" && (seen == "" || h.Name == s.Host) {
				seen = c.Image
			}
		}
	}
	if seen == "" {
		return nil // it runs nowhere, and refusing would leave the loops without an owner
	}
	return plan.AllowedImage(p, s, seen, back)
}

// edited are the bytes from before a step, as the edits change them.
func (x restoreManifest) edited(ctx context.Context, s v1.Step) ([]byte, fs.FileMode, error) {
	data, mode, sum, err := x.backedUp(ctx, s.Restore, s.Host)
	if err != nil || sum == absent {
		return nil, 0, err
	}
	out, err := x.changed(s, data)
	return out, mode, err
}

// ours refuses to overwrite or remove what somebody else wrote after this migration did.
func (e *Engine) ours(s v1.Step, now []byte) error {
	if now == nil {
		return nil // a step of this migration took it away
	}
	sum := hostaccess.SHA256(now)
	doc := e.journal.Doc()
	for _, rec := range doc.Records {
		if rec.AfterSHA256 == sum || rec.BackupSHA256 == sum {
			return nil
		}
	}
	before := "delete it"
	if backup := e.journal.Record(s.Restore).Backup; backup != "" {
		before = "restore the file from " + backup
	}
	return &StaleError{Changed: []string{fmt.Sprintf("%s on host %s was changed by somebody else after this migration wrote it (SHA-256 %s): "+
		"put your change aside, %s, then run transplant rollback again", s.Path, s.Host, sum, before)}}
}

// removeManifest takes a static pod off a host.
type removeManifest struct{ *Engine }

func (x removeManifest) done(ctx context.Context, s v1.Step) (bool, error) {
	_, sum, err := x.read(ctx, s.Host, s.Path)
	if err != nil || sum != absent {
		return false, err
	}
	h, err := x.host(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, s.Component)
	return len(procs) == 0, err
}

func (x removeManifest) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	return x.replace(ctx, s, rec, func([]byte) ([]byte, fs.FileMode, error) { return nil, 0, nil })
}

// unbound tells that the owner is to be bound for a step whose manifest is as given: it is tried for the first time, or the manifest is there and not what a
// try has written. Its process may run then and own the loops, whatever the record says. Else what is owed is in the record.
func unbound(rec v1.StepRecord, sum string) bool {
	if rec.AfterSHA256 == "" || len(rec.Handovers) == 0 && sum != absent && sum == rec.BackupSHA256 {
		return true
	}
	return sum != absent && (sum != rec.AfterSHA256 || !released(rec))
}

// replace changes a manifest: it backs it up, hands over what its process owns, and writes (or removes, when next gives no bytes).
//
// An owner is stopped first, and comes back as a standby once somebody else has its leases: were its manifest edited in place, the new process
// could win them back, and the API server beside it would go on having an owner that depends on it.
func (e *Engine) replace(ctx context.Context, s v1.Step, rec *v1.StepRecord, next func(now []byte) ([]byte, fs.FileMode, error)) error {
	f, sum, err := e.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if sum == absent && rec.Backup != "" { // a crash after the owner was stopped
		if f.Data, f.Mode, _, err = e.kept(ctx, s, *rec); err != nil {
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
	if unbound(*rec, sum) {
		if err := e.bindOwners(ctx, s, rec); err != nil {
			return err
		}
	}
	if err := e.backup(ctx, s, rec); err != nil {
		return err
	}
	if data == nil || len(rec.Handovers) > 0 {
		if err := e.stop(ctx, s, rec, data); err != nil {
			return err
		}
	}
	if err := e.release(ctx, s, rec); err != nil {
		return err
	}
	if data == nil {
		return nil
	}
	e.awaitTakeover(ctx, s, *rec)
	return e.write(ctx, s, rec, data, mode)
}

// stop takes the manifest away, unless what comes next is there already; the record that says so is saved first.
func (e *Engine) stop(ctx context.Context, s v1.Step, rec *v1.StepRecord, next []byte) error {
	_, sum, err := e.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	rec.AfterSHA256 = absent
	if next != nil {
		rec.AfterSHA256 = hostaccess.SHA256(next)
	}
	if err := e.journal.Save(ctx, *rec); err != nil {
		return err
	}
	e.Hook("during", s.ID)
	if sum == absent || sum == rec.AfterSHA256 && released(*rec) {
		return nil
	}
	h, err := e.host(s.Host)
	if err != nil {
		return err
	}
	return h.Remove(ctx, s.Path)
}

// released tells that nothing is owed for the handovers of a step.
func released(rec v1.StepRecord) bool {
	for _, r := range rec.Handovers {
		if r.Released == nil && r.Note == "" {
			return false
		}
	}
	return true
}
