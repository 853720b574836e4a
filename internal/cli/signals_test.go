package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/cli/console"
)

// heedHangUp has SIGHUP reach this process also when the tests run under nohup, which has it ignored.
func heedHangUp(t *testing.T) {
	t.Helper()
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(ch) })
}

// A shell and the kernel both send SIGHUP when a session ends.
func TestALostSessionFinishesTheStepHoweverOftenItIsToldOf(t *testing.T) {
	heedHangUp(t)
	var said buffer
	hard, stop, done := console.Signals(t.Context(), console.New(console.Streams{Err: &said}))
	defer done()
	for range 3 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	<-stop
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-hard.Done():
		t.Error("a second SIGHUP stops in the middle of a step")
	case <-time.After(100 * time.Millisecond):
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-hard.Done()
}

func TestStandardErrorThatNobodyReadsFinishesTheStep(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	c := console.New(console.Streams{Err: write})
	hard, stop, done := console.Signals(t.Context(), c)
	defer done()
	c.Narrate("a line that nobody reads")
	select {
	case <-stop: // at once: a step that begins now would be one more
	default:
		t.Error("the next step may begin")
	}
	if hard.Err() != nil {
		t.Error("it stops in the middle of a step")
	}
}

// written calls back at each write.
type written func()

func (w written) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

func TestWhoReadsThatACommandIsInterruptedMayCountOnNoFurtherStep(t *testing.T) {
	var stop <-chan struct{}
	ready, said := make(chan struct{}), make(chan bool, 1)
	c := console.New(console.Streams{Err: written(func() {
		<-ready
		select {
		case <-stop:
			said <- true
		default:
			said <- false
		}
	})})
	_, stop, done := console.Signals(t.Context(), c)
	close(ready)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-stop
	done()
	select {
	case stopped := <-said:
		if !stopped {
			t.Error("it is said before the next step is kept from beginning")
		}
	default:
		t.Error("the command may end before it has said why")
	}
}
