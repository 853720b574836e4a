package fleet

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

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/visible"
)

func newStatus(c *console.Console) *cobra.Command {
	var output *printer.Format
	var choose rollout.Selection
	watch := false
	cmd := &cobra.Command{
		Use:   "status [CLUSTER...]",
		Short: "Every cluster of the seed: its phase, who runs its cloud loops, its machines, what it waits for",
		Example: "  transplant fleet status                         # the worst first\n" +
			"  transplant fleet status --provider aws --watch  # until Ctrl-C\n" +
			"  transplant fleet status crh4xbxz5f -o yaml",
		Long: "Status reads the Cluster objects of both groups and nothing else: no user cluster is asked. What it says of a cluster is what the operator wrote into the\n" +
			"object's conditions, with the time since when that is so.\n\n" +
			"With --watch a terminal is redrawn in place, a pipe gets a line for each cluster that changed, and -o json a document a line. It ends at Ctrl-C.",
		RunE: func(cmd *cobra.Command, names []string) error {
			choose.Names = names
			if watch && output.Value != "table" && output.Value != "json" {
				return exitcode.With(exitcode.Error, "--watch writes a table or json, not %s", output.Value)
			}
			if watch {
				return watchFleet(cmd.Context(), c, &choose, output.Value)
			}
			return runStatus(cmd.Context(), c, &choose, output)
		},
	}
	output = console.AddFormatFlag(cmd, "table", "wide", "json", "yaml")
	addSelectionFlags(&choose, cmd)
	cmd.Flags().
		BoolVarP(&watch, "watch", "w", false, "go on until Ctrl-C: a terminal is redrawn, a pipe gets a line on change, -o json a document a line")
	return cmd
}

func runStatus(ctx context.Context, c *console.Console, choose *rollout.Selection, output *printer.Format) error {
	if _, err := choose.Labels(); err != nil {
		return err
	}
	seed, err := rollout.ConnectSeed(c.Client)
	if err != nil {
		return err
	}
	rows, _, notRead, err := rollout.ReadFleet(ctx, c.Client, choose)
	if err != nil {
		return err
	}
	s := NewDocument(rows, seed, notRead, rollout.ServerTime(c.Client))
	table := func(wide bool) func() error {
		return func() error {
			_, err := fmt.Fprint(c.Out, printer.FleetText(s, c.LayoutFor(c.Out, wide)))
			return err
		}
	}
	return output.Print(c.Out, s, map[string]func() error{"table": table(false), "wide": table(true)})
}

// NewDocument returns the status of a fleet.
func NewDocument(rows []v1.FleetCluster, seed v1.Cluster, notRead []string, at time.Time) v1.FleetStatus {
	return v1.FleetStatus{
		TypeMeta: v1.Type(v1.KindFleetStatus),
		Time:     at,
		Seed:     seed,
		Summary:  fleet.Summary(rows),
		Progress: fleet.Progress(rows, at),
		Clusters: rows,
		NotRead:  notRead,
	}
}

func watchFleet(ctx context.Context, c *console.Console, choose *rollout.Selection, output string) error {
	by, err := choose.Labels()
	if err != nil {
		return err
	}
	seed, err := rollout.ConnectSeed(c.Client)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := fleetWatch{
		c:      c,
		seed:   seed,
		choose: choose,
		by:     by,
		output: output,
		view:   c.NewView(c.Out),
		lines:  map[fleet.Key]string{},
	}
	err = rollout.EachChange(ctx, c.Client, w.show)
	if ctx.Err() != nil {
		return exitcode.With(exitcode.Interrupted, "no longer watching; the migrations go on")
	}
	return err
}

// fleetWatch is what was shown of a fleet that is watched.
type fleetWatch struct {
	c      *console.Console
	seed   v1.Cluster
	choose *rollout.Selection
	by     labels.Selector
	output string
	view   *console.View
	said   string
	lines  map[fleet.Key]string
}

func (w *fleetWatch) show(f *roster.Following) (bool, error) {
	objects, _ := f.List()
	rows := w.choose.Rows(objects, w.by)
	s := NewDocument(rows, w.seed, f.NotRead(), rollout.ServerTime(w.c.Client))
	switch {
	case w.output == "json":
		timeless := s
		timeless.Time = time.Time{}
		return false, console.JsonLine(w.c.Out, s, timeless, &w.said)
	case w.view.Redraws:
		return false, w.view.Draw(printer.FleetText(s, w.c.LayoutFor(w.c.Out, false)))
	}
	return false, w.changes(s)
}

// changes writes a line for each cluster that is not as it was said to be.
func (w *fleetWatch) changes(s v1.FleetStatus) error {
	lines := map[fleet.Key]string{}
	plain := printer.Layout{Ascii: w.c.Ascii}
	for _, r := range s.Clusters {
		key := fleet.Key{Group: r.Group, Name: r.Name}
		lines[key] = fleetLine(r)
		if w.lines[key] == lines[key] {
			continue
		}
		if _, err := fmt.Fprintln(w.c.Out, plain.Plain(s.Time.Format("15:04:05")+" "+visible.Line(lines[key]))); err != nil {
			return err
		}
	}
	for key := range maps.Keys(w.lines) {
		if _, there := lines[key]; !there {
			if _, err := fmt.Fprintln(
				w.c.Out,
				plain.Plain(visible.Sprintf("%s %s · deleted", s.Time.Format("15:04:05"), key)),
			); err != nil {
				return err
			}
		}
	}
	w.lines = lines
	return nil
}

// fleetLine is a cluster in one line without ages.
func fleetLine(r v1.FleetCluster) string {
	parts := []string{fleet.Key{Group: r.Group, Name: r.Name}.String(), wording.FleetPhase(r)}
	if r.Owners != "" {
		parts = append(parts, "loops: "+fleet.OwnersWords(r.Owners))
	}
	if r.Machines != nil {
		parts = append(parts, fmt.Sprintf("machines: %d/%d", r.Machines.Migrated, r.Machines.Total))
	}
	if r.Message != "" {
		parts = append(parts, r.Message)
	}
	return strings.Join(strings.Fields(strings.Join(parts, " · ")), " ")
}
