package migrate

import (
	"context"
	"errors"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// batchOf takes the steps that are done side by side with the first one of a group from the front of the rest. Steps
// behind the plan's last one are left.
func batchOf(group, rest []v1.Step, until string) (batch, left []v1.Step) {
	batch, left = group, rest
	if len(group) != 1 || group[0].Batch == "" {
		return batch, left
	}
	for len(left) > 0 && left[0].Batch == group[0].Batch && batch[len(batch)-1].ID != until {
		batch, left = append(batch[:len(batch):len(batch)], left[0]), left[1:]
	}
	return batch, left
}

// runParallel is what Run does with a batch. As with one step, it is not started when the user asked to stop, and waits
// while the run is paused.
func (e *Engine) runParallel(ctx context.Context, batch []v1.Step, stop <-chan struct{}) error {
	select {
	case <-stop:
		return step.ErrInterrupted
	default:
	}
	if err := e.waitWhilePaused(ctx, batch[0], stop); err != nil {
		return err
	}
	return e.runBatch(ctx, batch)
}

// runBatch executes the steps of a batch side by side. When one fails, those that have not changed anything yet are
// left as they are, and those that have are finished. Each has its own record, and every error is reported.
func (e *Engine) runBatch(ctx context.Context, batch []v1.Step) error {
	e.env.NodeBudget.Begin()
	errs := make([]error, len(batch))
	var wg sync.WaitGroup
	for i, s := range batch {
		wg.Go(func() {
			err := e.runStep(ctx, s)
			if err != nil {
				e.env.NodeBudget.Fail()
			}
			if err != nil && !step.IsInterrupted(err) {
				err = &step.StepError{Step: s, Err: err}
			}
			errs[i] = err
		})
	}
	wg.Wait()
	var failed []error
	stopped := false
	for i, err := range errs {
		switch {
		case errors.Is(err, step.ErrNotBegun):
			e.env.Report(batch[i], step.EventDeferred, "left as it is, because another step of its batch went wrong")
		case step.IsInterrupted(err):
			stopped = true
		case err != nil:
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 && stopped {
		return step.ErrInterrupted
	}
	return errors.Join(failed...)
}
