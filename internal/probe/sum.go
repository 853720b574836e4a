package probe

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/jsonlines"
)

// logName is what errors call a disruption log.
const logName = "the disruption log"

// ReadLog reads a disruption log. A last line that was cut off, as by a crash while it was written, is left out. Any
// other line that cannot be read is an error that names it.
func ReadLog(r io.Reader) ([]v1.ProbeEvent, error) {
	return jsonlines.Read(r, logName, func(e v1.ProbeEvent) error {
		if e.Time.IsZero() || e.Event == "" {
			return errors.New("it has no time or no event")
		}
		return nil
	})
}

// OpenLog opens a disruption log for appending, as a prober's sink. Only its owner can read one that it makes.
func OpenLog(path string) (*jsonlines.File[v1.ProbeEvent], error) {
	return jsonlines.Open[v1.ProbeEvent](path, logName)
}

// Kinds in the order in which they are reported.
var Kinds = []string{v1.PathAPIRead, v1.PathAPIWatch, v1.PathEndpoints, v1.PathTCP, v1.PathTCPKept, v1.PathHTTP}

// Sum sums a disruption log up; nil when it is empty. The order of the lines is the order of time, whatever the clock
// said.
func Sum(events []v1.ProbeEvent) *v1.Disruption {
	if len(events) == 0 {
		return nil
	}
	s := &summer{paths: map[key]*summed{}, skipped: map[key]string{}, lostKinds: map[string][]v1.Unobserved{}}
	s.out.TypeMeta = v1.Type(v1.KindDisruption)
	s.out.From = events[0].Time
	for _, e := range events {
		s.addEvent(e)
		if e.Event == v1.ProbeBegin || e.Time.After(s.last) {
			s.last = e.Time // that a new connection stands is known a while after it was opened
		}
		if e.Time.After(s.out.To) {
			s.out.To = e.Time
		}
	}
	s.closeRun()
	s.finish()
	return &s.out
}

// summer takes the lines of a log one after the other.
type summer struct {
	out       v1.Disruption
	paths     map[key]*summed
	skipped   map[key]string
	lostKinds map[string][]v1.Unobserved
	// last is the time of the line before; ended reports whether it ended a run in order.
	last  time.Time
	begun bool
	ended bool
	// unordered are the times between two runs of which the first did not end in order.
	unordered []v1.Unobserved
}

// summed is a path so far.
type summed struct {
	v1.PathDisruption
	open *v1.Outage
	// began is when the first failed look of the open outage ended. Only then was the path surely out, as the look may
	// have begun before it was.
	began time.Time
	// looks and reconnects of the run that goes on; those of earlier ones are in PathDisruption.
	looks, reconnects int
}

func (s *summer) addEvent(e v1.ProbeEvent) {
	k := key{e.Kind, e.Path}
	switch e.Event {
	case v1.ProbeBegin:
		s.beginRun(e)
	case v1.ProbePath:
		p := s.path(k)
		p.Gone, p.IntervalSeconds = false, e.IntervalSeconds
		delete(s.skipped, k)
	case v1.ProbeSkipped:
		if s.paths[k] == nil {
			s.skipped[k] = e.Error
		}
	case v1.ProbeDown:
		p := s.path(k)
		p.open = &v1.Outage{Begin: timeOr(e.Since, e.Time), Error: e.Error}
		p.began = e.Time
	case v1.ProbeUp:
		s.path(k).close(e.Time, timeOr(e.Since, e.Time), false)
	case v1.ProbeLost:
		s.lose(k, e)
	case v1.ProbeGone:
		p := s.path(k)
		p.open, p.Gone = nil, true
	case v1.ProbeIdle:
		s.path(k).revoke(timeOr(e.Since, e.Time))
	case v1.ProbeAlive, v1.ProbeEnd:
		s.count(e)
		s.ended = e.Event == v1.ProbeEnd
	}
}

func timeOr(t *time.Time, other time.Time) time.Time {
	if t == nil {
		return other
	}
	return *t
}

func (s *summer) path(k key) *summed {
	p := s.paths[k]
	if p == nil {
		p = &summed{PathDisruption: v1.PathDisruption{Kind: k.kind, Path: k.path}}
		s.paths[k] = p
	}
	return p
}

// beginRun takes the begin of a run: what was before is settled, and the time since then was not observed.
func (s *summer) beginRun(e v1.ProbeEvent) {
	if s.begun {
		s.closeRun()
		u := v1.Unobserved{
			From:    s.last,
			To:      e.Time,
			Seconds: round(max(0, e.Time.Sub(s.last))),
			Why:     e.Error,
		}
		switch {
		case u.Why != "":
			s.unordered = append(s.unordered, u)
		case s.ended:
			u.Why = "between two runs of the probes"
		default:
			u.Why = "the run of the probes before did not end in order"
			s.unordered = append(s.unordered, u)
		}
		s.out.Unobserved = append(s.out.Unobserved, u)
	}
	s.begun, s.ended = true, false
	s.out.IntervalSeconds, s.out.BudgetSeconds = e.IntervalSeconds, e.BudgetSeconds
}

// closeRun ends what was under way with the last line.
func (s *summer) closeRun() {
	for _, p := range s.paths {
		p.close(s.last, s.last, true)
		p.Looks, p.Reconnects = p.Looks+p.looks, p.Reconnects+p.reconnects
		p.looks, p.reconnects = 0, 0
	}
}

