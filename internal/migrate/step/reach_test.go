package step

import (
	"strings"
	"testing"
)

func TestTheLastWordsOfAKubelet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, log, want string }{
		{"errors before others", "I1121 12:00:00 starting\nE1121 12:00:01 command failed err=\"unknown flag: --x\"\nI1121 bye\n", `E1121 12:00:01 command failed err="unknown flag: --x"`},
		{"the last lines where none is an error", "a\nb\nc\nd\n", "b | c | d"},
		{"no log", "\n\n", ""},
		{"a very long line", "E0000 " + strings.Repeat("x", 1000), "E0000 " + strings.Repeat("x", lastChars-6) + "..."},
	} {
		if have := tail(c.log); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}
