package leadermigration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var holderUnknown = rule.Check{
	Code:      "LM-009",
	Reason:    "LeaseHolderUnknown",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the host in the holder's name; without a line it is no Node of this cluster",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Retryable: true,
	Judge:     judgeHolders,
}

func judgeHolders(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("leases"); ok {
		return finding
	}
	var bad, unclear []v1.Lease
	held := 0
	known := newKnownHolders(f)
	for _, l := range f.Leases {
		if !electsManagers(f, l) || l.Holder == "" || facts.Expired(l, f.Now()) {
			continue
		}
		held++
		led, silent := known.leader(l.Name)
		switch {
		case led || known.knows(l.Holder):
		case silent:
			unclear = append(unclear, l)
		default:
			bad = append(bad, l)
		}
	}
	// Who could not be asked is LM-006's to say, so that one cause is one line.
	const source = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases, /metrics of the managers"
	expected := "a holder on one of " + findings.Few(hostNames(f))
	claim := func(l v1.Lease) string { return l.Holder + " holds the lease " + l.Name }
	search := func(l v1.Lease) string {
		host, _, _ := strings.Cut(l.Holder, "_")
		return "kubectl get nodes -o wide | grep " + shell.Quote(host)
	}
	switch {
	case len(bad) > 0:
		var problems findings.Problems
		for _, l := range bad {
			problems.Add("Lease/kube-system/"+l.Name, "%s", claim(l))
		}
		summary := claim(bad[0]) + ", which is none of the known hosts"
		finding := findings.With(problems.Finding(v1.Fail, "%s", summary), expected, source, search(bad[0]))
		finding.Since = bad[len(bad)-1].AcquireTime
		return finding
	case len(unclear) > 0:
		finding := findings.With(findings.Dependent("LM-006"), expected, source, search(unclear[0]))
		finding.Summary += fmt.Sprintf(
			": %s; no known host has that name, and not every manager could be asked whether it leads",
			claim(unclear[0]),
		)
		return finding
	}
	return findings.Pass(
		"%s of managers %s held, on known hosts",
		findings.Plural(held, "lease"),
		english.Word(held, "is", "are"),
	)
}

// electsManagers reports whether a lease is an election of managers.
func electsManagers(f facts.Facts, l v1.Lease) bool {
	return l.Name == component.KCM || l.Name == f.Opts.LeaseName || strings.Contains(l.Name, component.CCM) ||
		strings.Contains(l.Name, "cloud-provider")
}

func hostNames(f facts.Facts) []string {
	var out []string
	for _, h := range f.Hosts {
		out = append(out, h.Name)
	}
	return out
}

// Limits of a calm leadership. A leader that is younger, or changes more often, has a cause that a migration could not
// distinguish from its own steps.
const (
	youngLeader      = 5 * time.Minute
	changesPerDay    = 6
	fewestChanges    = 10
	shortestLifetime = 24 * time.Hour
)

var leadershipUnstable = rule.Check{
	Code:      "LM-010",
	Reason:    "LeadershipUnstable",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactGap,
	LookFor:   "the last lines before the end of the process: a panic, a lost lease, or out of memory",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Retryable: true,
	Judge:     judgeStability,
}

func judgeStability(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("leases"); ok {
		return finding
	}
	var bad findings.Problems
	var since *time.Time
	var lease string
	n := 0
	for _, l := range f.Leases {
		if !electsManagers(f, l) || l.Holder == "" {
			continue
		}
		n++
		text, began := instability(f, l)
		if text != "" {
			lease = findings.OrElse(lease, l.Name)
			bad.Add("Lease/kube-system/"+l.Name, "%s", text)
		}
		if began != nil {
			since = began
		}
	}
	if bad.Empty() {
		return findings.Pass("the leaders of %s are settled", findings.Plural(n, "election"))
	}
	finding := findings.With(
		bad.Finding(v1.Warn, "%s", bad[0].Text),
		"the same leader for days",
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
		lastLogs(lease),
	)
	finding.Since = since
	return finding
}

// lastLogs shows how the managers that share a lease ended. Only kubeadm's kube-controller-manager has a label that is
// known: who installs a cloud-controller-manager chooses its labels, but hardly another name.
func lastLogs(lease string) string {
	managers := component.KCM + "|" + component.CCM
	switch {
	case lease == component.KCM:
		return "kubectl -n kube-system logs -l component=" + component.KCM + " --previous --tail=50"
	case strings.Contains(lease, component.CCM):
		managers = component.CCM
	}
	return "kubectl -n kube-system get pods -o name | grep -E '" + managers + "' | " +
		"xargs -n 1 kubectl -n kube-system logs --previous --tail=50"
}

