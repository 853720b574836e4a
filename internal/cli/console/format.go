package console

import (
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

// Values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

var colorWords = []string{colorAuto, colorAlways, colorNever}

// addColorFlag adds --color; another word is refused before anything is done.
func (c *Console) addColorFlag(f *pflag.FlagSet) {
	c.Color = printer.Format{Value: colorAuto, Allowed: colorWords}
	f.Var(
		&c.Color,
		"color",
		"colour the marks: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never",
	)
}

// Colored decides for one stream: that standard error is a terminal says nothing about standard output.
func (c *Console) Colored(w io.Writer) bool {
	switch c.Color.Value {
	case colorAlways:
		return true
	case colorNever:
		return false
	}
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// AddVerboseFlag adds -v to a command whose text leaves something out.
func (c *Console) AddVerboseFlag(cmd *cobra.Command, usage string) {
	c.addVerbosity(cmd.Flags(), verboseTexts, usage+"; -v=2: also log each request to the API server")
}

// Levels of --verbose.
const (
	verboseTexts    = 1
	verboseRequests = 2
)

// verbosity is --verbose: a level.
type verbosity struct {
	level int
	of    *Console
}

func (v *verbosity) String() string { return strconv.Itoa(v.level) }

// Type implements pflag.Value.
func (v *verbosity) Type() string { return "level" }

// Set implements pflag.Value. "true" and "false" are what the flag took before it had levels.
func (v *verbosity) Set(s string) error {
	switch s {
	case "true":
		v.level = verboseTexts
	case "false":
		v.level = 0
	default:
		level, err := strconv.Atoi(s)
		if err != nil || level < 0 {
			return errors.New("give a level: 0, 1 or more")
		}
		v.level = level
	}
	v.of.Verbose, v.of.TellsRequests = v.level >= verboseTexts, v.level >= verboseRequests
	return nil
}

// addVerbosity adds -v, and the level that it has without a value.
func (c *Console) addVerbosity(f *pflag.FlagSet, level int, usage string) {
	f.VarP(&verbosity{of: c}, "verbose", "v", usage)
	f.Lookup("verbose").NoOptDefVal = strconv.Itoa(level)
}

// RefuseSilentRequests has a command refuse to tell of requests on a stream on which it is to write nothing.
func (c *Console) RefuseSilentRequests(cmd *cobra.Command) {
	CheckBefore(cmd, func(*cobra.Command, []string) error {
		if c.quiet && c.TellsRequests {
			return exitcode.With(exitcode.Error, "--verbose=2 would have no effect: --quiet writes no request on standard error; give one of them")
		}
		return nil
	})
}

// AddFormatFlag adds -o to a command; the first word is the default.
func AddFormatFlag(cmd *cobra.Command, words ...string) *printer.Format {
	f := &printer.Format{Value: words[0], Allowed: words}
	cmd.Flags().VarP(f, "output", "o", f.Words())
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added two lines above
	}
	return f
}

// LayoutFor is the layout of what is written to w.
func (c *Console) LayoutFor(w io.Writer, wide bool) printer.Layout {
	l := printer.Layout{
		Width:   printer.DefaultWidth,
		Whole:   !IsTerminal(w),
		Wide:    wide,
		Ascii:   c.Ascii,
		Color:   c.Colored(w),
		Verbose: c.Verbose,

		AsCalled: c.AsCalled,
	}
	if width := TerminalWidth(w); width > 0 {
		l.Width = width
	}
	return l
}

// TerminalWidth is the width of a terminal, in columns; 0 where there is none.
func TerminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(0, width)
}
