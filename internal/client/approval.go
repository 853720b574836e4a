package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// Pin is the SHA-256 of the plan that may be executed; empty for any.
type Pin struct{ Sha256 string }

// Check refuses another plan than the one that is pinned.
func (f Pin) Check(p *v1.Plan, where string) error {
	have := compare.Digest(p)
	if f.Sha256 == "" || strings.EqualFold(strings.TrimSpace(f.Sha256), have) {
		return nil
	}
	return exitcode.With(
		exitcode.Stale,
		"%s has SHA-256 %s, and --plan-sha256 asks for %s: nothing was changed; look at it (transplant plan; of a migration that was begun, transplant apply --dry-run), have it approved, and give its SHA-256",
		where,
		have,
		f.Sha256,
	)
}

// approvalPath is where this machine notes which plan was approved here for a run.
func (c *Client) approvalPath(uid, run string) (string, error) {
	path, err := c.LogPath(uid, run)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), filepath.Base(run)+".approved"), nil
}

// NoteApproval keeps on this machine which plan was approved here: the journal is in the cluster, where others may
// write.
func (c *Client) NoteApproval(p *v1.Plan, run string) error {
	path, err := c.approvalPath(p.Cluster.UID, run)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(ApprovalOf(p)+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting which plan was approved: %w; name another place with --state-dir", err)
	}
	return nil
}

// IsApprovedHere reports whether the plan of a run is the one that was approved on this machine.
func (c *Client) IsApprovedHere(p *v1.Plan, run string) bool {
	path, err := c.approvalPath(p.Cluster.UID, run)
	if err != nil {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(data)) == ApprovalOf(p)
}

// ApprovalOf is what is kept of a plan that was approved. The digest of a hosted control plane's plan is of its steps
// alone.
func ApprovalOf(p *v1.Plan) string {
	if p.Cluster.Seed != "" {
		return compare.Seal(p)
	}
	return compare.Digest(p)
}

// RollbackRun is the name under which the approval of a run's rollback is kept.
func RollbackRun(run string) string { return run + ".rollback" }

// IsBackApproved reports whether a rollback was approved on this machine. One that is made now follows from its plan,
// whose approval counts. One that stands in the journal need not follow from it: only its own approval counts.
func (c *Client) IsBackApproved(doc *v1.Journal, back *v1.Plan, run string) bool {
	return c.IsApprovedHere(back, RollbackRun(run)) || !trust.IsRollingBack(doc) && c.IsApprovedHere(&doc.Plan, run)
}

// CheckApproved refuses --yes for a plan in a journal that was neither approved on this machine nor pinned. No person
// has read it then.
func (f Pin) CheckApproved(yes, approved bool, p *v1.Plan, look string) error {
	if !yes || approved || f.Sha256 != "" {
		return nil
	}
	return exitcode.With(
		exitcode.NotApproved,
		"the journal's plan was not approved on this machine, and with --yes no operator reads it: nothing was changed; look at it with %s, and run the same command "+
			"without --yes on a terminal, or with --plan-sha256 %s",
		look,
		compare.Digest(p),
	)
}

// LogPath is where the ownership log of a run is kept on this machine.
func (c *Client) LogPath(uid, run string) (string, error) {
	for _, name := range []string{uid, run} { // of the journal, which others may have written
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return "", fmt.Errorf(
				"the journal names %q where a plain name belongs: no file of this machine is called by that; find out who wrote the journal",
				name,
			)
		}
	}
	dir, err := c.stateHome()
	if err != nil {
		return "", fmt.Errorf("finding a place for the ownership log: %w; name one with --state-dir", err)
	}
	return filepath.Join(dir, uid, run+".ownership.jsonl"), nil
}

// stateHome is the directory of this machine that is ours.
func (c *Client) stateHome() (string, error) {
	if c.StateDir != "" {
		return c.StateDir, nil
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "transplant"), nil
}
