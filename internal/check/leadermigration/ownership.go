package leadermigration

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/shell"
)

var leaseAccess = rule.Check{
	Code:          "LM-003",
	Reason:        "LeaseForbidden",
	Category:      findings.CategoryLeaderMigration,
	Level:         findings.LevelCritical,
	Impact:        findings.ImpactNoLoops,
	LookFor:       "yes, for both managers and every verb",
	Mandatory:     true,
	AcceptUnknown: true,
	DependsOn:     []string{"API-001", "HOST-001", "CP-003"},
	Judge:         judgeLeaseAccess,
}

func judgeLeaseAccess(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var errs []string
	on := false
	for _, who := range []struct{ component, user string }{
		{component.KCM, component.UserKCM}, {component.CCM, component.UserCCM},
	} {
		migrates := slices.ContainsFunc(f.InstancesOf(who.component), facts.Instance.Migrates)
		on = on || migrates
		for _, verb := range []string{"create", "get", "update"} {
			a, asked := f.LeaseAnswer(who.user, verb)
			switch {
			case !asked:
				errs = append(
					errs,
					fmt.Sprintf("it was not asked whether %s may %s the lease %s", who.user, verb, f.Opts.LeaseName),
				)
			case a.Error != "":
				errs = append(
					errs,
					fmt.Sprintf("asking whether %s may %s the lease %s: %s", who.user, verb, f.Opts.LeaseName, a.Error),
				)
			case !a.Allowed && (migrates || f.Stage() != facts.StageExternal):
				bad.Add(who.user, "%s may not %s it", who.user, verb)
			}
		}
	}
	const expected, source = "create, get and update for both", "SubjectAccessReview"
	switch {
	case f.Strategy() == facts.StrategyDowntime && !on:
		return findings.Skip("--strategy=downtime uses no migration lease")
	case len(errs) > 0:
		return findings.With(
			findings.Unknown("%s", strings.Join(errs, "; ")),
			expected,
			source,
			"kubectl auth can-i create subjectaccessreviews.authorization.k8s.io",
		)
	case !bad.Empty() && on:
		return findings.With(
			bad.Finding(v1.Fail, "leader migration is on and the lease %s is out of reach: %s", f.Opts.LeaseName, bad[0].Text),
			expected,
			source,
			grantLease(f.Opts.LeaseName),
		)
	case !bad.Empty():
		return findings.With(
			bad.Finding(
				v1.Pass,
				"the managers may not use the lease %s yet; the plan grants it before leader migration is switched on",
				f.Opts.LeaseName,
			),
			expected,
			source,
			"",
		)
	}
	return findings.Pass("both managers may create, get and update the lease %s", f.Opts.LeaseName)
}

// grantLease gives both managers the lease at once: the plan would, too, but is not executed while this blocks.
func grantLease(lease string) string {
	var parts []string
	for _, role := range []struct{ name, rule string }{
		{"leader-migration", "get,update --resource=leases --resource-name=" + shell.Quote(lease)},
		{"leader-migration-create", "create --resource=leases"},
	} {
		parts = append(
			parts,
			"kubectl -n kube-system create role "+role.name+" --verb="+role.rule,
			"kubectl -n kube-system create rolebinding "+role.name+" --role="+role.name+" --user="+component.UserKCM+" --serviceaccount=kube-system:"+component.CCM,
		)
	}
	return strings.Join(parts, " && ")
}

var ownership = rule.Check{
	Code:          "LM-006",
	Reason:        "NotOneOwner",
	Category:      findings.CategoryLeaderMigration,
	Level:         findings.LevelCritical,
	Impact:        findings.ImpactTwoOwners,
	LookFor:       "the holder of each lease, and a holder that is on no host of the cluster",
	Mandatory:     true,
	AcceptUnknown: true,
	DependsOn:     rule.OnHosts,
	Retryable:     true,
	Judge:         judgeOwnership,
}

