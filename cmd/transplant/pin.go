package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// pin is the SHA-256 of the plan that may be carried out; empty for any.
type pin struct{ sha256 string }

func (f *pin) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.sha256, "plan-sha256", "", "carry out the plan with this SHA-256 and no other, as plan, apply and status print it")
}

// check refuses another plan than the one that is pinned.
func (f pin) check(p *v1.Plan, where string) error {
	have := compare.Digest(p)
	if f.sha256 == "" || strings.EqualFold(strings.TrimSpace(f.sha256), have) {
		return nil
	}
	return withCode(exitStale, "%s has SHA-256 %s, and --plan-sha256 asks for %s: nothing was changed; look at it with transplant plan or transplant status, have it approved, and give its SHA-256", where, have, f.sha256)
}

// approvalPath is where this machine notes which plan was approved here for a run.
func (c *connection) approvalPath(uid, run string) (string, error) {
	path, err := c.logPath(uid, run)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), filepath.Base(run)+".approved"), nil
}

// noteApproval keeps on this machine which plan was approved here: the journal is in the cluster, where others may write.
func (c *connection) noteApproval(p *v1.Plan, run string) error {
	path, err := c.approvalPath(p.Cluster.UID, run)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(approvalOf(p)+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting which plan was approved: %w; name another place with --state-dir", err)
	}
	return nil
}

// isApprovedHere tells that the plan of a run is the one that was approved on this machine.
func (c *connection) isApprovedHere(p *v1.Plan, run string) bool {
	path, err := c.approvalPath(p.Cluster.UID, run)
	if err != nil {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(data)) == approvalOf(p)
}

// approvalOf is what is kept of a plan that was approved. The digest of a hosted control plane's plan is of its steps alone.
func approvalOf(p *v1.Plan) string {
	if p.Cluster.Seed != "" {
		return compare.Seal(p)
	}
	return compare.Digest(p)
}

// rollbackRun is the name under which the approval of a run's rollback is kept.
func rollbackRun(run string) string { return run + ".rollback" }

// isBackApproved tells that a rollback was approved on this machine. One that is made now follows from its plan, whose approval counts. One that
// stands in the journal need not follow from it: only its own approval counts.
func (c *connection) isBackApproved(doc *v1.Journal, back *v1.Plan, run string) bool {
	return c.isApprovedHere(back, rollbackRun(run)) || !trust.IsRollingBack(doc) && c.isApprovedHere(&doc.Plan, run)
}

// checkApproved refuses --yes for a plan that stands in a journal and was neither approved on this machine nor pinned: then no person has looked at it.
func (f pin) checkApproved(yes, approved bool, p *v1.Plan, look string) error {
	if !yes || approved || f.sha256 != "" {
		return nil
	}
	return withCode(exitNotApproved, "the journal's plan was not approved on this machine, and with --yes nobody looks at it: nothing was changed; look at it with %s, and run the same command "+
		"without --yes on a terminal, or with --plan-sha256 %s", look, compare.Digest(p))
}
