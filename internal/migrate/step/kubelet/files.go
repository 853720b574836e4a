package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// fileChange is one file of a kubelet as it is and as a step wants it.
type fileChange struct {
	path      string
	now, Want []byte
	mode      fs.FileMode
}

func (f fileChange) isUnchanged() bool { return string(f.now) == string(f.Want) }

// Contents are the files of a step, the step's own first. A file that cannot be edited is an error before any of them
// is written.
func (x Kubelet) Contents(ctx context.Context, s v1.Step) ([]fileChange, error) {
	if s.Restore != "" {
		return x.kept(ctx, s, x.Env.Journal.Record(s.Restore))
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return nil, err
	}
	now := hostaccess.Reading(ctx, h)
	if err := x.allowedOnKubelet(ctx, s, now); err != nil {
		return nil, err
	}
	var out []fileChange
	paths, edits := planstep.EditsByFile(s)
	for _, at := range paths {
		f, sum, err := x.Env.ReadFile(ctx, s.Host, at)
		if err != nil {
			return nil, err
		}
		if sum == step.Absent {
			return nil, fmt.Errorf("%s on host %s is gone", at, s.Host)
		}
		used, err := kubeletfile.KubeletVariables(now, at)
		if err != nil {
			return nil, fmt.Errorf("looking which variables of %s become flags of the kubelet on host %s: %w", at, s.Host, err)
		}
		want, err := kubeletfile.ApplyKubeletFile(f.Data, edits[at], used...)
		if err != nil {
			return nil, fmt.Errorf("%s on host %s: %w", at, s.Host, err)
		}
		out = append(out, fileChange{
			path: at,
			now:  f.Data,
			Want: want,
			mode: f.Mode.Perm(),
		})
	}
	keeps, err := kubeletfile.KubeletKeeps(overlaid{now, out}, s.Edits)
	if err != nil {
		return nil, fmt.Errorf("looking with what the kubelet on host %s would be started: %w", s.Host, err)
	}
	if keeps != "" {
		return nil, fmt.Errorf(
			"the kubelet on host %s would still be started %s: its unit takes that from a place that cannot be edited safely, as --flag=${NAME}; write the flag out in ExecStart= there, and plan again",
			s.Host,
			keeps,
		)
	}
	return out, nil
}

// allowedOnKubelet is allowedOn for a kubelet, by the command of its unit; where there is no unit, by the flags of each
// file.
func (x Kubelet) allowedOnKubelet(ctx context.Context, s v1.Step, files systemdunit.Files) error {
	if x.Env.Unjudged {
		return nil
	}
	u, err := systemdunit.ReadUnit(files, component.Kubelet)
	if err == nil {
		flags := commandline.FlagsOf(u.Command()) // a plan begins with the last of several --feature-gates
		if allowed.CheckFlags(x.Env.Plan, s, flags) == nil {
			return nil
		}
		return x.Env.CheckAllowedOn(s, u.Command())
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking with what the kubelet on host %s is started: %w", s.Host, err)
	}
	paths, edits := planstep.EditsByFile(s)
	for _, at := range paths {
		f, _, err := x.Env.ReadFile(ctx, s.Host, at)
		if err != nil {
			return err
		}
		flags, err := kubeletfile.ParseKubeletFlags(f.Data)
		if err != nil {
			continue // a configuration file: its gates are judged with the plan
		}
		one := s
		one.Edits = edits[at]
		if err := allowed.CheckFlags(x.Env.Plan, one, flags); err != nil {
			return &trust.UntrustedError{What: "step " + s.ID, Err: err}
		}
	}
	return nil
}

// overlaid are the files of a host as a step wants them.
type overlaid struct {
	systemdunit.Files
	files []fileChange
}

func (o overlaid) Read(path string) ([]byte, error) {
	for _, f := range o.files {
		if f.path == path {
			return f.Want, nil
		}
	}
	return o.Files.Read(path)
}

