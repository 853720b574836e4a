package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate"
)

func newVerify(c *connection) *cobra.Command {
	var output *format
	cmd := &cobra.Command{
		Use: "verify", Short: "Prove that each loop has one owner and that nothing was lost", Args: cobra.NoArgs,
		Example: "  transplant verify --host-access=local:/srv/hosts --cloud=aws",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.open(cmd.Context()); err != nil {
				return err
			}
			r, err := c.buildReport(cmd.Context(), reportFlags{})
			if err != nil {
				return err
			}
			problems := verifyProblems(r.after, r.journal, r.report)
			doc := map[string]any{"apiVersion": v1.GroupVersion, "kind": "Verification", "result": "ok", "problems": problems}
			if len(problems) > 0 {
				doc["result"] = "failed"
			}
			err = output.print(c.out, doc, map[string]func() error{"text": func() error {
				return printVerification(c.out, problems, r, c.layoutFor(c.out, false))
			}})
			if err == nil && len(problems) > 0 {
				return withCode(exitUnverified, "%d problems; the cluster was left as it is", len(problems))
			}
			return err
		},
	}
	output = formatFlag(cmd, "text", "json", "yaml")
	return cmd
}

func printVerification(w io.Writer, problems []string, r *built, l layout) error {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s %s\n", l.mark(v1.Fail), p)
	}
	if len(problems) == 0 {
		fmt.Fprintf(&b, "%s each loop has one owner (%s)\n", l.mark(v1.Pass), ownersLine(r.after))
		fmt.Fprintf(&b, "%s nothing was lost: %s\n", l.mark(v1.Pass), inventoryLine(r.report.Inventory))
	}
	_, err := io.WriteString(w, l.plain(b.String()))
	return err
}

// verifyProblems lists what is not as the journal's last state promises.
func verifyProblems(after *v1.Snapshot, doc v1.Journal, r v1.Report) []string {
	out := []string{}
	expect := map[string]string{}
	for _, s := range doc.Plan.Steps {
		if s.Kind == v1.StepVerify {
			expect = s.Expect
		}
	}
	switch doc.Phase {
	case v1.RunRolledBack:
		for l := range expect {
			expect[l] = "kube-controller-manager"
		}
	case v1.RunApplied:
	default:
		out = append(out, fmt.Sprintf("migration %s is not finished: it is %s", doc.Run, doc.Phase))
	}
	if why := migrate.Owned(after.Managers, expect); why != "" {
		out = append(out, why)
	}
	for _, d := range r.Inventory.Differences {
		if !d.Expected {
			out = append(out, fmt.Sprintf("%s: %s is %q, it was %q", d.Object, d.Field, d.After, d.Before))
		}
	}
	for _, e := range after.Errors {
		out = append(out, fmt.Sprintf("%s is unknown: %s", e.Fact, e.Error))
	}
	return out
}

func ownersLine(s *v1.Snapshot) string {
	var out []string
	for _, m := range s.Managers {
		for _, l := range m.Loops {
			if _, known := loopNames[l]; known {
				out = append(out, l+": "+m.Component+"@"+m.Host)
			}
		}
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

func inventoryLine(i v1.InventoryReport) string {
	return fmt.Sprintf("load balancers %d -> %d, %d recreated; routes %d -> %d; nodes %d -> %d, %d provider ids changed",
		i.LoadBalancers.Before, i.LoadBalancers.After, i.LoadBalancers.Recreated, i.Routes.Before, i.Routes.After, i.Nodes.Before, i.Nodes.After, i.Nodes.ChangedProviderID)
}
