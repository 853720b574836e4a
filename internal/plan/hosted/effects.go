package hosted

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// DescribeSeed say what a plan for a hosted control plane changes and what it does not.
func DescribeSeed(d *draft.Draft) []string {
	out := append(
		[]string{
			fmt.Sprintf("load balancers: %d kept, 0 recreated, 0 address changes", len(d.Snapshot.Services)),
			fmt.Sprintf("nodes: %d kept, 0 provider ids changed", len(d.Snapshot.Nodes)),
		},
		effect.DescribeMembers(d)...)
	if recreatedWhy := effect.WhyRecreated(d.Snapshot, d.Options); recreatedWhy != "" {
		out[0] = fmt.Sprintf(effect.Recreated+"%d are made again with new addresses: %s", len(d.Snapshot.Services), recreatedWhy)
	}
	switch {
	case d.Options.Part == v1.PartInstall:
		out = append(out, "not changed: "+component.KCM+" and "+component.KAS+", which were external from the start")
	case d.Options.Part == v1.PartFinish:
		out = append(out, "there is no way back from this part: machines with external kubelets need a "+component.CCM)
	case d.Options.Strategy == planstep.Downtime:
		out = append(
			out,
			fmt.Sprintf(
				"gap: from the end of the last old pod of %s to the first lease of the %s no manager runs the loops %s; load balancers, routes and nodes stay as they are; a node that joins keeps its taint, and a Service waits for its address",
				component.KCM,
				component.CCM,
				strings.Join(expectedLoops(d), ", "),
			),
		)
		out = append(out, describeUnfenced(d))
	default:
		out = append(out, describeUnfenced(d))
	}
	if d.Options.Part == v1.PartHandover {
		out = append(
			out,
			"not changed: machines, their kubelets and volumes; "+component.KCM+" and "+component.KAS+" keep the in-tree provider until the machines are done",
		)
	}
	if !d.ReportsLoops() {
		out = append(
			out,
			fmt.Sprintf(
				"not observed: which manager runs a loop is not said on /metrics by %s 1.%d or by the manager in image %s; each step waits for its pods and their leases",
				component.KCM,
				d.KCMMinor,
				d.Options.Image,
			),
		)
	}
	return append(append(out, effect.DescribeLoadBalancers(d)...), d.Notes...)
}

// describeUnfenced says what is not promised of the in-tree manager.
func describeUnfenced(d *draft.Draft) string {
	deadline := "10s"
	if m := clusterview.FindHosted(d.Snapshot, component.KCM); m != nil && m.Flags["leader-elect-renew-deadline"] != "" {
		deadline = m.Flags["leader-elect-renew-deadline"]
	}
	return fmt.Sprintf(
		"not promised: the in-tree manager is not fenced. If it is paused and resumed it can still write to the cloud for one renew deadline, %s. Its leases are released only when its pod was seen to end, "+
			"so a planned handover does not open that window",
		deadline,
	)
}
