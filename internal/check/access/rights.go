package access

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

var managerRights = rule.Check{
	Code:      "RBAC-002",
	Reason:    "ManagerRightsMissing",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the rights that the finding names; those that are missing are not in the list",
	DependsOn: rule.OnAPI,
	Judge:     judgeManagerRights,
}

func judgeManagerRights(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var errs []string
	asked := 0
	for _, a := range f.Access {
		if a.Who != component.UserCCM || a.Resource == "leases" {
			continue
		}
		asked++
		switch {
		case a.Error != "":
			errs = append(errs, fmt.Sprintf("%s: %s", describeAccess(a), a.Error))
		case !a.Allowed:
			bad.Add(resourceOf(a), "%s", describeAccess(a))
		}
	}
	const expected, source = "yes to every SubjectAccessReview", "SubjectAccessReview"
	fix := "kubectl auth can-i --list --as=" + component.UserCCM
	switch {
	case len(errs) > 0:
		return findings.With(
			findings.Unknown("what %s may do is not known: %s", component.UserCCM, errs[0]),
			expected,
			source,
			"kubectl auth can-i create subjectaccessreviews.authorization.k8s.io",
		)
	case asked == 0:
		if finding, ok := f.Missing("access"); ok {
			return findings.With(
				finding,
				expected,
				source,
				"kubectl auth can-i create subjectaccessreviews.authorization.k8s.io",
			)
		}
		return findings.With(
			findings.Unknown("the snapshot does not say what %s may do: take it again with transplant snapshot", component.UserCCM),
			expected,
			source,
			"transplant snapshot -o yaml",
		)
	case bad.Empty():
		return findings.Pass("the new manager's identity may do all %s that its loops do", findings.Plural(asked, "thing"))
	case len(f.InstancesOf(component.CCM)) > 0:
		return findings.With(
			bad.Some(
				v1.Fail,
				"the running cloud-controller-manager may not do %d of %s that its loops do: %s",
				len(bad),
				findings.Plural(asked, "thing"),
				bad[0].Text,
			),
			expected,
			source,
			fix,
		)
	}
	finding := findings.Pass(
		"the identity of the new manager lacks %d of %s; the plan grants them before that manager starts",
		len(bad),
		findings.Plural(asked, "right"),
	)
	finding.Found = findings.Few(bad.Texts())
	return finding
}

var otherAuthorizer = rule.Check{
	Code:      "RBAC-003",
	Reason:    "NoRBAC",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "yes: the managers need that right",
	DependsOn: []string{"HOST-001"},
	Judge:     judgeAuthorizer,
}

// grants are the permissions that the managers need where roles have no effect.
var grants = []string{
	component.UserKCM + " and " + component.UserCCM + ": get, update leases.coordination.k8s.io " + component.MigrationLease +
		" in kube-system; create leases.coordination.k8s.io in kube-system (without a name: a name is not known when something is created)",
	component.UserCCM + ": the same for leases.coordination.k8s.io " + component.CCM,
	component.UserCCM + ": get, list, watch, update, patch, delete nodes; patch, update nodes/status",
	component.UserCCM + ": get, list, watch, update, patch services; patch, update services/status",
	component.UserCCM + ": create, patch, update events; create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io",
	component.UserCCM + ": in kube-system get, list, watch configmaps extension-apiserver-authentication; get, update configmaps transplant-service-state-<provider>, which the plan makes",
}

func judgeAuthorizer(f facts.Facts) v1.Finding {
	var bad findings.Problems
	configured, always := 0, 0
	for _, p := range f.InstancesOf(component.KAS) {
		modes := strings.Split(p.Flag("authorization-mode", "AlwaysAllow"), ",")
		switch {
		case p.Flag("authorization-config", "") != "":
			configured++
		case slices.Contains(modes, "RBAC"):
		case slices.Contains(modes, "AlwaysAllow"):
			always++
		default:
			bad.Add(p.String(), "%s has --authorization-mode=%s", p, strings.Join(modes, ","))
		}
	}
	n := len(f.InstancesOf(component.KAS))
	const source = "--authorization-mode of " + component.KAS
	switch {
	case n == 0:
		return findings.Unknown("no %s was found", component.KAS)
	case !bad.Empty():
		finding := bad.Finding(
			v1.Fail,
			"%s without RBAC: the plan's roles have no effect, and these rights have to be granted by hand: %s",
			findings.Plural(n, component.KAS),
			strings.Join(grants, "; "),
		)
		return findings.With(
			finding,
			"RBAC among the modes",
			source,
			"kubectl auth can-i update leases.coordination.k8s.io/"+component.MigrationLease+" -n kube-system --as="+component.UserKCM,
		)
	case configured > 0:
		return findings.Pass(
			"%s an authorization configuration; what the managers may do was asked of the API server itself",
			findings.Plural(configured, component.KAS)+" "+english.Word(configured, "has", "have"),
		)
	case always > 0:
		return findings.Pass(
			"%s everything to everybody: nothing has to be granted",
			findings.Plural(always, component.KAS)+" "+english.Word(always, "allows", "allow"),
		)
	}
	return findings.Pass("%s by RBAC", findings.Plural(n, component.KAS)+" "+english.Word(n, "authorizes", "authorize"))
}

