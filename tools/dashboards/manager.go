package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// managerBoard is about the cloud-controller-managers of clusters, before, during and after a migration.
func managerBoard() board {
	return board{
		name: "manager", uid: "transplant-manager", title: "Transplant / Cloud controller managers",
		about:    "Who runs the cloud loops, how the cloud answers, and what waits.",
		clusters: "running_managed_controllers", since: "3h",
		rows: []row{
			managerQuestions(),
			{"Leases", []panel{
				chart("Since the last renewal", units.Seconds, "Above 30 s the loops of the lease stand still.",
					query{largest("transplant_ccm_lease_seconds_since_renewal", "cluster, lease"), "{{cluster}} {{lease}}"}),
				chart("Handovers", units.Seconds,
					"From the release of a lease to its next holder, of all that running managers have taken over.",
					query{`histogram_quantile(0.99, sum by (le, lease) (` +
						`transplant_ccm_lease_handover_seconds_bucket{cluster=~"$cluster"}))`, "p99 {{lease}}"}),
				chart("Refused by the fence", units.OpsPerSecond,
					"Writes of a manager that was not certain to lead. Nothing was changed.",
					query{perSecond("transplant_ccm_fence_refused_total", "cluster, lease"), "{{cluster}} {{lease}}"}),
			}},
			managerCloud(),
			{"Nodes", []panel{
				chart("Initialisation", units.Seconds, "From a Node's creation to its first complete sync.",
					query{`transplant:node_initialisation_seconds:p99{cluster=~"$cluster"}`, "p99 {{cluster}}"},
					query{quantile("0.5", "node_controller_initial_node_sync_delay_seconds", ""), "median"}),
				chart("Failures", units.OpsPerSecond, "The event on the Node has the same reason.",
					query{perSecond("transplant_ccm_node_sync_failures_total", "cluster, reason"), "{{cluster}} {{reason}}"}),
				chart("Deletions that are held", units.Short,
					"Nodes without an instance that are kept, since there are too many.",
					query{largest("transplant_ccm_node_deletions_held", "cluster, reason"), "{{cluster}} {{reason}}"},
					query{largest("transplant_ccm_node_deletions_delayed", "cluster"), "{{cluster}} after a takeover"}),
			}},
			{"Services", []panel{
				chart("Waiting", units.Short, "Services that do not have the load balancer that they ask for.",
					query{largest("transplant_ccm_service_pending", "cluster"), "{{cluster}}"}),
				chart("Time of one load balancer", units.Seconds, "How long one was made or changed, by outcome.",
					query{quantile("0.99", "transplant_ccm_service_ensure_duration_seconds", "outcome"), "p99 {{outcome}}"}),
				chart("Failed", units.PercentUnit, "The part of tries to make or change a load balancer that failed.",
					query{`transplant:load_balancer_errors:ratio_rate30m{cluster=~"$cluster"}`, "{{cluster}}"}),
			}},
			{"Routes and pod ranges", []panel{
				chart("Routes that fail", units.Short, "Pods of these Nodes are not reached from others.",
					query{largest("transplant_ccm_route_failing", "cluster, operation"), "{{cluster}} {{operation}}"}),
				chart("Time of one route", units.Seconds, "From the first try to the last.",
					query{quantile("0.99", "transplant_ccm_route_create_duration_seconds", ""), "p99"}),
				chart("Nodes without a range", units.Short, "They wait for a podCIDR, or have one that is not theirs.",
					query{largest("transplant_ccm_node_ipam_waiting_nodes", "cluster"), "{{cluster}} waiting"},
					query{largest("transplant_ccm_node_ipam_conflicts", "cluster"), "{{cluster}} overlapping"}),
			}},
			{"Process", []panel{
				chart("Queues", units.Short, "Items that wait to be worked on.",
					query{`sum by (name) (workqueue_depth{cluster=~"$cluster"}` + ofManagers + `)`, "{{name}}"}),
				chart("Requests to the API server", units.OpsPerSecond, "429 and 5xx slow the manager down.",
					query{`sum by (code, method) (rate(rest_client_requests_total{cluster=~"$cluster"}[$__rate_interval])` +
						ofManagers + `)`, "{{method}} {{code}}"}),
				chart("Life of the token", units.Seconds, "It is renewed when a third of its life is over.",
					query{`min by (cluster) (transplant_ccm_token_expiration_timestamp_seconds{cluster=~"$cluster"} > 0) - time()`,
						"{{cluster}}"}),
			}},
			{"Over time", []panel{owners(), firing()}},
		},
	}
}

