// Package follow shows what changes until a run ends: a status or a timeline. Both are those of a cluster, or of a
// control plane that a seed hosts.
package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/visible"
)

// lasting is how long a run has to look ended before that is believed, if the journal does not say it. The objects are
// watched apart from each other.
const lasting = 3 * time.Second

// View says how what is followed is shown.
type View struct {
	// Output is text or json.
	Output string
	// All has every host and node be shown.
	All bool
}

// Status shows the status of what a board holds until the run ends.
func Status(ctx context.Context, c *console.Console, board console.Board, judge func() v1.Status, as View) error {
	view := c.NewView(c.Out)
	said := ""
	var e endDetector
	var piped pipedStatus
	headed := false
	return c.Follow(ctx, board, func() (bool, error) {
		s := judge()
		if !headed {
			headed = true
			c.NameCluster(s.Cluster)
		}
		var err error
		switch {
		case as.Output == "json":
			err = console.JsonLine(c.Out, s, fingerprint(s), &said)
		case view.Redraws:
			s.Next = c.AsCalled(s.Next)
			err = view.Draw(printer.StatusText(s, c.LayoutFor(c.Out, false), as.All))
		default:
			if line, changed := piped.line(s); changed {
				_, err = fmt.Fprintln(c.Out, printer.Layout{Ascii: c.Ascii}.Plain(s.Time.Format("15:04:05")+" "+visible.Line(line)))
			}
		}
		if err != nil {
			return true, err
		}
		return e.observe(s, time.Now())
	})
}

// endDetector decides when a run that is watched has ended, and how.
type endDetector struct {
	// worked reports whether a process was seen at work.
	worked bool
	// since is from when on the run has looked ended in a way that only its lock shows.
	since time.Time
}

func (e *endDetector) observe(s v1.Status, at time.Time) (bool, error) {
	switch s.State {
	case v1.StateApplied, v1.StateRolledBack:
		if s.Untrusted != "" {
			return true, exitcode.With(
				exitcode.Error,
				"whether migration %s is %s is not known: %s\nnext: %s",
				s.Run,
				wording.StateWords(s.State),
				s.Untrusted,
				s.Next,
			)
		}
		return true, nil
	case v1.StateFailed:
	case v1.StateStopped:
		if !e.worked {
			return false, nil // a process may go on with it
		}
	default:
		e.worked = e.worked || s.Lock != nil && !s.Lock.Expired
		e.since = time.Time{}
		return false, nil
	}
	if e.since.IsZero() {
		e.since = at
	}
	if at.Sub(e.since) < lasting {
		return false, nil
	}
	if s.State == v1.StateFailed {
		return true, exitcode.With(
			exitcode.Error,
			"migration %s ended with an error: %s\nnext: %s",
			s.Run,
			s.LastError,
			s.Next,
		)
	}
	if s.StoppedBehind != "" {
		return true, nil
	}
	return true, exitcode.With(
		exitcode.Error,
		"no process executes migration %s any longer: %d of %d steps are done\nnext: %s",
		s.Run,
		s.StepsDone,
		s.StepsTotal,
		s.Next,
	)
}

// pipedStatus is what a pipe was told of a run.
type pipedStatus struct {
	// said is the last line as it is compared, heard what each step was said to wait for last.
	said  string
	heard map[string]string
}

// line is what a pipe gets of a status, and whether it says something new. What a step waits for is often what its
// kubelet says of a pod, hundreds of letters that repeat with every change. It is written whole once, and only its
// beginning after that.
func (p *pipedStatus) line(s v1.Status) (string, bool) {
	said := statusLine(s, podreason.Cause)
	if said == p.said {
		return "", false
	}
	p.said = said
	heard := map[string]string{}
	for _, c := range s.Current {
		heard[c.ID] = podreason.Cause(c.Waiting)
	}
	out := statusLine(s, func(waiting string) string {
		for _, c := range s.Current {
			if c.Waiting == waiting && p.heard[c.ID] == heard[c.ID] {
				return shorten(waiting)
			}
		}
		return waiting
	})
	p.heard = heard
	return out, true
}

// shorten is enough of a text to know it again.
func shorten(s string) string {
	const enough = 100
	runes := []rune(s)
	if len(runes) <= enough {
		return s
	}
	return string(runes[:enough]) + "..."
}

// statusLine is whatever tells two situations apart, and no ages; wait is how it is written what a step waits for.
func statusLine(s v1.Status, wait func(string) string) string {
	var parts []string
	parts = append(parts, fmt.Sprintf("%s %d/%d", s.State, s.StepsDone, s.StepsTotal))
	if s.State == v1.StateStopped && s.StoppedBehind != "" {
		parts = append(parts, "after "+s.StoppedBehind+", as asked")
	}
	for _, c := range s.Current {
		step := c.ID
		if c.Waiting != "" {
			step += " waits: " + wait(c.Waiting)
		}
		if c.Latest != "" {
			step += ": " + c.Latest
		}
		parts = append(parts, step)
	}
	for _, b := range s.Health {
		if b.Level != "info" {
			parts = append(parts, b.Level+": "+withoutAges(b))
		}
	}
	parts = append(parts, s.NotRead...)
	return strings.Join(strings.Fields(strings.Join(parts, " · ")), " ")
}

// withoutAges is a blocker's message without the age that some have in them.
func withoutAges(b v1.Blocker) string {
	if b.SinceSeconds == nil {
		return b.Message
	}
	message := strings.ReplaceAll(b.Message, fmt.Sprintf(" for %.0fs", *b.SinceSeconds), "")
	return strings.Split(message, "; it does so")[0]
}

// fingerprint is a status without what changes by itself.
func fingerprint(s v1.Status) v1.Status {
	s.Time, s.ElapsedSeconds, s.IdleSeconds, s.Remaining, s.LastErrorSeconds = time.Time{}, 0, 0, nil, nil
	if s.Lock != nil {
		l := *s.Lock
		l.AgeSeconds = 0
		s.Lock = &l
	}
	s.SectionTimes = slices.Clone(s.SectionTimes)
	for i := range s.SectionTimes {
		s.SectionTimes[i].Seconds = 0
	}
	s.Current = append([]v1.StepStatus(nil), s.Current...)
	for i := range s.Current {
		s.Current[i].SinceSeconds, s.Current[i].WaitingSeconds = 0, 0
	}
	s.Nodes = append([]v1.NodeStatus(nil), s.Nodes...)
	for i := range s.Nodes {
		s.Nodes[i].SinceSeconds = 0
	}
	s.Leases = append([]v1.LeaseStatus(nil), s.Leases...)
	for i := range s.Leases {
		s.Leases[i].AgeSeconds = 0
	}
	s.Health = append([]v1.Blocker(nil), s.Health...)
	for i := range s.Health {
		s.Health[i].Message, s.Health[i].SinceSeconds = withoutAges(s.Health[i]), nil
	}
	return s
}
