package console

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/hostproof"
)

// A flag that has no effect in a combination is refused: the user who gave it believes that it had one.

// LiveFlags say which cluster, hosts and cloud are looked at. A snapshot in a file was taken of one cluster already.
var LiveFlags = []string{"kubeconfig", "context", "host-access", "host-image", hostproof.Flag, "cloud", "cloud-program"}

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
