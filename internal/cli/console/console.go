// Package console is a command's side of the conversation with its user: streams, colours, questions, signals, and
// the flags that several commands share.
package console

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Approve asks; without a terminal and without --yes it refuses, since no administrator could have agreed.
func (c *Console) Approve(q client.Question) error {
	isTerminal := IsTerminal(c.In)
	if q.Yes {
		return c.RefuseGuess()
	}
	what := visible.Line(q.What) // the holder of a lock is in it, as a Lease has it: it must not rewrite what is agreed to
	if !isTerminal {
		return exitcode.With(
			exitcode.NotApproved,
			"not approved: there is no terminal on which to ask whether to %s; review what was printed above, and run the same command with --yes",
			what,
		)
	}
	if c.events != nil && !IsTerminal(c.Err) {
		return exitcode.With(
			exitcode.NotApproved,
			"not approved: standard error is no terminal, on which to ask whether to %s; review what was printed above, and run the same command with --yes",
			what,
		)
	}
	c.events.write(v1.RunEvent{Type: v1.EventQuestion, Message: what})
	word, warning := "yes", ""
	if q.Word != "" {
		word, warning = visible.Line(q.Word), " No rollback takes all of it back."
	}
	fmt.Fprintf(c.Err, "%s?%s Type %s to go on: ", what, warning, word)
	line, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != word {
		return exitcode.With(exitcode.NotApproved, "not approved; nothing was changed")
	}
	return nil
}

// YesUsage is the text of --yes.
const YesUsage = "do not ask; without a terminal, --context (of a seed: --seed-context) has to name the cluster where the kubeconfig has several"

// RefuseGuess refuses to change a cluster that no operator has named: without a terminal none sees which one it is.
func (c *Console) RefuseGuess() error {
	if c.Guess == nil || IsTerminal(c.In) {
		return nil
	}
	return exitcode.With(
		exitcode.NotApproved,
		"not approved: the kubeconfig has %d contexts, and where nothing is asked and there is no terminal --%s has to say which one is meant; the current one is %s",
		c.Guess.Of,
		c.Guess.Flag,
		wording.QuoteWord(c.Guess.Current),
	)
}

// Tell prints what happens to a step, a line each.
func (c *Console) Tell(e step.Event) {
	c.events.step(e)
	at, l := e.Time.Format("15:04:05"), printer.Layout{Ascii: c.Ascii}
	switch e.Kind {
	case step.EventStarted:
		c.begun.Store(e.Step.ID, e.Time)
		c.Narrate("%s [%2d/%d] %s", at, e.Number, e.Total, e.Step.Title)
	case step.EventProgress, step.EventPaused, step.EventResumed:
		c.Narrate("%s         %s", at, e.Message)
	case step.EventWaiting:
		c.Narrate("%s         %s: %s", at, "still waiting"+c.taken(e), e.Message)
	case step.EventDone:
		c.Narrate("%s       %s %s", at, l.Mark(v1.Pass), e.Step.ID+c.taken(e))
	case step.EventAlreadyDone:
		why := cmp.Or(e.Message, "it was so before: nothing to do")
		if e.Step.Kind == v1.StepVerify {
			why = "verified: " + e.Step.Title
		}
		c.Narrate("%s [%2d/%d] %s %s (%s)", at, e.Number, e.Total, l.Mark(v1.Pass), e.Step.ID, why)
	case step.EventSkipped:
		c.Narrate("%s [%2d/%d] %s %s is skipped: %s", at, e.Number, e.Total, l.Mark(v1.Skip), e.Step.ID, e.Message)
	case step.EventDeferred:
		c.Narrate("%s       %s %s waits: %s", at, l.Mark(v1.Skip), e.Step.Group, e.Message)
	case step.EventInterrupted:
		c.Narrate("%s       %s %s was interrupted: %s", at, l.Mark(v1.Unknown), e.Step.ID, e.Message)
	case step.EventFailed:
		c.Narrate("%s       %s %s: %s", at, l.Mark(v1.Fail), e.Step.ID, e.Message)
	}
}

// taken says for how long a step has been executed, in brackets. It is empty up to a second, and where its begin was
// not told.
func (c *Console) taken(e step.Event) string {
	begun, ok := c.begun.Load(e.Step.ID)
	if !ok || e.Time.Sub(begun.(time.Time)) < time.Second {
		return ""
	}
	return " (" + wording.CompactDuration(e.Time.Sub(begun.(time.Time)).Seconds()) + ")"
}

