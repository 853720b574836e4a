package unit

import (
	"context"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
)

// apply applies a step's edits to the files of its unit and returns those that change. A flag that is new goes into
// the step's own file, of which there is a backup.
func (x Unit) apply(ctx context.Context, s v1.Step) (map[string][]byte, error) {
	u, err := x.readUnit(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := x.Env.CheckAllowedOn(s, u.Command()); err != nil {
		return nil, err
	}
	return systemdunit.ApplyUnitIn(u, s.Path, s.Edits)
}

// flags are those that the files of a unit say it runs with.
func (x Unit) flags(ctx context.Context, s v1.Step) (map[string]string, error) {
	u, err := x.readUnit(ctx, s)
	if err != nil {
		return nil, err
	}
	return u.Flags(), nil
}

func (x Unit) readUnit(ctx context.Context, s v1.Step) (*systemdunit.Unit, error) {
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return nil, err
	}
	return systemdunit.ReadUnit(hostaccess.Reading(ctx, h), s.Unit)
}

// checkContent returns why the file of a step must not be written. Its edits are none of a migration, or its backup is
// not what this migration found there. A record says which backup is meant, and the record is in a ConfigMap.
func (x Unit) checkContent(ctx context.Context, s v1.Step) error {
	want, now, err := x.Content(ctx, s)
	if trust.IsUntrusted(err) {
		return err
	}
	if err != nil || s.Restore == "" || len(s.Edits) > 0 || string(want) == string(now) || x.Env.Unjudged {
		return nil //nolint:nilerr // what cannot be read is an error where it is written
	}
	if err := x.Env.CheckUnchanged(s, step.SumOf(now)); err != nil {
		return err
	}
	if err := x.checkBackup(ctx, s, want); err != nil {
		return &trust.UntrustedError{What: "what step " + s.ID + " would put back", Err: err}
	}
	return nil
}

func (x Unit) checkBackup(ctx context.Context, s v1.Step, back []byte) error {
	h, err := x.Env.Host(s.Host)
	if err != nil {
		return err
	}
	there := hostaccess.Reading(ctx, h)
	p := x.Env.Journal.Doc().Plan
	var files [2]allowed.FlagFile
	for i, of := range []systemdunit.Files{there, replaced{there, s.Path, back}} {
		if files[i], err = flagFile(&p, s, of); err != nil {
			return err
		}
	}
	return allowed.CheckFlagFile(&p, s, files[0], files[1])
}

func flagFile(p *v1.Plan, s v1.Step, files systemdunit.Files) (allowed.FlagFile, error) {
	u, err := systemdunit.ReadUnit(files, s.Unit)
	if err != nil {
		return allowed.FlagFile{}, err
	}
	changed, err := systemdunit.ApplyUnitIn(u, s.Path, allowed.Blank(p, s))
	if err != nil {
		return allowed.FlagFile{}, fmt.Errorf("unit %s on host %s: %w", s.Unit, s.Host, err)
	}
	out := allowed.FlagFile{Without: u.Data(s.Path), Flags: u.Flags()}
	if data, is := changed[s.Path]; is {
		out.Without = data
	}
	out.Flags[flagvalue.FlagFeatureGates] = flagvalue.MergeGates(u.Command(), out.Flags[flagvalue.FlagFeatureGates])
	return out, nil
}

// replaced are the files of a host with other bytes in one of them.
type replaced struct {
	systemdunit.Files
	path string
	data []byte
}

func (r replaced) Read(path string) ([]byte, error) {
	if path == r.path {
		return r.data, nil
	}
	return r.Files.Read(path)
}
