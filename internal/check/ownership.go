package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// Identities of the two managers in the API.
const (
	userKCM = "system:kube-controller-manager"
	userCCM = "system:serviceaccount:kube-system:cloud-controller-manager"
)

var leaseAccess = Check{
	Code: "LM-003", Reason: "LeaseForbidden", Category: categoryLeaderMigration, Level: LevelCritical, Impact: ImpactNoLoops, Mandatory: true, AcceptUnknown: true, DependsOn: []string{"API-001", "HOST-001", "CP-003"},
	Title: "both managers may create, get and update the migration lease, or the plan grants it before they need it",
	Explain: []string{
		"The built-in role of kube-controller-manager covers its own lease and not the migration lease. With leader migration on and without the right, the manager logs \"leases … is forbidden\" " +
			"for ever and runs no cloud loop, while it is ready and healthy.",
		"As long as leader migration is off everywhere this is no fault: the plan's first steps add a role beside the built-in one, and the check passes and says so. It never replaces rules: " +
			"the documented merge patch would, and the API server would take it back at its next start.",
		"A right to create cannot be limited to a name, so it is asked for without one.",
	},
	judge: judgeLeaseAccess,
}

func judgeLeaseAccess(f facts) v1.Finding {
	var bad complaints
	var errs []string
	on := false
	for _, who := range []struct{ component, user string }{{kcm, userKCM}, {ccm, userCCM}} {
		migrates := slices.ContainsFunc(f.all(who.component), placed.migrates)
		on = on || migrates
		for _, verb := range []string{"create", "get", "update"} {
			a, asked := f.leaseAnswer(who.user, verb)
			switch {
			case !asked:
				errs = append(errs, fmt.Sprintf("it was not asked whether %s may %s the lease %s", who.user, verb, f.opts.LeaseName))
			case a.Error != "":
				errs = append(errs, fmt.Sprintf("asking whether %s may %s the lease %s: %s", who.user, verb, f.opts.LeaseName, a.Error))
			case !a.Allowed && (migrates || f.stage() != stageExternal):
				bad.add(who.user, "%s may not %s it", who.user, verb)
			}
		}
	}
	const expected, source = "create, get and update for both", "SubjectAccessReview"
	switch {
	case f.strategy() == strategyDowntime && !on:
		return skip("--strategy=downtime uses no migration lease")
	case len(errs) > 0:
		return with(unknown("%s", strings.Join(errs, "; ")), expected, source, "kubectl auth can-i create subjectaccessreviews.authorization.k8s.io")
	case !bad.empty() && on:
		return with(bad.finding(v1.Fail, "leader migration is on and the lease %s is out of reach: %s", f.opts.LeaseName, bad.lines[0]), expected, source,
			grantLease(f.opts.LeaseName))
	case !bad.empty():
		return with(bad.finding(v1.Pass, "the managers may not use the lease %s yet; the plan grants it before leader migration is switched on", f.opts.LeaseName),
			expected, source, "")
	}
	return pass("both managers may create, get and update the lease %s", f.opts.LeaseName)
}

// grantLease gives both managers the lease at once: the plan would, too, but is not carried out while this blocks.
func grantLease(lease string) string {
	var parts []string
	for _, role := range []struct{ name, rule string }{{"leader-migration", "get,update --resource=leases --resource-name=" + lease}, {"leader-migration-create", "create --resource=leases"}} {
		parts = append(parts, "kubectl -n kube-system create role "+role.name+" --verb="+role.rule,
			"kubectl -n kube-system create rolebinding "+role.name+" --role="+role.name+" --user="+userKCM+" --serviceaccount=kube-system:"+ccm)
	}
	return strings.Join(parts, " && ")
}

// leaseAnswer finds an access review. Creating cannot be limited to a name.
func (f facts) leaseAnswer(user, verb string) (v1.AccessAnswer, bool) {
	name := f.opts.LeaseName
	if verb == "create" {
		name = ""
	}
	for _, a := range f.Access {
		if a.Who == user && a.Verb == verb && a.Resource == "leases" && a.Namespace == "kube-system" && a.Name == name {
			return a, true
		}
	}
	return v1.AccessAnswer{}, false
}

