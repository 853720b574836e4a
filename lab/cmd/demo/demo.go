package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/traffic"
	"github.com/transplant-dev/transplant/lab/trial"
)

type options struct {
	out, profile string
	workers      int
	keep         bool
}

// stopBudget bounds the end of the lab, also after Ctrl-C.
const stopBudget = 60 * time.Second

func demo(ctx context.Context, o options) (err error) {
	profile, err := kubelet.ProfileByName(o.profile)
	if err != nil {
		return err
	}
	t, err := trial.Start(ctx, trial.Options{Dir: o.out, Workers: o.workers, Profile: profile, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBudget)
		defer cancel()
		err = errors.Join(err, t.Stop(stopCtx))
	}()
	balancers, err := traffic.Start(t.AWS().State) //nolint:contextcheck // its addresses are open until Close
	if err != nil {
		return err
	}
	defer balancers.Close()
	var reached []string
	for _, pair := range balancers.ConnectTo() {
		reached = append(reached, "--probe-connect-to", pair)
	}
	before, err := t.State()
	if err != nil {
		return err
	}
	if err := t.Migrate(ctx, os.Stderr, reached...); err != nil {
		return err
	}
	r, err := writeReports(ctx, t, o.out)
	if err != nil {
		return err
	}
	if err := t.Check(before); err != nil {
		return fmt.Errorf("judging by the lab's own evidence: %w", err)
	}
	summarize(os.Stdout, r, o.out)
	if r.Result != "ok" {
		return fmt.Errorf("the migration's result is %q: see %s", r.Result, filepath.Join(o.out, "report.html"))
	}
	if o.keep {
		look(os.Stdout, t)
		<-ctx.Done()
	}
	return nil
}

// writeReports verifies the migration and writes what it proves.
func writeReports(ctx context.Context, t *trial.Trial, out string) (*v1.Report, error) {
	if err := t.Must(ctx, os.Stderr, "verify", "--cloud", trial.Cloud); err != nil {
		return nil, err
	}
	evidence := []string{"--cloud", trial.Cloud, "--cloud-audit", t.AuditFile(), "--cloud-keys", t.KeysFile()}
	for format, extension := range map[string]string{"html": "html", "json": "json", "markdown": "md", "svg": "svg"} {
		file := filepath.Join(out, "report."+extension)
		if err := t.Must(ctx, nil, append([]string{"report", "-o", format, "--out", file}, evidence...)...); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		return nil, err
	}
	var r v1.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading report.json back: %w", err)
	}
	return &r, nil
}
