package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

func newFleetStatus(c *connection) *cobra.Command {
	var output *format
	var choose selecting
	watch := false
	cmd := &cobra.Command{
		Use: "status [CLUSTER...]", Short: "Every cluster of the seed: its phase, who runs its cloud loops, its machines, what it waits for",
		Example: "  transplant fleet status                         # the worst first\n" +
			"  transplant fleet status --provider aws --watch  # until Ctrl-C\n" +
			"  transplant fleet status crh4xbxz5f -o yaml",
		Long: "Status reads the Cluster objects of both groups and nothing else: no user cluster is asked. What it says of a cluster is what the operator wrote into the\n" +
			"object's conditions, with the time since when that is so.\n\n" +
			"With --watch a terminal is drawn anew in place, a pipe gets a line for each cluster that changed, and -o json a document a line. It ends at Ctrl-C.",
		RunE: func(cmd *cobra.Command, names []string) error {
			choose.names = names
			if watch && output.value != "table" && output.value != "json" {
				return withCode(exitError, "--watch writes a table or json, not %s", output.value)
			}
			if watch {
				return c.watchFleet(cmd.Context(), &choose, output.value)
			}
			return c.fleetStatus(cmd.Context(), &choose, output)
		},
	}
	output = formatFlag(cmd, "table", "wide", "json", "yaml")
	choose.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C: a terminal is drawn anew, a pipe gets a line on change, -o json a document a line")
	return cmd
}

func (c *connection) fleetStatus(ctx context.Context, choose *selecting, output *format) error {
	if _, err := choose.labels(); err != nil {
		return err
	}
	seed, err := c.seed()
	if err != nil {
		return err
	}
	rows, _, notRead, err := c.readFleet(ctx, choose)
	if err != nil {
		return err
	}
	s := fleetDocument(rows, seed, notRead, c.fleetTime())
	table := func(wide bool) func() error {
		return func() error {
			_, err := fmt.Fprint(c.out, fleetText(s, c.layoutFor(c.out, wide)))
			return err
		}
	}
	return output.print(c.out, s, map[string]func() error{"table": table(false), "wide": table(true)})
}

// fleetTime is the time that ages are measured by: that of the API server.
func (c *connection) fleetTime() time.Time { return c.serverTime().UTC().Round(time.Second) }

func fleetDocument(rows []v1.FleetCluster, seed v1.Cluster, notRead []string, at time.Time) v1.FleetStatus {
	return v1.FleetStatus{TypeMeta: v1.Type(v1.KindFleetStatus), Time: at, Seed: seed, Summary: fleet.Summary(rows), Clusters: rows, NotRead: notRead}
}

// followFleet follows the Clusters until ctx ends; wait waits for what it started.
func (c *connection) followFleet(ctx context.Context) (*roster.Following, func(), error) {
	cfg := rest.CopyConfig(c.config)
	cfg.Timeout = 0 // the limit of a request's time would end a watch, too
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	f, wait, err := roster.Follow(ctx, client)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fleet: %w", err)
	}
	return f, wait, nil
}

// eachChange calls show when the clusters are read, whenever one may have changed, and once a second, until it returns true or ctx ends.
func (c *connection) eachChange(ctx context.Context, show func(*roster.Following) (bool, error)) error {
	following, end := context.WithCancel(ctx)
	defer end()
	f, wait, err := c.followFleet(following)
	if err != nil {
		return err
	}
	defer wait()
	defer end()
	changed := f.Changed(following)
	again := time.NewTicker(ticking)
	defer again.Stop()
	for {
		if _, complete := f.List(); complete {
			if done, err := show(f); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-changed:
			waitBriefly(ctx, together)
		}
	}
}

func (c *connection) watchFleet(ctx context.Context, choose *selecting, output string) error {
	by, err := choose.labels()
	if err != nil {
		return err
	}
	seed, err := c.seed()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := fleetWatch{c: c, seed: seed, choose: choose, by: by, output: output, view: c.viewOf(c.out), lines: map[fleet.Key]string{}}
	err = c.eachChange(ctx, w.show)
	if ctx.Err() != nil {
		return withCode(exitInterrupted, "no longer watching; the migrations go on where they are carried out")
	}
	return err
}

// fleetWatch is what was shown of a fleet that is watched.
type fleetWatch struct {
	c      *connection
	seed   v1.Cluster
	choose *selecting
	by     labels.Selector
	output string
	view   *view
	said   string
	lines  map[fleet.Key]string
}

func (w *fleetWatch) show(f *roster.Following) (bool, error) {
	objects, _ := f.List()
	rows := w.choose.rows(objects, w.by)
	s := fleetDocument(rows, w.seed, f.NotRead(), w.c.fleetTime())
	switch {
	case w.output == "json":
		timeless := s
		timeless.Time = time.Time{}
		return false, jsonLine(w.c.out, s, timeless, &w.said)
	case w.view.redraws:
		return false, w.view.draw(fleetText(s, w.c.layoutFor(w.c.out, false)))
	}
	return false, w.changes(s)
}

// changes writes a line for each cluster that is not as it was said to be.
func (w *fleetWatch) changes(s v1.FleetStatus) error {
	lines := map[fleet.Key]string{}
	plain := layout{ascii: w.c.ascii}
	for _, r := range s.Clusters {
		key := fleet.Key{Group: r.Group, Name: r.Name}
		lines[key] = fleetLine(r)
		if w.lines[key] == lines[key] {
			continue
		}
		if _, err := fmt.Fprintln(w.c.out, plain.plain(s.Time.Format("15:04:05")+" "+lines[key])); err != nil {
			return err
		}
	}
	for key := range maps.Keys(w.lines) {
		if _, there := lines[key]; !there {
			if _, err := fmt.Fprintln(w.c.out, plain.plain(fmt.Sprintf("%s %s · deleted", s.Time.Format("15:04:05"), key))); err != nil {
				return err
			}
		}
	}
	w.lines = lines
	return nil
}

// fleetLine is a cluster in one line without ages.
func fleetLine(r v1.FleetCluster) string {
	parts := []string{fleet.Key{Group: r.Group, Name: r.Name}.String(), fleetPhase(r)}
	if r.Owners != "" {
		parts = append(parts, "loops: "+r.Owners)
	}
	if r.Machines != nil {
		parts = append(parts, fmt.Sprintf("machines: %d/%d", r.Machines.Migrated, r.Machines.Total))
	}
	if r.Message != "" {
		parts = append(parts, r.Message)
	}
	return strings.Join(strings.Fields(strings.Join(parts, " · ")), " ")
}
