// Package step is what every kind of step shares. That is its environment, the files and backups of hosts, waiting, and
// the errors that end a step.
package step

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// BackUp keeps the bytes that a step is about to change in a directory of its own. It is outside the manifests
// directory, where a copy would be a second pod. The record names it before the change is made.
func (e *Env) BackUp(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	sum, _, err := e.DigestFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if rec.BackupSHA256 != "" && !isUnkept(s, *rec, sum) {
		return e.backupAgain(ctx, s, *rec, sum) // kept by an earlier try; the file may have been changed since
	}
	if sum == Absent {
		rec.BackupSHA256 = Absent
		return nil
	}
	// It is read here, too: what is too large to be read could not be put back.
	f, sum, err := e.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	rec.BackupSHA256 = sum
	if sum == Absent {
		return nil
	}
	rec.Backup = trust.BackupDir(e.Journal.Doc().Run) + "/" + trust.BackupName(s.ID)
	rec.BackupMode = fmt.Sprintf("%04o", f.Mode.Perm())
	return e.KeepBackup(ctx, s, *rec, f.Data)
}

// isUnkept reports whether what stands there now has no backup by its record, and would be lost. The record may name
// none, or the file may have come after a try that found none and did not write it. A step that only edits a file never
// found none, whatever its record says. Tokens are renewed in their place, and no copy of one is kept.
func isUnkept(s v1.Step, rec v1.StepRecord, sum string) bool {
	if rec.BackupSHA256 != Absent {
		return rec.Backup == "" && sum == rec.BackupSHA256
	}
	return sum != Absent && (sum != rec.AfterSHA256 || needsExistingFile(s)) && !planstep.IsToken(s)
}

// needsExistingFile reports whether a step fails where the file that it changes is not there.
func needsExistingFile(s v1.Step) bool {
	return s.Derive == layout.DeriveCredentialConfig ||
		slices.Contains([]v1.StepKind{v1.StepEditManifest, v1.StepKubelet, v1.StepEditUnit, v1.StepStopUnit}, s.Kind)
}

// KeepBackup makes the backup that a record names, on the machine itself where the access can do that.
func (e *Env) KeepBackup(ctx context.Context, s v1.Step, rec v1.StepRecord, data []byte) error {
	if err := trust.JudgeRecord(e.Journal.Doc().Run, rec); err != nil {
		return &trust.UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	h, err := e.Host(s.Host)
	if err != nil {
		return err
	}
	if b, ok := h.(hostaccess.Backer); ok {
		err = b.Backup(ctx, s.Path, rec.Backup, rec.BackupSHA256)
	} else {
		err = h.WriteFile(ctx, rec.Backup, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("backing %s up on host %s: %w", s.Path, s.Host, err)
	}
	return nil
}

// backupAgain makes a backup that a record names and that is missing, as long as the file is unchanged. A manual access
// may have died between the record and the change. Of a file that is changed the backup has to be there. A record that
// another writer put into the journal would have the file replaced without one.
func (e *Env) backupAgain(ctx context.Context, s v1.Step, rec v1.StepRecord, sum string) error {
	if rec.BackupSHA256 == Absent {
		return nil
	}
	if err := trust.JudgeRecord(e.Journal.Doc().Run, rec); err != nil {
		return &trust.UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	if rec.Backup != "" {
		if have, _, err := e.DigestFile(ctx, s.Host, rec.Backup); err != nil || have == rec.BackupSHA256 {
			return err
		}
	}
	if sum != rec.BackupSHA256 {
		return &trust.UntrustedError{What: "the record of step " + s.ID, Err: fmt.Errorf(
			"it says that %s was kept with SHA-256 %s, and host %s has neither that file nor that backup (%q)",
			s.Path, rec.BackupSHA256, s.Host, rec.Backup,
		)}
	}
	f, sum, err := e.ReadFile(ctx, s.Host, s.Path)
	if err == nil && sum != rec.BackupSHA256 {
		err = Pending("%s on host %s was changed while it was backed up", s.Path, s.Host)
	}
	if err != nil {
		return err
	}
	return e.KeepBackup(ctx, s, rec, f.Data)
}

// ReadBackupOf returns the bytes from before a step, checked against the journal; absent when the file was not there.
func (e *Env) ReadBackupOf(
	ctx context.Context,
	step string,
	host string,
) (data []byte, mode fs.FileMode, sum string, err error) {
	rec := e.Journal.Record(step)
	switch {
	case rec.BackupSHA256 == "":
		return nil, 0, "", fmt.Errorf("step %s changed nothing that could be restored", step)
	case rec.BackupSHA256 == Absent:
		return nil, 0, Absent, nil
	}
	return e.ReadBackup(ctx, v1.Step{ID: step, Host: host}, rec)
}

// ReadBackup reads the backup that a record names.
func (e *Env) ReadBackup(
	ctx context.Context,
	s v1.Step,
	rec v1.StepRecord,
) (data []byte, mode fs.FileMode, sum string, err error) {
	if err := trust.JudgeRecord(e.Journal.Doc().Run, rec); err != nil {
		return nil, 0, "", &trust.UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	h, err := e.Host(s.Host)
	if err != nil {
		return nil, 0, "", err
	}
	f, err := h.ReadFile(ctx, rec.Backup)
	if err != nil {
		return nil, 0, "", fmt.Errorf("reading the backup from before step %s: %w", s.ID, err)
	}
	if sum := hostaccess.SHA256(f.Data); sum != rec.BackupSHA256 {
		return nil, 0, "", fmt.Errorf(
			"backup %s on host %s was changed after it was made before step %s (it has SHA-256 %s, the journal says %s); "+
				"nothing was restored; find out who changed it; then put the right content into it (a backup of the machine "+
				"has it), or restore the file of the step by hand; then run the same command again",
			rec.Backup,
			s.Host,
			s.ID,
			sum,
			rec.BackupSHA256,
		)
	}
	m, err := trust.BackupMode(rec.BackupMode)
	if err != nil {
		return nil, 0, "", fmt.Errorf("the backup from before step %s: %w", s.ID, err)
	}
	return f.Data, m, rec.BackupSHA256, nil
}