var ownership = Check{
	Code: "LM-006", Reason: "NotOneOwner", Category: categoryLeaderMigration, Level: LevelCritical, Impact: ImpactTwoOwners, Mandatory: true, AcceptUnknown: true, DependsOn: onHosts, Retryable: true,
	Title: "each cloud loop runs in exactly one manager now",
	Explain: []string{
		"Each manager says on its /metrics which loops it runs (running_managed_controllers). Every loop that the flags ask for must be at 1 in exactly one process. None means that nobody acts: a " +
			"lease is held by a manager that runs nothing, a right is missing, or all managers are down. Two means that both act on the cloud.",
		"A manager that is killed vanishes, it never shows 0; so one that cannot be scraped is unknown, and with it the answer.",
		"Managers before 1.25 have no such gauge, and neither has the official one for Azure. Of these it is taken from what they have: by which leases they lead (leader_election_master_status), and which loops their flags let them run under those. " +
			"A leader that runs nothing because of wrong names is not seen in this way; LM-001 reads its file.",
		"Scraping takes a token that may get /metrics and nothing else, or the kubeconfig's client certificate as long as the migration has not made that token's account. With neither, accept that the " +
			"owners are unknown: the plan's first steps make the account, and ownership is looked at after every step.",
	},
	judge: judgeOwnership,
}

func judgeOwnership(f facts) v1.Finding {
	owners, silent := f.owners()
	var bad complaints
	var said []string
	two := false
	for _, loop := range controllernames.Loops {
		switch {
		case len(owners[loop]) > 1:
			two = true
			bad.add(string(loop), "loop %s runs in %d managers: %s", loop, len(owners[loop]), strings.Join(owners[loop], " and "))
		case len(owners[loop]) == 1:
			said = append(said, fmt.Sprintf("%s in %s", loop, owners[loop][0]))
		case len(silent) == 0 && slices.Contains(f.expected(), loop):
			bad.add(string(loop), "loop %s runs nowhere", loop)
		}
	}
	const expected, source = "running_managed_controllers at 1 in exactly one process for each loop", "/metrics of the managers"
	switch {
	case !bad.empty() && (two || len(silent) == 0):
		return with(bad.finding(v1.Fail, "%s", strings.Join(bad.lines, "; ")), expected, source, "kubectl -n kube-system get leases")
	case len(silent) > 0:
		return with(unknown("not every manager could be asked which loops it runs: %s", strings.Join(silent, "; ")), expected, source, "transplant snapshot -o yaml")
	case len(f.managers()) == 0:
		return unknown("no manager's manifest could be read")
	}
	for _, p := range f.managers() {
		if !f.showsLoops(p) {
			return pass("each loop has one owner, by leases and flags (this version does not show its loops): %s", strings.Join(said, ", "))
		}
	}
	return pass("each loop has one owner: %s", strings.Join(said, ", "))
}

// owners are the managers whose gauge is 1, by loop, and why managers could not be asked.
func (f facts) owners() (owners map[controllernames.Loop][]string, silent []string) {
	owners = map[controllernames.Loop][]string{}
	for _, p := range f.managers() {
		all := f.scrapes(p)
		if len(all) == 0 {
			silent = append(silent, p.String())
		}
		for _, m := range all {
			if m.Error != "" {
				silent = append(silent, m.Component+"@"+m.Host+": "+m.Error)
				continue
			}
			for _, loop := range f.loopsOf(p, m) {
				owners[loop] = append(owners[loop], m.Component+"@"+m.Host)
			}
		}
	}
	return owners, silent
}

// loopsOf are the loops that a manager runs: as its gauge says or, where its version has none, as its leases and flags let it.
func (f facts) loopsOf(p placed, m v1.Manager) []controllernames.Loop {
	var out []controllernames.Loop
	for _, metric := range m.Loops {
		if loop, ok := controllernames.LoopOfMetric(metric); ok {
			out = append(out, loop)
		}
	}
	if len(m.Loops) > 0 || f.showsLoops(p) {
		return out
	}
	elects := p.on("leader-elect", true)
	for _, loop := range controllernames.Loops {
		leads := !elects || slices.Contains(m.Leads, p.flag("leader-elect-resource-name", p.Name))
		if p.migrates() && slices.Contains(controllernames.CloudLoops, loop) {
			leads = leads && slices.Contains(m.Leads, f.opts.LeaseName)
		}
		if leads && f.runs(p, loop) {
			out = append(out, loop)
		}
	}
	return out
}

// showsLoops tells whether a manager says on its /metrics which loops it runs. The official manager for Azure never does, whatever its version.
func (f facts) showsLoops(p placed) bool {
	minor, ok := f.minorOf(p)
	if !ok {
		return true
	}
	return catalogue.ShowsLoops(p.Name, minor) && (p.Name != ccm || own(p.Image) || p.flag("cloud-provider", "") != "azure")
}

func loopNames(loops []controllernames.Loop) []string {
	var out []string
	for _, l := range loops {
		out = append(out, string(l))
	}
	return out
}

