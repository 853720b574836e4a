package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/cluster"
)

// Cloud is what --cloud takes for a lab.
const Cloud = "aws:cluster=" + cluster.Name

// Must runs a command that has to succeed.
func (t *Trial) Must(ctx context.Context, narration io.Writer, args ...string) error {
	r, err := t.CLI(ctx, narration, nil, args...)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Code != 0 {
		return fmt.Errorf("transplant %s ended with exit code %d:\n%s%s", args[0], r.Code, r.Stdout, r.Stderr)
	}
	return nil
}

// Migrate checks the lab and moves it out of tree, as an operator would. It probes meanwhile what clients notice. More
// are further flags of apply.
func (t *Trial) Migrate(ctx context.Context, narration io.Writer, more ...string) error {
	if err := t.Must(ctx, narration, append([]string{"check", "--cloud", Cloud}, MigrationFlags()...)...); err != nil {
		return err
	}
	flags := slices.Concat([]string{"apply", "--yes", "--probe", "--cloud", Cloud}, MigrationFlags(), more)
	return t.Must(ctx, narration, flags...)
}

// State is what the simulated cloud holds, as JSON that two equal clouds share byte for byte.
func (t *Trial) State() (string, error) {
	data, err := json.MarshalIndent(t.Cluster.Cloud().State(), "", " ")
	return string(data), err
}

// Check judges by what only the lab knows: the cloud is as it was, and nobody asked it for something that it does not
// know.
func (t *Trial) Check(before string) error {
	after, err := t.State()
	if err != nil {
		return err
	}
	var errs []error
	if after != before {
		errs = append(errs, fmt.Errorf("the cloud is not as it was:\n%s", FirstDifference(before, after)))
	}
	for _, call := range t.Cluster.Cloud().Unknown() {
		errs = append(errs, fmt.Errorf("the simulated cloud was asked for %s, which it does not know", call))
	}
	return errors.Join(errs...)
}

// FirstDifference shows two texts around the first line in which they differ.
func FirstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range as {
		if i >= len(bs) || as[i] != bs[i] {
			from := max(0, i-3)
			return fmt.Sprintf(
				"before, line %d:\n%s\nafter:\n%s",
				i+1,
				strings.Join(as[from:min(len(as), i+4)], "\n"),
				strings.Join(bs[min(len(bs), from):min(len(bs), i+4)], "\n"),
			)
		}
	}
	return fmt.Sprintf("%d lines more", len(bs)-len(as))
}

// Program is the command line that the trial runs.
func (t *Trial) Program() string { return t.product.CLI }

// Kubectl is a kubectl of the cluster's version.
func (t *Trial) Kubectl() string { return t.kubectl }

// Read returns a file of a host.
func (t *Trial) Read(host, path string) ([]byte, error) {
	h, err := t.Host(host)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(h.Path(path))
}
