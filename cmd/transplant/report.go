package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/report"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

// reportFlags name the evidence beside the journal.
type reportFlags struct {
	log, audit, keys, probes string
}

func newReport(c *connection) *cobra.Command {
	var f reportFlags
	var out string
	var output *format
	cmd := &cobra.Command{
		Use: "report", Short: "Write the proof: who ran which loop when, gaps, before and after", Args: cobra.NoArgs,
		Example: "  transplant report --cloud=aws -o html --out report.html",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.audit == "" {
				if err := refuseFlags(cmd, "it says whose the calls in --cloud-audit are", "cloud-keys"); err != nil {
					return err
				}
			}
			if err := c.openMigrated(cmd.Context()); err != nil {
				return err
			}
			r, err := c.buildReport(cmd.Context(), f)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := report.Write(&b, r.report, output.String()); err != nil {
				return err
			}
			if out == "" {
				_, err = c.out.Write(b.Bytes())
				return err
			}
			if err := wholefile.Write(out, b.Bytes(), 0o644); err != nil {
				return err
			}
			c.narrate("saved %s: %s", out, r.report.Result)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file (default: standard output)")
	output = formatFlag(cmd, "markdown", "html", "json", "yaml")
	cmd.Flags().StringVar(&f.log, "ownership-log", "", "ownership log (default: what apply kept on this machine)")
	cmd.Flags().StringVar(&f.probes, "disruption-log", "", "disruption log (default: what apply --probe kept on this machine)")
	cmd.Flags().StringVar(&f.audit, "cloud-audit", "", "audit log of the cloud, JSON lines of CloudCall: proves that no two managers wrote")
	cmd.Flags().StringVar(&f.keys, "cloud-keys", "", `who has which access key, JSON: {"AKIA...": "kube-controller-manager@cp-1"}`)
	return cmd
}

// openMigrated connects to the cluster, and to its hosts and its cloud only if there is a migration to look at: without one no pod is started.
func (c *connection) openMigrated(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	if _, err := journal.Open(ctx, c.kube); err != nil {
		return err
	}
	return c.openRest(ctx)
}

type built struct {
	report  v1.Report
	journal v1.Journal
	before  *v1.Snapshot
	after   *v1.Snapshot
}

// buildReport gathers the evidence of the last migration and judges it.
func (c *connection) buildReport(ctx context.Context, f reportFlags) (*built, error) {
	j, err := journal.Open(ctx, c.kube)
	if err != nil {
		return nil, err
	}
	doc := j.Doc()
	if err := trust.CheckJournal(doc, nil); err != nil { // its options say which files of hosts are looked at
		return nil, err
	}
	before, err := journal.Before(ctx, c.kube)
	if err != nil {
		return nil, err
	}
	in := report.Input{Journal: doc, Before: before, After: c.gather(ctx, doc.Plan.Options), Now: now(), ToolVersion: version}
	if in.Events, err = c.readEvents(f.log, doc); err != nil {
		return nil, err
	}
	if in.Probes, err = c.readDisruption(f.probes, doc); err != nil {
		return nil, err
	}
	if f.audit != "" {
		if in.Calls, err = readCalls(f.audit); err != nil {
			return nil, err
		}
		if in.Keys, err = readKeys(f.keys); err != nil {
			return nil, err
		}
	}
	return &built{report: report.Build(in), journal: doc, before: before, after: in.After}, nil
}

func (c *connection) readEvents(path string, doc v1.Journal) ([]v1.OwnershipEvent, error) {
	if path == "" {
		var err error
		if path, err = c.logPath(doc.Plan.Cluster.UID, doc.Run); err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			c.narrate("no ownership log of migration %s on this machine (%s): gaps and owners are unknown; name one with --ownership-log", doc.Run, path)
			return nil, nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the ownership log: %w", err)
	}
	defer file.Close()
	events, err := ownership.ReadLog(file)
	if err != nil {
		return nil, fmt.Errorf("ownership log %s: %w", path, err)
	}
	return events, nil
}

func readCalls(path string) ([]v1.CloudCall, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud audit log: %w", err)
	}
	defer file.Close()
	calls, err := ownership.ReadCalls(file)
	if err != nil {
		return nil, fmt.Errorf("cloud audit log %s: %w", path, err)
	}
	return calls, nil
}

func readKeys(path string) (map[string]ownership.Owner, error) {
	if path == "" {
		return nil, errors.New("--cloud-audit needs --cloud-keys: who has which access key")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading who has which access key: %w", err)
	}
	var raw map[string]string
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("access keys %s: %w", path, err)
	}
	out := map[string]ownership.Owner{}
	for key, who := range raw {
		component, host, _ := strings.Cut(who, "@")
		out[key] = ownership.Owner{Component: component, Host: host}
	}
	return out, nil
}
