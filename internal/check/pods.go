package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var podsCurrent = Check{
	Code: "CP-005", Reason: "PodNotCurrent", Category: categoryControlPlane, Level: LevelError, Impact: ImpactAPI, DependsOn: append([]string{"API-001"}, onHosts...), Retryable: true,
	Title: "the pod of every component is ready and runs what its manifest says",
	Explain: []string{
		"For ten seconds and more after a manifest changes, the API shows the old pod as ready. If pod and manifest still differ later, the kubelet has not taken the file: " +
			"a backup beside it is a second pod, or the kubelet is not running. What Transplant writes would not take effect either.",
		"A component that is not ready before the migration cannot be told from one that the migration broke.",
	},
	judge: judgePods,
}

func judgePods(f facts) v1.Finding {
	var bad complaints
	var unmatched []string
	n := 0
	for _, name := range []string{kas, kcm, ccm} {
		for _, p := range f.all(name) {
			if p.runs() == v1.RunsSystemd {
				continue // it is no pod; CP-016 looks at its process
			}
			n++
			switch {
			case p.runs() == v1.RunsDeployment:
				if complaint := f.rollout(p); complaint != "" {
					bad.add(p.String(), "%s: %s", p, complaint)
				}
			case p.Pod == nil && p.host.NodeName == "":
				unmatched = append(unmatched, p.String())
			case p.Pod == nil:
				bad.add(p.String(), "%s has no pod %s-%s in the API", p, p.Name, p.host.NodeName)
			case !slices.Equal(p.Pod.Command, p.Command):
				bad.add(p.String(), "pod %s runs other arguments than %s says: %s", p.Pod.Name, p.Manifest, commandDiff(p.Command, p.Pod.Command))
			case !p.Pod.Ready:
				bad.add(p.String(), "pod %s is not ready", p.Pod.Name)
			}
		}
	}
	const expected, source = "ready, with the manifest's command", "/api/v1/namespaces/kube-system/pods"
	switch {
	case !bad.empty():
		return with(bad.finding(v1.Fail, "%d of %s %s not what the manifests say", len(bad.lines), plural(n, "pod"), be(len(bad.lines))), expected, source,
			"kubectl -n kube-system get pods -o wide")
	case len(f.gathering("pods")) > 0:
		finding, _ := f.missing("pods")
		return finding
	case len(unmatched) > 0:
		return with(unknown("the Node of %s is not known, so its pods cannot be found", strings.Join(unmatched, ", ")), expected, source,
			"kubectl -n kube-system get pods -o wide")
	}
	return pass("all %s of the control plane are ready and run what their manifests say", plural(n, "pod"))
}

// rollout says what keeps the Deployment of a component from being up and ready; empty when nothing does.
func (f facts) rollout(p placed) string {
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

var oneProcess = Check{
	Code: "CP-006", Reason: "NotOneProcess", Category: categoryControlPlane, Level: LevelCritical, Impact: ImpactTwoOwners, DependsOn: onHosts,
	Title: "every component is one running process on its host",
	Explain: []string{
		"Two processes of one manager on a host are two pods (a backup file among the manifests) or a process that the kubelet lost; either may lead. No process at all means that what the " +
			"manifest says has not come to life. A stopped process (state T) still holds its lease until it runs out, and acts again when it is continued.",
		"The proof that an old owner has ended before its leases are released rests on this: one process, known by id and start time.",
	},
	judge: judgeProcesses,
}

func judgeProcesses(f facts) v1.Finding {
	var bad complaints
	n := 0
	for _, name := range []string{kas, kcm, ccm} {
		for _, p := range f.all(name) {
			if !p.onHost() {
				continue
			}
			n++
			if len(f.gathering("hosts/"+p.host.Name+"/processes/"+p.Name)) > 0 {
				continue
			}
			switch {
			case len(p.Processes) == 0:
				bad.add(p.String(), "%s has no process", p)
			case len(p.Processes) > 1:
				bad.add(p.String(), "%s has %s: %s", p, plural(len(p.Processes), "process"), pids(p.Processes))
			case p.Processes[0].State == "T" || p.Processes[0].State == "Z":
				bad.add(p.String(), "%s is process %d in state %s", p, p.Processes[0].PID, p.Processes[0].State)
			}
		}
	}
	if !bad.empty() {
		return with(bad.finding(v1.Fail, "%d of %s %s not one running process", len(bad.lines), plural(n, "component"), be(len(bad.lines))), "one running process each",
			"/proc on each host", "ps -C "+strings.Split(bad.objects[0], "@")[0]+" -o pid,lstart,stat,args   # on host "+strings.Split(bad.objects[0], "@")[1])
	}
	if finding, ok := f.missing("hosts/*/processes"); ok {
		return finding
	}
	return pass("all %s are one running process each", plural(n, "component"))
}

func pids(ps []v1.Process) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%d", p.PID))
	}
	return strings.Join(out, ", ")
}
