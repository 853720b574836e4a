package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// WaitPeriod is how often check --wait looks again; a look at 500 nodes takes a few seconds.
var WaitPeriod = 5 * time.Second

// ErrStillBlocked is returned with the last report when what was waited for did not come.
var ErrStillBlocked = fmt.Errorf("the cluster is still blocked: %w", step.ErrTimedOut)

// WaitForCheck looks again until nothing blocks, until something blocks that does not pass by itself, or until the time
// is over. It tells what it waits for whenever that changes. Without a limit it looks once.
func (c *Client) WaitForCheck(
	ctx context.Context,
	limit time.Duration,
	strict bool,
	look func(context.Context) (v1.CheckReport, error),
) (v1.CheckReport, error) {
	deadline, last := time.Now().Add(limit), ""
	for {
		report, err := look(ctx)
		if err != nil || limit <= 0 {
			return report, err
		}
		waiting, hopeless := blockers(report, strict)
		if len(waiting) == 0 || len(hopeless) > 0 {
			return report, nil
		}
		if text := strings.Join(waiting, "; "); text != last {
			c.Narrate("waiting for %s", text)
			last = text
		}
		left := time.Until(deadline)
		if left <= 0 {
			return report, ErrStillBlocked
		}
		select {
		case <-ctx.Done():
			return report, fmt.Errorf("waiting for %s: %w", last, ctx.Err())
		case <-time.After(min(WaitPeriod, left)):
		}
	}
}

// blockers are the findings that block and may pass by themselves, and those that will not.
func blockers(r v1.CheckReport, strict bool) (waiting, hopeless []string) {
	retryable := map[string]bool{}
	for _, k := range check.List() {
		retryable[k.Code] = k.Retryable
	}
	for _, f := range BlockingFindings(r, strict) {
		if retryable[f.Code] {
			waiting = append(waiting, f.Code+" ("+f.Summary+")")
		} else {
			hopeless = append(hopeless, f.Code)
		}
	}
	slices.Sort(waiting)
	return waiting, hopeless
}

// WaitBriefly waits for a while, or until ctx ends.
func WaitBriefly(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// TickPeriod is how often the facts are judged again even if nothing changed. A terminal shows ages, and a lock that is
// not renewed is no change of an object.
const TickPeriod = time.Second

// HeartbeatPeriod is how long nothing is said of what is waited for, where no terminal shows it all the time.
const HeartbeatPeriod = 30 * time.Second

// CollectPeriod is for how long changes are collected before they are shown: one step of the engine writes several
// objects.
const CollectPeriod = 300 * time.Millisecond
