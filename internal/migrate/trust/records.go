package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// judgeRecords holds the records of a journal to its plans. What a record names on a host is written, restored or
// removed there, and the record is in a ConfigMap like the plan.
func judgeRecords(doc v1.Journal, live *v1.Snapshot) error {
	steps, err := JournaledSteps(doc)
	if err != nil {
		return &UntrustedError{What: "the journal of migration " + doc.Run, Err: err}
	}
	for _, r := range doc.Records {
		err := JudgeRecord(doc.Run, r)
		if err == nil {
			err = errors.Join(judgeRecordOf(doc, steps, r), JudgeHandovers(doc, steps, r, live))
		}
		if err != nil {
			return &UntrustedError{What: "the record of step " + r.ID, Err: err}
		}
	}
	if doc.Rollback == nil {
		return nil
	}
	for _, s := range doc.Rollback.Steps {
		if err := judgeRestore(steps, s); err != nil {
			return &UntrustedError{What: "step " + s.ID + " of the rollback in the journal of migration " + doc.Run, Err: err}
		}
	}
	return nil
}

// JournaledSteps are the steps of both plans of a journal. One that both have could be another one for each who looks
// it up.
func JournaledSteps(doc v1.Journal) (map[string]v1.Step, error) {
	out := map[string]v1.Step{}
	for _, s := range doc.Plan.Steps {
		out[s.ID] = s
	}
	for _, s := range journal.RollbackSteps(doc) {
		if _, twice := out[s.ID]; twice {
			return nil, fmt.Errorf("its plan and its rollback both have step %s", s.ID)
		}
		out[s.ID] = s
	}
	return out, nil
}

// Files are the files of a record: that of its step, at path, and those next to it.
func Files(path string, r v1.StepRecord) []v1.FileRecord {
	own := v1.FileRecord{
		Path:         path,
		Backup:       r.Backup,
		BackupSHA256: r.BackupSHA256,
		BackupMode:   r.BackupMode,
		AfterSHA256:  r.AfterSHA256,
	}
	return append([]v1.FileRecord{own}, r.Files...)
}

// JudgeRecord checks the backups of a record. They must be in the directory of its run, where only root writes, and
// have a sum and plain modes.
func JudgeRecord(run string, r v1.StepRecord) error {
	for _, f := range Files("", r) {
		if f.Backup != "" && !isBackup(run, f.Backup) {
			return fmt.Errorf("backup %s is not in %s", f.Backup, BackupDir(run))
		}
		if f.Backup != "" && !isSHA256(f.BackupSHA256) {
			return fmt.Errorf(
				"it names backup %s without a SHA-256, which every version of transplant has written; "+
					"compare the backup with the file in its place, and put it back by hand if it is the one you want",
				f.Backup,
			)
		}
		if _, err := BackupMode(f.BackupMode); err != nil && f.BackupMode != "" {
			return err
		}
	}
	return nil
}

func isSHA256(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// BackupMode reads the mode that a file had: permissions alone, never those that let a program act as its owner. A file
// that all may write is put back as one that they may not.
func BackupMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > uint64(fs.ModePerm) {
		return 0, fmt.Errorf("mode %q of a backup is not that of a file with permissions alone", text)
	}
	return fs.FileMode(mode) &^ 0o002, nil
}

// credentialsOnHosts are files that only root may read, however they were before.
var credentialsOnHosts = []string{layout.CCMCloudConf, layout.CCMKubeconfig, layout.CCMToken}

// RestoredMode returns the mode with which a file is put back. A record says which mode the file had, or a planted one:
// credentials are for root alone with either.
func RestoredMode(at string, mode fs.FileMode) fs.FileMode {
	if slices.Contains(credentialsOnHosts, at) {
		return mode & 0o600
	}
	return mode
}

// judgeRecordOf holds what a record names to the step that it is of: no other file, and no other step's backup.
func judgeRecordOf(doc v1.Journal, steps map[string]v1.Step, r v1.StepRecord) error {
	if r.Backup != "" && r.Backup != BackupDir(doc.Run)+"/"+BackupName(r.ID) {
		return fmt.Errorf("backup %s is not that of this step", r.Backup)
	}
	s, known := steps[r.ID]
	for _, f := range r.Files {
		switch {
		case !known || !slices.Contains(s.Files, f.Path):
			return fmt.Errorf("file %s is none of this step", f.Path)
		case f.Backup != "" && f.Backup != BackupDir(doc.Run)+"/"+BackupName(r.ID+":"+f.Path):
			return fmt.Errorf("backup %s is not that of %s in this step", f.Backup, f.Path)
		}
	}
	if known {
		if err := judgeAdded(doc.Plan, s, r); err != nil {
			return err
		}
	}
	if isMoving := strings.Contains(r.ID, MovingInfix); r.Path != "" && (known || !isMoving) {
		return fmt.Errorf("path %s belongs to no record of a step: the step says which file it is about", r.Path)
	}
	return nil
}

// judgeAdded holds the record of a step that adds to a file of another owner to what the plan found there. By a record
// that says that there was none, a rollback would remove a file that the kubelet needs.
func judgeAdded(p v1.Plan, s v1.Step, r v1.StepRecord) error {
	if s.Derive != layout.DeriveCredentialConfig || r.BackupSHA256 == "" {
		return nil
	}
	id := planstep.FileFact(s.Host, s.Path)
	if slices.ContainsFunc(p.Facts, func(f v1.Fact) bool { return f.ID == id && f.Value == r.BackupSHA256 }) {
		return nil
	}
	return fmt.Errorf(
		"it says that %s had SHA-256 %s before, which is not what the plan found on host %s",
		s.Path, r.BackupSHA256, s.Host,
	)
}

// judgeRestore ties a step that reverts another one to what that one changed. Otherwise the backup of one host or file
// could overwrite another one.
func judgeRestore(steps map[string]v1.Step, s v1.Step) error {
	if s.Restore == "" {
		return nil
	}
	there, known := steps[s.Restore]
	if id, component, moving := strings.Cut(s.Restore, MovingInfix); !known && moving {
		there, known = steps[id]
		there.Component, there.Path = component, s.Path
	}
	if !known {
		return fmt.Errorf("it takes back step %s, which the plan does not have", s.Restore)
	}
	for _, field := range []struct{ name, back, there string }{
		{"host", s.Host, there.Host}, {"path", s.Path, there.Path}, {"object", s.Ref, there.Ref}, {
			"component", s.Component, there.Component,
		}, {"unit", s.Unit, there.Unit},
	} {
		if field.back != "" && field.there != "" && field.back != field.there {
			return fmt.Errorf(
				"it takes back step %s, and its %s is %s instead of %s",
				s.Restore,
				field.name,
				field.back,
				field.there,
			)
		}
	}
	return nil
}
