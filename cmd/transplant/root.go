package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/mask"
)

// version is stamped by the release; a build from source says so.
var version = "v0.1.0-dev"

// streams are where a command reads and writes: the answer on out, the conversation on err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	c := &connection{streams: s}
	ctx, c.session.abort = context.WithCancelCause(ctx)
	defer c.session.abort(nil)
	defer c.close(ctx)
	root := rootOf(c, calledAs(os.Args[0])) //nolint:contextcheck // cobra hands the context of ExecuteContext to every command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errAborted) {
		err = errAborted
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(s.err, "error: %s\n", visible(mask.Error(err)))
	}
	return codeOf(err)
}

// calledAs is the name under which this program was called: kubectl runs a plugin of the name kubectl-transplant.
func calledAs(argv0 string) string {
	if strings.HasPrefix(filepath.Base(argv0), "kubectl-") {
		return "kubectl transplant"
	}
	return "transplant"
}

func newRoot(s streams, name string) *cobra.Command { return rootOf(&connection{streams: s}, name) }

func rootOf(c *connection, name string) *cobra.Command {
	s := c.streams
	// Libraries put flags of their own (--version=raw) into the flag set that cobra adds to every command.
	pflag.CommandLine = pflag.NewFlagSet(name, pflag.ContinueOnError)
	root := &cobra.Command{
		Use:   "transplant",
		Short: "Move a cluster's cloud loops out of kube-controller-manager, without two owners and almost without a gap",
		Long: "Transplant moves the cloud loops (service, route, node lifecycle) of a cluster from kube-controller-manager to a cloud-controller-manager\n" +
			"so that at no moment two managers act and at almost no moment none does, and proves it.",
		Example: "  transplant check\n" +
			"  transplant plan --out plan.yaml\n" +
			"  transplant apply plan.yaml\n" +
			"  transplant report -o html --out report.html\n" +
			"  transplant rollback",
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.Example = strings.ReplaceAll(root.Example, "  transplant ", "  "+name+" ")
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetIn(s.in)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withCode(exitError, "%w\nsee: %s --help", err, cmd.CommandPath())
	})
	c.flags(root.PersistentFlags())
	c.called, c.given = name, root.PersistentFlags()
	complete(root, "host-access", completeHostAccess)
	root.AddGroup(&cobra.Group{ID: "inspect", Title: "Inspect:"}, &cobra.Group{ID: "plan", Title: "Plan:"},
		&cobra.Group{ID: "change", Title: "Change:"}, &cobra.Group{ID: "recover", Title: "Recover:"},
		&cobra.Group{ID: "fleet", Title: "Fleets:"}, &cobra.Group{ID: "other", Title: "Other:"})
	root.SetCompletionCommandGroupID("other")
	root.SetHelpCommandGroupID("other")
	for _, cmd := range []struct {
		group string
		cmd   *cobra.Command
	}{
		{"inspect", c.hostedToo(newCheck(c), hostedCheck)}, {"inspect", c.hostedToo(newStatus(c), hostedStatus)}, {"inspect", newTimeline(c)}, {"inspect", newVerify(c)}, {"inspect", newProbe(c)}, {"inspect", newExplain(c)},
		{"plan", newSnapshot(c)}, {"plan", c.hostedToo(newPlan(c), hostedPlanned)}, {"plan", newDiff(c)},
		{"change", c.hostedToo(newApply(c), hostedApply)}, {"change", newPause(c)}, {"change", newResume(c)},
		{"recover", c.hostedToo(newRollback(c), hostedRollback)}, {"recover", newUnlock(c)}, {"change", c.hostedToo(newRenew(c), hostedRenew)},
		{"fleet", newFleet(c)},
		{"other", newReport(c)}, {"other", newVersion(c)}, {"other", newHostAgent(c)},
	} {
		cmd.cmd.GroupID = cmd.group
		for _, each := range append(cmd.cmd.Commands(), cmd.cmd) {
			each.Example = strings.ReplaceAll(each.Example, "  transplant ", "  "+name+" ")
		}
		root.AddCommand(cmd.cmd)
	}
	root.SetUsageTemplate(root.UsageTemplate() + "\n" + exitCodes + "\n")
	return root
}
