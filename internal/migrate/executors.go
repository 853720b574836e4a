package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan"
)

// executor carries out one kind of step.
type executor interface {
	// done looks at the live cluster, whether the step's change is there and shows. It changes nothing.
	done(ctx context.Context, s v1.Step) (bool, error)
	// do makes the change. It is repeated after a crash, with the record that was saved; it saves the record before it changes anything.
	do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error
}

// executors is the one list of what steps can do.
var executors = map[v1.StepKind]func(*Engine) executor{
	v1.StepEnsureObject:    func(e *Engine) executor { return ensureObject{e} },
	v1.StepDeleteObject:    func(e *Engine) executor { return deleteObject{e} },
	v1.StepPatchObject:     func(e *Engine) executor { return patchObject{e} },
	v1.StepUnpatchObject:   func(e *Engine) executor { return unpatchObject{e} },
	v1.StepWriteFile:       func(e *Engine) executor { return writeFile{e} },
	v1.StepCopyFile:        func(e *Engine) executor { return copyFile{e} },
	v1.StepRemoveFile:      func(e *Engine) executor { return removeFile{e} },
	v1.StepEditManifest:    func(e *Engine) executor { return editManifest{e} },
	v1.StepAddManifest:     func(e *Engine) executor { return addManifest{e} },
	v1.StepRemoveManifest:  func(e *Engine) executor { return removeManifest{e} },
	v1.StepRestoreManifest: func(e *Engine) executor { return restoreManifest{e} },
	v1.StepEditUnit:        func(e *Engine) executor { return unit{e} },
	v1.StepStopUnit:        func(e *Engine) executor { return unit{e} },
	v1.StepStartUnit:       func(e *Engine) executor { return unit{e} },
	v1.StepScale:           func(e *Engine) executor { return workload{e} },
	v1.StepEditWorkload:    func(e *Engine) executor { return workload{e} },
	v1.StepKubelet:         func(e *Engine) executor { return kubelet{e} },
	v1.StepInitializeNode:  func(e *Engine) executor { return initializeNode{e} },
	v1.StepAwait:           func(e *Engine) executor { return await{e} },
	v1.StepVerify:          func(e *Engine) executor { return verify{e} },
}

func (e *Engine) executor(s v1.Step) (executor, error) {
	x, ok := executors[s.Kind]
	if !ok {
		return nil, fmt.Errorf("step %s is of kind %q, which this version of transplant does not know", s.ID, s.Kind)
	}
	if what := plan.WritesMask(s); what != "" {
		return nil, fmt.Errorf("step %s would write %s where a secret was: make the plan again with transplant plan", s.ID, what)
	}
	return x(e), nil
}

func (e *Engine) host(name string) (hostaccess.Host, error) {
	h, ok := e.hosts[name]
	if !ok {
		return nil, &hostaccess.UnreachableError{Host: name, Err: errors.New("it is in the plan and not in --host-access: name it there")}
	}
	return h, nil
}

// read returns the file of a step, and "absent" as its hash when it is not there.
func (e *Engine) read(ctx context.Context, host, path string) (hostaccess.File, string, error) {
	h, err := e.host(host)
	if err != nil {
		return hostaccess.File{}, "", err
	}
	f, err := h.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return hostaccess.File{}, absent, nil
	} else if err != nil {
		return hostaccess.File{}, "", err
	}
	return f, hostaccess.SHA256(f.Data), nil
}

const absent = "absent"

