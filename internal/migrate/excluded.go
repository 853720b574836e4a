package migrate

import (
	"context"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// skipExcluded writes down that a step is not to be done any longer. What an earlier try of it has done is kept in its
// record.
func (e *Engine) skipExcluded(ctx context.Context, s v1.Step, h v1.HostOut) error {
	rec := e.env.Journal.Record(s.ID)
	if rec.IsEnded() {
		return nil
	}
	now := e.env.Clock.Now().UTC()
	if rec.Result == "" {
		rec = v1.StepRecord{ID: s.ID, Started: now}
	}
	why := fmt.Sprintf("host %s was excluded from the migration by %s at %s", h.Name, h.By, h.At.Format(time.RFC3339))
	rec.Result, rec.Ended = v1.StepResultSkipped, &now
	rec.Notes = append(rec.Notes, why)
	if err := e.env.Journal.Save(ctx, rec); err != nil {
		return err
	}
	e.env.Report(s, step.EventSkipped, why)
	return nil
}