func judgeOwnership(f facts.Facts) v1.Finding {
	owners, silent := owners(f)
	var bad findings.Problems
	var said []string
	two := false
	for _, loop := range controllernames.Loops {
		switch {
		case len(owners[loop]) > 1:
			two = true
			bad.Add(
				string(loop),
				"loop %s runs in %d managers: %s",
				loop,
				len(owners[loop]),
				strings.Join(owners[loop], " and "),
			)
		case len(owners[loop]) == 1:
			said = append(said, fmt.Sprintf("%s in %s", loop, owners[loop][0]))
		case len(silent) == 0 && slices.Contains(f.Expected(), loop):
			bad.Add(string(loop), "loop %s runs nowhere", loop)
		}
	}
	const expected, source = "running_managed_controllers at 1 in exactly one process for each loop", "/metrics of the managers"
	switch {
	case !bad.Empty() && (two || len(silent) == 0):
		return findings.With(
			bad.Finding(v1.Fail, "%s", strings.Join(bad.Texts(), "; ")),
			expected,
			source,
			"kubectl -n kube-system get leases",
		)
	case len(silent) > 0:
		return findings.With(
			findings.Unknown("not every manager could be asked which loops it runs: %s", strings.Join(silent, "; ")),
			expected,
			source,
			"transplant snapshot -o yaml",
		)
	case len(f.AllManagers()) == 0:
		return findings.Unknown("no manager's manifest could be read")
	}
	for _, p := range f.AllManagers() {
		if !showsLoops(f, p) {
			return findings.Pass(
				"each loop has one owner, by leases and flags (this version does not show its loops): %s",
				strings.Join(said, ", "),
			)
		}
	}
	return findings.Pass("each loop has one owner: %s", strings.Join(said, ", "))
}

// owners are the managers whose gauge is 1, by loop, and why managers could not be asked.
func owners(f facts.Facts) (owners map[controllernames.Loop][]string, silent []string) {
	owners = map[controllernames.Loop][]string{}
	for _, p := range f.AllManagers() {
		all := f.Scrapes(p)
		if len(all) == 0 {
			silent = append(silent, p.String())
		}
		for _, m := range all {
			if m.Error != "" {
				silent = append(silent, m.Component+"@"+m.Host+": "+m.Error)
				continue
			}
			for _, loop := range loopsOf(f, p, m) {
				owners[loop] = append(owners[loop], m.Component+"@"+m.Host)
			}
		}
	}
	return owners, silent
}

// loopsOf are the loops that a manager runs: as its gauge says or, where its version has none, as its leases and flags
// let it.
func loopsOf(f facts.Facts, p facts.Instance, m v1.Manager) []controllernames.Loop {
	var out []controllernames.Loop
	for _, metric := range m.Loops {
		if loop, ok := controllernames.LoopOfMetric(metric); ok {
			out = append(out, loop)
		}
	}
	if len(m.Loops) > 0 || showsLoops(f, p) {
		return out
	}
	elects := p.On("leader-elect", true)
	for _, loop := range controllernames.Loops {
		leads := !elects || slices.Contains(m.Leads, p.Flag("leader-elect-resource-name", p.Name))
		if p.Migrates() && slices.Contains(controllernames.CloudLoops, loop) {
			leads = leads && slices.Contains(m.Leads, f.Opts.LeaseName)
		}
		if leads && f.WouldRun(p, loop) {
			out = append(out, loop)
		}
	}
	return out
}

// showsLoops reports whether a manager says on its /metrics which loops it runs. Some official managers never do.
func showsLoops(f facts.Facts, p facts.Instance) bool {
	minor, ok := f.MinorOf(p)
	if !ok {
		return true
	}
	provider, _ := cloudprovider.Lookup(p.Flag("cloud-provider", ""))
	return catalogue.ShowsLoops(p.Name, minor) &&
		(p.Name != component.CCM || facts.Own(p.Image) || !provider.Silent)
}

func loopNames(loops []controllernames.Loop) []string {
	var out []string
	for _, l := range loops {
		out = append(out, string(l))
	}
	return out
}

var idleHolder = rule.Check{
	Code:          "LM-007",
	Reason:        "IdleLeaseHolder",
	Category:      findings.CategoryLeaderMigration,
	Level:         findings.LevelCritical,
	Impact:        findings.ImpactNoLoops,
	LookFor:       "holderIdentity and renewTime: whether the holder is alive, and which manager it is",
	Mandatory:     true,
	AcceptUnknown: true,
	DependsOn:     []string{"API-001", "HOST-001", "CP-003"},
	Retryable:     true,
	Judge:         judgeIdleHolder,
}

