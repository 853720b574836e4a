package cli

import (
	"bytes"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/report"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

func newReport(c *console.Console) *cobra.Command {
	var f client.Evidence
	var out string
	var output *printer.Format
	var accept []string
	cmd := &cobra.Command{
		Use: "report", Short: "Write the proof: who ran which loop when, gaps, before and after", Args: cobra.NoArgs,
		Example: "  transplant report --cloud=aws -o html --out report.html\n" +
			"  transplant report -o svg --out report.svg   # its timeline as a picture",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Audit == "" {
				if err := console.RefuseFlags(cmd, "it says whose the calls in --cloud-audit are", "cloud-keys"); err != nil {
					return err
				}
			}
			var err error
			if f.Accept, err = client.AcceptedObjects(accept); err != nil {
				return err
			}
			if err := c.OpenMigrated(cmd.Context()); err != nil {
				return err
			}
			r, err := c.BuildReport(cmd.Context(), f)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			write := func() error { return report.Write(&b, r.Report, output.String()) }
			if output.String() == "junit" {
				write = func() error { return printer.ReportJUnit(&b, r.Report) }
			}
			if err := write(); err != nil {
				return err
			}
			if out == "" {
				_, err = c.Out.Write(b.Bytes())
				return err
			}
			if err := wholefile.Write(out, b.Bytes(), 0o600); err != nil {
				return err
			}
			c.Narrate("saved %s: %s", out, r.Report.Result)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file (default: standard output)")
	console.CheckOutFile(cmd, "out")
	acceptFlag(cmd, &accept)
	output = console.AddFormatFlag(cmd, "markdown", "html", "svg", "json", "yaml", "junit")
	cmd.Flags().StringVar(&f.Log, "ownership-log", "", "ownership log (default: what apply kept on this machine)")
	cmd.Flags().
		StringVar(&f.Probes, "disruption-log", "", "disruption log (default: what apply --probe kept on this machine)")
	cmd.Flags().
		StringVar(&f.Audit, "cloud-audit", "", "audit log of the cloud, JSON lines of CloudCall: proves that no two managers wrote")
	cmd.Flags().
		StringVar(&f.Keys, "cloud-keys", "", `who has which access key, JSON: {"AKIA...": "kube-controller-manager@cp-1"}`)
	return cmd
}

func newVerify(c *console.Console) *cobra.Command {
	var output *printer.Format
	var accept []string
	var f client.Evidence
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that each loop has one owner and that nothing was lost",
		Args:  cobra.NoArgs,
		Example: "  transplant verify --cloud=aws\n" +
			"  transplant verify --accept 'Node/worker-3=taken down by ops on Monday' --accept 'Node/spot-*=come and go'",
		Long: "Verify compares the cluster with the snapshot from before the migration: nodes, Services, endpoints, volumes, attachments, CSI drivers, and\n" +
			"with --cloud load balancers and routes. It reads which manager runs the loops, and whether the outages that apply --probe measured kept their budget. What a migration\n" +
			"causes, and what only a user can have done, is an expected difference. Any other one fails, and names who made it where managed fields or events tell. What\n" +
			"could not be looked at is unknown, never passed. It works after apply, in the middle, after a rollback, and long after.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Accept, err = client.AcceptedObjects(accept); err != nil {
				return err
			}
			if err := c.OpenMigrated(cmd.Context()); err != nil {
				return err
			}
			v, err := c.Verify(cmd.Context(), f)
			if err != nil {
				return err
			}
			text := func(wide bool) func() error {
				return func() error { return printer.PrintVerification(c.Out, v, c.LayoutFor(c.Out, wide)) }
			}
			err = output.Print(c.Out, v, map[string]func() error{
				"text": text(false), "wide": text(true), "junit": func() error { return printer.VerificationJUnit(c.Out, v) },
			})
			if err == nil && v.Result != v1.ResultOK {
				return exitcode.With(
					exitcode.Unverified,
					"%s; the cluster was left as it is",
					english.Count(len(v.Problems), "problem"),
				)
			}
			return err
		},
	}
	output = console.AddFormatFlag(cmd, "text", "wide", "json", "yaml", "junit")
	acceptFlag(cmd, &accept)
	cmd.Flags().
		StringVar(&f.Probes, "disruption-log", "", "disruption log (default: what apply --probe kept on this machine)")
	return cmd
}

// acceptFlag adds the flag with which an operator lives with a difference.
func acceptFlag(cmd *cobra.Command, accept *[]string) {
	cmd.Flags().StringArrayVar(accept, "accept", nil,
		`live with a difference, OBJECT="reason" or "OBJECT FIELD=reason"; * stands for any part of a name`)
}
