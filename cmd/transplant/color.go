package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

var colorWords = []string{colorAuto, colorAlways, colorNever}

// colorFlag adds --color; another word is refused before anything is done.
func (c *connection) colorFlag(f *pflag.FlagSet) {
	c.color = format{value: colorAuto, allowed: colorWords}
	f.Var(&c.color, "color", "colour the marks: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never")
}

// colored decides for one stream: that standard error is a terminal says nothing about standard output.
func (c *connection) colored(w io.Writer) bool {
	switch c.color.value {
	case colorAlways:
		return true
	case colorNever:
		return false
	}
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// sgr are the colours of the outcomes, the numbers of "select graphic rendition" in ECMA-48: green, yellow, red, faint, magenta.
var sgr = map[v1.Outcome]int{v1.Pass: 32, v1.Warn: 33, v1.Fail: 31, v1.Skip: 2, v1.Unknown: 35}

// paint colours a mark. The words beside it say the same.
func (l layout) paint(o v1.Outcome, mark string) string {
	if !l.color || !slices.Contains([]v1.Outcome{v1.Pass, v1.Warn, v1.Fail, v1.Skip, v1.Unknown}, o) {
		return mark
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", sgr[o], mark)
}
