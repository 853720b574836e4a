// Package access decides whether what a migration needs can be reached and is allowed: the API server, the hosts, the
// administrator's rights, clocks that agree.
package access

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var apiReachable = rule.Check{
	Code:      "API-001",
	Reason:    "APIUnreachable",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactAPI,
	LookFor:   "a Server Version line; an error in its place says why the API server does not answer",
	Mandatory: true,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("cluster"); ok {
			return findings.With(
				finding,
				"an answer from the API server",
				"/version, /api/v1/namespaces/kube-system",
				"kubectl version",
			)
		}
		if f.Cluster.UID == "" || f.Cluster.Version == "" {
			return findings.Unknown("the snapshot does not say which cluster it is of: take it again with transplant snapshot")
		}
		return findings.Pass("the API server runs %s", f.Cluster.Version)
	},
}

var hostsReadable = rule.Check{
	Code:      "HOST-001",
	Reason:    "HostsUnreadable",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "hosts that run the API server and are missing in --host-access, and who wrote manifests on a worker",
	Mandatory: true,
	Judge:     judgeHostsReadable,
}

var hostsComplete = rule.Check{
	Code:      "HOST-002",
	Reason:    "HostMissing",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "pods of the control plane on a node that is none of the hosts",
	Mandatory: true,
	DependsOn: []string{"API-001", "HOST-001"},
	Judge:     judgeHostsComplete,
}

func judgeHostsComplete(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("pods"); ok {
		return finding
	}
	var unmatched []string
	known := map[string]bool{}
	for _, h := range f.Hosts {
		if h.APIOnly {
			continue // known from its mirror pods, which cannot be edited
		}
		known[h.NodeName] = true
		if h.ControlPlane && h.NodeName == "" {
			unmatched = append(unmatched, h.Name)
		}
	}
	var bad findings.Problems
	for _, node := range f.ControlPlaneNodes {
		if !known[node] {
			bad.Add(node, "Node %s runs a part of the control plane, and its host is not named", node)
		}
	}
	const expected, source = "a host for each Node with control-plane pods", "/api/v1/namespaces/kube-system/pods"
	switch {
	case bad.Empty():
		return findings.Pass("every Node that runs a part of the control plane is one of the hosts")
	case len(unmatched) > 0:
		return findings.With(
			findings.Unknown(
				"which Node is host %s is not known, and %s has no host",
				strings.Join(unmatched, ", "),
				strings.Join(bad.Objects(), ", "),
			),
			expected,
			source,
			"kubectl -n kube-system get pods -o wide",
		)
	}
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s of the control plane %s not among the hosts: %s",
			findings.Plural(len(bad), "Node"),
			english.Word(len(bad), "is", "are"),
			strings.Join(bad.Objects(), ", "),
		),
		expected,
		source,
		"transplant check --host-access=local:<host>=<directory>,...   # name every control-plane host",
	)
}

var callerAccess = rule.Check{
	Code:      "RBAC-001",
	Reason:    "CallerMayNotApply",
	Category:  findings.CategoryTooling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNone,
	LookFor:   "yes, for every right that the finding names",
	DependsOn: []string{"API-001"},
	Judge:     judgeCallerAccess,
}

func judgeCallerAccess(f facts.Facts) v1.Finding {
	var denied, maybe findings.Problems
	var errs []string
	asked := 0
	for _, a := range f.Access {
		if a.Who != "self" {
			continue
		}
		asked++
		switch {
		case a.Error != "":
			errs = append(errs, fmt.Sprintf("%s: %s", describeAccess(a), a.Error))
		case a.Allowed:
		case a.Verb == "escalate" || a.Verb == "bind":
			maybe.Add(resourceOf(a), "%s is refused", describeAccess(a))
		default:
			denied.Add(resourceOf(a), "%s is refused", describeAccess(a))
		}
	}
	const expected, source = "yes to every SelfSubjectAccessReview", "SelfSubjectAccessReview"
	switch {
	case !denied.Empty():
		return findings.With(
			denied.Finding(
				v1.Fail,
				"the caller may not do %d of %s that apply needs: %s",
				len(denied),
				findings.Plural(asked, "thing"),
				denied[0].Text,
			),
			expected,
			source,
			"kubectl auth can-i "+firstDenied(f),
		)
	case len(errs) > 0:
		return findings.Unknown("%s", strings.Join(errs, "; "))
	case asked == 0:
		if finding, ok := f.Missing("access"); ok {
			return finding
		}
		return findings.Unknown("the snapshot does not say what the caller may do: take it again with transplant snapshot")
	case !maybe.Empty():
		return findings.With(
			maybe.Finding(
				v1.Warn,
				"the caller may not give rights that it does not have itself; apply stops if it lacks one that the new roles give",
			),
			expected,
			source,
			"kubectl auth can-i escalate clusterroles.rbac.authorization.k8s.io",
		)
	}
	return findings.Pass("the caller may do all %s that apply needs", findings.Plural(asked, "thing"))
}

func firstDenied(f facts.Facts) string {
	for _, a := range f.Access {
		if a.Who == "self" && !a.Allowed && a.Error == "" && a.Verb != "escalate" && a.Verb != "bind" {
			return canI(a)
		}
	}
	return ""
}

// canI is the arguments of kubectl auth can-i that ask the same question.
func canI(a v1.AccessAnswer) string {
	if a.Path != "" {
		return shell.Quote(a.Verb) + " " + shell.Quote(a.Path)
	}
	s := shell.Quote(a.Verb) + " " + shell.Quote(resourceOf(a))
	if a.Namespace != "" {
		s += " -n " + shell.Quote(a.Namespace)
	}
	return s
}

// describeAccess is "create leases.coordination.k8s.io in kube-system".
func describeAccess(a v1.AccessAnswer) string {
	if a.Path != "" {
		return shell.Quote(a.Verb) + " " + shell.Quote(a.Path)
	}
	s := shell.Quote(a.Verb) + " " + shell.Quote(resourceOf(a))
	if a.Namespace != "" {
		s += " in " + a.Namespace
	}
	return s
}

// resourceOf is resource.group/name, as kubectl writes it.
func resourceOf(a v1.AccessAnswer) string {
	s := a.Resource
	if a.Group != "" {
		s += "." + a.Group
	}
	if a.Name != "" {
		s += "/" + a.Name
	}
	return s
}