func judgeIdleHolder(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("leases"); ok {
		return finding
	}
	lease, ok := f.Lease(f.Opts.LeaseName)
	if !ok || lease.Holder == "" || facts.Expired(lease, f.Now()) {
		return findings.Skip("no manager holds the lease %s", f.Opts.LeaseName)
	}
	source := "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lease.Name
	silent, finding, found := holderOf(f, lease, source)
	if found {
		return finding
	}
	if len(silent) > 0 {
		return findings.With(
			findings.Unknown(
				"%s holds the lease %s; which manager that is cannot be told, since %s could not be asked",
				lease.Holder,
				lease.Name,
				strings.Join(silent, ", "),
			),
			"",
			source,
			"transplant snapshot -o yaml",
		)
	}
	var bad findings.Problems
	bad.Add("Lease/kube-system/"+lease.Name, "%s holds %s, and no manager says that it does", lease.Holder, lease.Name)
	return findings.With(
		bad.Finding(v1.Fail, "the migration lease is held by %s, which is none of the managers on these hosts", lease.Holder),
		"a holder that runs the loops",
		source,
		"kubectl -n kube-system get lease "+shell.Quote(lease.Name)+" -o yaml",
	)
}

// holderOf judges the manager that says that it leads by a lease; otherwise it returns who could not be asked.
func holderOf(f facts.Facts, lease v1.Lease, source string) (silent []string, finding v1.Finding, found bool) {
	for _, p := range f.AllManagers() {
		all := f.Scrapes(p)
		if len(all) == 0 {
			silent = append(silent, p.String())
		}
		for _, m := range all {
			who := m.Component + "@" + m.Host
			switch {
			case m.Error != "":
				silent = append(silent, who)
				continue
			case !slices.Contains(m.Leads, lease.Name):
				continue
			case slices.ContainsFunc(
				controllernames.CloudLoops,
				func(l controllernames.Loop) bool { return slices.Contains(loopsOf(f, p, m), l) },
			):
				return nil, findings.Pass(
					"%s holds the lease %s and runs %s",
					who,
					lease.Name,
					findings.OrNothing(loopNames(loopsOf(f, p, m))),
				), true
			}
			var bad findings.Problems
			bad.Add(
				who,
				"%s (%s) holds %s and runs %s",
				who,
				lease.Holder,
				lease.Name,
				findings.OrNothing(loopNames(loopsOf(f, p, m))),
			)
			return nil, findings.With(
				bad.Finding(v1.Fail, "%s holds the migration lease and runs no cloud loop", who),
				"a holder that runs the loops",
				source,
				"transplant explain LM-002",
			), true
		}
	}
	return silent, v1.Finding{}, false
}

var inTreeUnfenced = rule.Check{
	Code:      "GAP-001",
	Reason:    "InTreeOwnerUnfenced",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelInfo,
	Impact:    findings.ImpactTwoOwners,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		in := f.InTree()
		if len(in) == 0 {
			return findings.Skip("no in-tree manager is left")
		}
		deadline, lease := in[0].Flag("leader-elect-renew-deadline", "10s"), in[0].Flag("leader-elect-lease-duration", "15s")
		during := "the plan shortens it during the migration"
		switch {
		case f.Strategy() == facts.StrategyDowntime || f.Cluster.Seed != "":
			during = "the plan leaves it as it is"
		case f.Opts.RenewDeadline != "":
			during = "the plan sets it to " + f.Opts.RenewDeadline + " during the migration"
		}
		var note findings.Problems
		for _, p := range in {
			note.Add(
				p.String(),
				"%s: renew deadline %s, lease %s",
				p,
				p.Flag("leader-elect-renew-deadline", "10s"),
				p.Flag("leader-elect-lease-duration", "15s"),
			)
		}
		return findings.With(
			note.Finding(
				v1.Warn,
				"an in-tree manager that is frozen for longer than its lease (%s) may still write when it wakes: for up to %s, while the new owner writes too; %s",
				lease,
				deadline,
				during,
			),
			"",
			"flags of "+component.KCM,
			"",
		)
	},
}
