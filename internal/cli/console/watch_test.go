package console

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A log shows every 30 s that a command still runs, and nothing with --quiet.
func TestAPipeGetsALineNowAndThen(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			c := New(Streams{Err: &out})
			c.quiet = quiet
			text := "gathering: 3 of 12 hosts read, waiting for worker-7 (12s)"
			stop := c.ShowWait(func() string { return text })
			<-time.After(65 * time.Second)
			stop()
			<-time.After(time.Hour)
			want := text + "\n" + text + "\n"
			if quiet {
				want = ""
			}
			if out.String() != want {
				t.Errorf("quiet %v: %q", quiet, out.String())
			}
		})
	}
}

func TestNothingIsWrittenWhereNothingIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := New(Streams{Err: &out}).ShowWait(func() string { return "" })
		<-time.After(time.Hour)
		stop()
		if out.Len() > 0 {
			t.Errorf("%q", out.String())
		}
	})
}

// The line of a terminal is drawn again in its place. What is narrated meanwhile stays, and comes where the line was.
func TestATerminalHasOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := New(Streams{Err: &out})
	view := &View{W: &out, Redraws: true, Size: func() (int, int) { return 30, 24 }}
	c.showWait(view, "gathering: waiting for pods (1s)\x1b[2J")
	c.showWait(view, "gathering: waiting for pods")
	c.Narrate("a host does not answer")
	c.showWait(view, "gathering: done")
	c.showWait(view, "")
	want := "gathering: waiting for pods (\x1b[K\n\x1b[J" + // no wider than the terminal
		"\x1b[1A\rgathering: waiting for pods\x1b[K\n\x1b[J" +
		"\x1b[1A\r\x1b[Ja host does not answer\n" +
		"gathering: done\x1b[K\n\x1b[J" +
		"\x1b[1A\r\x1b[J"
	if out.String() != want {
		t.Errorf("it wrote:\n%s\nwant:\n%s", strings.ReplaceAll(out.String(), "\x1b", "ESC"), strings.ReplaceAll(want, "\x1b", "ESC"))
	}
}