// managerQuestions is who leads, what runs, what hinders, and for how long nothing ran.
func managerQuestions() row {
	return row{"", []panel{
		{
			title: "Phase", about: "Which manager runs how many loops: kube-controller-manager before a migration, " +
				"cloud-controller-manager after it, both in the middle of a handover.",
			kind: number, unit: units.Short,
			queries: []query{{
				`count by (cluster, manager) (transplant:loop_managers:count{cluster=~"$cluster"})`, "{{cluster}} {{manager}}",
			}},
		},
		{
			title: "Loops that have one owner", about: "Of those that a manager knows. Routes and node IPAM may be off.",
			kind: number, unit: units.Short,
			queries: []query{
				{`count by (cluster) (transplant:loop_owners:count{cluster=~"$cluster"} == 1)`, "{{cluster}} run"},
				{`count by (cluster) (count by (cluster, name) (running_managed_controllers{` +
					`cluster=~"$cluster", name=~"service|route|cloud-node-lifecycle|nodeipam"}))`, "{{cluster}} known"},
			},
		},
		{
			title: "Blockers", about: "Alerts that fire, and Services that wait.",
			kind: number, unit: units.Short, bad: 1,
			queries: []query{
				{`count(` + ours + `) or vector(0)`, "alerts"},
				{`sum(max by (cluster) (transplant_ccm_service_pending{cluster=~"$cluster"})) or vector(0)`, "Services"},
			},
		},
		disruption(),
	}}
}

// managerCloud is how the cloud answers the managers.
func managerCloud() row {
	return row{"Cloud", []panel{
		chart("Calls", units.OpsPerSecond, "Calls that ended, by outcome.",
			query{perSecond("transplant_ccm_cloud_calls_total", "provider, outcome"), "{{provider}} {{outcome}}"}),
		chart("Failed", units.PercentUnit, "The part of calls that failed. While it is 100 %, no Node is deleted.",
			query{`transplant:cloud_errors:ratio_rate5m{cluster=~"$cluster"}`, "{{cluster}} {{provider}}"}),
		chart("Time of one call", units.Seconds, "Without the time that it waited for the call rate.",
			query{quantile("0.99", "transplant_ccm_cloud_call_duration_seconds", "operation"), "p99 {{operation}}"}),
		chart("Calls under way", units.Short, "Calls that were given up and have not returned keep memory.",
			query{`sum by (operation) (transplant_ccm_cloud_calls_in_flight{cluster=~"$cluster"})`, "{{operation}}"},
			query{`sum by (operation) (transplant_ccm_cloud_calls_abandoned{cluster=~"$cluster"})`, "{{operation}} given up"}),
		chart("Throttled", units.OpsPerSecond, "Calls that were made again, since the cloud refused them.",
			query{perSecond("transplant_ccm_cloud_retries_total", "cluster, operation"), "{{cluster}} {{operation}}"}),
		chart("Waiting for the call rate", units.Seconds, "Nothing waits while the cloud throttles nothing.",
			query{quantile("0.99", "transplant_ccm_cloud_budget_wait_seconds", "class"), "p99 {{class}}"}),
	}}
}

// ofManagers leaves the series of our managers. Every program on the same Kubernetes libraries has series of that name.
const ofManagers = ` and on (cluster, instance) transplant_ccm_controller_lease`
