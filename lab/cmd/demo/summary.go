package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/report/plain"
	"github.com/transplant-dev/transplant/lab/trial"
)

// summarize prints the migration on one screen.
func summarize(w io.Writer, r *v1.Report, out string) {
	fmt.Fprintf(w, "\n%s\n", r.Sentence)
	fmt.Fprintf(w, "\nclients' downtime    %s\n", downtime(r.Disruption))
	fmt.Fprintf(w, "result               %s\n", r.Result)
	for _, reason := range r.Reasons {
		fmt.Fprintf(w, "                     %s\n", reason)
	}
	fmt.Fprintf(w, "migration            %d steps in %.0f s\n", len(r.Steps), r.DurationSeconds-r.IdleSeconds)
	fmt.Fprintf(
		w,
		"overlapping writes   %s   (calls that took effect late: %s)\n",
		count(r.Handover.OverlappingWrites),
		count(r.Handover.LateEffects),
	)
	fmt.Fprintf(w, "without a manager    %.2f s at most\n", r.Handover.GapSeconds)
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "  %-21s %5.2f s  %s -> %s   %s\n", g.Loop, g.Seconds, g.From, g.To, g.Cause)
	}
	if len(r.Pauses) > 0 {
		fmt.Fprintln(w, "restarts of managers  (loops that stay where they are wait for them)")
	}
	for _, g := range r.Pauses {
		fmt.Fprintf(
			w,
			"  %-21s %5.2f s  %s -> %s   %s\n",
			g.Loop,
			g.Seconds,
			g.From,
			g.To,
			g.Cause,
		)
	}
	i := r.Inventory
	fmt.Fprintf(
		w,
		"load balancers       %d -> %d, %d recreated, %d addresses changed\n",
		i.LoadBalancers.Before,
		i.LoadBalancers.After,
		i.LoadBalancers.Recreated,
		i.LoadBalancers.AddressChanged,
	)
	fmt.Fprintf(w, "routes               %d -> %d\n", i.Routes.Before, i.Routes.After)
	fmt.Fprintf(
		w,
		"nodes                %d -> %d, %d provider ids changed\n",
		i.Nodes.Before,
		i.Nodes.After,
		i.Nodes.ChangedProviderID,
	)
	fmt.Fprintf(w, "report               %s\n", filepath.Join(out, "report.html"))
}

// downtime is for how long clients were out, and the path that was out for longest.
func downtime(d *v1.Disruption) string {
	if d == nil || len(d.Paths) == 0 {
		return "not measured"
	}
	longest := d.Paths[0]
	for _, p := range d.Paths {
		if p.LongestSeconds > longest.LongestSeconds {
			longest = p
		}
	}
	if longest.LongestSeconds == 0 {
		return fmt.Sprintf("0.0 s (%d paths probed, no outage)", len(d.Paths))
	}
	return fmt.Sprintf(
		"%s at most (%s %s; %d paths probed)",
		plain.Outage(longest.LongestSeconds), longest.Kind, longest.Path, len(d.Paths),
	)
}

func count(n *int) string {
	if n == nil {
		return "unknown"
	}
	return strconv.Itoa(*n)
}

// look prints how to look at the cluster that was left up.
func look(w io.Writer, t *trial.Trial) {
	fmt.Fprintf(w, "\nThe migrated cluster is up until Ctrl-C. In another terminal:\n")
	for _, v := range t.ShellEnv() {
		fmt.Fprintf(w, "  export %s\n", v)
	}
	fmt.Fprintf(w, "  %s -n kube-system get pods -o wide\n", t.Kubectl())
	fmt.Fprintf(w, "  %s -n kube-system get leases\n", t.Kubectl())
	fmt.Fprintf(w, "  %s status\n", t.Program())
	for _, command := range []string{"verify", "rollback"} {
		fmt.Fprintf(w, "  %s %s --cloud=%s --host-access=%s --state-dir=%s\n",
			t.Program(), command, trial.Cloud, t.HostAccess(), t.StateDir())
	}
	fmt.Fprintf(w, "The cloud's audit log: %s\n", t.AuditFile())
}
