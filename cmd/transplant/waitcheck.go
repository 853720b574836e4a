package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
)

// waitPeriod is how often check --wait looks again; a look at 500 nodes takes a few seconds.
var waitPeriod = 5 * time.Second

// errWaitedInVain is returned with the last report when what was waited for did not come.
var errWaitedInVain = errors.New("waited in vain")

// waitFor looks again until nothing blocks, until something blocks that does not pass by itself, or until the time is over. It tells what it waits
// for whenever that changes. Without a limit it looks once.
func (c *connection) waitFor(ctx context.Context, limit time.Duration, strict bool, look func(context.Context) (v1.CheckReport, error)) (v1.CheckReport, error) {
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
			c.narrate("waiting for %s", text)
			last = text
		}
		left := time.Until(deadline)
		if left <= 0 {
			return report, errWaitedInVain
		}
		select {
		case <-ctx.Done():
			return report, fmt.Errorf("waiting for %s: %w", last, ctx.Err())
		case <-time.After(min(waitPeriod, left)):
		}
	}
}

// blockers are the findings that block and may pass by themselves, and those that will not.
func blockers(r v1.CheckReport, strict bool) (waiting, hopeless []string) {
	retryable := map[string]bool{}
	for _, k := range check.List() {
		retryable[k.Code] = k.Retryable
	}
	for _, f := range blockingFindings(r, strict) {
		if retryable[f.Code] {
			waiting = append(waiting, f.Code+" ("+f.Summary+")")
		} else {
			hopeless = append(hopeless, f.Code)
		}
	}
	slices.Sort(waiting)
	return waiting, hopeless
}

// blockingFindings are the findings that keep apply from starting; with strict, warnings that check --strict does not let pass are among them.
func blockingFindings(r v1.CheckReport, strict bool) []v1.Finding {
	var out []v1.Finding
	for _, f := range r.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown || strict && check.BlocksStrictly(f)) && f.Accepted == "" {
			out = append(out, f)
		}
	}
	return out
}