var idleHolder = Check{
	Code: "LM-007", Reason: "IdleLeaseHolder", Category: categoryLeaderMigration, Level: LevelCritical, Impact: ImpactNoLoops, Mandatory: true, AcceptUnknown: true, DependsOn: []string{"API-001", "HOST-001", "CP-003"}, Retryable: true,
	Title: "the manager that holds the migration lease runs the loops",
	Explain: []string{
		"Whoever holds the migration lease keeps everybody else from running the cloud loops. A manager that holds it and runs none of them (its config lists wrong names, or it is external with leader " +
			"migration left on) leaves the cluster without cloud loops, and nothing complains.",
	},
	judge: judgeIdleHolder,
}

func judgeIdleHolder(f facts) v1.Finding {
	if finding, ok := f.missing("leases"); ok {
		return finding
	}
	lease, ok := f.lease(f.opts.LeaseName)
	if !ok || lease.Holder == "" || expired(lease, f.now()) {
		return skip("nobody holds the lease %s", f.opts.LeaseName)
	}
	source := "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lease.Name
	silent, finding, found := f.holderOf(lease, source)
	if found {
		return finding
	}
	if len(silent) > 0 {
		return with(unknown("%s holds the lease %s; which manager that is cannot be told, since %s could not be asked", lease.Holder, lease.Name, strings.Join(silent, ", ")),
			"", source, "transplant snapshot -o yaml")
	}
	var bad complaints
	bad.add("Lease/kube-system/"+lease.Name, "%s holds %s, and no manager says that it does", lease.Holder, lease.Name)
	return with(bad.finding(v1.Fail, "the migration lease is held by %s, which is none of the managers on these hosts", lease.Holder), "a holder that runs the loops", source,
		"kubectl -n kube-system get lease "+lease.Name+" -o yaml")
}

// holderOf judges the manager that says that it leads by a lease; otherwise it returns who could not be asked.
func (f facts) holderOf(lease v1.Lease, source string) (silent []string, finding v1.Finding, found bool) {
	for _, p := range f.managers() {
		all := f.scrapes(p)
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
			case slices.ContainsFunc(controllernames.CloudLoops, func(l controllernames.Loop) bool { return slices.Contains(f.loopsOf(p, m), l) }):
				return nil, pass("%s holds the lease %s and runs %s", who, lease.Name, orNothing(loopNames(f.loopsOf(p, m)))), true
			}
			var bad complaints
			bad.add(who, "%s (%s) holds %s and runs %s", who, lease.Holder, lease.Name, orNothing(loopNames(f.loopsOf(p, m))))
			return nil, with(bad.finding(v1.Fail, "%s holds the migration lease and runs no cloud loop", who), "a holder that runs the loops", source, "transplant explain LM-002"), true
		}
	}
	return silent, v1.Finding{}, false
}

func expired(l v1.Lease, now time.Time) bool {
	return l.RenewTime == nil || l.RenewTime.Add(time.Duration(l.DurationSeconds)*time.Second).Before(now)
}

func orNothing(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

var inTreeUnfenced = Check{
	Code: "GAP-001", Reason: "InTreeOwnerUnfenced", Category: categoryLeaderMigration, Level: LevelInfo, Impact: ImpactTwoOwners, DependsOn: onHosts,
	Title: "how long a paused in-tree owner could still write is known",
	Explain: []string{
		"Leases do not fence the cloud. An in-tree manager that is paused (a frozen virtual machine, SIGSTOP, a starved CPU) loses its lease, and when it goes on it keeps writing until its renew " +
			"deadline has passed: in 30 of 30 runs with the default deadline it wrote for ten seconds beside the new owner.",
		"Transplant ends the old process before it releases its leases, and looks at gauges and processes after each step. Under leader migration on hosts it also shortens the window, with a shorter --leader-elect-renew-deadline for the time of the " +
			"migration; under the strategy downtime, and in a seed, the deadline stays as it is. It cannot close the window, since it cannot change the in-tree manager. This check always says so; it never blocks.",
	},
	judge: func(f facts) v1.Finding {
		in := f.inTree()
		if len(in) == 0 {
			return skip("no in-tree manager is left")
		}
		deadline, lease := in[0].flag("leader-elect-renew-deadline", "10s"), in[0].flag("leader-elect-lease-duration", "15s")
		during := "the plan shortens it during the migration"
		switch {
		case f.strategy() == strategyDowntime || f.Cluster.Seed != "":
			during = "the plan leaves it as it is"
		case f.opts.RenewDeadline != "":
			during = "the plan sets it to " + f.opts.RenewDeadline + " during the migration"
		}
		var note complaints
		for _, p := range in {
			note.add(p.String(), "%s: renew deadline %s, lease %s", p, p.flag("leader-elect-renew-deadline", "10s"), p.flag("leader-elect-lease-duration", "15s"))
		}
		return with(note.finding(v1.Warn, "an in-tree owner that is paused for longer than its lease (%s) and goes on can write for its renew deadline (%s) beside the new owner; %s",
			lease, deadline, during), "", "flags of "+kcm, "")
	},
}
