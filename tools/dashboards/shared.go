package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// ours are the alerts of deploy/monitoring/rules.yaml. An alert about what is missing has no label cluster.
const ours = `ALERTS{alertname=~"Transplant.+", alertstate="firing", cluster=~"$cluster|"}`

// withoutOwner is for how long a loop had no owner within what the dashboard shows, in steps of 15 s.
const withoutOwner = `sum by (cluster) (sum_over_time((` +
	`transplant:loops_without_owner:count{cluster=~"$cluster"} > bool 0)[$__range:15s])) * 15`

// disruption is the answer to the fourth question, which all boards ask in the same way.
func disruption() panel {
	return panel{
		title: "Disruption",
		about: "Seconds in which the loop for load balancers, or that for gone machines, had no owner. " +
			"Gaps that are shorter than the interval of scrapes do not show; transplant report has them exactly.",
		kind: number, unit: units.Seconds, bad: 60,
		queries: []query{{withoutOwner, "{{cluster}}"}},
	}
}

// firing shows which alerts fire, and when.
func firing() panel {
	return panel{
		title: "Alerts that fire",
		about: "Each alert has a section in docs/reference/alerts.md that says what to do.",
		kind:  timeline, unit: units.Short,
		queries: []query{{`count by (alertname) (` + ours + `)`, "{{alertname}}"}},
	}
}

// owners shows which manager runs which loop, and when.
func owners() panel {
	return panel{
		title: "Who runs the loops",
		about: "A handover is where one line ends and another begins. Two at a time are two owners.",
		kind:  timeline, unit: units.Short,
		queries: []query{{
			`transplant:loop_managers:count{cluster=~"$cluster"} > 0`, "{{cluster}} {{name}}: {{manager}}",
		}},
	}
}

// quantile is a quantile of a histogram, by labels.
func quantile(q, histogram, by string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return `histogram_quantile(` + q + `, sum by (` + labels + `) (rate(` + histogram +
		`_bucket{cluster=~"$cluster"}[$__rate_interval])))`
}

// perSecond is how often a counter counts, by labels.
func perSecond(counter, by string) string {
	return `sum by (` + by + `) (rate(` + counter + `{cluster=~"$cluster"}[$__rate_interval]))`
}

// largest is the largest of a gauge, by labels.
func largest(gauge, by string) string {
	return `max by (` + by + `) (` + gauge + `{cluster=~"$cluster"})`
}

// chart shows values over time.
func chart(title, unit, about string, queries ...query) panel {
	return panel{title: title, about: about, kind: graph, unit: unit, queries: queries}
}

// states shows what is the case over time.
func states(title, unit, about string, queries ...query) panel {
	return panel{title: title, about: about, kind: timeline, unit: unit, queries: queries}
}
