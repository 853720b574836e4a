package console

import (
	"context"
	"errors"
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
	c.errMu.Lock()
	c.Err = &listener{w: c.Err, gone: halt}
	c.errMu.Unlock()
	c.events.stopAtEnd(halt)
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case s := <-ch:
			halt() // before it is said: its reader may rely on no further step
			if s == syscall.SIGHUP {
				c.Narrate("\nthe terminal is gone: the run stops after this step; to go on, run the same command again")
			} else {
				c.Narrate("\ninterrupted: the run stops after this step; a second Ctrl-C stops inside it, and its effect is unknown then")
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
				cancel(insideStepError{})
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

// fileOf is the file behind a stream, also while it is listened to.
func fileOf(stream any) (*os.File, bool) {
	if l, ok := stream.(*listener); ok {
		stream = l.w
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// insideStepError ends a command at a second Ctrl-C.
type insideStepError struct{}

func (insideStepError) Error() string {
	return "stopped inside a step: run the same command again, which looks first at what was done"
}

// Unwrap says that nothing went wrong.
func (insideStepError) Unwrap() error { return context.Canceled }
