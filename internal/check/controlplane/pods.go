package controlplane

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

var podsCurrent = rule.Check{
	Code:      "CP-005",
	Reason:    "PodNotCurrent",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelError,
	Impact:    findings.ImpactAPI,
	LookFor:   "a pod that is not Running and ready, and its restarts",
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Retryable: true,
	Judge:     judgePods,
}

func judgePods(f facts.Facts) v1.Finding {
	var bad findings.Problems
	var unmatched []string
	n := 0
	for _, name := range []string{component.KAS, component.KCM, component.CCM} {
		for _, p := range f.InstancesOf(name) {
			if p.RunKind() == v1.RunsSystemd {
				continue // it is no pod; CP-016 looks at its process
			}
			n++
			switch {
			case p.RunKind() == v1.RunsDeployment:
				if complaint := rollout(f, p); complaint != "" {
					bad.Add(p.String(), "%s: %s", p, complaint)
				}
			case p.Pod == nil && p.Host.NodeName == "":
				unmatched = append(unmatched, p.String())
			case p.Pod == nil:
				bad.Add(p.String(), "%s has no pod %s-%s in the API", p, p.Name, p.Host.NodeName)
			case !slices.Equal(p.Pod.Command, p.Command):
				bad.Add(
					p.String(),
					"pod %s runs other arguments than %s says: %s",
					p.Pod.Name,
					p.Manifest,
					commandDiff(p.Command, p.Pod.Command),
				)
			case !p.Pod.Ready:
				bad.Add(p.String(), "pod %s is not ready", p.Pod.Name)
			}
		}
	}
	const expected, source = "ready, with the manifest's command", "/api/v1/namespaces/kube-system/pods"
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%d of %s %s not what the manifests say",
				len(bad),
				findings.Plural(n, "pod"),
				english.Word(len(bad), "is", "are"),
			),
			expected,
			source,
			"kubectl -n kube-system get pods -o wide",
		)
	case len(f.UnknownReasons("pods")) > 0:
		finding, _ := f.Missing("pods")
		return finding
	case len(unmatched) > 0:
		return findings.With(
			findings.Unknown("the Node of %s is not known, so its pods cannot be found", strings.Join(unmatched, ", ")),
			expected,
			source,
			"kubectl -n kube-system get pods -o wide",
		)
	}
	return findings.Pass(
		"all %s of the control plane are ready and run what their manifests say",
		findings.Plural(n, "pod"),
	)
}

// rollout says what keeps the Deployment of a component from being up and ready; empty when nothing does.
func rollout(f facts.Facts, p facts.Instance) string {
	i := slices.IndexFunc(f.Workloads, func(w v1.Workload) bool { return w.Ref == p.Manifest })
	switch {
	case p.Replicas != nil && *p.Replicas == 0:
		return "it is scaled to 0"
	case i >= 0 && f.Workloads[i].Ready < f.Workloads[i].Replicas:
		return fmt.Sprintf("%d of %d replicas are ready", f.Workloads[i].Ready, f.Workloads[i].Replicas)
	}
	return ""
}

// commandDiff says what the second command has more and less than the first.
func commandDiff(want, have []string) string {
	var parts []string
	for _, a := range want {
		if !slices.Contains(have, a) {
			parts = append(parts, "not "+a)
		}
	}
	for _, a := range have {
		if !slices.Contains(want, a) {
			parts = append(parts, "but "+a)
		}
	}
	if len(parts) == 0 {
		return "another order"
	}
	return strings.Join(parts, ", ")
}

var oneProcess = rule.Check{
	Code:      "CP-006",
	Reason:    "NotOneProcess",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "two processes of one host, or one that is a zombie (Z) or stopped (T)",
	DependsOn: rule.OnHosts,
	Judge:     judgeProcesses,
}

func judgeProcesses(f facts.Facts) v1.Finding {
	var bad findings.Problems
	n := 0
	for _, name := range []string{component.KAS, component.KCM, component.CCM} {
		for _, p := range f.InstancesOf(name) {
			if !p.OnHost() {
				continue
			}
			n++
			if len(f.UnknownReasons("hosts/"+p.Host.Name+"/processes/"+p.Name)) > 0 {
				continue
			}
			switch {
			case len(p.Processes) == 0:
				bad.Add(p.String(), "%s has no process", p)
			case len(p.Processes) > 1:
				bad.Add(p.String(), "%s has %s: %s", p, findings.Plural(len(p.Processes), "process"), pids(p.Processes))
			case p.Processes[0].State == "T" || p.Processes[0].State == "Z":
				bad.Add(p.String(), "%s is process %d in state %s", p, p.Processes[0].PID, p.Processes[0].State)
			}
		}
	}
	if !bad.Empty() {
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%d of %s %s not one running process",
				len(bad),
				findings.Plural(n, "component"),
				english.Word(len(bad), "is", "are"),
			),
			"one running process each",
			"/proc on each host",
			"ps -C "+facts.NameIn(bad[0].Object)+" -o pid,lstart,stat,args   # on host "+facts.HostIn(bad[0].Object),
		)
	}
	if finding, ok := f.Missing("hosts/*/processes"); ok {
		return finding
	}
	return findings.Pass("all %s are one running process each", findings.Plural(n, "component"))
}

func pids(ps []v1.Process) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%d", p.PID))
	}
	return strings.Join(out, ", ")
}
