package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// fleetBoard is about the clusters of a seed, and the operator that migrates them. Cluster is a user cluster.
func fleetBoard() board {
	return board{
		name: "fleet", uid: "transplant-fleet", title: "Transplant / Fleet",
		about:    "The clusters of a fleet by phase, what hinders them, and how the operator does.",
		clusters: "transplant_migration_phase", since: "24h",
		rows: []row{
			fleetQuestions(),
			{"Clusters", []panel{
				chart("Phases", units.Short, "A cluster has one phase.",
					query{phases, "{{phase}}"}),
				chart("Machines left", units.Short, "Machines whose Nodes are not external yet, by cluster.",
					query{largest("transplant_migration_machines_total", "cluster") + ` - ` +
						largest("transplant_migration_machines_done", "cluster") + ` > 0`,
						"{{cluster}}"}),
				chart("Clusters that wait", units.Short, "For a decision, and for a place among those that are changed.",
					query{`max by (queue) (transplant_queue_depth)`, "{{queue}}"}),
			}},
			{"Which", []panel{
				states("Clusters that need a person", units.Short,
					"What they are Blocked by is in their condition TransplantMigration.",
					query{`max by (cluster, phase) (transplant_migration_phase{` +
						`cluster=~"$cluster", phase=~"Blocked|Failed"} == 1)`,
						"{{cluster}} {{phase}}"},
					query{`max by (cluster) (transplant_migration_stuck{cluster=~"$cluster"} == 1)`, "{{cluster}} stuck"}),
				firing(),
			}},
			{"Runs", []panel{
				chart("Under way", units.Short, "Control planes that are changed now.",
					query{`max(transplant_engine_runs_active)`, "runs"}),
				chart("Ended", units.Short, "Runs within an hour, by part and outcome.",
					query{`sum by (part, outcome) (increase(transplant_engine_runs_total[1h]))`, "{{part}} {{outcome}}"}),
				chart("Time of one run", units.Seconds, "Within an hour, by part.",
					query{`histogram_quantile(0.9, sum by (le, part) (` +
						`rate(transplant_engine_run_duration_seconds_bucket[1h])))`,
						"p90 {{part}}"}),
			}},
			{"Operator", []panel{
				chart("Decisions", units.OpsPerSecond, "By result. Errors are tried again.",
					query{`sum by (result) (rate(transplant_reconciles_total[$__rate_interval]))`, "{{result}}"}),
				chart("Time of one decision", units.Seconds, "With the write of conditions.",
					query{`histogram_quantile(0.99, sum by (le) (` +
						`rate(transplant_reconcile_duration_seconds_bucket[$__rate_interval])))`,
						"p99"}),
				chart("Reads of user clusters", units.OpsPerSecond, "By what was read, and result.",
					query{`sum by (what, result) (rate(transplant_looks_total[$__rate_interval]))`, "{{what}} {{result}}"}),
				chart("Clusters that are read", units.Short, "At a time.",
					query{`max(transplant_looks_active)`, "clusters"}),
				chart("Requests", units.OpsPerSecond, "To the seed and to user clusters. Code 0 had no answer.",
					query{`sum by (side, code) (rate(transplant_api_requests_total[$__rate_interval]))`, "{{side}} {{code}}"}),
				chart("Writes of conditions", units.OpsPerSecond, "Nothing is written for the sake of a heartbeat.",
					query{`sum(rate(transplant_status_writes_total[$__rate_interval]))`, "writes"}),
			}},
		},
	}
}

// phases is how many clusters are in which phase. Replicas of the operator say the same of a cluster.
const phases = `count by (phase) (max by (cluster, phase) (transplant_migration_phase{cluster=~"$cluster"} == 1))`

// fleetQuestions is where clusters stand, how much is done, what hinders, and for how long nothing ran.
func fleetQuestions() row {
	return row{"", []panel{
		{
			title: "Phase", about: "Clusters by phase.",
			kind: number, unit: units.Short, queries: []query{{phases, "{{phase}}"}},
		},
		{
			title: "Done",
			about: "Clusters that are completed, of those that have something to migrate; machines that are external, of all.",
			kind:  number, unit: units.Short,
			queries: []query{
				{`count(max by (cluster) (transplant_migration_phase{cluster=~"$cluster", phase="Completed"} == 1)) or vector(0)`,
					"clusters done"},
				{`count(max by (cluster) (transplant_migration_phase{cluster=~"$cluster", phase!="NotNeeded"} == 1)) or vector(0)`,
					"clusters"},
				{`sum(max by (cluster) (transplant_migration_machines_done{cluster=~"$cluster"})) or vector(0)`, "machines done"},
				{`sum(max by (cluster) (transplant_migration_machines_total{cluster=~"$cluster"})) or vector(0)`, "machines"},
			},
		},
		{
			title: "Blockers", about: "Clusters that are Blocked, Failed or stuck; panics of the operator within a day.",
			kind: number, unit: units.Short, bad: 1,
			queries: []query{
				{hindered, "blocked or failed"},
				{stuck, "stuck"},
				{`sum(increase(transplant_panics_total[1d])) or vector(0)`, "panics"},
			},
		},
		disruption(),
	}}
}
