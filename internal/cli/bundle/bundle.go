// Package bundle has the command that saves a support bundle.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/bundle"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/cli/seed"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/support"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/visible"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// command is the command with what its flags say.
type command struct {
	console        *console.Console
	out            string
	since, maxSize string
	timeout        time.Duration
	lines          int64
	format         *printer.Format
}

// LogTimeout bounds the reading of one log; tests have less time.
var LogTimeout = bundle.DefaultLogTimeout

// NewCommand returns the command, for a control plane in a seed, too.
func NewCommand(c *console.Console) *cobra.Command {
	b := &command{console: c}
	cmd := &cobra.Command{
		Use:        "bundle",
		SuggestFor: []string{"support-bundle", "must-gather"},
		Short:      "Save in one file what it takes to ask for help, without secrets",
		Args:       cobra.NoArgs,
		Example: "  transplant bundle\n" +
			"  transplant bundle --since 2h --out bundle.tar.gz\n" +
			"  transplant bundle --host-access=none   # starts no pods on hosts",
		Long: "Bundle saves a compressed tar file. It has the snapshot, the journal without what objects were like before, the plan, the status, the timeline and what\n" +
			"check says. It also has the statuses, logs and events of the control plane's pods, the Leases and the versions. It reads no Secret, masks what looks like one, and\n" +
			"says in manifest.json what is in it, what is cut and what is missing. It changes nothing on hosts,\n" +
			"and deletes the pods through which it has read them.\n\n" +
			"The exit code is 0 when all was read, 5 when the time was over before, and 1 when something else is missing. The file is saved then, too.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(func(o bundle.Options) (*bundle.Bundle, error) { return support.Of(cmd.Context(), c.Client, o) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&b.out, "out", "", "file (default: transplant-bundle-TIME.tar.gz in this directory)")
	fl.StringVar(
		&b.since,
		"since",
		"24h",
		"leave out what logs and events say of the time before: a duration (10m), or a time (2026-11-21T12:00:00Z)",
	)
	fl.StringVar(&b.maxSize, "max-size", "50Mi", "how large all files together may be, unpacked; of logs the ends are kept")
	console.PositiveDurationVar(
		fl,
		&b.timeout,
		"timeout",
		bundle.DefaultTimeout,
		"how long reading may take; what was read until then is saved",
	)
	fl.Int64Var(&b.lines, "tail", bundle.DefaultLines, "how many lines of a log are read, from its end")
	b.format = console.AddFormatFlag(cmd, "text", "json", "yaml")
	console.CheckOutFile(cmd, "out")
	console.CheckBefore(cmd, func(cmd *cobra.Command, _ []string) error {
		c.NoSecrets = true
		if console.StringFlag(cmd, "seed-namespace") != "" && c.Kubeconfig == "" && c.Context == "" {
			return errors.New(
				"a bundle reads no Secret, and a hosted cluster is reached by one unless its kubeconfig is named: give --kubeconfig",
			)
		}
		_, err := b.options()
		return err
	})
	return seed.AddTo(c, cmd, func(ctx context.Context, h *seed.Command) error {
		return b.run(func(o bundle.Options) (*bundle.Bundle, error) { return support.OfHosted(ctx, &h.Migration, o) })
	})
}

// options are the bounds that the flags say.
func (b *command) options() (bundle.Options, error) {
	size, err := resource.ParseQuantity(strings.TrimSuffix(b.maxSize, "B"))
	switch {
	case err != nil:
		return bundle.Options{}, fmt.Errorf("--max-size %q: give a number of bytes, such as 50Mi", b.maxSize)
	case size.Value() < bundle.MinBytes:
		return bundle.Options{}, fmt.Errorf("--max-size %q: give %s or more", b.maxSize, "1Mi")
	case b.timeout <= 0:
		return bundle.Options{}, fmt.Errorf("--timeout %s: give a duration, such as 5m", b.timeout)
	case b.lines <= 0:
		return bundle.Options{}, fmt.Errorf("--tail %d: give a number of lines, such as 5000", b.lines)
	}
	since, err := b.console.ParseSince(b.since)
	return bundle.Options{
		MaxBytes:   size.Value(),
		Timeout:    b.timeout,
		LogTimeout: LogTimeout,
		Lines:      b.lines,
		LogBytes:   bundle.DefaultLogBytes,
		Since:      since,
	}, err
}

// run gathers a bundle, saves it, and says what is in it.
func (b *command) run(gather func(bundle.Options) (*bundle.Bundle, error)) error {
	c := b.console
	o, err := b.options()
	if err != nil {
		return err
	}
	path := b.out
	if path == "" {
		path = "transplant-bundle-" + client.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	if err := wholefile.Check(path); err != nil {
		return err
	}
	made, err := gather(o)
	if err != nil {
		return err
	}
	data, manifest, err := made.Archive()
	if err != nil {
		return err
	}
	if err := wholefile.Write(path, data, 0o600); err != nil {
		return err
	}
	for _, f := range manifest.Files {
		c.Narrate("  %-36s %10s  %s%s", f.Name, bundle.Size(f.Bytes), f.What, cutWords(f))
	}
	for _, gap := range manifest.Missing {
		c.Narrate("  missing: %s: %s", gap.What, gap.Error)
	}
	c.Narrate(
		"saved %s (%s)\nlook through it before you hand it on; it holds names and addresses of your cluster, no secrets that transplant knows for such",
		path,
		bundle.Size(int64(len(data))),
	)
	if err := b.print(path, manifest); err != nil {
		return err
	}
	return complete(made, manifest, path)
}

func cutWords(f v1.BundleFile) string {
	if f.Cut == "" {
		return ""
	}
	return " (left out: " + f.Cut + ")"
}

// print writes the answer: the file's path, or the manifest.
func (b *command) print(path string, manifest v1.BundleManifest) error {
	return b.format.Print(b.console.Out, manifest, map[string]func() error{"text": func() error {
		_, err := visible.Fprintf(b.console.Out, "%s\n", path)
		return err
	}})
}

// complete is an error where something is missing.
func complete(made *bundle.Bundle, manifest v1.BundleManifest, path string) error {
	if len(manifest.Missing) == 0 {
		return nil
	}
	var names []string
	for _, gap := range manifest.Missing {
		names = append(names, gap.What)
	}
	code, why := exitcode.Error, "with more rights, or when the API server answers again, the same command saves it, too"
	if made.IsTimedOut() {
		code, why = exitcode.Timeout, "with a larger --timeout the same command saves it, too"
	}
	return exitcode.With(
		code,
		"%s is saved and not complete: %s could not be read (%s); manifest.json says why; %s",
		path,
		english.Count(len(names), "part"),
		english.FirstOf(5, names),
		why,
	)
}
