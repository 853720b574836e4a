package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/visible"
)

// jsonLines is the value of -o with which a run writes what happens on standard output, one JSON object a line.
const jsonLines = "jsonl"

// AddEventsFlag adds -o to a command that executes a plan or a rollout. It comes before the other flags: what is
// refused of those is the last line of the events, too.
func (c *Console) AddEventsFlag(cmd *cobra.Command) {
	output := AddFormatFlag(cmd, "text", jsonLines)
	cmd.Flags().Lookup("output").Usage = "text, or jsonl: what happens, on standard output, one JSON object a line"
	CheckBefore(cmd, func(cmd *cobra.Command, _ []string) error {
		if output.Value == jsonLines {
			c.events = &eventStream{
				w:      c.Out,
				failed: func(err error) { c.Narrate("the events are incomplete: %v", err) },
			}
			c.events.write(v1.RunEvent{Type: v1.EventVersion, Command: nameOf(cmd), Version: client.Version})
		}
		return nil
	})
}

// nameOf is the name of a command behind that of the program, such as "fleet apply".
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
}

// HasEvents reports whether the command writes events on standard output, so that it prints nothing else there.
func (c *Console) HasEvents() bool { return c.events != nil }

// WriteEvent writes an event, where events are written.
func (c *Console) WriteEvent(e v1.RunEvent) { c.events.write(e) }

// UntilUnread returns a context that ends when no reader of the events is left. Without events it ends as ctx does.
func (c *Console) UntilUnread(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if c.events != nil {
		signal.Ignore(syscall.SIGPIPE) // a broken pipe is an error of a write, and not the end of the process
		c.events.stopAtEnd(cancel)
	}
	return ctx, cancel
}

// Finish writes the last event of a run: its exit code, what went wrong, and what makes a plan stale.
func (c *Console) Finish(code int, err error) {
	e := v1.RunEvent{Type: v1.EventFinished, ExitCode: &code}
	if err != nil {
		e.Message = mask.Error(err)
	}
	if stale, is := errors.AsType[*step.StaleError](err); is && code == exitcode.Stale {
		e.Changed = slices.Clone(stale.Changed)
		for i := range e.Changed {
			e.Changed[i].Message = mask.Text(e.Changed[i].Message)
		}
	}
	c.events.write(e)
}

// eventStream writes the events of a run. Nil writes none. Each event is one write: a reader has the whole line, and
// has it at once.
type eventStream struct {
	mu     sync.Mutex
	w      io.Writer
	failed func(error)
	told   bool
}

func (s *eventStream) write(e v1.RunEvent) {
	if s == nil {
		return
	}
	e.TypeMeta = v1.Type(v1.KindRunEvent)
	if e.Time.IsZero() {
		e.Time = client.Now()
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	e.Message = mask.Text(e.Message)
	data, err := json.Marshal(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = s.w.Write(append(visible.JSON(data), '\n'))
	}
	if err != nil && !s.told {
		s.told = true
		s.failed(err)
	}
}

// stopAtEnd has the run stop after the current step when no reader of the events is left.
func (s *eventStream) stopAtEnd(gone func()) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = &listener{w: s.w, gone: gone}
}

func (s *eventStream) plan(p *v1.Plan, dryRuns []v1.DryRun) {
	if s != nil {
		s.write(v1.RunEvent{
			Type:       v1.EventPlan,
			Plan:       p,
			PlanSHA256: compare.Digest(p),
			DryRuns:    dryRuns,
		})
	}
}

func (s *eventStream) findings(report v1.CheckReport) {
	for _, f := range report.Findings {
		if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			s.write(v1.RunEvent{Type: v1.EventFinding, Finding: &f})
		}
	}
}

// stepEvents are the kinds of events of the engine, and what they are on standard output.
var stepEvents = map[step.EventKind]v1.RunEventType{
	step.EventStarted:     v1.EventStepStarted,
	step.EventProgress:    v1.EventStepProgress,
	step.EventWaiting:     v1.EventStepProgress,
	step.EventPaused:      v1.EventStepPaused,
	step.EventResumed:     v1.EventStepResumed,
	step.EventDeferred:    v1.EventStepDeferred,
	step.EventDone:        v1.EventStepFinished,
	step.EventAlreadyDone: v1.EventStepFinished,
	step.EventSkipped:     v1.EventStepFinished,
	step.EventFailed:      v1.EventStepFinished,
	step.EventInterrupted: v1.EventStepFinished,
}

func (s *eventStream) step(e step.Event) {
	message, waits := strings.CutPrefix(e.Message, step.WaitingPrefix)
	out := v1.RunEvent{
		Type:    stepEvents[e.Kind],
		Time:    e.Time,
		Message: message,
		Waiting: waits || e.Kind == step.EventWaiting,
	}
	if e.Step.ID != "" {
		out.Step = &v1.RunStep{
			ID:     e.Step.ID,
			Phase:  e.Step.Phase,
			Title:  mask.Text(e.Step.Title),
			Host:   e.Step.Host,
			Number: e.Number,
			Total:  e.Total,
		}
	}
	if out.Type == "" {
		out.Type = v1.EventStepProgress
	}
	if out.Type == v1.EventStepFinished {
		out.Result = v1.StepResult(e.Kind)
	}
	s.write(out)
}