// Console is the command line's side of a command: where it reads and writes, and how its answers look.
type Console struct {
	*client.Client
	Streams
	// errMu is held by what narrates: requests are told of by each goroutine that sends one.
	errMu        sync.Mutex
	quiet, Ascii bool
	// Verbose is -v: texts leave nothing out. JSON and YAML are the same without it.
	Verbose bool
	Color   printer.Format
	// Called is the name of this program, given the global flags.
	Called string
	Given  *pflag.FlagSet
	// Commands are the names of this program's commands.
	Commands []string
	// advised reports whether a command was named without the global flags that this one was given.
	advised atomic.Bool
	// events are written on standard output during a run; nil for none.
	events *eventStream
	// wait is the line that says what is waited for; nil where none is shown.
	wait *View
	// begun are the times at which steps were begun, by ID. Steps of a batch tell of themselves side by side.
	begun sync.Map
}

// New returns a console with a client that talks to it.
func New(s Streams) *Console {
	c := &Console{Client: &client.Client{}, Streams: s}
	c.Console = c
	return c
}

// Command is another command for the same cluster, as a person types it. It has the global flags that this one was
// given, since none of them is kept anywhere.
func (c *Console) Command(args ...string) string {
	return strings.Join(append(append([]string{c.Called}, args...), c.GivenWords()...), " ")
}

// GivenWords are the global flags that this command was given, but for those that say how its answer looks.
func (c *Console) GivenWords() (words []string) {
	if c.Given != nil {
		c.Given.VisitAll(func(f *pflag.Flag) {
			if !f.Changed || slices.Contains(DisplayFlags, f.Name) {
				return
			}
			words = append(words, wordsOf(f)...)
		})
	}
	return words
}

// Advice is AsCalled for what a person reads at a terminal. It keeps in mind that commands were named, for RemindFlags.
func (c *Console) Advice(text string) string {
	if c.Called == "" || len(c.Commands) == 0 {
		return text
	}
	text = c.AsCalled(text)
	named := regexp.MustCompile(regexp.QuoteMeta(c.Called) + ` (?:` + strings.Join(c.Commands, "|") + `)\b`)
	if named.MatchString(text) && !strings.Contains(text, strings.Join(c.GivenWords(), " ")) {
		c.advised.Store(true) // several goroutines narrate
	}
	return text
}

// RemindFlags says once, at the end, which flags the commands take that were named without them. Typed without these,
// a command could look at another cluster, or reach its hosts in another way.
func (c *Console) RemindFlags() {
	if words := c.GivenWords(); c.advised.Load() && len(words) > 0 {
		c.Narrate("the commands named above take the same flags as this one: %s", strings.Join(words, " "))
	}
}

// AsCalled returns a text of this program whose advice, such as "transplant apply", can be typed as it stands. Where
// kubectl runs this program as its plugin, no program of the name transplant need be in PATH.
func (c *Console) AsCalled(text string) string {
	const name = "transplant"
	if c.Called == name || c.Called == "" || len(c.Commands) == 0 {
		return text
	}
	called, commands := regexp.QuoteMeta(c.Called), strings.Join(c.Commands, "|")
	advice := regexp.MustCompile(`(` + called + `|\b` + name + `) (` + commands + `)\b`)
	return advice.ReplaceAllString(text, c.Called+" $2")
}

// Narrate implements client.Console: it writes to standard error, unless --quiet was given. The format is this
// program's own. The arguments are not: further lines of theirs are marked, since the commands that people paste are
// printed on the same stream.
func (c *Console) Narrate(format string, args ...any) {
	if !c.quiet {
		text := fmt.Sprintf(c.Advice(format), visible.Arguments(inLines, args)...)
		c.errMu.Lock()
		defer c.errMu.Unlock()
		c.wait.Erase()
		fmt.Fprintln(c.Err, printer.Layout{Ascii: c.Ascii}.Plain(mask.Text(text)))
	}
}

func inLines(s string) string { return visible.Lines(mask.Text(s)) }

// Interruptible implements ui: it turns signals into requests to stop.
func (c *Console) Interruptible(ctx context.Context) (hard context.Context, stopping <-chan struct{}, done func()) {
	return Signals(ctx, c)
}

// Instructions implements ui.
func (c *Console) Instructions() (w io.Writer, unattended bool) { return c.Err, !IsTerminal(c.Err) }

// DisplayFlags are global flags that only say how the answer looks.
var DisplayFlags = []string{"quiet", "color", "ascii", "verbose"}

// Streams are where a command reads and writes: the answer on out, the conversation on err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}
