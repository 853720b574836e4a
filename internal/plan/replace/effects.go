package replace

import (
	"fmt"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/effect"
)

// Describe says what becomes of a cluster whose control-plane hosts are replaced.
func Describe(d *draft.Draft) []string {
	out := []string{
		fmt.Sprintf("load balancers: %d kept, 0 recreated, 0 address changes", len(d.Snapshot.Services)),
		fmt.Sprintf(
			"nodes: you replace %d, %d are kept; transplant changes no host",
			countReplaced(d),
			len(d.Snapshot.Nodes)-countReplaced(d),
		),
		"the loops change hands when the node of their kube-controller-manager goes; its leases are given up once it is seen to have ended, else they run out after 15 s",
		"nodes that are NotReady stay in load balancers once the cloud-controller-manager owns them (KEP-3458)",
		"not changed: kubelets of workers; roll their machines before Kubernetes 1.27 (AWS) or the release that removes the provider; give them --cloud-provider=external and, where images come from the cloud's registry, its image credential provider",
	}
	if !d.ReportsLoops() {
		out = append(
			out,
			fmt.Sprintf(
				"not observed: which manager runs a loop is not said on /metrics by %s 1.%d or by the manager in image %s; the flags of their pods are looked at, and in the end nodes and load balancers",
				component.KCM,
				d.KCMMinor,
				d.Options.Image,
			),
		)
	}
	return append(append(out, effect.DescribeUnfenced(d.Snapshot, d.Options)...), d.Notes...)
}

// countReplaced is how many nodes are taken down.
func countReplaced(d *draft.Draft) int {
	n := 0
	for _, s := range d.Steps {
		if s.Await != nil && s.Await.NodeGone != "" {
			n++
		}
	}
	return n
}
