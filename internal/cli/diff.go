package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	unifieddiff "github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/diff"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// externalDiff is the variable by which kubectl diff lets a user choose the program that compares, too.
const externalDiff = "KUBECTL_EXTERNAL_DIFF"

// comparing marks the command whose exit code 1 says that there are differences.
const comparing = "comparing"

func newDiff(c *console.Console) *cobra.Command {
	var f client.PlanOptions
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [PLAN]",
		Short: "Show what a plan would change in each file and object",
		// See Run.
		Annotations: map[string]string{comparing: "true"},
		Args:        cobra.MaximumNArgs(1),
		Example:     "  transplant diff\n  transplant diff plan.yaml\n  transplant diff --from-snapshot snapshot.yaml",
		Long: "Diff compares the cluster as it is with what it would be after the plan, and changes nothing on hosts.\nIt covers manifests, units, the kubelets' flags, kubeadm's configuration, Nodes, and the objects that the plan writes.\n" +
			"With --host-access it compares the files' bytes, edited as apply would edit them.\nFrom a snapshot alone, it compares the flags, one argument a line. Secrets are masked.\n\n" +
			"A Node is shown if its providerID, taints, labels, annotations or addresses will be others for good: not for a taint or a cordon that the plan removes again.\n" +
			"What the cloud says of its instance is known from --cloud, and in full from a snapshot with --prove; a remark above the Node says what is not known.\n\n" +
			"The exit code is that of kubectl diff: 0 without a difference, 1 with differences, more than 1 for an error (9 for one that is 1 elsewhere).\n" +
			"If " + externalDiff + " names a program, that program compares two directories instead. With -o json or yaml it is not used.",
		RunE: func(cmd *cobra.Command, args []string) error {
			different, err := runDiff(cmd.Context(), c, cmd, args, o, f)
			switch {
			case err != nil:
				return err
			case different:
				return exitcode.With(exitcode.Different, "")
			}
			return nil
		},
	}
	console.AddPlanFlags(&f, cmd)
	console.CheckPlanArgument(cmd)
	cmd.Flags().StringVar(&o.from, "from-snapshot", "", "compare for a snapshot in a file instead of a live cluster")
	cmd.Flags().StringVar(&o.until, "until", "", "the plan up to this step or phase only")
	o.format = console.AddFormatFlag(cmd, "text", "json", "yaml")
	return cmd
}

// diffOptions are where a comparison comes from, how far it goes, and how it is printed.
type diffOptions struct {
	from, until string
	format      *printer.Format
}

func runDiff(
	ctx context.Context,
	c *console.Console,
	cmd *cobra.Command,
	args []string,
	o diffOptions,
	f client.PlanOptions,
) (bool, error) {
	if err := console.CheckFromSnapshot(cmd, o.from, false); err != nil {
		return false, err
	}
	snap, err := c.SnapshotFrom(ctx, o.from, f.Options)
	if err != nil {
		return false, err
	}
	c.NameCluster(snap.Cluster)
	p, err := planToCompare(c.Client, snap, args, &f)
	if err != nil {
		return false, err
	}
	if until := cmp.Or(o.until, p.Until); until != "" {
		n, err := planstep.Until(p, until)
		if err != nil {
			return false, err
		}
		p.Steps = p.Steps[:n]
	}
	var files func(string) systemdunit.Files
	if o.from == "" && len(c.Hosts) > 0 {
		files = reader(ctx, c.Client, snap)
	}
	all, err := diff.Differences(p, snap, files)
	if err != nil {
		return false, fmt.Errorf("comparing: %w", err)
	}
	if o.format.Value != "text" {
		return len(all) > 0, o.format.Print(c.Out, differencesIn(snap.Cluster, all), nil)
	}
	if len(all) == 0 {
		return false, nil
	}
	if program := os.Getenv(externalDiff); program != "" {
		return true, compareWith(ctx, c, program, all)
	}
	for _, d := range all {
		text := unified(d)
		if console.IsTerminal(c.Out) { // a file gets the bytes as they are, for patch
			text = printer.Visible(text)
		}
		if _, err := io.WriteString(c.Out, text); err != nil {
			return false, err
		}
	}
	return true, nil
}

