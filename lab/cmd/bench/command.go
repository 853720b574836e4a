package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/bench"
)

const example = `  # Everything: more than an hour.
  bench --out out/bench

  # One scenario with one size, ours next to upstream's defaults.
  bench --scenario join --nodes 1000 --implementations upstream,ours

  # The memory that a node costs.
  bench --scenario steady --nodes 5000,15000

  # The steady state for as long as the figures of the documentation were taken.
  bench --scenario steady --window 10m`

// settings are the command's flags.
type settings struct {
	bench.Options
	out  string
	keep bool
	// page is a page of the documentation that gets the results, between the marks of a make target; commit is what was
	// measured.
	page, target, commit string
}

func newCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the cloud-controller-manager with upstream's",
		Long: "Compare the cloud-controller-manager of this repository with upstream's: the same work, kube-apiserver, simulated cloud and provider.\n" +
			"It prints a table with the ratios to upstream, and writes results.json and bench.svg.",
		Example:       example,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Progress = cmd.ErrOrStderr()
			return s.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(
		&s.Scenarios,
		"scenario",
		nil,
		"scenarios to run (default: all): "+strings.Join(bench.ScenarioNames(), ", "),
	)
	f.StringSliceVar(
		&s.Implementations,
		"implementations",
		nil,
		"implementations to compare (default: all): "+strings.Join(bench.ImplementationNames(), ", "),
	)
	f.IntSliceVar(
		&s.Nodes,
		"nodes",
		nil,
		"numbers of nodes, each measured by itself (default: each scenario's own); with several, steady shows how its memory grows",
	)
	f.IntVar(&s.Services, "services", 0, "number of load balancers, where a scenario has some (default: its own)")
	f.StringVar(&s.Throttle, "throttle", bench.ThrottleBoth, "clouds to measure with: on, off or both")
	f.DurationVar(&s.Limit, "limit", 0, "end of a measurement that takes longer (default 5m)")
	f.DurationVar(&s.Window, "window", 0, "how long a steady state is watched (default 1m)")
	f.IntVar(&s.Rounds, "rounds", 0, "how often a handover is measured (default 5)")
	f.StringVar(&s.Version, "kube-apiserver", apiserver.DefaultVersion, "version of kube-apiserver")
	f.StringVar(
		&s.Manager,
		"manager",
		"",
		"the program sim-cloud-controller-manager (default: the one next to this program)",
	)
	f.StringVar(&s.out, "out", filepath.Join("out", "bench"), "directory of results.json and bench.svg")
	f.StringVar(&s.page, "page", "", "page of the documentation to write the ratios into")
	f.StringVar(&s.target, "page-target", "bench-short", "the make target between whose marks --page gets them")
	f.StringVar(&s.commit, "commit", "", "the commit that is measured, for --page")
	f.BoolVar(&s.keep, "keep", false, "keep the results in results.json that this run does not repeat")
	return cmd
}

func (s settings) run(cmd *cobra.Command) error {
	if s.Manager == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the program: %w", err)
		}
		s.Manager = filepath.Join(filepath.Dir(self), "sim-cloud-controller-manager")
	}
	manager, err := filepath.Abs(s.Manager)
	if err != nil {
		return fmt.Errorf("resolving --manager: %w", err)
	}
	if s.Manager = manager; !executable(manager) {
		return fmt.Errorf("--manager %q is not a program; `make bench` builds it", manager)
	}
	if (s.page == "") != (s.commit == "") {
		return errors.New("--page and --commit belong together: results without their commit say nothing")
	}
	results, err := s.measure(cmd)
	if err == nil && s.page != "" {
		taken := fmt.Sprintf("Measured on %s at commit %s.", time.Now().UTC().Format(time.DateOnly), s.commit)
		err = bench.WritePage(s.page, s.target, taken, results)
	}
	return errors.Join(err, s.show(cmd.OutOrStdout(), results))
}

// measure runs the scenarios and writes the results after each run, so that an interrupted bench has not been for
// nothing.
func (s settings) measure(cmd *cobra.Command) ([]bench.Result, error) {
	path := filepath.Join(s.out, "results.json")
	var earlier []bench.Result
	if s.keep {
		var err error
		if earlier, err = bench.ReadJSON(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	var written error
	results, err := bench.Run(cmd.Context(), s.Options, func(results []bench.Result) {
		written = bench.WriteJSON(path, bench.Merge(earlier, results))
	})
	return bench.Merge(earlier, results), errors.Join(err, written)
}

// show prints the table and writes the chart.
func (s settings) show(out io.Writer, results []bench.Result) error {
	if len(results) == 0 {
		return nil
	}
	if err := bench.WriteTable(out, results); err != nil {
		return err
	}
	return bench.WriteChart(filepath.Join(s.out, "bench.svg"), results)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0
}
