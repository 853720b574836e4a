package check

import (
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// leads puts a lease that is held into the snapshot.
func leads(name, holder string, ago time.Duration, transitions int32) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		l := heldLease(holder, time.Second)
		acquired := taken.Add(-ago)
		l.Name, l.AcquireTime, l.Transitions = name, &acquired, transitions
		s.Leases = append(s.Leases, l)
	}
}

// aheadBy puts the clock of the machine that took the snapshot ahead of those that wrote its leases.
func aheadBy(d time.Duration) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.TakenAt = s.TakenAt.Add(d) }
}

// apiBehind is what that machine then measures of the API server's clock.
func apiBehind(d time.Duration) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Clocks = []v1.Clock{{Who: "api", OffsetMillis: -d.Milliseconds()}}
	}
}

// shows gives the manager that runs the loops these series.
func shows(series ...v1.Series) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Managers[0].Series = series }
}

// leadingMigration is the healthy cluster with a manager that says that it leads by the migration lease.
func leadingMigration() *v1.Snapshot {
	s := healthy()
	s.Managers[0].Leads = append(s.Managers[0].Leads, component.MigrationLease)
	return s
}

func within(n uint64) *uint64 { return &n }

var migrationRules = []ruleCase{
	{name: "the holder is a host", code: "LM-009", want: pass_, says: []string{"1 lease"}, change: leads(component.KCM, "cp-1_0f3c", time.Hour, 1)},
	{name: "the holder is a Node's name", code: "LM-009", want: pass_, change: leads(component.KCM, "ip-10-0-0-12_0f3c", time.Hour, 1)},
	{
		name: "F25: the holder is nobody that is known",
		code: "LM-009",
		want: fails,
		says: []string{"old-master_0f3c", "cp-1, cp-2, cp-3", "grep old-master"},
		change: changes(leads(component.KCM, "old-master_0f3c", time.Hour, 1), func(s *v1.Snapshot) {
			s.Managers[0].Leads = nil
		}),
	},
	{
		name:   "F25: a lease of a second cloud-controller-manager",
		code:   "LM-009",
		want:   fails,
		says:   []string{"aws-cloud-controller-manager"},
		change: leads("aws-cloud-controller-manager", "worker-3_x", time.Hour, 1),
	},
	{name: "another component's lease", code: "LM-009", want: pass_, change: leads("cluster-autoscaler", "worker-3_x", time.Hour, 1)},
	{
		name:   "a host of another name whose manager says that it leads",
		code:   "LM-009",
		want:   pass_,
		change: leads("cloud-provider-extraction-migration", "build-7_x", time.Hour, 1),
		base:   leadingMigration,
	},
	{
		name: "a host of another name that was not asked",
		code: "LM-009",
		want: skipped,
		says: []string{"needs LM-006 first", "build-7_x", "not every manager could be asked"},
		change: changes(leads(component.KCM, "build-7_x", time.Hour, 1), func(s *v1.Snapshot) {
			s.Managers = nil
		}),
	},
	{name: "leases could not be listed", code: "LM-009", want: unknwn, change: notGathered("leases")},

	{name: "a leader of long standing", code: "LM-010", want: pass_, says: []string{"1 election"}, change: leads(component.KCM, "cp-1_x", 90*24*time.Hour, 12)},
	{
		name:   "a leader that has just come",
		code:   "LM-010",
		want:   warn,
		says:   []string{"cp-1_x took the lease kube-controller-manager 1m0s ago", "-l component=kube-controller-manager "},
		change: leads(component.KCM, "cp-1_x", time.Minute, 3),
	},
	{
		name:   "a cloud-controller-manager that has just come",
		code:   "LM-010",
		want:   warn,
		says:   []string{"cp-1_x took the lease cloud-controller-manager 1m0s ago", "grep -E 'cloud-controller-manager'"},
		change: leads(component.CCM, "cp-1_x", time.Minute, 3),
	},
	{
		name:   "a leader of the loops that has just come",
		code:   "LM-010",
		want:   warn,
		says:   []string{"1m0s ago", "grep -E 'kube-controller-manager|cloud-controller-manager'"},
		change: leads("cloud-provider-extraction-migration", "cp-1_x", time.Minute, 3),
	},
	{
		name:   "a lease that goes from hand to hand",
		code:   "LM-010",
		want:   warn,
		says:   []string{"5000 times in 100 days"},
		change: leads(component.KCM, "cp-1_x", time.Hour, 5000),
	},
	{
		name:   "a leader from a time to come",
		code:   "LM-010",
		want:   warn,
		says:   []string{"cp-1_x took the lease kube-controller-manager at 2026-05-04T10:10:00Z", "still to come"},
		change: leads(component.KCM, "cp-1_x", -10*time.Minute, 3),
	},
	{
		name:   "a lease that nobody renews",
		code:   "LM-010",
		want:   warn,
		says:   []string{"expired 1h0m1s ago", "no kube-controller-manager leads"},
		change: changes(leads(component.KCM, "cp-1_x", 2*time.Hour, 3), aheadBy(time.Hour)),
	},
	{
		name:   "this machine's clock is ahead, and the lease is renewed all the same",
		code:   "LM-010",
		want:   pass_,
		change: changes(leads(component.KCM, "cp-1_x", 2*time.Hour, 3), aheadBy(time.Hour), apiBehind(time.Hour)),
	},
	{
		name:   "a holder that is nobody, looked for by a clock that is ahead",
		code:   "LM-009",
		want:   fails,
		says:   []string{"worker-3_x"},
		change: changes(leads("aws-cloud-controller-manager", "worker-3_x", 2*time.Hour, 1), aheadBy(time.Hour), apiBehind(time.Hour)),
	},
	{
		name:   "a manager of another kind, looked for by a clock that is ahead",
		code:   "CP-007",
		want:   fails,
		says:   []string{"worker-3_x", "no static pod of these hosts"},
		change: changes(leads(component.CCM, "worker-3_x", 2*time.Hour, 1), aheadBy(time.Hour), apiBehind(time.Hour)),
	},
	{name: "leases could not be listed", code: "LM-010", want: unknwn, change: notGathered("leases")},

	{name: "leases by default", code: "LM-011", want: pass_, says: []string{"3 managers elect by leases"}},
	{
		name: "F24: one host elects by endpoints",
		code: "LM-011",
		want: fails,
		says: []string{"no Lease that Transplant could watch", "both lead"},
		change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"leader-elect-resource-lock": "endpoints"})
		}),
	},
	{name: "endpointsleases exclude leases", code: "LM-011", want: pass_, change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
		setFlags(s, 1, component.KCM, map[string]string{"leader-elect-resource-lock": "endpointsleases"})
	})},
	{
		name: "F24: a kind that this version does not know any more",
		code: "LM-011",
		want: fails,
		says: []string{"(1.26)", "it exits"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"leader-elect-resource-lock": "configmaps"})
		},
	},
	{name: "a kind that never was", code: "LM-011", want: fails, says: []string{"which no version knows"}, change: func(s *v1.Snapshot) {
		setFlags(s, 1, component.KCM, map[string]string{"leader-elect-resource-lock": "files"})
	}},
	{name: "no manager", code: "LM-011", want: unknwn, change: onlyAPIServers},

	{name: "leader migration is off", code: "LM-012", want: pass_, says: []string{"off in 3 managers"}},
	{
		name:   "F24: 1.21 has the gate off by default",
		code:   "LM-012",
		want:   fails,
		says:   []string{"(1.21)", "is off (by default)", "--feature-gates=ControllerManagerLeaderMigration=true"},
		change: changes(ofVersion("v1.21.5"), flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true"})),
	},
	{
		name: "1.21 with the gate",
		code: "LM-012",
		want: pass_,
		change: changes(
			ofVersion("v1.21.5"),
			flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true", "feature-gates": "ControllerManagerLeaderMigration=true"}),
		),
	},
	{
		name: "1.23 with the gate switched off",
		code: "LM-012",
		want: fails,
		says: []string{"given as false"},
		change: changes(
			ofVersion("v1.23.5"),
			flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true", "feature-gates": "ControllerManagerLeaderMigration=false"}),
		),
	},
	{name: "1.26 needs none", code: "LM-012", want: pass_, change: flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true"})},
	{name: "no version", code: "LM-012", want: unknwn, change: noVersion},
	{
		name:   "1.21 has no default config",
		code:   "LM-005",
		want:   fails,
		says:   []string{"exits without --leader-migration-config"},
		change: changes(ofVersion("v1.21.5"), flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true"})),
	},

	{name: "off everywhere", code: "LM-013", want: pass_, says: []string{"off in all 3"}},
	{
		name:   "on everywhere",
		code:   "LM-013",
		want:   pass_,
		says:   []string{"on in all 3"},
		change: flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true"}),
	},
	{
		name: "F24: on in one host",
		code: "LM-013",
		want: fails,
		says: []string{"on in 1 of 3", "kube-controller-manager@cp-1 has no leader migration"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"enable-leader-migration": "true"})
		},
	},
	{name: "on in one host in a run", code: "LM-013", want: warn, opts: facts.Options{InProgress: true}, change: func(s *v1.Snapshot) {
		setFlags(s, 1, component.KCM, map[string]string{"enable-leader-migration": "true"})
	}},
	{
		name: "F24: the other side contends already",
		code: "LM-013",
		want: fails,
		opts: facts.Options{InProgress: true},
		says: []string{"3 of 3 in-tree managers do not respect it"},
		change: func(s *v1.Snapshot) {
			addCCM(s, 0, upstreamCCM)
			setFlags(s, 0, component.CCM, map[string]string{"enable-leader-migration": "true"})
		},
	},
	{name: "no manager", code: "LM-013", want: unknwn, change: onlyAPIServers},
	{name: "nothing in-tree", code: "LM-013", base: migrated, want: skipped},

	{
		name: "a version without the gauge: its leases and flags say it",
		code: "LM-006",
		want: pass_,
		says: []string{"by leases and flags", "route in kube-controller-manager@cp-1", "nodeipam in kube-controller-manager@cp-1"},
		change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
			s.Managers[0].Loops = nil
		}),
	},
	{
		name: "a version without the gauge and a leader that waits for the migration lease",
		code: "LM-006",
		want: fails,
		says: []string{"loop service runs nowhere"},
		change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
			s.Managers[0].Loops = nil
			migrating(s, component.KCM, shortNames)
		}),
	},
	{
		name: "a version without the gauge, and two managers that elect nobody",
		code: "LM-006",
		want: fails,
		says: []string{"loop service runs in 2 managers"},
		change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
			s.Managers[0].Loops = nil
			setFlags(s, 1, component.KCM, map[string]string{"leader-elect": "false"})
		}),
	},
	{
		name: "a version without the gauge holds the migration lease",
		code: "LM-007",
		want: pass_,
		says: []string{"runs service, route"},
		change: changes(ofVersion("v1.22.3"), func(s *v1.Snapshot) {
			s.Leases = []v1.Lease{heldLease("cp-1_x", time.Second)}
			s.Managers[0].Loops, s.Managers[0].Leads = nil, []string{component.MigrationLease, component.KCM}
		}),
	},

	{name: "no series", code: "LM-014", want: skipped},
	{name: "all within the objective", code: "LM-014", want: pass_, says: []string{"2 series"}, change: shows(
		v1.Series{Name: objectives.SeriesErrors, Sum: 1}, v1.Series{Name: objectives.SeriesSyncs, Count: 400, Sum: 900, Within60: within(399)})},
	{
		name:   "errors",
		code:   "LM-014",
		want:   warn,
		says:   []string{"nodesync_error_total is 37 (of 400 syncs)"},
		change: shows(v1.Series{Name: objectives.SeriesErrors, Sum: 37}, v1.Series{Name: objectives.SeriesSyncs, Count: 400, Within60: within(400)}),
	},
	{
		name:   "slow load balancers",
		code:   "LM-014",
		want:   warn,
		says:   []string{"12 of 400 took more than 60 s"},
		change: shows(v1.Series{Name: "update_loadbalancer_host_latency_seconds", Count: 400, Within60: within(388)}),
	},
	{name: "few samples say nothing", code: "LM-014", want: pass_, change: shows(v1.Series{Name: objectives.SeriesSyncs, Count: 3, Within60: within(2)})},

	{name: "one election", code: "GAP-002", want: pass_, says: []string{"about 2s", "17s at most"}},
	{name: "F21: the managers are stopped", code: "GAP-002", want: pass_, opts: facts.Options{Strategy: "downtime"}, says: []string{"about 47s", "1m2s at most"}},
	{
		name:   "F21: the only manager is stopped",
		code:   "GAP-002",
		want:   warn,
		opts:   facts.Options{Strategy: "downtime"},
		says:   []string{"2m7s at most", "1 in-tree manager"},
		change: func(s *v1.Snapshot) { s.Hosts, s.ControlPlaneNodes = s.Hosts[:1], s.ControlPlaneNodes[:1] },
	},
	{
		name:   "a long lease",
		code:   "GAP-002",
		want:   warn,
		says:   []string{"5m"},
		change: flagsOf(component.KCM, map[string]string{"leader-elect-lease-duration": "300s"}),
	},
	{
		name:   "a duration that is none",
		code:   "GAP-002",
		want:   unknwn,
		says:   []string{"soon"},
		change: flagsOf(component.KCM, map[string]string{"leader-elect-lease-duration": "soon"}),
	},

	{name: "no such monitoring", code: "GAP-003", want: pass_, says: []string{"2 API groups"}},
	{
		name:   "F93: rules in the cluster",
		code:   "GAP-003",
		want:   warn,
		says:   []string{"another port and job", "kubectl get prometheusrules"},
		change: func(s *v1.Snapshot) { s.APIGroups = append(s.APIGroups, "monitoring.coreos.com/v1") },
	},
	{name: "groups could not be listed", code: "GAP-003", want: unknwn, change: notGathered("apigroups")},
	{name: "everything is over", code: "GAP-003", base: migrated, want: skipped},
}
