package plan

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/hosted"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/replace"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// describeEffects says in sentences what this plan will change, what it will not, and what is not promised.
func describeEffects(d *draft.Draft) []string {
	if hosted.IsInSeed(d) {
		return hosted.DescribeSeed(d)
	}
	if d.Options.ReplaceHosts {
		return replace.Describe(d)
	}
	out := append(effect.Describe(planstep.Forward, d.Snapshot, d.Steps, d.Options), effect.DescribeMembers(d)...)
	if d.Options.Strategy == planstep.Downtime {
		out = append(
			out,
			fmt.Sprintf(
				"gap: for about %d s no manager runs the loops %s; load balancers, routes and nodes stay as they are; a node that joins keeps its taint, and a Service waits for its address",
				estimateGap(d),
				strings.Join(d.RunningLoops(), ", "),
			),
		)
	}
	if !d.ReportsLoops() {
		out = append(
			out,
			fmt.Sprintf(
				"not observed: which manager runs a loop is not said on /metrics by %s 1.%d or by the manager in image %s; each step waits for its process and its lease, and in the end nodes and load balancers are compared",
				component.KCM,
				d.KCMMinor,
				d.Options.Image,
			),
		)
	}
	if note := volume.Describe(d); note != "" {
		out = append(out, note)
	}
	if note := kubelet.DescribeCredentials(d); note != "" {
		out = append(out, note)
	}
	if left := ccm.MissingProxies(d); len(left) > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"not carried over: %s of %s; a snapshot holds no values of variables, so where the cloud is reached through a proxy or with a private authority, name them with --ccm-env",
				strings.Join(left, ", "),
				component.KCM,
			),
		)
	}
	out = append(out, upgrade.Describe(d)...)
	return append(append(out, effect.DescribeLoadBalancers(d)...), d.Notes...)
}

// estimateGap is how long no manager runs the loops in a plan with downtime. It goes from the end of the last in-tree
// owner to the first cloud-controller-manager.
func estimateGap(d *draft.Draft) int {
	from, to := -1, -1
	for i, s := range d.Steps {
		if strings.HasPrefix(s.ID, "external/"+component.KCM+"@") && s.Restore == "" ||
			strings.HasPrefix(s.ID, "stop/"+component.KCM+"@") {
			from = i
		}
		if to < 0 &&
			(strings.HasPrefix(s.ID, "start/"+component.CCM) || s.Component == component.CCM && s.Kind == v1.StepEnsureObject) {
			to = i
		}
	}
	if from < 0 || to < from {
		return 0
	}
	return planstep.SumEstimates(d.Steps[from : to+1])
}
