package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	bundlecmd "github.com/transplant-dev/transplant/internal/cli/bundle"
	"github.com/transplant-dev/transplant/internal/cli/complete"
	"github.com/transplant-dev/transplant/internal/cli/console"
	fleetcmd "github.com/transplant-dev/transplant/internal/cli/fleet"
	"github.com/transplant-dev/transplant/internal/cli/help"
	orphanscmd "github.com/transplant-dev/transplant/internal/cli/orphans"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/cli/seed"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Run executes one command line and returns its exit code.
func Run(ctx context.Context, args []string, s console.Streams) int {
	c := console.New(s)
	ctx, c.Session.Abort = context.WithCancelCause(ctx)
	defer c.Session.Abort(nil)
	defer c.Close(ctx)
	root := rootOf(c, calledAs(os.Args[0])) //nolint:contextcheck // cobra hands the context of ExecuteContext to every command
	refuseUnknownShells(root)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && errors.Is(context.Cause(ctx), client.ErrAborted) {
		err = client.ErrAborted
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(s.Err, "error: %s\n", c.Advice(visible.Lines(mask.Error(err))))
		if rights := help.Rights(cmd); rights != "" && apierrors.IsForbidden(err) {
			fmt.Fprintf(s.Err, "this command takes rights that you may not have. %s\n", rights)
		}
	}
	c.RemindFlags()
	code := exitCodeOf(cmd, err)
	c.Finish(code, err)
	return code
}

// exitCodeOf is the exit code of a command that ended with an error, or with none.
func exitCodeOf(cmd *cobra.Command, err error) int {
	code := exitcode.Of(err)
	if code == exitcode.Error && err.Error() != "" && cmd.Annotations[comparing] != "" {
		return exitcode.DiffError // 1 says that there are differences, and this may be a flag that is mistyped
	}
	return code
}

// calledAs is the name under which this program was called: kubectl runs a plugin of the name kubectl-transplant.
func calledAs(argv0 string) string {
	if strings.HasPrefix(filepath.Base(argv0), "kubectl-") {
		return pluginName
	}
	return programName
}

// The names under which this program is called: by itself, and as a plugin of kubectl.
const (
	programName = "transplant"
	pluginName  = "kubectl " + programName
)

// NewCommand returns the whole command line, from which a release makes its manual pages and completions.
func NewCommand() *cobra.Command {
	root := newRoot(console.Streams{}, programName)
	root.Long += "\n\n" + exitCodes
	return root
}

func newRoot(s console.Streams, name string) *cobra.Command { return rootOf(console.New(s), name) }

