package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/transplant-dev/transplant/internal/client"
)

// Signals turns what an operator or a machine does to a running command into two requests: stop behind the current
// step, and stop now.
//
//	SIGINT, SIGTERM      the first one: finish this step; a second one of either: stop now
//	SIGHUP               finish this step: the session is gone, and a migration that nobody can see or stop does not go on. It never means more, since a
//	                     shell and the kernel both send it; under nohup it is ignored, as was asked for
//	standard error gone  as SIGHUP: whoever was told what happens no longer reads it (a pipe into head, a terminal that was closed);
//	                     with -o jsonl, standard output, too
//
// From here on a broken pipe is an error of a write. It does not end the process, which would be in the middle of a
// step.
func Signals(ctx context.Context, c *Console) (hard context.Context, stopping <-chan struct{}, done func()) {
	hard, cancel := context.WithCancelCause(ctx)
	unsteer := c.Session.Steer()
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, client.HandledSignals()...)
	signal.Ignore(syscall.SIGPIPE)
	stop, ended := make(chan struct{}), make(chan struct{})
	halt := sync.OnceFunc(func() { close(stop) })
	c.Err = &listener{w: c.Err, gone: halt}
	c.events.stopAtEnd(halt)
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case s := <-ch:
			halt() // before it is said: its reader may rely on no further step
			if s == syscall.SIGHUP {
				c.Narrate("\nthe session is gone: the current step is finished, and the same command goes on from there")
			} else {
				c.Narrate("\ninterrupted: the current step is finished first; press Ctrl-C once more to stop at once")
			}
		case <-stop:
		case <-ended:
			return
		}
		for {
			select {
			case s := <-ch:
				if s == syscall.SIGHUP {
					continue
				}
				cancel(
					fmt.Errorf(
						"stopped in the middle of a step, whose effect is uncertain until the same command is run again: %w",
						context.Canceled,
					),
				)
				return
			case <-ended:
				return
			}
		}
	})
	return hard, stop, func() { signal.Stop(ch); close(ended); listening.Wait(); cancel(nil); unsteer() }
}

// listener notices when no reader is left, within the write that finds out: the step whose end could not be written is
// the last one.
type listener struct {
	w    io.Writer
	gone func()
}

func (l *listener) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) {
		l.gone()
	}
	return n, err
}
