package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/report"
	"github.com/transplant-dev/transplant/internal/snapshot/blame"
)

func newVerify(c *connection) *cobra.Command {
	var output *format
	var accept []string
	var f reportFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "Prove that each loop has one owner and that nothing was lost", Args: cobra.NoArgs,
		Example: "  transplant verify --cloud=aws\n" +
			"  transplant verify --accept 'Node/worker-3=taken down by ops on Monday' --accept 'Node/spot-*=come and go'",
		Long: "Verify compares the cluster with the snapshot from before the migration: nodes, Services and their endpoints, volumes and their attachments, CSI drivers, and\n" +
			"with --cloud load balancers and routes; it looks who runs the loops, and whether the outages that apply --probe measured kept their budget. What a migration\n" +
			"causes, and what only a user can have done, is an expected difference. Any other one fails, and names who made it where managed fields or events tell. What\n" +
			"could not be looked at is unknown, never passed. It works after apply, in the middle, after a rollback, and long after.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reasons, err := acceptedObjects(accept)
			if err != nil {
				return err
			}
			if err := c.openMigrated(cmd.Context()); err != nil {
				return err
			}
			v, err := c.verify(cmd.Context(), f, reasons)
			if err != nil {
				return err
			}
			text := func(wide bool) func() error {
				return func() error { return printVerification(c.out, v, c.layoutFor(c.out, wide)) }
			}
			err = output.print(c.out, v, map[string]func() error{
				"text": text(false), "wide": text(true), "junit": func() error { return verificationJUnit(c.out, v) },
			})
			if err == nil && v.Result != v1.ResultOK {
				return withCode(exitUnverified, "%s; the cluster was left as it is", count(len(v.Problems), "problem"))
			}
			return err
		},
	}
	output = formatFlag(cmd, "text", "wide", "json", "yaml", "junit")
	cmd.Flags().StringArrayVar(&accept, "accept", nil, `live with a difference, OBJECT="reason" or "OBJECT FIELD=reason"; * stands for any part of a name`)
	cmd.Flags().StringVar(&f.probes, "disruption-log", "", "disruption log (default: what apply --probe kept on this machine)")
	return cmd
}

// acceptedObjects reads the values of --accept.
func acceptedObjects(values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range values {
		object, reason, _ := strings.Cut(a, "=")
		if !strings.Contains(object, "/") || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf(`--accept %q: give an object and a reason, such as 'Node/worker-3=taken down by ops'`, a)
		}
		out[object] = strings.TrimSpace(reason)
	}
	return out, nil
}

// verify gathers and judges.
func (c *connection) verify(ctx context.Context, f reportFlags, accept map[string]string) (v1.Verification, error) {
	b, err := c.buildReport(ctx, f)
	if err != nil {
		return v1.Verification{}, err
	}
	remains, err := lostnode.Remaining(ctx, c.kube, b.journal)
	if err != nil {
		return v1.Verification{}, err
	}
	blame.Blame(ctx, c.kube, b.before.TakenAt, b.report.Inventory.Differences)
	v, unused := report.Verify(report.VerifyInput{
		Report: b.report, Phase: b.journal.Phase, Owners: manager.CompareOwners(b.after.Managers, promised(b.journal)), OwnersLine: ownersLine(b.after), Remains: remains,
		Errors: b.after.Errors, CloudBefore: b.before.Cloud != nil, CloudNow: b.after.Cloud != nil, Accept: accept,
	})
	for _, key := range unused {
		c.narrate("--accept %s is not needed: there is no such difference; take it back", key)
	}
	return v, nil
}

// promised are the owners that the last state of a migration promises: those of the whole plan once it is applied, of the last step that is done before, and
// kube-controller-manager once it is rolled back. While a rollback goes on, each loop has one owner, whoever that is.
func promised(doc v1.Journal) map[string]string {
	expect := map[string]string{}
	for _, s := range doc.Plan.Steps {
		if s.Kind == v1.StepVerify {
			expect = maps.Clone(s.Expect)
		}
	}
	if doc.Phase == v1.RunApplied {
		return expect
	}
	owner := ""
	if doc.Phase == v1.RunRolledBack {
		owner = "kube-controller-manager"
	}
	for loop := range expect {
		expect[loop] = owner
	}
	if doc.Phase != v1.RunApplying {
		return expect
	}
	results := map[string]string{}
	for _, r := range doc.Records {
		results[r.ID] = r.Result
	}
	for _, s := range doc.Plan.Steps {
		if done := results[s.ID]; len(s.Expect) > 0 && (done == "done" || done == "already-done") {
			maps.Copy(expect, s.Expect)
		}
	}
	return expect
}

// printVerification prints a line for each check, and below it what failed or is unknown; wide adds the differences that are expected.
func printVerification(w io.Writer, v v1.Verification, l layout) error {
	var b strings.Builder
	for _, c := range v.Checks {
		fmt.Fprintf(&b, "%s %s\n", l.paint(c.Outcome, l.mark(c.Outcome)), titled(c))
		for _, p := range c.Problems {
			if p != c.Summary {
				fmt.Fprintf(&b, "    %s\n", p)
			}
		}
		for _, d := range c.Differences {
			switch {
			case d.Accepted != "":
				fmt.Fprintf(&b, "    accepted: %s: %s (%s)\n", d.Object, d.Field, d.Accepted)
			case d.Expected && l.wide:
				fmt.Fprintf(&b, "    expected: %s: %s %s -> %s (%s)\n", d.Object, d.Field, orDash(d.Before), orDash(d.After), d.Why)
			}
		}
	}
	if hint := acceptHint(v); hint != "" {
		fmt.Fprintf(&b, "to live with a difference: transplant verify --accept '%s=REASON'\n", hint)
	}
	_, err := io.WriteString(w, l.plain(b.String()))
	return err
}

// titled is a check's sentence; those that only count are introduced by what they count.
func titled(c v1.VerificationCheck) string {
	switch c.Name {
	case "finished", "owners", "hosts", "facts":
		return c.Summary
	}
	return c.Name + ": " + c.Summary
}

// acceptHint is the first object with a difference that nothing explains.
func acceptHint(v v1.Verification) string {
	for _, c := range v.Checks {
		for _, d := range c.Differences {
			if !d.Expected && d.Accepted == "" {
				return d.Object
			}
		}
	}
	return ""
}

// verificationJUnit writes a verification as JUnit's XML, a case for each check.
func verificationJUnit(w io.Writer, v v1.Verification) error {
	suite := junitSuite{Name: "verify"}
	for _, c := range v.Checks {
		one := junitCase{Class: "verify", Name: c.Name}
		text := strings.Join(append([]string{c.Summary}, c.Problems...), "\n")
		suite.Tests++
		switch c.Outcome {
		case v1.Fail:
			suite.Failures++
			one.Failure = &junitMessage{Message: c.Summary, Type: findings.LevelError, Text: text}
		case v1.Unknown:
			suite.Errors++
			one.Error = &junitMessage{Message: c.Summary, Type: "unknown", Text: text}
		case v1.Skip:
			suite.Skipped++
			one.Skipped = &junitMessage{Message: c.Summary}
		default:
			one.Output = c.Summary
		}
		suite.Cases = append(suite.Cases, one)
	}
	out := junitSuites{
		Name: "transplant verify " + v.Cluster.Name, Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Skipped: suite.Skipped, Suites: []junitSuite{suite},
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the verification as XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
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
