package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/status"
)

// Levels of an entry.
const (
	info    = "info"
	warning = "warning"
	failure = "error"
)

// Results of a step's record.
const (
	resultStarted = "started"
	resultAlready = "already-done"
	resultSkipped = "skipped"
)

// Input is what a timeline is made from.
type Input struct {
	// Facts are what the API shows.
	Facts status.Facts
	// Ownership is the log of who ran which loop, where this machine has it.
	Ownership []v1.OwnershipEvent
	// Probes is the log of what probes saw, where this machine has it.
	Probes []v1.ProbeEvent
	// Since leaves out what had ended before it; zero for everything.
	Since time.Time
}

// Build makes the timeline. The same input gives the same timeline.
func Build(in Input) v1.Timeline {
	out := v1.Timeline{
		TypeMeta: v1.Type(v1.KindTimeline),
		Cluster:  in.Facts.Cluster,
		NotRead:  mask.Texts(in.Facts.NotRead),
		Entries:  []v1.TimelineEntry{},
	}
	b := builder{now: in.Facts.Now}
	doc := in.Facts.Journal
	if doc != nil {
		out.Untrusted = mask.Text(status.UntrustedWords(in.Facts.Untrusted))
		out.Run, out.Phase, out.Started = doc.Run, doc.Phase, doc.Started.UTC()
		b.run(doc)
		b.steps(doc)
		b.pauses(doc)
		b.stops(in.Facts)
	} else if in.Facts.JournalUnknown {
		out.Phase = v1.StateUnknown
	}
	b.leases(in)
	b.events(in.Facts)
	b.probes(in.Probes)
	for _, e := range b.entries {
		if !in.Since.IsZero() && e.end.Before(in.Since) {
			continue
		}
		e.Message = mask.Text(e.Message) // an event, or who asked for a pause, may repeat what its author was given
		e.Time = e.Time.UTC().Truncate(time.Millisecond)
		if !out.Started.IsZero() {
			e.OffsetSeconds = round(e.Time.Sub(out.Started))
		}
		out.Entries = append(out.Entries, e.TimelineEntry)
	}
	slices.SortFunc(out.Entries, func(a, b v1.TimelineEntry) int {
		return cmp.Or(
			a.Time.Compare(b.Time),
			cmp.Compare(sourceRank(a.Source), sourceRank(b.Source)),
			strings.Compare(a.Object, b.Object),
			strings.Compare(a.Message, b.Message),
		)
	})
	return out
}

// sources in the order in which entries of one moment are shown: a step begins before what it causes.
var sources = []string{
	v1.TimelineRun,
	v1.TimelineStep,
	v1.TimelineHandover,
	v1.TimelinePause,
	v1.TimelineLease,
	v1.TimelineEvent,
	v1.TimelineProbe,
}

func sourceRank(source string) int { return slices.Index(sources, source) }

