package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// WaitPeriod is how soon check --wait looks again where objects of the API alone say what blocks.
var WaitPeriod = 2 * time.Second

const (
	// slowPeriods is how many periods that takes where hosts, managers or the cloud have to be asked.
	slowPeriods = 3
	// mostDoubled is up to how many times the first interval it grows while nothing changes.
	mostDoubled = 8
	// waitReminder is after how long without a change it is said again what is waited for.
	waitReminder = 30 * time.Second
)

// ErrStillBlocked is returned with the last report when what was waited for did not come.
var ErrStillBlocked = fmt.Errorf("the cluster is still blocked: %w", step.ErrTimedOut)

// WaitForCheck looks again until nothing blocks, until something blocks that does not pass by itself, or until the time
// is over. It says what it waits for whenever that changes. Without a limit it looks once.
func (c *Client) WaitForCheck(
	ctx context.Context,
	limit time.Duration,
	strict bool,
	look func(context.Context) (v1.CheckReport, error),
) (v1.CheckReport, error) {
	deadline := time.Now().Add(limit)
	var p pace
	for {
		began := time.Now()
		report, err := look(ctx)
		if err != nil || limit <= 0 {
			return report, err
		}
		found := blockers(report, strict)
		if len(found.waiting) == 0 || found.isHopeless {
			return report, nil
		}
		pause, isDue := p.next(found, began, time.Now())
		left := time.Until(deadline)
		if isDue {
			c.Narrate("waiting for %s (%s left)", p.reasons, max(0, left).Round(time.Second))
		}
		if left <= 0 {
			return report, ErrStillBlocked
		}
		select {
		case <-ctx.Done():
			return report, fmt.Errorf("waiting for %s: %w", p.reasons, ctx.Err())
		case <-time.After(min(pause, left)):
		}
	}
}

// pace says when to look again.
type pace struct {
	reasons  string
	interval time.Duration
	said     time.Time
}

// next takes in what a look found. It returns for how long to wait before the next one, and whether it is time to say
// what is waited for. The next look comes no sooner than the last one took: a large cluster is not asked all the time.
func (p *pace) next(found blocking, began, ended time.Time) (wait time.Duration, isDue bool) {
	first := WaitPeriod
	if found.isSlow {
		first *= slowPeriods
	}
	if text := strings.Join(found.waiting, "; "); text != p.reasons {
		p.reasons, p.interval, isDue = text, first, true
	} else {
		p.interval, isDue = min(2*p.interval, mostDoubled*first), ended.Sub(p.said) >= waitReminder
	}
	if isDue {
		p.said = ended
	}
	return max(p.interval, ended.Sub(began)), isDue
}

// blocking is what a look found in the way.
type blocking struct {
	// waiting are the findings that may pass by themselves.
	waiting []string
	// isSlow reports whether one of them asks more than objects of the API.
	isSlow bool
	// isHopeless reports whether there is one that does not pass by itself.
	isHopeless bool
}

// blockers sorts out what blocks, on whatever kind of cluster.
func blockers(r v1.CheckReport, strict bool) blocking {
	checks := map[string]rule.Check{}
	for _, k := range check.All() {
		checks[k.Code] = k
	}
	var out blocking
	for _, f := range BlockingFindings(r, strict) {
		k := checks[f.Code]
		if !k.Retryable {
			out.isHopeless = true
			continue
		}
		out.waiting = append(out.waiting, f.Code+" ("+f.Summary+")")
		out.isSlow = out.isSlow || k.AsksBeyondAPI()
	}
	slices.Sort(out.waiting)
	return out
}

// TickPeriod is how often the facts are judged again even if nothing changed. A terminal shows ages, and a lock that is
// not renewed is no change of an object.
const TickPeriod = time.Second

// HeartbeatPeriod is how often a line says what a command still waits for, where no terminal shows it all the time.
const HeartbeatPeriod = 30 * time.Second

// CollectPeriod is for how long changes are collected before they are shown: one step of the engine writes several
// objects.
const CollectPeriod = 300 * time.Millisecond