func rootOf(c *console.Console, name string) *cobra.Command {
	s := c.Streams
	// Libraries put flags of their own (--version=raw) into the flag set that cobra adds to every command.
	pflag.CommandLine = pflag.NewFlagSet(name, pflag.ContinueOnError)
	root := &cobra.Command{
		Use:   programName,
		Short: "Move a cluster's cloud loops out of kube-controller-manager, without two owners and almost without a gap",
		Long: "Transplant moves the cloud loops (service, route, node lifecycle) of a cluster from kube-controller-manager to a cloud-controller-manager.\n" +
			"A report says whether two managers acted at the same time, and for how long none did.",
		Example: "  transplant check --cloud=aws\n" +
			"  transplant plan --cloud=aws --out plan.yaml\n" +
			"  transplant apply --cloud=aws plan.yaml\n" +
			"  transplant report --cloud=aws -o html --out report.html\n" +
			"  transplant rollback --cloud=aws",
		Version:       client.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.Example = strings.ReplaceAll(root.Example, "  transplant ", "  "+name+" ")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetIn(s.In)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		meant := ""
		if near := console.UnknownFlag(cmd, err); len(near) > 0 {
			meant = "did you mean " + strings.Join(near, " or ") + "? "
		}
		return exitcode.With(exitcode.Error, "%w\n%ssee: %s --help", console.DescribeFlagError(err), meant, cmd.CommandPath())
	})
	root.SetVersionTemplate("transplant {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	c.AddGlobalFlags(root.PersistentFlags())
	c.Called, c.Given = name, root.PersistentFlags()
	console.Complete(root, "host-access", console.CompleteHostAccess)
	root.AddGroup(&cobra.Group{ID: "inspect", Title: "Inspect:"}, &cobra.Group{ID: "plan", Title: "Plan:"},
		&cobra.Group{ID: "change", Title: "Change:"}, &cobra.Group{ID: "recover", Title: "Recover:"},
		&cobra.Group{ID: "fleet", Title: "Fleets:"}, &cobra.Group{ID: "other", Title: "Other:"})
	root.SetCompletionCommandGroupID("other")
	// Such a script completes "transplant". kubectl completes a plugin through kubectl_complete-transplant.
	root.CompletionOptions.DisableDefaultCmd = name == pluginName
	root.SetHelpCommandGroupID("other")
	for _, cmd := range []struct {
		group string
		cmd   *cobra.Command
	}{
		{"inspect", seed.AddTo(c, newCheck(c), seed.Check)},
		{"inspect", seed.AddTo(c, newStatus(c), seed.Status)},
		{"inspect", seed.AddTo(c, newTimeline(c), seed.Timeline)},
		{"inspect", newVerify(c)},
		{"inspect", newProbe(c)},
		{"inspect", newExplain(c)},
		{"plan", newSnapshot(c)},
		{"plan", seed.AddTo(c, newPlan(c), seed.Plan)},
		{"plan", newDiff(c)},
		{"change", seed.AddTo(c, newApply(c), seed.Apply)},
		{"change", newPause(c)},
		{"change", newResume(c)},
		{"change", seed.AddTo(c, newRenew(c), seed.Renew)},
		{"change", help.MarkPreview(orphanscmd.NewCommand(c))},
		{"recover", seed.AddTo(c, newRollback(c), seed.Rollback)},
		{"recover", newUnlock(c)},
		{"recover", bundlecmd.NewCommand(c)},
		{"fleet", help.MarkPreview(fleetcmd.NewCommand(c))},
		{"other", newReport(c)},
		{"other", newVersion(c)},
		{"other", newHostAgent(c)},
	} {
		cmd.cmd.GroupID = cmd.group
		for _, each := range append(cmd.cmd.Commands(), cmd.cmd) {
			each.Example = strings.ReplaceAll(each.Example, "  transplant ", "  "+name+" ")
		}
		root.AddCommand(cmd.cmd)
	}
	for _, cmd := range root.Commands() {
		for _, each := range append(cmd.Commands(), cmd) {
			console.ExplainArguments(each)
			c.RefuseSilentRequests(each)
		}
	}
	complete.Register(root, c.Client)
	help.Set(root, exitCodes, console.TerminalWidth(s.Out))
	for _, cmd := range root.Commands() {
		c.Commands = append(c.Commands, cmd.Name())
	}
	return root
}

// refuseUnknownShells has "completion" end with an error for a shell that it has no script for. As cobra makes it, it
// prints its help then, and a shell's startup file would read that as a script.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		console.ExplainArguments(completion)
	}
}

func newVersion(c *console.Console) *cobra.Command {
	var output *printer.Format
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := v1.Version{
				TypeMeta: v1.Type(v1.KindVersion),
				Version:  client.Version,
				Go:       runtime.Version(),
				Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			return output.Print(c.Out, v, map[string]func() error{"text": func() error {
				_, err := fmt.Fprintf(c.Out, "transplant %s\n", client.Version)
				return err
			}})
		},
	}
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	return cmd
}

const exitCodes = `Exit codes:
  0    done, nothing blocks
  1    error; diff: there are differences
  2    changes are pending (plan --detailed-exitcode)
  3    blocked by findings, or refused in a dry run on the server
  4    verification failed; the cluster is in the state that the message names
  5    timed out; run the same command again to go on
  6    the plan is stale; the message names what changed
  7    not approved; no terminal to ask on and no --yes; or no --context where there are several
  8    another process holds the lock
  9    diff: error
  130  interrupted; run the same command again to go on`
