package leadermigration

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

const gateLeaderMigration = "ControllerManagerLeaderMigration"

var migrationGate = rule.Check{
	Code:      "LM-012",
	Reason:    "LeaderMigrationGateOff",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "ControllerManagerLeaderMigration in the feature gates, and --enable-leader-migration",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeMigrationGate,
}

func judgeMigrationGate(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var unclear []string
	n, on := 0, 0
	for _, p := range f.AllManagers() {
		n++
		minor, ok := f.MinorOf(p)
		if !ok {
			unclear = append(unclear, p.Unversioned())
			continue
		}
		if !p.On("enable-leader-migration", false) || p.Name == component.CCM && facts.Own(p.Image) {
			continue
		}
		on++
		if catalogue.GateFor(p.Name, gateLeaderMigration, minor).Known && !p.Gate(gateLeaderMigration, minor) {
			bad.Add(
				p.String(),
				"%s (1.%d) has --enable-leader-migration, and %s is off (%s)",
				p,
				minor,
				gateLeaderMigration,
				p.GivenOrDefault(gateLeaderMigration),
			)
		}
	}
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "%s", bad[0].Text),
			"--feature-gates="+gateLeaderMigration+"=true",
			"manifests of the managers",
			"grep -n 'feature-gates\\|leader-migration' /etc/kubernetes/manifests/*controller-manager.yaml   # on each host named",
		)
	case len(unclear) > 0:
		return findings.With(
			findings.Unknown("%s", strings.Join(unclear, "; ")),
			"images with a version",
			"manifests of the managers",
			"",
		)
	case on == 0:
		return findings.Pass(
			"leader migration is off in %s; the plan sets the gate where the version needs it",
			findings.Plural(n, "manager"),
		)
	}
	return findings.Pass("the gate is on, or not needed, in %s with leader migration", findings.Plural(on, "manager"))
}

var migrationMixed = rule.Check{
	Code:      "LM-013",
	Reason:    "LeaderMigrationMixed",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the hosts with --enable-leader-migration=true and those without",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeMixed,
}

func judgeMixed(f facts.Facts) v1.Finding {
	in := f.InTree()
	var without findings.Problems
	having := 0
	for _, p := range in {
		if p.Migrates() {
			having++
			continue
		}
		without.Add(p.String(), "%s has no leader migration", p)
	}
	contends := slices.ContainsFunc(f.InstancesOf(component.CCM), facts.Instance.Migrates)
	const expected, source = "the same --enable-leader-migration on every host", "manifests of " + component.KCM
	switch {
	case len(f.InstancesOf(component.KCM)) == 0:
		return findings.Unknown("no %s was found", component.KCM)
	case len(in) == 0:
		return findings.Skip("no in-tree manager is left")
	case without.Empty():
		return findings.Pass("leader migration is on in all %s", findings.Plural(len(in), "in-tree manager"))
	case having == 0 && !contends:
		return findings.Pass("leader migration is off in all %s", findings.Plural(len(in), "in-tree manager"))
	case f.Opts.InProgress && !contends:
		return findings.With(
			without.Finding(
				v1.Warn,
				"the unfinished migration has switched leader migration on in %d of %s",
				having,
				findings.Plural(len(in), "in-tree manager"),
			),
			expected,
			source,
			"transplant apply",
		)
	case contends:
		return findings.With(
			without.Finding(
				v1.Fail,
				"a cloud-controller-manager contends for the migration lease, and %d of %s %s not respect it",
				len(without),
				findings.Plural(len(in), "in-tree manager"),
				english.Word(len(without), "does", "do"),
			),
			expected,
			source,
			"transplant rollback",
		)
	}
	return findings.With(
		without.Finding(v1.Fail, "leader migration is on in %d of %s", having, findings.Plural(len(in), "in-tree manager")),
		expected,
		source,
		"grep -n leader-migration /etc/kubernetes/manifests/"+component.KCM+".yaml   # on each host named",
	)
}