// round gives seconds to the millisecond.
func round(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

type entry struct {
	v1.TimelineEntry
	end time.Time
}

type builder struct {
	now     time.Time
	entries []entry
}

// addMoment adds something without a duration.
func (b *builder) addMoment(t time.Time, source, level, object, message string) {
	b.entries = append(
		b.entries,
		entry{v1.TimelineEntry{
			Time:    t,
			Source:  source,
			Level:   level,
			Object:  object,
			Message: message,
		}, t},
	)
}

// during adds something that lasted; to is nil while it goes on.
func (b *builder) during(from time.Time, to *time.Time, source, level, object, message string) {
	e := entry{v1.TimelineEntry{
		Time:    from,
		Source:  source,
		Level:   level,
		Object:  object,
		Message: message,
	}, b.now}
	if to != nil {
		seconds := round(max(0, to.Sub(from)))
		e.DurationSeconds, e.end = &seconds, *to
	}
	b.entries = append(b.entries, e)
}

func (b *builder) run(doc *v1.Journal) {
	b.addMoment(
		doc.Started,
		v1.TimelineRun,
		info,
		"",
		fmt.Sprintf(
			"migration %s was begun by %s: %d steps, strategy %s",
			doc.Run,
			cmp.Or(doc.User, "an unknown user"),
			len(doc.Plan.Steps),
			doc.Plan.Strategy,
		),
	)
	if doc.Ended != nil {
		b.addMoment(
			*doc.Ended,
			v1.TimelineRun,
			info,
			"",
			fmt.Sprintf("migration %s is %s", doc.Run, strings.ReplaceAll(doc.Phase, "-", " ")),
		)
	}
}

// steps adds the journal's records; a step that was there already is one that took no time.
func (b *builder) steps(doc *v1.Journal) {
	titles := map[string]string{}
	steps := doc.Plan.Steps
	if doc.Rollback != nil {
		steps = slices.Concat(steps, doc.Rollback.Steps)
	}
	for _, s := range steps {
		titles[s.ID] = nameOf(s)
	}
	running := doc.IsUnderWay()
	for _, r := range doc.Records {
		title := cmp.Or(titles[r.ID], nameOf(v1.Step{ID: r.ID}))
		level := info
		switch {
		case r.Result == resultAlready:
			title += " (was so already)"
		case r.Result == resultSkipped:
			title += " (skipped)"
			level = warning
		case r.Error != "":
			title += ": " + r.Error
			level = failure
		case r.Result == resultStarted && running:
			title += " (begun, not finished)"
		}
		b.during(r.Started, r.Ended, v1.TimelineStep, level, r.ID, title)
		for _, h := range r.Handovers {
			b.handover(h)
		}
	}
}

// nameOf names a step by its ID, as status does. Titles are in no digest: who may write the journal chooses them. No ID
// of a plan has several words, so that one which does is shown by what the step is about, or in quotes.
func nameOf(s v1.Step) string {
	if len(strings.Fields(s.ID)) == 1 {
		return s.ID
	}
	return cmp.Or(planstep.Words(s), strconv.Quote(s.ID))
}

func (b *builder) handover(h v1.HandoverRecord) {
	who := fmt.Sprintf("%s on %s (pid %d)", h.Component, h.Host, h.PID)
	if h.PID == 0 {
		who = h.Component + " in pod " + h.Host
	}
	switch {
	case h.Released != nil && h.Ended != nil:
		message := fmt.Sprintf("%s had ended: its lease %s was released", who, h.Lease)
		if h.NextHolder != "" {
			message += ", and taken by " + h.NextHolder
		}
		b.during(*h.Ended, h.Released, v1.TimelineHandover, info, h.Lease, message)
	case h.Ended != nil:
		b.addMoment(
			*h.Ended,
			v1.TimelineHandover,
			warning,
			h.Lease,
			fmt.Sprintf("%s had ended; its lease %s was left alone: %s", who, h.Lease, cmp.Or(h.Note, "no reason was given")),
		)
	}
}

func (b *builder) pauses(doc *v1.Journal) {
	for _, p := range doc.Pauses {
		message := "paused by " + p.By
		if p.Reason != "" {
			message += ": " + p.Reason
		}
		if p.Before != "" {
			message += "; before step " + p.Before
		}
		b.during(p.From, p.To, v1.TimelinePause, info, p.Before, message)
	}
}

// stops adds the times during which no command executed the run, and the one that lasts.
func (b *builder) stops(f status.Facts) {
	for _, s := range f.Journal.Stops {
		message := "no command executed the run"
		if s.By != "" {
			message += ", until " + s.By + " went on with it"
		}
		b.during(s.From, &s.To, v1.TimelineRun, info, "", message)
	}
	if f.Journal.IsUnderWay() && f.Lock == nil && !f.LockUnknown {
		b.during(f.Journal.LastSign(), nil, v1.TimelineRun, warning, "", "no command executes the run")
	}
}
