package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/status"
)

const (
	// together is for how long changes are collected before they are shown: one step of the engine writes several objects.
	together = 300 * time.Millisecond
	// ticking is how often it is looked at what was read though nothing changed: a terminal shows ages, and a lock that is not renewed is no change of anything.
	ticking = time.Second
	// lasting is how long a run has to look ended before that is believed, where the journal does not say it: the objects are watched apart from each other.
	lasting = 3 * time.Second
	// defaultHeight is that of a terminal which does not tell.
	defaultHeight = 24
)

// watching is --watch.
type watching struct{ on bool }

func (w *watching) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.on, "watch", "w", false, "go on until the run ends: a terminal is drawn anew, a pipe gets a line on change, -o json a document a line")
}

// refused says why an output cannot be watched.
func (w *watching) refused(output string) error {
	if w.on && output != "text" && output != "json" {
		return withCode(exitError, "--watch writes text or json, not %s", output)
	}
	return nil
}

// follow calls show whenever something may have changed, and once a second, until it returns true, or Ctrl-C.
func (c *connection) follow(ctx context.Context, board *status.Board, show func() (bool, error)) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	following, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { board.Follow(following) })
	defer wg.Wait()
	defer end()
	again := time.NewTicker(ticking)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return withCode(exitInterrupted, "no longer watching; the run goes on where it is carried out")
		case <-again.C:
		case <-board.Changed():
			waitBriefly(ctx, together)
		}
		if !board.Ready() {
			continue
		}
		done, err := show()
		if done || err != nil {
			return err
		}
	}
}

// pause waits, or until ctx ends.
func waitBriefly(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// watchStatus shows the status until the run ends.
func (c *connection) watchStatus(ctx context.Context, board *status.Board, output string, all bool) error {
	view := c.viewOf(c.out)
	said := ""
	var e ending
	var piped pipedStatus
	headed := false
	return c.follow(ctx, board, func() (bool, error) {
		s := status.Judge(board.Facts())
		if !headed {
			headed = true
			c.header(s.Cluster)
		}
		var err error
		switch {
		case output == "json":
			err = jsonLine(c.out, s, fingerprint(s), &said)
		case view.redraws:
			err = view.draw(statusText(s, c.layoutFor(c.out, false), all))
		default:
			if line, changed := piped.line(s); changed {
				_, err = fmt.Fprintln(c.out, layout{ascii: c.ascii}.plain(s.Time.Format("15:04:05")+" "+line))
			}
		}
		if err != nil {
			return true, err
		}
		return e.of(s, time.Now())
	})
}

// ending decides when a run that is watched has ended, and how.
type ending struct {
	// worked tells that somebody was seen at work.
	worked bool
	// since is from when on the run has looked ended in a way that only its lock shows.
	since time.Time
}

func (e *ending) of(s v1.Status, at time.Time) (bool, error) {
	switch s.State {
	case v1.StateApplied, v1.StateRolledBack:
		if s.Untrusted != "" {
			return true, withCode(exitError, "whether migration %s is %s is not known: %s\nnext: %s", s.Run, stateWords(s.State), s.Untrusted, s.Next)
		}
		return true, nil
	case v1.StateFailed:
	case v1.StateStopped:
		if !e.worked {
			return false, nil // somebody may go on with it
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
		return true, withCode(exitError, "migration %s ended with an error: %s\nnext: %s", s.Run, s.LastError, s.Next)
	}
	return true, withCode(exitError, "nobody works on migration %s any longer: %d of %d steps are done\nnext: %s", s.Run, s.StepsDone, s.StepsTotal, s.Next)
}

// pipedStatus is what a pipe was told of a run.
type pipedStatus struct {
	// said is the last line as it is compared, heard what each step was said to wait for last.
	said  string
	heard map[string]string
}

// line is what a pipe gets of a status, and whether it says something new. What a step waits for is often what its kubelet says of a pod, hundreds of
// letters that come again with every other change: it is written whole once, and by its beginning after that.
func (p *pipedStatus) line(s v1.Status) (string, bool) {
	said := statusLine(s, steadily)
	if said == p.said {
		return "", false
	}
	p.said = said
	heard := map[string]string{}
	for _, c := range s.Current {
		heard[c.ID] = steadily(c.Waiting)
	}
	out := statusLine(s, func(waiting string) string {
		for _, c := range s.Current {
			if c.Waiting == waiting && p.heard[c.ID] == heard[c.ID] {
				return beginning(waiting)
			}
		}
		return waiting
	})
	p.heard = heard
	return out, true
}

// backOff is what a kubelet repeats with other words each time it tries again.
var backOff = regexp.MustCompile(`ErrImagePull|ImagePullBackOff|back-off [0-9][0-9a-z.]*|Back-off pulling image`)

// steadily is what somebody waits for without what changes by itself while the cause stays.
func steadily(waiting string) string { return backOff.ReplaceAllString(waiting, "~") }

// beginning is enough of a text to know it again.
func beginning(s string) string {
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
	for _, c := range s.Current {
		step := c.ID
		if c.Waiting != "" {
			step += " waits: " + wait(c.Waiting)
		}
		parts = append(parts, step)
	}
	for _, b := range s.Health {
		if b.Level != "info" {
			parts = append(parts, b.Level+": "+ageless(b))
		}
	}
	parts = append(parts, s.NotRead...)
	return strings.Join(strings.Fields(strings.Join(parts, " · ")), " ")
}

// ageless is a blocker's message without the age that some have in them.
func ageless(b v1.Blocker) string {
	if b.SinceSeconds == nil {
		return b.Message
	}
	message := strings.ReplaceAll(b.Message, fmt.Sprintf(" for %.0fs", *b.SinceSeconds), "")
	return strings.Split(message, "; it does so")[0]
}

// fingerprint is a status without what changes by itself.
func fingerprint(s v1.Status) v1.Status {
	s.Time, s.ElapsedSeconds, s.Remaining = time.Time{}, 0, nil
	if s.Lock != nil {
		l := *s.Lock
		l.AgeSeconds = 0
		s.Lock = &l
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
		s.Health[i].Message, s.Health[i].SinceSeconds = ageless(s.Health[i]), nil
	}
	return s
}

// jsonLine writes a document in one line when its fingerprint is another one than that of the last.
func jsonLine(w io.Writer, doc, fingerprint any, last *string) error {
	print, err := json.Marshal(fingerprint)
	if err != nil {
		return err
	}
	if string(print) == *last {
		return nil
	}
	*last = string(print)
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// view is where a text is drawn anew in place: the lines above are overwritten, and what scrolled by before stays.
type view struct {
	w io.Writer
	// redraws is false for a pipe, a file and a terminal that cannot move its cursor.
	redraws bool
	// size is that of the terminal.
	size  func() (width, height int)
	lines int
}

func (c *connection) viewOf(w io.Writer) *view {
	v := &view{w: w, redraws: isTerminal(w) && os.Getenv("TERM") != "dumb", size: func() (int, int) { return defaultWidth, defaultHeight }}
	if f, ok := w.(*os.File); ok {
		v.size = func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return defaultWidth, defaultHeight
			}
			return width, height
		}
	}
	return v
}

// draw replaces what was drawn before. A text that is higher than the terminal loses lines in its middle: its head says how far the run is, its last line
// what to do.
func (v *view) draw(text string) error {
	_, height := v.size()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most := max(height-1, 2); len(lines) > most {
		lines = append(lines[:most-1:most-1], lines[len(lines)-1])
	}
	var b strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", v.lines)
	}
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J") // what a longer text left below
	v.lines = len(lines)
	_, err := io.WriteString(v.w, b.String())
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
