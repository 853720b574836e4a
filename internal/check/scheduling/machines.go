package scheduling

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

const sourceMachines = "machine objects of cluster.k8s.io and cluster.x-k8s.io"

var autoscalerActive = rule.Check{
	Code:      "SCHED-004",
	Reason:    "AutoscalerActive",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "an autoscaler that may add or remove nodes while the loops move",
	OnlyIf:    "pending pods can wait until the migration is over; note the number of replicas",
	Warning:   "no node is added for pending pods, and none is removed, until it is scaled up again",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("workloads"); ok {
			return finding
		}
		if finding, ok := f.Missing("machines"); ok {
			return finding
		}
		var bad findings.Problems
		fix := "kubectl get pods -A | grep autoscaler"
		for _, w := range f.Workloads {
			if w.Role != v1.RoleAutoscaler || w.Replicas == 0 {
				continue
			}
			bad.Add(w.Ref, "%s with %s", w.Ref, findings.Plural(int(w.Replicas), "replica"))
			if parts := strings.Split(w.Ref, "/"); len(parts) == 3 {
				parts = shell.QuoteAll(parts)
				fix = fmt.Sprintf("kubectl -n %s scale %s %s --replicas=0", parts[1], strings.ToLower(parts[0]), parts[2])
			}
		}
		if bad.Empty() {
			for _, m := range f.Machines {
				if m.Autoscaled && !m.Paused {
					bad.Add(m.Ref, "%s may be scaled by an autoscaler that runs elsewhere", m.Ref)
				}
			}
		}
		if bad.Empty() {
			return findings.Pass(
				"no cluster autoscaler is active, among %s and %s",
				findings.Plural(len(f.Workloads), "workload"),
				findings.Plural(len(f.Machines), "machine object"),
			)
		}
		return findings.With(
			bad.Finding(v1.Warn, "a cluster autoscaler may add or remove nodes during the handover"),
			"none, or scaled to zero",
			sourceWorkloads,
			fix,
		)
	},
}

var machinesRolling = rule.Check{
	Code:      "SCHED-005",
	Reason:    "MachinesRolling",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the conditions and events of the machine: why it is not ready, or is being deleted",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("machines"); ok {
			return finding
		}
		if len(f.Machines) == 0 {
			return facts.None("machine object")
		}
		var bad findings.Problems
		for _, m := range f.Machines {
			switch {
			case m.Deleting:
				bad.Add(m.Ref, "%s is being deleted", m.Ref)
			case m.Paused || m.Replicas == nil:
			case readyReplicas(m) != *m.Replicas:
				bad.Add(m.Ref, "%s: %d of %d ready", m.Ref, readyReplicas(m), *m.Replicas)
			}
		}
		if bad.Empty() {
			return findings.Pass("none of %s is in a rollout", findings.Plural(len(f.Machines), "machine object"))
		}
		return findings.With(
			bad.Finding(v1.Fail, "%s in a rollout", findings.Counting(len(bad), "machine object", "is", "are")),
			"all replicas ready, nothing being deleted",
			sourceMachines,
			kubectlObject("describe", bad[0].Object),
		)
	},
}

func readyReplicas(m v1.MachineObject) int32 {
	if m.Ready == nil {
		return 0
	}
	return *m.Ready
}

// kubectlObject names the object of a Ref Kind.group/namespace/name in a command.
func kubectlObject(verb, ref string) string {
	parts := shell.QuoteAll(strings.Split(ref, "/"))
	if len(parts) != 3 {
		return "kubectl " + verb + " " + strings.ToLower(strings.Join(parts, " "))
	}
	return fmt.Sprintf("kubectl -n %s %s %s %s", parts[1], verb, strings.ToLower(parts[0]), parts[2])
}

// machines are the objects of one kind: Machine, MachineSet, MachineDeployment.
func machines(f facts.Facts, kind string) []v1.MachineObject {
	return slices.DeleteFunc(slices.Clone(f.Machines), func(m v1.MachineObject) bool {
		name, _, _ := strings.Cut(m.Ref, ".")
		return name != kind
	})
}

var machinesAtZero = rule.Check{
	Code:      "SCHED-006",
	Reason:    "MachinesScaledToZero",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the replicas and the kubelet flags of the MachineDeployment",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("machines"); ok {
			return finding
		}
		deployments := machines(f, "MachineDeployment")
		if len(deployments) == 0 {
			return facts.None("MachineDeployment")
		}
		var empty findings.Problems
		for _, m := range deployments {
			if m.Replicas == nil || *m.Replicas == 0 {
				empty.Add(m.Ref, "%s has no machine", m.Ref)
			}
		}
		if len(empty) < len(deployments) {
			return findings.Pass(
				"%d of %s machines",
				len(deployments)-len(empty),
				findings.Counting(len(deployments), "MachineDeployment", "has", "have"),
			)
		}
		return findings.With(
			empty.Finding(
				v1.Warn,
				"all %s at zero: their machines will be made from a template of before the migration",
				findings.Counting(len(deployments), "MachineDeployment", "is", "are"),
			),
			"machines, or a template that was changed",
			sourceMachines,
			kubectlObject("get", empty[0].Object)+" -o yaml",
		)
	},
}

var machinesMixed = rule.Check{
	Code:      "SCHED-007",
	Reason:    "MachinesMixed",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the kubelet flags in the machine's provider spec",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("machines"); ok {
			return finding
		}
		machines := slices.DeleteFunc(
			machines(f, "Machine"),
			func(m v1.MachineObject) bool { return strings.Contains(m.Ref, "cluster.x-k8s.io") },
		)
		if len(machines) == 0 {
			return facts.None("Machine of machine-controller")
		}
		external := len(slices.DeleteFunc(slices.Clone(machines), func(m v1.MachineObject) bool { return !m.External }))
		wantExternal := f.Stage() == facts.StageExternal
		var bad findings.Problems
		for _, m := range machines {
			if m.External != wantExternal {
				bad.Add(
					m.Ref,
					"%s for an %s kubelet (node %s)",
					m.Ref,
					kindOfKubelet(m.External),
					findings.OrElse(m.Node, "none yet"),
				)
			}
		}
		if bad.Empty() {
			return findings.Pass(
				"all %s made for %s kubelets",
				findings.Counting(len(machines), "machine", "was", "were"),
				kindOfKubelet(wantExternal),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%d of %s were made for external kubelets while the managers are %s",
				external,
				findings.Plural(len(machines), "machine"),
				f.StateSentence(),
			),
			kindOfKubelet(wantExternal)+" kubelets",
			sourceMachines,
			kubectlObject("get", bad[0].Object)+" -o yaml",
		)
	},
}

func kindOfKubelet(external bool) string {
	if external {
		return "external"
	}
	return "in-tree"
}