// backup keeps the bytes that a step is about to change in a directory of its own, outside the manifests directory, where a copy would be a
// second pod. The record names it before the change is made.
func (e *Engine) backup(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if rec.BackupSHA256 != "" {
		return e.backupAgain(ctx, s, *rec) // kept by an earlier try; the file may have been changed since
	}
	f, sum, err := e.read(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	rec.BackupSHA256 = sum
	if sum == absent {
		return nil
	}
	rec.Backup = backupDir(e.journal.Doc().Run) + "/" + slug(s.ID)
	rec.BackupMode = fmt.Sprintf("%04o", f.Mode.Perm())
	return e.keep(ctx, s, *rec, f.Data)
}

// keep makes the backup that a record names, on the machine itself where the access can do that.
func (e *Engine) keep(ctx context.Context, s v1.Step, rec v1.StepRecord, data []byte) error {
	if err := judgeRecord(e.journal.Doc().Run, rec); err != nil {
		return &UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	h, err := e.host(s.Host)
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

// backupAgain makes a backup that a record names and that is not there, as long as the file still is what was to be kept: an access whose changes people
// make may have died between the record and the change.
func (e *Engine) backupAgain(ctx context.Context, s v1.Step, rec v1.StepRecord) error {
	if rec.Backup == "" {
		return nil
	}
	f, sum, err := e.read(ctx, s.Host, s.Path)
	if err != nil || sum != rec.BackupSHA256 {
		return err
	}
	if _, have, err := e.read(ctx, s.Host, rec.Backup); err != nil || have == sum {
		return err
	}
	return e.keep(ctx, s, rec, f.Data)
}

// slug makes a file name of a step's ID; the hash keeps two IDs apart that differ in a slash only.
func slug(id string) string {
	out := []byte(id)
	for i, c := range out {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c == '-', c == '.':
		default:
			out[i] = '_'
		}
	}
	return string(out) + "-" + hostaccess.SHA256([]byte(id))[:8]
}

// backedUp returns the bytes from before a step, checked against the journal; absent when the file was not there.
func (e *Engine) backedUp(ctx context.Context, step string, host string) (data []byte, mode fs.FileMode, sum string, err error) {
	rec := e.journal.Record(step)
	switch {
	case rec.BackupSHA256 == "":
		return nil, 0, "", fmt.Errorf("step %s changed nothing that could be restored", step)
	case rec.BackupSHA256 == absent:
		return nil, 0, absent, nil
	}
	return e.kept(ctx, v1.Step{ID: step, Host: host}, rec)
}

// restored tells whether a file is as it was before the step that is undone; one that was begun and changed nothing left it so.
func (e *Engine) restored(ctx context.Context, s v1.Step) (hostaccess.File, bool, error) {
	before := e.journal.Record(s.Restore).BackupSHA256
	f, sum, err := e.read(ctx, s.Host, s.Path)
	return f, err == nil && (before == "" || sum == before), err
}

// kept reads the backup that a record names.
func (e *Engine) kept(ctx context.Context, s v1.Step, rec v1.StepRecord) (data []byte, mode fs.FileMode, sum string, err error) {
	if err := judgeRecord(e.journal.Doc().Run, rec); err != nil {
		return nil, 0, "", &UntrustedError{What: "the record of step " + s.ID, Err: err}
	}
	h, err := e.host(s.Host)
	if err != nil {
		return nil, 0, "", err
	}
	f, err := h.ReadFile(ctx, rec.Backup)
	if err != nil {
		return nil, 0, "", fmt.Errorf("reading the backup from before step %s: %w", s.ID, err)
	}
	if sum := hostaccess.SHA256(f.Data); sum != rec.BackupSHA256 {
		return nil, 0, "", fmt.Errorf("backup %s on host %s was changed (it has SHA-256 %s, the journal says %s): nothing was restored", rec.Backup, s.Host, sum, rec.BackupSHA256)
	}
	m, err := backupMode(rec.BackupMode)
	if err != nil {
		return nil, 0, "", fmt.Errorf("the backup from before step %s: %w", s.ID, err)
	}
	return f.Data, m, rec.BackupSHA256, nil
}

func fileMode(s v1.Step) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s.Mode, 8, 32)
	if err != nil {
		return 0, fmt.Errorf("mode %q: %w", s.Mode, err)
	}
	return fs.FileMode(mode), nil
}

// isWider reports whether a file gives a right that a mode does not give: a credential that all may read is written again. One
// that somebody has closed further is left as it is.
func isWider(f hostaccess.File, mode fs.FileMode) bool { return f.Mode.Perm()&^mode.Perm() != 0 }

// write puts bytes on a host, after the record that says so was saved.
func (e *Engine) write(ctx context.Context, s v1.Step, rec *v1.StepRecord, data []byte, mode fs.FileMode) error {
	h, err := e.host(s.Host)
	if err != nil {
		return err
	}
	rec.AfterSHA256 = hostaccess.SHA256(data)
	if err := e.journal.Save(ctx, *rec); err != nil {
		return err
	}
	e.Hook("during", s.ID)
	if f, sum, err := e.read(ctx, s.Host, s.Path); err == nil && sum == rec.AfterSHA256 && !isWider(f, mode) {
		return nil
	}
	return h.WriteFile(ctx, s.Path, data, mode)
}
