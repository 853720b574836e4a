package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// A shell and the kernel both send SIGHUP when a session ends.
func TestALostSessionFinishesTheStepHoweverOftenItIsToldOf(t *testing.T) {
	var said buffer
	hard, stop, done := signals(t.Context(), &connection{streams: streams{err: &said}})
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
	c := &connection{streams: streams{err: write}}
	hard, stop, done := signals(t.Context(), c)
	defer done()
	c.narrate("a line that nobody reads")
	select {
	case <-stop: // at once: a step that begins now would be one more
	default:
		t.Error("the next step may begin")
	}
	if hard.Err() != nil {
		t.Error("it stops in the middle of a step")
	}
}
