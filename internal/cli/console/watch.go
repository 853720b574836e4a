package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
	"github.com/transplant-dev/transplant/internal/waiting"
)

// View is where a text is drawn again in place: the lines above are overwritten, and what scrolled by before stays.
type View struct {
	W io.Writer
	// Redraws is false for a pipe, a file and a terminal that cannot move its cursor.
	Redraws bool
	// Size is that of the terminal.
	Size  func() (width, height int)
	lines int
}

// Draw replaces what was drawn before. A text that is higher than the terminal loses lines in its middle. Its head says
// how far the run is, its last line what to do.
func (v *View) Draw(text string) error {
	_, height := v.Size()
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
	_, err := io.WriteString(v.W, b.String())
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// Erase takes back what was drawn, so that other text takes its place. Nil has drawn nothing.
func (v *View) Erase() {
	if v == nil || v.lines == 0 {
		return
	}
	fmt.Fprintf(v.W, "\x1b[%dA\r\x1b[J", v.lines)
	v.lines = 0
}

// ShowWait implements client.Console. A terminal has one line that is drawn again each second. Elsewhere a line comes
// every 30 s, so that a log shows that the command still runs.
func (c *Console) ShowWait(describe func() string) (stop func()) {
	if c.quiet {
		return func() {}
	}
	view, period := c.NewView(c.Err), client.HeartbeatPeriod
	if view.Redraws {
		period = client.TickPeriod
	}
	again, ended := time.NewTicker(period), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				c.showWait(view, describe())
			}
		}
	})
	return func() {
		again.Stop()
		close(ended)
		wg.Wait()
		c.errMu.Lock()
		defer c.errMu.Unlock()
		c.wait.Erase()
		c.wait = nil
	}
}

// showWait draws what is waited for on a terminal, or writes it in a line. An empty text says that nothing is.
func (c *Console) showWait(view *View, text string) {
	if !view.Redraws {
		if text != "" {
			c.Narrate("%s", text)
		}
		return
	}
	width, _ := view.Size()
	line := []rune(printer.Layout{Ascii: c.Ascii}.Plain(visible.Line(mask.Text(text))))
	line = line[:min(len(line), max(width-1, 0))] // a line that is broken in two could not be drawn again
	c.errMu.Lock()
	defer c.errMu.Unlock()
	if c.wait = view; len(line) == 0 {
		view.Erase()
		return
	}
	_ = view.Draw(string(line)) // where standard error is gone, the next line of the command says so
}

// NewView returns a view of a stream.
func (c *Console) NewView(w io.Writer) *View {
	v := &View{
		W:       w,
		Redraws: IsTerminal(w) && os.Getenv("TERM") != "dumb",
		Size:    func() (int, int) { return printer.DefaultWidth, defaultHeight },
	}
	if f, ok := fileOf(w); ok {
		v.Size = func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return printer.DefaultWidth, defaultHeight
			}
			return width, height
		}
	}
	return v
}

// Board holds what was read of a cluster, and follows how it changes.
type Board interface {
	// Follow reads until ctx ends.
	Follow(ctx context.Context)
	// Changed has an element when something changed since it was last received from.
	Changed() <-chan struct{}
	// Ready reports whether everything was asked for at least once.
	Ready() bool
}

// Follow calls show whenever something may have changed, and once a second, until it returns true, or Ctrl-C.
func (c *Console) Follow(ctx context.Context, board Board, show func() (bool, error)) error {
	if c.TellsRequests && IsTerminal(c.Out) && IsTerminal(c.Err) {
		return exitcode.With(exitcode.Error, "-v=2 writes into what --watch redraws: give one of them, or send standard error to a file")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	following, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { board.Follow(following) })
	defer wg.Wait()
	defer end()
	again := time.NewTicker(client.TickPeriod)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return exitcode.With(exitcode.Interrupted, "no longer watching; the run goes on where it was started")
		case <-again.C:
		case <-board.Changed():
			waiting.For(ctx, client.CollectPeriod)
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

// WatchFlag is --watch.
type WatchFlag struct{ On bool }

// AddTo adds --watch to a command.
func (w *WatchFlag) AddTo(cmd *cobra.Command) {
	cmd.Flags().
		BoolVarP(&w.On, "watch", "w", false, "go on until the run ends: a terminal is redrawn, a pipe gets a line on change, -o json a document a line")
}

// CheckOutput says why an output cannot be watched.
func (w *WatchFlag) CheckOutput(output string) error {
	if w.On && output != "text" && output != "json" {
		return exitcode.With(exitcode.Error, "--watch writes text or json, not %s", output)
	}
	return nil
}

// JsonLine writes a document in one line when its fingerprint is another one than that of the last.
func JsonLine(w io.Writer, doc, fingerprint any, last *string) error {
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

// defaultHeight is that of a terminal which does not tell.
const defaultHeight = 24

// Values of status --details.
const (
	DetailsNone  = "none"
	DetailsNodes = "nodes"
)
