// Package file executes the steps that write, copy and remove files on hosts.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// CopyFile puts a file of this machine on a host, byte for byte.
type CopyFile struct{ Env *step.Env }

// Done reports whether the file on the host is the one that was to be copied.
func (x CopyFile) Done(ctx context.Context, s v1.Step) (bool, error) {
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return false, err
	}
	sum, mode, err := hostaccess.Digest(ctx, h, s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, step.Pending("%s is not on host %s", s.Path, s.Host)
	} else if err != nil {
		return false, err
	}
	want, err := step.FileMode(s)
	switch {
	case err != nil:
		return false, err
	case sum != s.Content:
		return false, step.Pending("%s on host %s has SHA-256 %s, not %s", s.Path, s.Host, sum, s.Content)
	case mode.Perm() != want:
		return false, step.Pending("%s on host %s has mode %04o, not %04o", s.Path, s.Host, mode.Perm(), want)
	}
	return true, nil
}

// isProgram reports whether Linux starts a file: not a kubeconfig, for one.
func isProgram(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x7fELF")) || bytes.HasPrefix(data, []byte("#!"))
}

// Do copies the file to the host.
func (x CopyFile) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	mode, err := step.FileMode(s)
	if err != nil {
		return err
	}
	data, err := x.Env.ReadLocal(s.Source)
	if err != nil {
		return fmt.Errorf("reading %s, which goes to %s on host %s: %w", s.Source, s.Path, s.Host, err)
	}
	if sum := hostaccess.SHA256(data); sum != s.Content {
		// Its own sum is not said: the name may be from a planted journal, and what is said is kept in it.
		return step.NewStale("%s on this machine is not the file with SHA-256 %s that the plan was made with", s.Source, s.Content)
	}
	if !isProgram(data) && !x.Env.Unjudged {
		return &trust.UntrustedError{
			What: "step " + s.ID,
			Err: fmt.Errorf(
				"%s is no program (it begins as neither a binary nor a script): only the image credential provider is copied to a host",
				s.Source,
			),
		}
	}
	if err := x.Env.BackUp(ctx, s, rec); err != nil {
		return err
	}
	rec.AfterSHA256 = s.Content
	if err := x.Env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Env.Hook("during", s.ID)
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, s.Path, data, mode) // also where only the mode differs
}
