package console

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/hostproof"
)

// A flag that has no effect in a combination is refused: the user who gave it believes that it had one.

// LiveFlags say which cluster, hosts and cloud are looked at. A snapshot in a file was taken of one cluster already.
var LiveFlags = []string{
	"kubeconfig", "context", "cluster", "user", "as", "as-group", "host-access", "host-image", hostproof.Flag, "cloud", "cloud-program",
}

// FlagsGiven are those of the named flags that stand on the command line, in order, each with its dashes.
func FlagsGiven(cmd *cobra.Command, names ...string) []string {
	var out []string
	if cmd == nil { // a part of a command, tried by itself
		return nil
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && slices.Contains(names, f.Name) {
			out = append(out, "--"+f.Name)
		}
	})
	slices.Sort(out)
	return out
}

// GivenWords are those of the named flags that stand on the command line, in order, as they are typed again.
func GivenWords(cmd *cobra.Command, names ...string) (words []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && slices.Contains(names, f.Name) {
			words = append(words, wordsOf(f)...)
		}
	})
	return words
}

// wordsOf is a flag as it is typed again, once for each of its values.
func wordsOf(f *pflag.Flag) (words []string) {
	values := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	for _, value := range values {
		words = append(words, "--"+f.Name+"="+wording.QuoteWord(value))
	}
	return words
}

// RefuseFlags is an error that names the flags which stand on the command line and would do nothing; nil when none
// does.
func RefuseFlags(cmd *cobra.Command, why string, names ...string) error {
	return client.GivenFlags(func(names ...string) []string { return FlagsGiven(cmd, names...) }).Refuse(why, names...)
}

// CheckFromSnapshot refuses flags of a live cluster with a snapshot in a file, and those of a proof without one.
func CheckFromSnapshot(cmd *cobra.Command, from string, prove bool) error {
	if from == "" {
		if !prove {
			return RefuseFlags(cmd, "only --prove reads it", "preview-cloud-config")
		}
		return nil
	}
	if prove {
		return errors.New("a snapshot in a file proves what it proved when it was taken: give --prove or --from-snapshot")
	}
	return RefuseFlags(
		cmd,
		"with --from-snapshot neither the cluster nor its hosts nor its cloud are asked, and the file says what was found",
		append([]string{"preview-cloud-config"}, LiveFlags...)...)
}

// StringFlag returns the value of a flag; empty where the command has no such flag.
func StringFlag(cmd *cobra.Command, name string) string {
	v, err := cmd.Flags().GetString(name)
	if err != nil {
		return ""
	}
	return v
}

// BoolFlag returns the value of a flag; false where the command has no such flag.
func BoolFlag(cmd *cobra.Command, name string) bool {
	v, err := cmd.Flags().GetBool(name)
	return err == nil && v
}

// durationFlag is a length of time. A negative one would be taken as none, or end what it is for at once.
type durationFlag struct {
	*time.Duration
	positive bool // where none at all makes no sense either
}

// DurationVar adds a flag whose length of time may be 0, but not negative.
func DurationVar(fs *pflag.FlagSet, to *time.Duration, name string, otherwise time.Duration, usage string) {
	addDuration(fs, &durationFlag{Duration: to}, name, otherwise, usage)
}

// PositiveDurationVar adds a flag whose length of time has to be more than 0.
func PositiveDurationVar(fs *pflag.FlagSet, to *time.Duration, name string, otherwise time.Duration, usage string) {
	addDuration(fs, &durationFlag{Duration: to, positive: true}, name, otherwise, usage)
}

func addDuration(fs *pflag.FlagSet, f *durationFlag, name string, otherwise time.Duration, usage string) {
	*f.Duration = otherwise
	added := fs.VarPF(f, name, "", usage)
	if otherwise == 0 {
		added.DefValue = "" // help would print it
	}
}

// Type implements pflag.Value.
func (f *durationFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (f *durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && (d < 0 || d == 0 && f.positive) {
		err = errors.New("give " + f.takes(s))
	}
	if err == nil {
		*f.Duration = d
	}
	return err
}

// takes says what has to be given in the place of a wrong value.
func (f *durationFlag) takes(wrong string) string {
	switch _, err := time.ParseDuration(wrong); {
	case err != nil:
		return valueWords[f.Type()]
	case f.positive:
		return "a length of time above 0"
	}
	return "a length of time, and not a negative one"
}

// Words of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// dryRunFlag is --dry-run. Without a value it is "client"; "true" and "false" are what it took before it had words.
type dryRunFlag struct {
	printer.Format
	on, server *bool
}

// Type implements pflag.Value.
func (f *dryRunFlag) Type() string { return "word" }

// Set implements pflag.Value.
func (f *dryRunFlag) Set(s string) error {
	switch s {
	case "true":
		s = dryRunClient
	case "false":
		s = dryRunNone
	}
	if err := f.Format.Set(s); err != nil {
		return err
	}
	*f.on, *f.server = f.Value != dryRunNone, f.Value == dryRunServer
	return nil
}

// AddDryRunFlag adds --dry-run. On is set where nothing is to be changed, server where the API server is asked as well.
func AddDryRunFlag(cmd *cobra.Command, on, server *bool) {
	words := []string{dryRunNone, dryRunClient, dryRunServer}
	value := &dryRunFlag{printer.Format{Value: dryRunNone, Allowed: words}, on, server}
	cmd.Flags().Var(
		value,
		"dry-run",
		"print the plan and change nothing; server: also send each object that it writes to the API server, which judges it and stores nothing",
	)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	Complete(cmd, "dry-run", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// DryRunOf returns what --dry-run says, where a command has it: whether nothing is changed, and whether the API server
// is asked.
func DryRunOf(cmd *cobra.Command) (on, server bool) {
	if f := cmd.Flags().Lookup("dry-run"); f != nil {
		if value, ok := f.Value.(*dryRunFlag); ok {
			return *value.on, *value.server
		}
	}
	return false, false
}

// ParseSince is the moment that --since names; zero for none.
func (c *Console) ParseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return c.ServerTime().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, exitcode.With(
			exitcode.Error,
			"--since %q: give a duration, such as 10m, or a time, such as 2026-11-21T12:00:00Z",
			text,
		)
	}
	return t, nil
}