// kept are the files as a record says that they were before its step. One that the step did not come to is left as it
// is.
func (x Kubelet) kept(ctx context.Context, s v1.Step, rec v1.StepRecord) ([]fileChange, error) {
	var out []fileChange
	for _, r := range trust.Files(s.Path, rec) {
		f, sum, err := x.Env.ReadFile(ctx, s.Host, r.Path)
		if err != nil {
			return nil, err
		}
		c := fileChange{
			path: r.Path,
			now:  f.Data,
			Want: f.Data,
			mode: f.Mode.Perm(),
		}
		if r.BackupSHA256 != "" && r.BackupSHA256 != sum {
			id := cmp.Or(s.Restore, s.ID)
			c.Want, c.mode, _, err = x.Env.ReadBackup(
				ctx,
				v1.Step{ID: id, Host: s.Host},
				v1.StepRecord{Backup: r.Backup, BackupSHA256: r.BackupSHA256, BackupMode: r.BackupMode},
			)
			if err != nil {
				return nil, err
			}
			if !x.hasWritten(sum) {
				c, err = x.repaired(ctx, s, c, r.Backup)
			} else {
				err = x.judgeBackup(ctx, s, c)
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// judgeBackup returns why a file must not be put back: it differs from what is there in more than the plan changes. A
// record says which backup is meant, and the record is in a ConfigMap.
func (x Kubelet) judgeBackup(ctx context.Context, s v1.Step, c fileChange) error {
	if x.Env.Unjudged || c.now == nil {
		return nil
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	used, err := kubeletfile.KubeletVariables(hostaccess.Reading(ctx, h), c.path)
	if err != nil {
		return fmt.Errorf("looking which variables of %s become flags of the kubelet on host %s: %w", c.path, s.Host, err)
	}
	p, of := x.Env.Journal.Doc().Plan, s
	of.Path, of.Files = c.path, nil
	var files [2]allowed.FlagFile
	for i, data := range [][]byte{c.now, c.Want} {
		without, err := kubeletfile.ApplyKubeletFile(data, allowed.Blank(&p, of), used...)
		if err != nil {
			return &trust.UntrustedError{What: "what step " + s.ID + " would put back in " + c.path, Err: err}
		}
		files[i].Without = without
		files[i].Flags, _ = kubeletfile.ParseKubeletFlags(data) // a configuration file has none
	}
	if err := allowed.CheckFlagFile(&p, of, files[0], files[1]); err != nil {
		return &trust.UntrustedError{What: "what step " + s.ID + " would put back", Err: err}
	}
	return nil
}

// hasWritten reports whether a step of the way there wrote, or found, a file of this content. What the rollback found
// may be an administrator's.
func (x Kubelet) hasWritten(sum string) bool {
	for _, there := range x.Env.Journal.Doc().Plan.Steps {
		rec := x.Env.Journal.Record(there.ID)
		if rec.AfterSHA256 == sum || rec.BackupSHA256 == sum ||
			slices.ContainsFunc(rec.Files, func(f v1.FileRecord) bool { return f.AfterSHA256 == sum || f.BackupSHA256 == sum }) {
			return true
		}
	}
	return false
}

// repaired is about a file that was changed after this migration wrote it. It is never overwritten: the change may have
// repaired a kubelet that did not start. One in which the flags of the step are as they were before it needs nothing.
func (x Kubelet) repaired(ctx context.Context, s v1.Step, c fileChange, backup string) (fileChange, error) {
	asItWas, err := x.flagsAsBefore(ctx, s, c)
	if err != nil {
		return c, err
	}
	if asItWas {
		c.Want = c.now
		return c, nil
	}
	return c, step.NewStale(
		"%s on host %s was changed outside this migration after the migration wrote it; nothing was overwritten; see what with diff %s %s there; put the flags of the step "+
			"back in it by hand (or all of it, with cp); then run the same command again",
		c.path,
		s.Host,
		backup,
		c.path,
	)
}

// flagsAsBefore reports whether undoing the edits of a step would change nothing in a file as it is. What cannot be
// told so is not.
func (x Kubelet) flagsAsBefore(ctx context.Context, s v1.Step, c fileChange) (bool, error) {
	had, err := kubeletfile.ParseKubeletFlags(c.Want)
	if err != nil {
		return false, nil //nolint:nilerr // what cannot be read cannot be compared
	}
	there, known := s, true
	if s.Restore != "" {
		there, known = x.Env.StepByID(s.Restore)
	}
	if !known {
		return false, nil
	}
	_, edits := planstep.EditsByFile(there)
	var back []v1.Edit
	for _, e := range edits[c.path] {
		if e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
			return false, nil
		}
		back = append(back, undone(e, had))
	}
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return false, err
	}
	used, err := kubeletfile.KubeletVariables(hostaccess.Reading(ctx, h), c.path)
	if err != nil {
		return false, fmt.Errorf(
			"looking which variables of %s become flags of the kubelet on host %s: %w",
			c.path,
			s.Host,
			err,
		)
	}
	out, err := kubeletfile.ApplyKubeletFile(c.now, back, used...)
	return err == nil && string(out) == string(c.now), nil //nolint:nilerr // see above
}

// backUpAll keeps every file of a step, each under a name of its own. The record names them before one is changed.
func (x Kubelet) backUpAll(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if s.Restore == "" && rec.AfterSHA256 == "" {
		if err := x.stillKept(ctx, s, *rec); err != nil {
			return err
		}
	}
	if err := x.Env.BackUp(ctx, s, rec); err != nil {
		return err
	}
	for _, at := range s.Files {
		one, part := s, v1.StepRecord{}
		one.ID, one.Path = s.ID+":"+at, at
		i := slices.IndexFunc(rec.Files, func(r v1.FileRecord) bool { return r.Path == at })
		if i < 0 {
			i, rec.Files = len(rec.Files), append(rec.Files, v1.FileRecord{Path: at})
		}
		f := &rec.Files[i]
		part.Backup, part.BackupSHA256, part.BackupMode = f.Backup, f.BackupSHA256, f.BackupMode
		part.AfterSHA256 = f.AfterSHA256
		if err := x.Env.BackUp(ctx, one, &part); err != nil {
			return err
		}
		f.Backup, f.BackupSHA256, f.BackupMode = part.Backup, part.BackupSHA256, part.BackupMode
	}
	return nil
}

// stillKept refuses to continue with the backups of a try that changed nothing when a file was changed since. To put
// them back later would revert that change. What an earlier try of this migration wrote is no such change.
func (x Kubelet) stillKept(ctx context.Context, s v1.Step, rec v1.StepRecord) error {
	for _, r := range trust.Files(s.Path, rec) {
		if r.BackupSHA256 == "" {
			continue
		}
		if _, sum, err := x.Env.ReadFile(ctx, s.Host, r.Path); err != nil {
			return err
		} else if sum != r.BackupSHA256 && !x.hasWritten(sum) {
			return step.NewStale(
				"%s on host %s was changed outside this migration since the first try of step %s: go back with transplant rollback, and plan again",
				r.Path,
				s.Host,
				s.ID,
			)
		}
	}
	return nil
}

// writeAll puts the files on the host, after the record that says so was saved. When one cannot be written the kubelet
// still runs with what it had, and those that were written are put back.
func (x Kubelet) writeAll(ctx context.Context, s v1.Step, rec *v1.StepRecord, files []fileChange) error {
	for _, f := range files {
		sum := hostaccess.SHA256(f.Want)
		if f.path == s.Path {
			rec.AfterSHA256 = sum
		}
		for i := range rec.Files {
			if rec.Files[i].Path == f.path {
				rec.Files[i].AfterSHA256 = sum
			}
		}
	}
	if rec.AfterSHA256 == "" { // the step's own file needs no edit
		rec.AfterSHA256 = rec.BackupSHA256
	}
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	for i, f := range files {
		if f.isUnchanged() {
			continue
		}
		if err := h.WriteFile(ctx, f.path, f.Want, f.mode); err != nil {
			for _, g := range files[:i] {
				if !g.isUnchanged() {
					err = errors.Join(err, h.WriteFile(context.WithoutCancel(ctx), g.path, g.now, g.mode))
				}
			}
			return err
		}
	}
	return nil
}