var mainLeaseAccess = rule.Check{
	Code:      "RBAC-004",
	Reason:    "MainLeaseForbidden",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "a Role that names another lease than the managers use",
	DependsOn: []string{"API-001", "HOST-001", "RBAC-002"},
	Judge:     judgeMainLease,
}

func judgeMainLease(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var errs []string
	asked := 0
	for _, who := range []struct{ component, user string }{
		{component.KCM, component.UserKCM}, {component.CCM, component.UserCCM},
	} {
		if len(f.InstancesOf(who.component)) == 0 {
			continue
		}
		for _, verb := range []string{"get", "update"} {
			switch a, ok := accessTo(f, who.user, verb, "leases", who.component); {
			case !ok:
				errs = append(errs, fmt.Sprintf("it was not asked whether %s may %s the lease %s", who.user, verb, who.component))
			case a.Error != "":
				errs = append(
					errs,
					fmt.Sprintf("asking whether %s may %s the lease %s: %s", who.user, verb, who.component, a.Error),
				)
			case !a.Allowed:
				bad.Add(who.user, "%s may not %s the lease %s", who.user, verb, who.component)
			default:
				asked++
			}
		}
		if complaint := mayNotCreate(f, who.user, who.component); complaint != "" {
			bad.Add(who.user, "%s %s", who.user, complaint)
		}
	}
	const expected, source = "get and update of its own lease by name, create without a name", "SubjectAccessReview"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Fail, "%s", bad[0].Text),
			expected,
			source,
			"kubectl -n kube-system get roles -o yaml | grep -B2 -A12 leader-locking",
		)
	case len(errs) > 0:
		return findings.With(
			findings.Unknown("%s", strings.Join(errs, "; ")),
			expected,
			source,
			"kubectl auth can-i create subjectaccessreviews.authorization.k8s.io",
		)
	case asked == 0:
		return findings.Unknown("no manager was found")
	}
	return findings.Pass("every manager may get and update its main lease")
}

// mayNotCreate says what follows when an identity may not create leases; empty when it may, or when nothing follows.
func mayNotCreate(f facts.Facts, user, mainLease string) string {
	create, asked := f.LeaseAnswer(user, "create")
	if !asked || create.Allowed || create.Error != "" {
		return ""
	}
	if update, asked := f.LeaseAnswer(user, "update"); asked && update.Allowed {
		return "may update the lease " + f.Opts.LeaseName + " and may not create leases: a rule with resourceNames does not stand for create"
	}
	if _, exists := f.Lease(mainLease); !exists && len(f.UnknownReasons("leases")) == 0 {
		return "may not create leases, and its main lease " + mainLease + " does not exist"
	}
	return ""
}

// accessTo finds the answer about an object of kube-system.
func accessTo(f facts.Facts, user, verb, resource, name string) (v1.AccessAnswer, bool) {
	for _, a := range f.Access {
		if a.Who == user && a.Verb == verb && a.Resource == resource && a.Name == name && a.Namespace == component.Namespace {
			return a, true
		}
	}
	return v1.AccessAnswer{}, false
}

var writeRefused = rule.Check{
	Code:      "PROOF-001",
	Reason:    "WriteRefused",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactGap,
	LookFor:   "the right, or the webhook, that the refusal names",
	DependsOn: rule.OnAPI,
	Judge:     judgeDryRuns,
}

func judgeDryRuns(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var silent []string
	fix := "kubectl auth can-i --list -n kube-system"
	for _, d := range f.DryRuns {
		switch {
		case d.OK:
		case d.Unanswered:
			silent = append(silent, fmt.Sprintf("%s %s: %s", d.Verb, d.Ref, d.Error))
		default:
			if bad.Empty() && strings.Contains(d.Error, "webhook") {
				fix = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
			}
			bad.Add(d.Ref, "%s %s: %s", d.Verb, d.Ref, d.Error)
		}
	}
	const expected, source = "no refusal", "the API server, with dryRun=All"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(
				v1.Fail,
				"the API server refuses %d of %s that apply writes: %s",
				len(bad),
				findings.Plural(len(f.DryRuns), "object"),
				bad[0].Text,
			),
			expected,
			source,
			fix,
		)
	case len(silent) > 0:
		return findings.With(
			findings.Unknown("no answer to %s: %s", findings.Plural(len(silent), "dry run"), silent[0]),
			expected,
			source,
			"transplant check --prove",
		)
	case len(f.DryRuns) == 0:
		if finding, ok := f.Missing("dryruns"); ok {
			return findings.With(finding, expected, source, "transplant check --prove")
		}
		return findings.Skip(
			"the API server was not asked: transplant check --prove sends every object of the plan as a dry run",
		)
	}
	return findings.Pass("the API server would take all %s that apply writes", findings.Plural(len(f.DryRuns), "object"))
}
