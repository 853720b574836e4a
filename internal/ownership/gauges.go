package ownership

import (
	"context"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// scrapeTarget scrapes one manager until ctx ends.
func (r *Recorder) scrapeTarget(ctx context.Context, t Target) {
	src := &source{r: r}
	defer src.flush()
	wake := r.heat.wake(t)
	for ctx.Err() == nil {
		if !r.heat.isAbsent(t) {
			r.scrapeOnce(ctx, src, t)
		}
		interval := r.opts.SlowInterval
		if r.heat.isHot(t, r.opts.Clock.Now()) {
			interval = r.opts.Interval
		}
		r.wait(ctx, interval, wake)
	}
}

func (r *Recorder) scrapeOnce(ctx context.Context, src *source, t Target) {
	asking, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	began := r.now()
	m, err := r.opts.Scrape(asking, t)
	e := v1.OwnershipEvent{Time: r.now(), Began: &began, Source: v1.SourceScrape, Component: t.Component, Host: t.Host}
	if ctx.Err() != nil {
		return // the recording ended in the middle of a look: it says nothing
	}
	if err != nil {
		r.heat.failed(t)
		src.fail(e, err)
		return
	}
	r.heat.answered(t, m)
	e.Loops, e.Leads, e.ProcessStarted = m.Loops, m.Leads, m.ProcessStarted
	state := strings.Join(m.Loops, ",") + ";" + strings.Join(m.Leads, ",")
	if m.ProcessStarted != nil {
		state += ";" + m.ProcessStarted.Round(time.Second).String() // it jitters: see startTolerance
	}
	src.ok(e, state)
}

// now is the time as it is written down.
func (r *Recorder) now() time.Time { return r.opts.Clock.Now().UTC().Round(0) }