// close ends the open outage, if there is one.
func (p *summed) close(end, failed time.Time, open bool) {
	o := p.open
	if o == nil {
		return
	}
	p.open = nil
	o.End, o.Open = end, open
	o.Seconds, o.LeastSeconds = round(max(0, end.Sub(o.Begin))), round(max(0, failed.Sub(p.began)))
	p.Outages = append(p.Outages, *o)
	p.LongestSeconds = max(p.LongestSeconds, o.Seconds)
	p.TotalSeconds = round(time.Duration((p.TotalSeconds + o.Seconds) * float64(time.Second)))
}

// revoke removes the outage that began at a moment.
func (p *summed) revoke(began time.Time) {
	p.Outages = slices.DeleteFunc(p.Outages, func(o v1.Outage) bool { return o.Begin.Equal(began) })
	p.LongestSeconds, p.TotalSeconds = 0, 0
	for _, o := range p.Outages {
		p.LongestSeconds = max(p.LongestSeconds, o.Seconds)
		p.TotalSeconds = round(time.Duration((p.TotalSeconds + o.Seconds) * float64(time.Second)))
	}
}

// lose notes that a path, or all of a kind, was not looked at. A line that goes on where the one before was is the same
// time.
func (s *summer) lose(k key, e v1.ProbeEvent) {
	u := v1.Unobserved{From: timeOr(e.Since, e.Time), To: e.Time, Why: e.Error}
	list := s.lostKinds[k.kind]
	if k.path != "" {
		list = s.path(k).Unobserved
	}
	if n := len(list); n > 0 && list[n-1].From.Equal(u.From) {
		list = list[:n-1]
	}
	u.Seconds = round(max(0, u.To.Sub(u.From)))
	list = append(list, u)
	if k.path != "" {
		s.path(k).Unobserved = list
	} else {
		s.lostKinds[k.kind] = list
	}
}

func (s *summer) count(e v1.ProbeEvent) {
	for k, p := range s.paths {
		if n, ok := e.Looks[k.String()]; ok {
			p.looks = n
		}
		if n, ok := e.Reconnects[k.String()]; ok {
			p.reconnects = n
		}
		p.SlowestSeconds = max(p.SlowestSeconds, e.SlowestSeconds[k.String()])
	}
}

// finish sorts, and judges by the budget.
func (s *summer) finish() {
	s.out.Paths = []v1.PathDisruption{}
	for k, p := range s.paths {
		p.Unobserved = append(slices.Clone(s.lostKinds[k.kind]), p.Unobserved...)
		s.out.Paths = append(s.out.Paths, p.PathDisruption)
	}
	slices.SortFunc(s.out.Paths, func(a, b v1.PathDisruption) int {
		if d := slices.Index(Kinds, a.Kind) - slices.Index(Kinds, b.Kind); d != 0 {
			return d
		}
		return strings.Compare(a.Path, b.Path)
	})
	for k, why := range s.skipped {
		s.out.NotProbed = append(s.out.NotProbed, v1.NotProbed{Kind: k.kind, Path: k.path, Why: why})
	}
	slices.SortFunc(
		s.out.NotProbed,
		func(a, b v1.NotProbed) int { return strings.Compare(a.Kind+" "+a.Path, b.Kind+" "+b.Path) },
	)
	s.judgePaths()
}

func (s *summer) judgePaths() {
	s.out.Result = v1.DisruptionMeasured
	for i := range s.out.Paths {
		s.out.Paths[i].Result = v1.DisruptionMeasured
	}
	if s.out.BudgetSeconds == nil {
		return
	}
	budget := *s.out.BudgetSeconds
	over, unknown := []string{}, []string{}
	for _, u := range s.unordered {
		if u.Seconds > budget {
			unknown = append(
				unknown,
				fmt.Sprintf(
					"no probe ran for %.1f s from %s (%s): an outage longer than the budget of %g s may be hidden in it",
					u.Seconds,
					clock(u.From),
					u.Why,
					budget,
				),
			)
		}
	}
	if len(s.out.Paths) == 0 {
		unknown = append(unknown, "nothing was probed: no path could be reached from where the probes ran")
	}
	for i := range s.out.Paths {
		p := &s.out.Paths[i]
		p.Result = v1.DisruptionWithin
		for _, u := range p.Unobserved {
			if u.Seconds > budget {
				p.Result = v1.DisruptionUnknown
			}
		}
		if p.LongestSeconds > budget {
			p.Result = v1.DisruptionOver
			over = append(
				over,
				fmt.Sprintf("%s was out for %.3f s at a time: the budget is %g s", Title(p.Kind, p.Path), p.LongestSeconds, budget),
			)
		} else if p.Result == v1.DisruptionUnknown {
			unknown = append(
				unknown,
				fmt.Sprintf("%s was not looked at for longer than the budget of %g s", Title(p.Kind, p.Path), budget),
			)
		}
	}
	s.out.Reasons = append(over, unknown...)
	switch {
	case len(over) > 0:
		s.out.Result = v1.DisruptionOver
	case len(unknown) > 0:
		s.out.Result = v1.DisruptionUnknown
	default:
		s.out.Result, s.out.Reasons = v1.DisruptionWithin, nil
	}
}

// Title names a path in a sentence.
func Title(kind, path string) string {
	return map[string]string{
		v1.PathAPIRead:   "API reads",
		v1.PathAPIWatch:  "API watch",
		v1.PathEndpoints: "endpoints of",
		v1.PathTCP:       "TCP",
		v1.PathTCPKept:   "kept connection to",
		v1.PathHTTP:      "GET",
	}[kind] + " " + path
}

// round gives seconds to the millisecond.
func round(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