// differencesIn is the document that has the differences of a cluster.
func differencesIn(cluster v1.Cluster, all []diff.Difference) v1.Diff {
	doc := v1.Diff{TypeMeta: v1.Type(v1.KindDiff), Cluster: cluster, Differences: []v1.TextualDiff{}}
	for _, d := range all {
		doc.Differences = append(doc.Differences, v1.TextualDiff{Name: d.Name, Unified: unified(d)})
	}
	return doc
}

// unified compares two texts in the format that patch reads. A text that is empty is a file that is not there.
func unified(d diff.Difference) string {
	from, to := "a/"+d.Name, "b/"+d.Name
	if d.Before == "" {
		from = os.DevNull
	}
	if d.After == "" {
		to = os.DevNull
	}
	// The first line names both files once more, for readers of git's format.
	_, text, _ := strings.Cut(string(unifieddiff.Diff(from, []byte(d.Before), to, []byte(d.After))), "\n")
	return text
}

// planToCompare reads a plan, or makes one; what blocks it is apply's to say.
func planToCompare(c *client.Client, snap *v1.Snapshot, args []string, f *client.PlanOptions) (*v1.Plan, error) {
	if len(args) == 0 {
		if err := f.Choose(c, snap); err != nil {
			return nil, err
		}
		return plan.Make(snap, f.Options, check.Run(snap, f.CheckOptions()).Findings, client.Now())
	}
	p, err := client.ReadPlan(args[0])
	if err != nil {
		return nil, err
	}
	if err := client.CheckAgainstFile(f.Given, f.Options, p.Options, args[0]); err != nil {
		return nil, err
	}
	if p.Cluster.UID != snap.Cluster.UID {
		return nil, client.OtherCluster(args[0], p, snap.Cluster.UID)
	}
	// A plan names files that are read as root and shown: a step on /etc/shadow would print it.
	if err := invariant.CheckAllowed(p, snap); err != nil {
		return nil, exitcode.With(
			exitcode.Stale,
			"plan %s would do what no migration of this cluster does, so its files are not read; make it again with transplant plan:\n%w",
			args[0],
			err,
		)
	}
	return p, nil
}

// reader reads the files of the hosts by their names. Those of a host that the snapshot lacks are not read: what a plan
// may name on it is not known.
func reader(ctx context.Context, c *client.Client, snap *v1.Snapshot) func(string) systemdunit.Files {
	return func(name string) systemdunit.Files {
		if !slices.ContainsFunc(snap.Hosts, func(h v1.Host) bool { return h.Name == name && !h.APIOnly }) {
			return notReached(name)
		}
		for _, h := range c.Hosts {
			if h.Name() == name {
				return hostaccess.Reading(ctx, h)
			}
		}
		return notReached(name)
	}
}

type notReached string

func (n notReached) Read(string) ([]byte, error) {
	return nil, fmt.Errorf("host %q is in the plan and not in --host-access: name it there", string(n))
}

func (n notReached) List(string) ([]string, error) {
	_, err := n.Read("")
	return nil, err
}

// compareWith writes both sides into directories and has a program compare them, as kubectl diff does. Its exit code 1
// says that they differ.
func compareWith(ctx context.Context, c *console.Console, program string, all []diff.Difference) error {
	dir, err := os.MkdirTemp("", "transplant-diff-")
	if err != nil {
		return fmt.Errorf("writing what is compared: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it holds no secret
	for _, side := range []string{"LIVE", "PLANNED"} {
		for _, d := range all {
			text := d.Before
			if side == "PLANNED" {
				text = d.After
			}
			if err := writeSide(filepath.Join(dir, side), d.Name, text); err != nil {
				return err
			}
		}
	}
	words := strings.Fields(program)
	run := exec.CommandContext(
		ctx,
		words[0],
		append(
			words[1:],
			filepath.Join(dir, "LIVE"),
			filepath.Join(dir, "PLANNED"),
		)...) //nolint:gosec // the user's own choice
	run.Stdout, run.Stderr = c.Out, c.Err
	err = run.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("running %s=%q: %w", externalDiff, program, err)
	}
	return nil
}

// writeSide writes a text into a directory; an empty one is a file that is not there.
func writeSide(dir, name, text string) error {
	path := filepath.Join(dir, filepath.FromSlash(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing what is compared: %w", err)
	}
	if text == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing what is compared: %w", err)
	}
	return nil
}
