package plan

import (
	"fmt"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/hosted"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/outline"
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
				outline.Gap(d.Steps),
				strings.Join(d.RunningLoops(), ", "),
			),
		)
	}
	if !d.ReportsLoops() {
		out = append(
			out,
			fmt.Sprintf(
				"not observed: neither %s 1.%d nor the manager in image %s says on /metrics which loops it runs. Each step waits for its process and its lease, and in the end nodes and load balancers are compared",
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
				"not copied: %s of %s; a snapshot has no values of variables; if the cloud is behind a proxy or a private CA, give them with --ccm-env",
				strings.Join(left, ", "),
				component.KCM,
			),
		)
	}
	out = append(out, upgrade.Describe(d)...)
	return append(append(out, effect.DescribeLoadBalancers(d)...), d.Notes...)
}
