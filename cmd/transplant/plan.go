package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// planFlags are the options of a plan, shared by check, plan and apply.
type planFlags struct {
	options v1.Options
	accept  []string
}

func (f *planFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.options.Strategy, "strategy", plan.LeaderMigration, "leader-migration")
	fl.StringVar(&f.options.Image, "image", plan.DefaultImage, "image of the cloud-controller-manager")
	fl.StringArrayVar(&f.options.Env, "ccm-env", nil, "environment of the cloud-controller-manager, NAME=VALUE; {host} stands for the host's name; never a secret, name a file instead")
	fl.StringVar(&f.options.LeaseName, "lease-name", plan.DefaultLease, "name of the migration lease")
	fl.StringVar(&f.options.RetryPeriod, "retry-period", plan.DefaultRetryPeriod, "--leader-elect-retry-period of the managers during the migration")
	fl.StringVar(&f.options.RenewDeadline, "renew-deadline", plan.DefaultRenewDeadline, "--leader-elect-renew-deadline of the managers during the migration")
	fl.StringVar(&f.options.ClusterName, "cluster-name", "", "--cluster-name of the cloud-controller-manager (default: what the live kube-controller-manager has)")
	fl.BoolVar(&f.options.KeepLeaderMigration, "keep-leader-migration", false, "leave leader migration on at the end, for a quicker way back")
	fl.StringArrayVar(&f.accept, "accept", nil, `accept a finding that blocks, CODE="reason"; mandatory ones cannot be accepted`)
}

func (f *planFlags) checkOptions() check.Options {
	names := make([]string, 0, len(f.options.Env))
	for _, e := range f.options.Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	accept := map[string]string{}
	for _, a := range f.accept {
		code, reason, _ := strings.Cut(a, "=")
		accept[code] = reason
	}
	return check.Options{Strategy: f.options.Strategy, Image: f.options.Image, LeaseName: f.options.LeaseName, CCMEnv: names, RenewDeadline: f.options.RenewDeadline, Accept: accept}
}

func newPlan(c *connection) *cobra.Command {
	var f planFlags
	var from, out string
	var detailed bool
	var output *format
	cmd := &cobra.Command{
		Use: "plan", Short: "Print the steps of the migration, and save them", Args: cobra.NoArgs,
		Example: "  transplant plan --host-access=local:/srv/hosts --out plan.yaml\n  transplant plan --from-snapshot snapshot.yaml -o markdown > change-request.md",
		RunE: func(cmd *cobra.Command, _ []string) error {
			snap, err := c.snapshotFrom(cmd.Context(), from, f.options.LeaseName)
			if err != nil {
				return err
			}
			c.header(snap.Cluster)
			if err := check.ValidateAccept(f.checkOptions().Accept); err != nil {
				return err
			}
			report := check.Run(snap, f.checkOptions())
			p, err := plan.Make(snap, f.options, report.Findings, now())
			if err != nil {
				return withCode(exitBlocked, "no plan can be made: %w", err)
			}
			if out != "" {
				if err := writeYAML(out, p); err != nil {
					return err
				}
				c.narrate("saved %s; carry it out with: transplant apply %s", out, out)
			}
			err = output.print(c.out, p, map[string]func() error{
				"text":     func() error { return printPlan(c.out, p, c.layoutFor(c.out, false)) },
				"wide":     func() error { return printPlan(c.out, p, c.layoutFor(c.out, true)) },
				"markdown": func() error { return planMarkdown(c.out, p) },
			})
			if err != nil {
				return err
			}
			if report.Summary.Blocked {
				return withCode(exitBlocked, "this plan is blocked by %s: see transplant check", blocking(report))
			}
			if detailed && len(p.Steps) > 0 {
				return withCode(exitPending, "")
			}
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&from, "from-snapshot", "", "plan for a snapshot in a file instead of a live cluster")
	cmd.Flags().StringVar(&out, "out", "", "also save the plan in this file")
	output = formatFlag(cmd, "text", "wide", "markdown", "json", "yaml")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with 2 when there is something to change")
	return cmd
}

// now is the time that is written into plans and reports.
var now = time.Now

func readPlan(path string) (*v1.Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	var p v1.Plan
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		return nil, fmt.Errorf("plan %s: %w", path, err)
	}
	if p.Kind != v1.KindPlan || p.APIVersion != v1.GroupVersion {
		return nil, fmt.Errorf("plan %s is a %s %s, not a %s %s", path, p.APIVersion, p.Kind, v1.GroupVersion, v1.KindPlan)
	}
	if p.Direction != plan.Forward {
		return nil, fmt.Errorf("plan %s is a %s: apply carries out migrations, rollback makes its own plan", path, p.Direction)
	}
	if err := plan.WellFormed(&p); err != nil {
		return nil, fmt.Errorf("plan %s is damaged; make it anew with transplant plan:\n%w", path, err)
	}
	return &p, nil
}

// writeYAML writes a document whole or not at all.
func writeYAML(path string, doc any) error {
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return writeWhole(path, data)
}

func writeWhole(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".transplant-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // it was renamed, or it is no good
	_, err = tmp.Write(data)
	if syncErr := tmp.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w; nothing of it was written", path, err)
	}
	return nil
}

func readSnapshot(path string) (*v1.Snapshot, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	s, err := snapshot.Load(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	return s, nil
}