// instability is what is wrong with a held lease, and since when where that is known; empty when its leader is settled.
func instability(f facts.Facts, l v1.Lease) (string, *time.Time) {
	now := f.Now()
	switch age, known := age(f); {
	case l.Name == component.KCM && l.RenewTime != nil && facts.Expired(l, now):
		return fmt.Sprintf(
			"the lease %s expired %s ago and has no new holder: no %s leads",
			l.Name,
			now.Sub(*l.RenewTime).Round(time.Second),
			component.KCM,
		), nil
	case l.AcquireTime != nil && l.AcquireTime.After(now.Add(facts.TolerableClockOffset)):
		return fmt.Sprintf(
			"%s took the lease %s at %s, which is still to come by the cluster's clock (%s)",
			l.Holder,
			l.Name,
			l.AcquireTime.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339),
		), nil
	case l.AcquireTime != nil && now.Sub(*l.AcquireTime) < youngLeader:
		return fmt.Sprintf(
			"%s took the lease %s %s ago",
			l.Holder,
			l.Name,
			max(0, now.Sub(*l.AcquireTime)).Round(time.Second),
		), l.AcquireTime
	case known && l.Transitions >= fewestChanges && float64(l.Transitions) > changesPerDay*age.Hours()/24:
		return fmt.Sprintf("the lease %s changed hands %d times in %s", l.Name, l.Transitions, days(age)), nil
	}
	return "", nil
}

// age is how old the cluster is, at least: its oldest Node. It is not known below a day.
func age(f facts.Facts) (time.Duration, bool) {
	var oldest time.Duration
	for _, n := range f.Nodes {
		if !n.Created.IsZero() {
			oldest = max(oldest, f.TakenAt.Sub(n.Created))
		}
	}
	return oldest, oldest >= shortestLifetime
}

func days(d time.Duration) string { return findings.Plural(int(d.Hours()/24), "day") }

// lockObjects are the objects that an election writes, by the kind of its lock
// (k8s.io/client-go/tools/leaderelection/resourcelock). Two kinds exclude each other where they share an object.
var lockObjects = map[string][]string{
	"leases":           {"leases"},
	"endpoints":        {"endpoints"},
	"configmaps":       {"configmaps"},
	"endpointsleases":  {"endpoints", "leases"},
	"configmapsleases": {"configmaps", "leases"},
}

var lockKinds = rule.Check{
	Code:      "LM-011",
	Reason:    "LockKindsDiffer",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the value, which has to be leases, or no such flag",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge:     judgeLockKinds,
}

func judgeLockKinds(f facts.Facts) v1.Finding {
	var bad findings.Problems
	n := 0
	for _, name := range []string{component.KCM, component.CCM} {
		objects := map[string][]string{}
		all := f.InstancesOf(name)
		for _, p := range all {
			n++
			kind := p.Flag("leader-elect-resource-lock", "leases")
			objects[p.String()] = lockObjects[kind]
			minor, versioned := f.MinorOf(p)
			switch {
			case lockObjects[kind] == nil:
				bad.Add(p.String(), "%s has --leader-elect-resource-lock=%s, which no version knows", p, findings.Short(kind))
			case versioned && !catalogue.LockKnown(kind, minor):
				bad.Add(
					p.String(),
					"%s (1.%d) has --leader-elect-resource-lock=%s, which it does not know any more: it exits",
					p,
					minor,
					kind,
				)
			case !slices.Contains(lockObjects[kind], "leases"):
				bad.Add(
					p.String(),
					"%s elects by %s: the main election has no Lease that Transplant could watch and release",
					p,
					kind,
				)
			}
		}
		addRivals(&bad, all, objects)
	}
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(v1.Fail, "%s", bad[0].Text),
			"--leader-elect-resource-lock=leases, which is the default",
			"manifests of the managers",
			fmt.Sprintf(
				"grep -n leader-elect-resource-lock /etc/kubernetes/manifests/%s.yaml   # on each host named",
				facts.NameIn(bad[0].Object),
			),
		)
	case n == 0:
		return findings.Unknown("no manager was found")
	}
	return findings.Pass("%s by leases", findings.Plural(n, "manager")+" "+english.Word(n, "elects", "elect"))
}

// addRivals notes each manager whose lock does not exclude that of a later one. It names the first of these and counts
// the others. Managers are compared by kinds of locks, of which there are five: thousands of managers have millions of
// pairs.
func addRivals(bad *findings.Problems, all []facts.Instance, objects map[string][]string) {
	byKind := map[string][]int{} // positions of the managers, ascending
	kinds := make([]string, len(all))
	for i, p := range all {
		if locks := objects[p.String()]; locks != nil {
			kinds[i] = strings.Join(locks, " and ")
			byKind[kinds[i]] = append(byKind[kinds[i]], i)
		}
	}
	for i, p := range all {
		if kinds[i] == "" {
			continue
		}
		first, rivals := 0, 0
		for _, at := range byKind {
			if sharesElement(objects[p.String()], objects[all[at[0]].String()]) {
				continue
			}
			after, _ := slices.BinarySearch(at, i)
			if after == len(at) {
				continue
			}
			if rivals == 0 || at[after] < first {
				first = at[after]
			}
			rivals += len(at) - after
		}
		if rivals == 0 {
			continue
		}
		more := ""
		if rivals > 1 {
			more = fmt.Sprintf(", and so may %d more", rivals-1)
		}
		q := all[first]
		bad.Add(p.String(), "%s elects by %s and %s by %s: both lead%s", p, kinds[i], q, kinds[first], more)
	}
}

func sharesElement(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
