package main

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate"
	"github.com/transplant-dev/transplant/internal/plan"
)

func newStatus(c *connection) *cobra.Command {
	var output *format
	cmd := &cobra.Command{
		Use: "status", Short: "One screen: how far it is, who owns the loops, what to do next", Args: cobra.NoArgs,
		Example: "  transplant status --host-access=local:/srv/hosts",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.open(cmd.Context()); err != nil {
				return err
			}
			j, err := migrate.Open(cmd.Context(), c.kube)
			if err != nil && !errors.Is(err, migrate.ErrNoJournal) {
				return err
			}
			var doc *v1.Journal
			lease := plan.DefaultLease
			if j != nil {
				d := j.Doc()
				doc, lease = &d, d.Plan.Options.LeaseName
			}
			snap := c.gather(cmd.Context(), lease)
			holder, err := migrate.LockHolder(cmd.Context(), c.kube)
			if err != nil {
				return err
			}
			s := statusOf(doc, snap, holder)
			return output.print(c.out, s, map[string]func() error{"text": func() error { return printStatus(c.out, s, c.layoutFor(c.out, false)) }})
		},
	}
	output = formatFlag(cmd, "text", "json", "yaml")
	return cmd
}

// statusOf sums a journal and a snapshot up.
func statusOf(doc *v1.Journal, snap *v1.Snapshot, lockHolder string) v1.Status {
	s := v1.Status{TypeMeta: v1.Type(v1.KindStatus), Cluster: snap.Cluster, Phase: "not-started", Owners: map[string]string{}, Next: "transplant check"}
	for _, m := range snap.Managers {
		for _, l := range m.Loops {
			who := m.Component + "@" + m.Host
			if s.Owners[l] != "" {
				who = s.Owners[l] + " AND " + who
			}
			s.Owners[l] = who
		}
	}
	if doc == nil {
		return s
	}
	s.Run, s.Phase = doc.Run, doc.Phase
	steps := doc.Plan.Steps
	if doc.Rollback != nil {
		steps = doc.Rollback.Steps
	}
	results := map[string]v1.StepRecord{}
	for _, r := range doc.Records {
		results[r.ID] = r
	}
	for _, step := range steps {
		r := results[step.ID]
		switch r.Result {
		case "done", "already-done":
			s.StepsDone++
		case "started":
			s.Current, s.LastError = append(s.Current, v1.StepStatus{ID: step.ID}), r.Error
		default:
			if s.Upcoming == "" {
				s.Upcoming = step.ID
			}
		}
	}
	if len(s.Current) > 0 {
		s.Upcoming = ""
	}
	s.StepsTotal = len(steps)
	s.Next = map[string]string{
		v1.RunApplying: "transplant apply   or   transplant rollback", v1.RunApplied: "transplant verify",
		v1.RunRollingBack: "transplant rollback", v1.RunRolledBack: "transplant check",
	}[doc.Phase]
	if lockHolder != "" {
		s.Lock = &v1.LockStatus{Holder: lockHolder}
		s.Next = "wait for " + lockHolder
	}
	return s
}

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
