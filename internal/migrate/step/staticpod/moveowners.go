package staticpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/takeover"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
)

// MoveOwners makes the managers of a host standbys before its API server is restarted. Leadership may have moved there
// since the plan was made. A manager whose API server is gone would lose its leases without having drained anything.
func MoveOwners(ctx context.Context, e *step.Env, s v1.Step) error {
	if s.Component != component.KAS {
		return nil
	}
	for _, program := range []string{component.KCM, component.CCM} {
		sub := v1.Step{ID: trust.MovingID(s, program), Phase: s.Phase, Host: s.Host, Component: program,
			Leases: []string{program, e.Plan.Options.LeaseName}, Successors: []string{component.KCM, component.CCM}}
		rec := e.Journal.Record(sub.ID)
		path, owns, err := depends(ctx, e, s, program)
		if err != nil {
			return fmt.Errorf("looking who depends on the API server of host %s: %w", s.Host, err)
		}
		switch {
		case owns: // whatever the record says of an earlier try: it leads now
			rec = v1.StepRecord{
				ID:      sub.ID,
				Started: e.Clock.Now().UTC(),
				Result:  v1.StepResultStarted,
				Path:    path,
			}
		case rec.Result != v1.StepResultStarted:
			continue
		case path != "" && path != rec.Path:
			return &trust.UntrustedError{What: "the record of step " + sub.ID, Err: fmt.Errorf(
				"%s on host %s is started from %s, and not from %s", program, s.Host, path, rec.Path)}
		}
		sub.Path = rec.Path
		e.Report(
			s,
			step.EventProgress,
			fmt.Sprintf(
				"%s on %s leads and depends on the API server that is about to be restarted: it hands over first",
				program,
				s.Host,
			),
		)
		if err := move(ctx, e, sub, rec); err != nil {
			return err
		}
	}
	return nil
}

func move(ctx context.Context, e *step.Env, sub v1.Step, rec v1.StepRecord) error {
	asked, err := trust.MovingStep(sub)
	if err != nil {
		return &trust.UntrustedError{What: "step " + sub.ID, Err: err}
	}
	if err := e.CheckAllowed(asked); err != nil {
		return err
	}
	why := "its manifest is not there"
	back := func(ctx context.Context) (bool, error) {
		f, sum, err := e.ReadFile(ctx, sub.Host, sub.Path)
		if err != nil || sum == step.Absent {
			return false, err
		}
		done, err := IsRunning(ctx, e, sub, f.Data)
		var pending step.PendingError
		if errors.As(err, &pending) || err != nil && retry.IsTransient(err) {
			why, err = err.Error(), nil // worth waiting for
		}
		return done, err
	}
	if asked.Kind != v1.StepStartUnit {
		err = replaceManifest(
			ctx,
			e,
			sub,
			&rec,
			func(now []byte) ([]byte, fs.FileMode, error) {
				return now, 0, isManifestOf("the record of step "+sub.ID, sub, now)
			},
		)
	} else { // a unit is stopped and started; its files stay
		sub = asked
		x, unknown := e.ExecutorOf(sub)
		if unknown != nil {
			return unknown
		}
		back = func(ctx context.Context) (bool, error) {
			done, err := x.Done(ctx, sub)
			if pending := step.PendingError(""); errors.As(err, &pending) {
				why, err = err.Error(), nil
			}
			return done, err
		}
		err = x.Do(ctx, sub, &rec)
	}
	if err != nil {
		return err
	}
	if err := e.CommitChanges(ctx, sub.Host); err != nil {
		return err
	}
	more := step.Explanation{Since: e.Clock.Now()}
	reason := func() string {
		explain := func(since time.Time) string { return Explain(ctx, e, sub, since) }
		return fmt.Sprintf(
			"%s on host %s is not back as a standby: %s",
			sub.Component,
			sub.Host,
			cmp.Or(more.Of(e, explain), why),
		)
	}
	err = e.WaitFor(ctx, sub, step.TimeoutOf(sub), step.SettleInterval, reason, back)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.VerifyError{Waited: step.TimeoutOf(sub), Reason: reason()}
	} else if err != nil {
		return err
	}
	now := e.Clock.Now().UTC()
	rec.Ended, rec.Result = &now, v1.StepResultDone
	return e.Journal.Save(ctx, rec)
}

// isManifestOf returns an error if a file is no manifest of the step's component. The step, or the record that names
// the file, is in the journal, which others may write. They could end etcd in the manager's name.
func isManifestOf(what string, s v1.Step, data []byte) error {
	m, err := controlplane.Parse(data)
	if err != nil {
		return fmt.Errorf("%s on host %s, from which %s is started: %w", s.Path, s.Host, s.Component, err)
	}
	if err := isOf(s, m); err != nil {
		return &trust.UntrustedError{What: what, Err: err}
	}
	return nil
}

// isOf returns an error if a manifest starts another component than the step's.
func isOf(s v1.Step, m *controlplane.Manifest) error {
	if m.Component() == s.Component {
		return nil
	}
	return fmt.Errorf("%s on host %s starts %s, not %s", s.Path, s.Host, m.Component(), s.Component)
}

// depends waits until it is known whether a component leads anything on a host. A manager that has just been started,
// as after a reboot of its host, cannot authorize requests yet. One that does not run leads nothing.
func depends(ctx context.Context, e *step.Env, s v1.Step, component string) (path string, owns bool, err error) {
	h, err := e.Host(s.Host)
	if err != nil {
		return "", false, err
	}
	var last error
	err = e.WaitFor(
		ctx,
		s,
		takeover.BindTimeout,
		step.SettleInterval,
		func() string {
			return fmt.Sprintf("whether %s on host %s leads is not known: %v", component, s.Host, last)
		},
		func(ctx context.Context) (bool, error) {
			if path, owns, last = manager.LeadsOn(ctx, e, s.Host, component); last == nil {
				return true, nil
			}
			procs, err := h.Processes(ctx, component)
			return err == nil && len(procs) == 0, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return "", false, last
	}
	return path, owns, err
}
