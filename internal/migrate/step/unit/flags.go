package unit

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// apply carries a step's edits out on the files of its unit and returns those that change. A flag that is new goes into
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
