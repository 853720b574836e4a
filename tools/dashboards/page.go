package dashboards

import (
	"bytes"
	"fmt"
	"strings"
)

const introduction = `# Dashboards

Generated from the panels in ` + "`tools/dashboards`" + ` by ` + "`make generate`" + `; do not edit.

[` + "`deploy/monitoring/dashboards`" + `](../../deploy/monitoring/dashboards) has three dashboards for Grafana. Import the files, or have Grafana's sidecar find them by
the label ` + "`grafana_dashboard`" + ` of their ConfigMaps:

` + "```" + `
kubectl apply --server-side -k deploy/monitoring/dashboards   # into the namespace monitoring
` + "```" + `

They need the recorded series of ` + "`deploy/monitoring/rules.yaml`" + `: see [alerts](alerts.md). Their uids do not change, so that links to them hold.
A reader chooses the data source and the cluster. ` + "`cluster`" + ` is a label that your Prometheus adds. All of them is any value, also none.
In the operator's series it is the user cluster's name, in those of ` + "`transplant status`" + ` the cluster's.

The first row of each answers four questions: which phase, how much is done, what hinders it, and for how many seconds a loop had no owner.
Blue lines are handovers.

Each query is parsed, and asks only for series and labels that a manager, the operator, ` + "`transplant status`" + ` or a rule has; a test says so. ` + "`make observe`" + ` has a
Prometheus answer them from the managers of a lab cluster in migration, and draws what they show. Grafana itself has not shown them here: Debian has
no package of it.
`

// page renders the page about the boards.
func page(all []board) []byte {
	out := bytes.NewBufferString(introduction)
	for _, b := range all {
		name := strings.TrimPrefix(b.title, "Transplant / ")
		fmt.Fprintf(out, "\n## %s\n\n`%s.json`, uid `%s`. %s\n", name, b.name, b.uid, b.about)
		for _, r := range b.rows {
			title := r.title
			if title == "" {
				title = "The four questions"
			}
			fmt.Fprintf(out, "\n### %s: %s\n\n| panel | unit | |\n|---|---|---|\n", name, title)
			for _, p := range r.panels {
				fmt.Fprintf(out, "| %s | %s | %s |\n", p.title, p.unit, p.about)
			}
			out.WriteString("\n```\n")
			for _, p := range r.panels {
				for _, q := range p.queries {
					fmt.Fprintf(out, "# %s: %s\n%s\n", p.title, q.legend, q.expr)
				}
			}
			out.WriteString("```\n")
		}
	}
	return out.Bytes()
}
