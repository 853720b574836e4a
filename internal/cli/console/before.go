package console

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/client"
)

// CheckBefore has a command check what it was given before it asks an API server or a host for anything. What was added
// first is checked first.
func CheckBefore(cmd *cobra.Command, check func(cmd *cobra.Command, args []string) error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check(cmd, args)
	}
}

// ExplainArguments has a command say what it takes, where it refuses what it was given.
func ExplainArguments(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || !ofCobra.MatchString(err.Error()) {
			return err
		}
		see := "see: " + cmd.CommandPath() + " --help"
		if cmd.HasAvailableSubCommands() {
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			if near := Similar(args[0], names); len(near) > 0 {
				see = "did you mean " + strings.Join(near, " or ") + "? " + see
			}
			return fmt.Errorf("unknown command %q for %q\n%s", args[0], cmd.CommandPath(), see)
		}
		if len(args) > 0 {
			if meant := meantAsValue(cmd, args[len(args)-1]); meant != "" {
				see = "did you mean " + meant + "? " + see
			}
		}
		takes := "no argument"
		if _, argument, ok := strings.Cut(cmd.Use, " "); ok {
			takes = argument
		}
		return fmt.Errorf("%s takes %s, and was given %q\n%s", cmd.CommandPath(), takes, args, see)
	}
}

// ofCobra tells what cobra says of arguments from what a command of ours says itself.
var ofCobra = regexp.MustCompile(`^(unknown command|accepts|requires|invalid argument) `)

// CheckPlanArgument has a command refuse a plan file that cannot be read.
func CheckPlanArgument(cmd *cobra.Command) {
	CheckBefore(cmd, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		_, err := client.ReadPlan(args[0])
		if meant := meantAsValue(cmd, args[0]); errors.Is(err, fs.ErrNotExist) && meant != "" {
			return fmt.Errorf("%w\ndid you mean %s?", err, meant)
		}
		return err
	})
}

// meantAsValue is the flag whose value an argument may be: with a flag that needs none, a value stands behind an equals
// sign. Empty for none.
func meantAsValue(cmd *cobra.Command, argument string) string {
	meant := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || f.NoOptDefVal == "" {
			return
		}
		fits := false
		switch v := f.Value.(type) {
		case *dryRunFlag:
			fits = slices.Contains(v.Allowed, argument)
		case *verbosity:
			_, err := strconv.Atoi(argument)
			fits = err == nil
		default:
			_, err := time.ParseDuration(argument)
			fits = err == nil && v.Type() == "duration"
		}
		if fits {
			meant = "--" + f.Name + "=" + argument
		}
	})
	return meant
}

// CheckOutFile has a command refuse to write into a directory that is not there. A look at a large cluster takes
// minutes, and would be lost.
func CheckOutFile(cmd *cobra.Command, flag string) {
	CheckBefore(cmd, func(cmd *cobra.Command, _ []string) error {
		path := cmd.Flag(flag).Value.String()
		if path == "" {
			return nil
		}
		dir := filepath.Dir(path)
		switch info, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("--%s %s: there is no directory %s; create it first", flag, path, dir)
		case err != nil:
			return fmt.Errorf("--%s %s: %w", flag, path, err)
		case !info.IsDir():
			return fmt.Errorf("--%s %s: %s is no directory", flag, path, dir)
		}
		return nil
	})
}

// Similar returns those of some words that a mistyped one may stand for, as cobra finds them for commands. With
// more than three it returns none.
func Similar(word string, words []string) []string {
	all := &cobra.Command{}
	for _, w := range words {
		all.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	for all.SuggestionsMinimumDistance = 1; all.SuggestionsMinimumDistance <= 2; all.SuggestionsMinimumDistance++ {
		if near := all.SuggestionsFor(word); len(near) > 0 && len(near) <= 3 {
			return near
		}
	}
	return nil
}

// valueWords say what a flag of a type takes. What Go's parsers say of a wrong value names their functions.
var valueWords = map[string]string{
	"bool":     "true or false",
	"duration": "a length of time, such as 90s or 10m",
	"float64":  "a number",
	"int":      "a whole number",
	"int32":    "a whole number",
	"int64":    "a whole number",
	"uint":     "a whole number, 0 or more",
}

// DescribeFlagError returns an error of flags in words of this program, where the library's are those of a parser.
func DescribeFlagError(err error) error {
	wrong, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return err
	}
	words, known := valueWords[wrong.GetFlag().Value.Type()]
	if !known {
		return err // its type says itself what it takes
	}
	if d, ok := wrong.GetFlag().Value.(*durationFlag); ok {
		words = d.takes(wrong.GetValue())
	}
	return fmt.Errorf("invalid argument %q for --%s: give %s", wrong.GetValue(), wrong.GetFlag().Name, words)
}

// UnknownFlag returns the flags that an unknown one of an error may stand for.
func UnknownFlag(cmd *cobra.Command, err error) []string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return nil
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	var out []string
	for _, name := range Similar(unknown.GetSpecifiedName(), names) {
		out = append(out, "--"+name)
	}
	return out
}
