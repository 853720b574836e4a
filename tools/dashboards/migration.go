package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// migrationBoard is about one cluster on its way. What the managers say is there for transplant apply and for the
// operator. Phases are those of the operator, and of what transplant status has written; machines are the operator's.
func migrationBoard() board {
	return board{
		name: "migration", uid: "transplant-migration", title: "Transplant / Migration",
		about: "How far a migration is, what hinders it, and what it costs. Phases are those of the operator, and of " +
			"transplant status -o prometheus, which also has steps, findings and what probes saw. Machines are the operator's.",
		clusters: "running_managed_controllers", since: "1h",
		rows: []row{
			migrationQuestions(),
			{"Handover", []panel{owners(), firing()}},
			{"Leases", []panel{
				chart("Owners of a loop", units.Short,
					"1 is right. 0 is a gap, 2 an overlap: one scrape long, it may be a handover.",
					query{`transplant:loop_owners:count{cluster=~"$cluster"}`, "{{cluster}} {{name}}"}),
				chart("Changes of holder", units.Short, "How often a lease changed its holder, within five minutes.",
					query{`max by (cluster, lease) (increase(transplant_ccm_lease_transitions_total{cluster=~"$cluster"}[5m]))`,
						"{{cluster}} {{lease}}"}),
				chart("Since the last renewal", units.Seconds, "It grows while a lease is waited for.",
					query{largest("transplant_ccm_lease_seconds_since_renewal", "cluster, lease"), "{{cluster}} {{lease}}"}),
			}},
			{"What the new manager does", []panel{
				chart("Load balancers taken over", units.Short, "in_line needs no call. unknown: there was no note of it.",
					query{`sum by (cluster, noted) (transplant_ccm_service_adopted_total{cluster=~"$cluster"})`,
						"{{cluster}} {{noted}}"}),
				chart("Calls to the cloud", units.OpsPerSecond, "A takeover without changes reads much and writes little.",
					query{perSecond("transplant_ccm_cloud_calls_total", "operation, outcome"), "{{operation}} {{outcome}}"}),
				chart("Refused by the fence", units.OpsPerSecond,
					"Writes of a manager that was not certain to lead. Nothing was changed.",
					query{perSecond("transplant_ccm_fence_refused_total", "cluster, lease"), "{{cluster}} {{lease}}"}),
			}},
			{"Nodes and machines", []panel{
				chart("Machines", units.Short, "Those whose Nodes are external, and all.",
					query{largest("transplant_migration_machines_done", "cluster"), "{{cluster}} external"},
					query{largest("transplant_migration_machines_total", "cluster"), "{{cluster}} all"}),
				chart("Nodes that nothing initialised", units.Short,
					"From kube-state-metrics, where there is one. Their pods wait.",
					query{`count by (cluster) (kube_node_spec_taint{` +
						`cluster=~"$cluster", key="node.cloudprovider.kubernetes.io/uninitialized"} == 1)`,
						"{{cluster}}"}),
				chart("Services that wait", units.Short, "They do not have the load balancer that they ask for.",
					query{largest("transplant_ccm_service_pending", "cluster"), "{{cluster}}"}),
			}},
			{"What clients noticed", []panel{
				chart("Longest outage", units.Seconds,
					"Of one path of a kind, so far. From transplant status, while apply --probe runs.",
					query{outages("longest"), "{{cluster}} {{kind}}"}),
				chart("All outages", units.Seconds, "Of all paths of a kind, one added to the other.",
					query{outages("total"), "{{cluster}} {{kind}}"}),
				chart("Time of the plan's phases", units.Seconds, "Without pauses and stops. From transplant status.",
					query{largest("transplant_migration_plan_phase_duration_seconds", "cluster, phase"),
						"{{cluster}} {{phase}}"}),
			}},
			{"What was known before", []panel{
				states("Findings", units.Short,
					"What did not pass when the plan was made. docs/reference/checks.md says what each code means.",
					query{largest("transplant_migration_finding", "cluster, code, level"), "{{cluster}} {{code}} {{level}}"}),
			}},
		},
	}
}

// migrationQuestions is where it stands, how much is done, what hinders it, and for how long nothing ran.
func migrationQuestions() row {
	return row{"", []panel{
		{
			title: "Phase", about: "The migration's phase, and which manager runs how many loops.",
			kind: number, unit: units.Short,
			queries: []query{
				{`max by (cluster, phase) (transplant_migration_phase{cluster=~"$cluster"} == 1)`, "{{cluster}} {{phase}}"},
				{`count by (cluster, manager) (transplant:loop_managers:count{cluster=~"$cluster"})`, "{{cluster}} {{manager}}"},
			},
		},
		{
			title: "Done",
			about: "Loops that a cloud-controller-manager runs, of all that run; machines that are external; steps of " +
				"transplant apply. Node IPAM may stay.",
			kind: number, unit: units.Short,
			queries: []query{
				{`count by (cluster) (transplant:loop_managers:count{` +
					`cluster=~"$cluster", name!="nodeipam", manager="cloud-controller-manager"})`, "{{cluster}} loops done"},
				{`count by (cluster) (transplant:loop_owners:count{cluster=~"$cluster", name!="nodeipam"})`, "{{cluster}} loops"},
				{largest("transplant_migration_machines_done", "cluster"), "{{cluster}} machines done"},
				{largest("transplant_migration_machines_total", "cluster"), "{{cluster}} machines"},
				{largest("transplant_migration_steps_done", "cluster"), "{{cluster}} steps done"},
				{largest("transplant_migration_steps_total", "cluster"), "{{cluster}} steps"},
			},
		},
		{
			title: "Blockers", about: "Alerts that fire. Clusters that are Blocked, Failed or stuck.",
			kind: number, unit: units.Short, bad: 1,
			queries: []query{
				{`count(` + ours + `) or vector(0)`, "alerts"},
				{hindered, "blocked or failed"},
				{stuck, "stuck"},
			},
		},
		disruption(),
	}}
}

// outages are the longest one of a path, or all of all paths, by kind.
func outages(span string) string {
	return `max by (cluster, kind) (transplant_migration_probe_outage_seconds{cluster=~"$cluster", span="` + span + `"})`
}

// hindered is how many clusters wait for a person, and stuck how many take longer than they may. Replicas of the
// operator say the same of a cluster.
const (
	hindered = `count(max by (cluster) (transplant_migration_phase{` +
		`cluster=~"$cluster", phase=~"Blocked|Failed"} == 1)) or vector(0)`
	stuck = `sum(max by (cluster) (transplant_migration_stuck{cluster=~"$cluster"})) or vector(0)`
)
