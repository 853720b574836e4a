package check

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

const gateLeaderMigration = "ControllerManagerLeaderMigration"

var migrationGate = Check{
	Code: "LM-012", Reason: "LeaderMigrationGateOff", Category: categoryLeaderMigration, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true, DependsOn: onHosts,
	Title: "the gate ControllerManagerLeaderMigration is on in every manager that has leader migration, and set where it has to be",
	Explain: []string{
		"Leader migration is behind the feature gate ControllerManagerLeaderMigration: alpha and off by default in 1.21, on by default in 1.22 and 1.23, locked on from 1.24, gone with 1.27. With --enable-leader-migration and the gate off, the manager of 1.21 exits at start (\"Leader Migration is not enabled through feature gate\"), and a gate that somebody switched off in 1.22 or 1.23 does the same. " +
			"From 1.27 on the gate itself is an unknown flag value and keeps the manager from starting, so it has to leave the manifests before that upgrade (VER-008).",
		"The plan adds the gate where the version needs it, merges it into the gates that are there, and takes it out again at the end.",
	},
	judge: judgeMigrationGate,
}

func judgeMigrationGate(f facts) v1.Finding {
	var bad complaints
	var unclear []string
	n, on := 0, 0
	for _, p := range f.managers() {
		n++
		minor, ok := f.minorOf(p)
		if !ok {
			unclear = append(unclear, p.unversioned())
			continue
		}
		if !p.on("enable-leader-migration", false) || p.Name == ccm && own(p.Image) {
			continue
		}
		on++
		if catalogue.GateFor(p.Name, gateLeaderMigration, minor).Known && !p.gate(gateLeaderMigration, minor) {
			bad.add(p.String(), "%s (1.%d) has --enable-leader-migration, and %s is off (%s)", p, minor, gateLeaderMigration, p.givenOrDefault(gateLeaderMigration))
		}
	}
	switch {
	case !bad.empty():
		return with(bad.finding(v1.Fail, "%s", bad.lines[0]), "--feature-gates="+gateLeaderMigration+"=true", "manifests of the managers",
			"grep -n 'feature-gates\\|leader-migration' /etc/kubernetes/manifests/*controller-manager.yaml   # on each host named")
	case len(unclear) > 0:
		return with(unknown("%s", strings.Join(unclear, "; ")), "images with a version", "manifests of the managers", "")
	case on == 0:
		return pass("leader migration is off in %s; the plan sets the gate where the version needs it", plural(n, "manager"))
	}
	return pass("the gate is on, or not needed, in %s with leader migration", plural(on, "manager"))
}

var migrationMixed = Check{
	Code: "LM-013", Reason: "LeaderMigrationMixed", Category: categoryLeaderMigration, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true, DependsOn: onHosts,
	Title: "leader migration is on in all in-tree managers or in none",
	Explain: []string{
		"An in-tree manager without leader migration runs the cloud loops under its main lease alone. If another host's manager has leader migration on, and a cloud-controller-manager contends for the migration lease, nothing excludes the two: when the manager without it becomes leader, the migration lease is free, the cloud-controller-manager takes it, and both act. " +
			"The procedure of KEP-2436 switches it on in every kube-controller-manager, restarts all of them, and only then starts a cloud-controller-manager.",
		"--enable-leader-migration without --leader-elect counts as off: it does nothing (CP-002).",
	},
	judge: judgeMixed,
}

func judgeMixed(f facts) v1.Finding {
	in := f.inTree()
	var without complaints
	having := 0
	for _, p := range in {
		if p.migrates() {
			having++
			continue
		}
		without.add(p.String(), "%s has no leader migration", p)
	}
	contends := slices.ContainsFunc(f.all(ccm), placed.migrates)
	const expected, source = "the same --enable-leader-migration on every host", "manifests of " + kcm
	switch {
	case len(f.all(kcm)) == 0:
		return unknown("no %s was found", kcm)
	case len(in) == 0:
		return skip("no in-tree manager is left")
	case without.empty():
		return pass("leader migration is on in all %s", plural(len(in), "in-tree manager"))
	case having == 0 && !contends:
		return pass("leader migration is off in all %s", plural(len(in), "in-tree manager"))
	case f.opts.InProgress && !contends:
		return with(without.finding(v1.Warn, "the unfinished migration has switched leader migration on in %d of %s", having, plural(len(in), "in-tree manager")), expected, source, "transplant apply")
	case contends:
		return with(without.finding(v1.Fail, "a cloud-controller-manager contends for the migration lease, and %d of %s %s not respect it", len(without.lines), plural(len(in), "in-tree manager"), does(len(without.lines))),
			expected, source, "transplant rollback")
	}
	return with(without.finding(v1.Fail, "leader migration is on in %d of %s", having, plural(len(in), "in-tree manager")), expected, source,
		"grep -n leader-migration /etc/kubernetes/manifests/"+kcm+".yaml   # on each host named")
}

func does(n int) string {
	if n == 1 {
		return "does"
	}
	return "do"
}
