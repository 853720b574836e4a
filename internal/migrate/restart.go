package migrate

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// waitForRestart waits for a step that an earlier run has done. Its file is still as it left it, but the component does
// not run, as on a host that is just being booted. Doing it once more would write the same bytes, and before that
// remove the managers of an API server that is not about to restart. It is false for a step that has to be done.
func (e *Engine) waitForRestart(ctx context.Context, s v1.Step, x step.Executor, rec v1.StepRecord) (bool, error) {
	switch s.Kind {
	case v1.StepEditManifest, v1.StepAddManifest, v1.StepRestoreManifest:
	default:
		return false, nil
	}
	if rec.Result != v1.StepResultDone || rec.AfterSHA256 == "" || rec.AfterSHA256 == step.Absent {
		return false, nil
	}
	if _, sum, err := e.env.ReadFile(ctx, s.Host, s.Path); err != nil || sum != rec.AfterSHA256 {
		return false, err
	}
	reason := fmt.Sprintf("%s on host %s does not run as its manifest says", s.Component, s.Host)
	more := step.Explanation{Since: e.env.Clock.Now()}
	err := e.env.WaitFor(
		ctx,
		s,
		step.TimeoutOf(s),
		step.SettleInterval,
		func() string { return reason },
		func(ctx context.Context) (bool, error) {
			done, err := x.Done(ctx, s)
			if err != nil {
				reason = e.explain(ctx, s, &more, err.Error())
			}
			return done, nil
		},
	)
	if errors.Is(err, step.ErrTimedOut) {
		return false, &step.VerifyError{Waited: step.TimeoutOf(s), Reason: reason}
	}
	return err == nil, err
}
