package check

import (
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// hook adds a webhook that must answer for a resource of the core group, whose backend is well.
func hook(resource string, change func(*v1.Webhook)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		w := v1.Webhook{
			Ref: "ValidatingWebhookConfiguration/policy/check.policy.example.com", FailurePolicy: "Fail", TimeoutSeconds: 5,
			Rules:   []v1.WebhookRule{{Groups: []string{""}, Resources: []string{resource}, Operations: []string{"CREATE", "UPDATE"}, Scope: "*"}},
			Service: "policy/webhook", Ready: ptr.To(2), Backend: "Deployment/policy/webhook",
		}
		if change != nil {
			change(&w)
		}
		s.Webhooks = append(s.Webhooks, w)
		s.Workloads = append(
			s.Workloads,
			v1.Workload{Ref: "Deployment/policy/webhook", Role: v1.RoleWebhook, Replicas: 2, Ready: 2, Tolerations: []string{component.TaintUninitialized + "=:NoSchedule"}},
		)
	}
}

func dead(w *v1.Webhook) { w.Ready = ptr.To(0) }

func ignores(w *v1.Webhook) { w.FailurePolicy = "Ignore" }

// onLeases makes a webhook one about leases that may take so many seconds.
func onLeases(seconds int32) func(*v1.Webhook) {
	return func(w *v1.Webhook) {
		w.Rules[0].Groups, w.Rules[0].Resources, w.TimeoutSeconds = []string{"coordination.k8s.io"}, []string{"leases"}, seconds
	}
}

func outside(w *v1.Webhook) {
	w.Service, w.Backend, w.Ready, w.URL = "", "", nil, "https://policy.example.com/check"
}

// passingOver lets a webhook pass over a namespace.
func passingOver(w *v1.Webhook) {
	w.NamespaceSelector = "kubernetes.io/metadata.name notin (kube-system)"
	w.Ready = ptr.To(0)
}

func noWebhooks(s *v1.Snapshot) { cannotGather(s, "webhooks") }

// runsAs adds one that a node needs.
func runsAs(role string, tolerations ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Workloads = append(s.Workloads, v1.Workload{Ref: "DaemonSet/kube-system/" + role, Role: role, HostNetwork: true, Tolerations: tolerations})
	}
}

func podNetworkCCM(s *v1.Snapshot) {
	s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/kube-system/ccm", Role: v1.RoleCCM, Tolerations: []string{"*:"}, Replicas: 1})
}

func budget(allowed, expected, healthy, desired int32) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Budgets = append(s.Budgets, v1.DisruptionBudget{Namespace: "shop", Name: "cart", Allowed: allowed, Expected: expected, Healthy: healthy, Desired: desired})
	}
}

func machine(ref string, change func(*v1.MachineObject)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		m := v1.MachineObject{Ref: ref}
		if change != nil {
			change(&m)
		}
		s.Machines = append(s.Machines, m)
	}
}

func deployment(replicas, ready int32) func(*v1.Snapshot) {
	return machine("MachineDeployment.cluster.k8s.io/kube-system/workers", func(m *v1.MachineObject) { m.Replicas, m.Ready = ptr.To(replicas), ptr.To(ready) })
}

const aMachine = "Machine.cluster.k8s.io/kube-system/worker-1"

func madeExternal(m *v1.MachineObject) { m.External = true }

func noMachines(s *v1.Snapshot) { cannotGather(s, "machines") }

func noneKept(s *v1.Snapshot) { s.Workloads = nil }

func noWorkloads(s *v1.Snapshot) { cannotGather(s, "workloads") }

func journalDryRun(s *v1.Snapshot) {
	s.DryRuns = []v1.DryRun{{Ref: "ConfigMap/kube-system/transplant-journal", Verb: "create", OK: true}}
}

var schedulingRules = []ruleCase{
	{name: "no webhook", code: "HOOK-001", want: pass_},
	{name: "F43: a webhook that can answer", code: "HOOK-001", want: pass_, says: []string{"1 webhook is asked"}, change: hook("nodes", nil)},
	{
		name: "F43: nobody answers for nodes",
		code: "HOOK-001",
		want: fails,
		says: []string{
			"must answer for nodes, and its Service policy/webhook has no ready endpoint",
			`kubectl patch validatingwebhookconfiguration policy -p '{"webhooks":[{"name":"check.policy.example.com","failurePolicy":"Ignore"}]}'`,
			"or repair its backend",
		},
		change: hook("nodes", dead),
	},
	{
		name: "F43: nobody answers for everything",
		code: "HOOK-001",
		want: fails,
		says: []string{"nodes, leases, pods, serviceaccounts, services"},
		change: hook("*/*", func(w *v1.Webhook) {
			dead(w)
			w.Rules[0].Groups = []string{"*"}
		}),
	},
	{name: "F43: nobody answers for a status", code: "HOOK-001", want: fails, change: hook("nodes/status", dead)},
	{name: "F43: nobody has to answer", code: "HOOK-001", want: pass_, change: hook("nodes", func(w *v1.Webhook) {
		dead(w)
		ignores(w)
	})},
	{name: "F43: kube-system is passed over", code: "HOOK-001", want: pass_, change: hook("pods", passingOver)},
	{
		name:   "F43: before 1.21 kube-system has no label to be passed over by",
		code:   "HOOK-001",
		want:   fails,
		change: both(hook("pods", passingOver), func(s *v1.Snapshot) { s.Cluster.Version = "v1.20.15" }),
	},
	{name: "F43: nodes are in no namespace", code: "HOOK-001", want: fails, change: hook("nodes", passingOver)},
	{name: "F43: Services are in every namespace", code: "HOOK-001", want: fails, change: hook("services", passingOver)},
	{name: "F43: only objects that ask for it", code: "HOOK-001", want: pass_, change: hook("pods", func(w *v1.Webhook) {
		dead(w)
		w.ObjectSelector = "inject=true"
	})},
	{name: "F43: only reads are asked about", code: "HOOK-001", want: pass_, change: hook("pods", func(w *v1.Webhook) {
		dead(w)
		w.Rules[0].Operations = []string{"CONNECT"}
	})},
	{name: "F43: other objects", code: "HOOK-001", want: pass_, change: hook("persistentvolumeclaims", dead)},
	{name: "the endpoints are not known", code: "HOOK-001", want: unknwn, change: hook("nodes", func(w *v1.Webhook) { w.Ready = nil })},
	{name: "webhooks could not be listed", code: "HOOK-001", want: unknwn, change: noWebhooks},

	{name: "F43: a backend that tolerates the taint", code: "HOOK-002", want: pass_, says: []string{"1 with a known backend"}, change: hook("nodes", nil)},
	{
		name: "F41 F43: a backend that does not",
		code: "HOOK-002",
		want: warn,
		says: []string{"its backend Deployment/policy/webhook does not tolerate the taint", "kubectl -n policy patch deployment webhook"},
		change: both(hook("nodes", nil), func(s *v1.Snapshot) {
			s.Workloads[len(s.Workloads)-1].Tolerations = []string{"node-role.kubernetes.io/control-plane=:NoSchedule"}
		}),
	},
	{name: "webhooks could not be listed", code: "HOOK-002", want: unknwn, change: noWebhooks},
	{name: "workloads could not be listed", code: "HOOK-002", want: unknwn, change: noWorkloads},

	{name: "F43: quick enough", code: "HOOK-003", want: pass_, says: []string{"10s"}, change: hook("leases", onLeases(2))},
	{
		name:   "F43: as long as the renewal",
		code:   "HOOK-003",
		want:   warn,
		says:   []string{"may take 10 s for a lease", `"timeoutSeconds":2`},
		change: hook("leases", onLeases(10)),
	},
	{
		name: "F43: ignored only after its timeout",
		code: "HOOK-003",
		want: warn,
		says: []string{"failurePolicy Ignore"},
		change: hook("leases", func(w *v1.Webhook) {
			onLeases(30)(w)
			ignores(w)
		}),
	},
	{
		name:   "F43: the plan makes elections quicker",
		code:   "HOOK-003",
		want:   warn,
		says:   []string{"below 3s", `"timeoutSeconds":1`},
		opts:   facts.Options{RenewDeadline: "3s"},
		change: hook("leases", onLeases(5)),
	},
	{
		name:   "F43: a manager has quicker elections",
		code:   "HOOK-003",
		want:   warn,
		says:   []string{"below 4s"},
		change: both(hook("leases", onLeases(5)), kcmFlags(map[string]string{"leader-elect-renew-deadline": "4s"})),
	},
	{name: "webhooks could not be listed", code: "HOOK-003", want: unknwn, change: noWebhooks},

	{name: "F43: all in the cluster", code: "HOOK-004", want: pass_, change: hook("nodes", nil)},
	{name: "F43: one is outside", code: "HOOK-004", want: warn, says: []string{"https://policy.example.com/check", "curl -sk"}, change: hook("nodes", outside)},
	{name: "F43: one is outside and may be away", code: "HOOK-004", want: pass_, change: hook("nodes", func(w *v1.Webhook) {
		outside(w)
		ignores(w)
	})},
	{name: "webhooks could not be listed", code: "HOOK-004", want: unknwn, change: noWebhooks},

	{name: "nobody is asked", code: "HOOK-005", want: pass_},
	{
		name:   "F43: one is asked about ConfigMaps",
		code:   "HOOK-005",
		want:   warn,
		says:   []string{"is asked about configmaps", "transplant check --prove"},
		change: hook("configmaps", nil),
	},
	{
		name:   "F43: a dry run went past it",
		code:   "HOOK-005",
		want:   pass_,
		says:   []string{"1 object was sent"},
		change: both(hook("configmaps", nil), journalDryRun),
	},
	{
		name:   "F43: a dry run was not answered",
		code:   "HOOK-005",
		want:   warn,
		change: both(hook("configmaps", nil), journalDryRun, func(s *v1.Snapshot) { s.DryRuns[0].Unanswered = true }),
	},
	{name: "webhooks could not be listed", code: "HOOK-005", want: unknwn, change: noWebhooks},

	{
		name:   "F41: all of them tolerate the taint",
		code:   "SCHED-001",
		want:   pass_,
		says:   []string{"3 workloads tolerate"},
		change: both(noneKept, runsAs(v1.RoleCNI, "*:"), runsAs(v1.RoleProxy, "*=:NoSchedule"), runsAs(v1.RoleDNS, component.TaintUninitialized+"=true:NoSchedule")),
	},
	{
		name:   "F41: DNS does not, and nobody needs it",
		code:   "SCHED-001",
		want:   pass_,
		says:   []string{"the manager can do without it"},
		change: both(runsAs(v1.RoleCNI, "*:"), runsAs(v1.RoleDNS, "CriticalAddonsOnly=:")),
	},
	{
		name: "F41: the manager asks a DNS that does not",
		code: "SCHED-001",
		want: fails,
		says: []string{"DaemonSet/kube-system/dns (DNS)", "kubectl -n kube-system patch daemonset dns"},
		change: both(runsAs(v1.RoleDNS, "CriticalAddonsOnly=:"), podNetworkCCM, func(s *v1.Snapshot) {
			s.Workloads[len(s.Workloads)-1].DNSPolicy = "ClusterFirst"
		}),
	},
	{
		name:   "F41: konnectivity does not",
		code:   "SCHED-001",
		want:   warn,
		says:   []string{"DaemonSet/kube-system/konnectivity (konnectivity)"},
		change: runsAs(v1.RoleKonnectivity, "CriticalAddonsOnly=:"),
	},
	{
		name:   "F41: a workload without any toleration",
		code:   "SCHED-001",
		want:   warn,
		says:   []string{`"path":"/spec/template/spec/tolerations","value":[{`},
		change: runsAs(v1.RoleCNI),
	},
	{name: "F41: the taint without its effect", code: "SCHED-001", want: warn, change: runsAs(v1.RoleCNI, "*=:NoExecute")},
	{
		name:   "F41: the manager waits for the pod network",
		code:   "SCHED-001",
		want:   fails,
		says:   []string{"wait for each other"},
		change: both(runsAs(v1.RoleCNI), podNetworkCCM),
	},
	{
		name:   "F41: Azure's node manager",
		code:   "SCHED-001",
		want:   fails,
		says:   []string{"cloud-node-manager"},
		change: runsAs(v1.RoleNodeManager, "node-role.kubernetes.io/master=:NoSchedule"),
	},
	{name: "nothing was recognised", code: "SCHED-001", want: skipped, change: noneKept},
	{name: "workloads could not be listed", code: "SCHED-001", want: unknwn, change: noWorkloads},

	{name: "all take pods", code: "SCHED-002", want: pass_, says: []string{"3 of 3 control-plane nodes"}},
	{
		name: "F41: all are cordoned",
		code: "SCHED-002",
		want: warn,
		says: []string{"ip-10-0-0-11.ec2.internal is cordoned", "kubectl uncordon"},
		change: func(s *v1.Snapshot) {
			for i := range 3 {
				s.Nodes[i].Unschedulable = true
			}
		},
	},
	{name: "F41: none is ready", code: "SCHED-002", want: fails, says: []string{"Ready is Unknown"}, change: func(s *v1.Snapshot) {
		for i := range 3 {
			s.Nodes[i].Ready = "Unknown"
		}
	}},
	{name: "known by their label", code: "SCHED-002", want: pass_, says: []string{"1 of 1 control-plane node"}, change: func(s *v1.Snapshot) {
		s.ControlPlaneNodes = nil
		label("node-role.kubernetes.io/control-plane", "")(s)
	}},
	{name: "a control plane without nodes", code: "SCHED-002", want: skipped, change: func(s *v1.Snapshot) { s.ControlPlaneNodes = nil }},
	{name: "nodes could not be listed", code: "SCHED-002", want: unknwn, change: noNodes},

	{name: "no budget holds a drain", code: "SCHED-003", want: pass_},
	{
		name:   "F84: a budget that allows nothing",
		code:   "SCHED-003",
		want:   warn,
		says:   []string{"shop/cart: 1 of 1 pods healthy, 1 needed", "kubectl -n shop describe poddisruptionbudget cart"},
		change: budget(0, 1, 1, 1),
	},
	{name: "F84: a budget that selects nothing", code: "SCHED-003", want: pass_, change: budget(0, 0, 0, 0)},
	{name: "budgets could not be listed", code: "SCHED-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "budgets") }},

	{name: "no autoscaler", code: "SCHED-004", want: pass_},
	{
		name: "F21: an autoscaler runs",
		code: "SCHED-004",
		want: warn,
		says: []string{"kubectl -n kube-system scale deployment cluster-autoscaler --replicas=0"},
		change: func(s *v1.Snapshot) {
			s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/kube-system/cluster-autoscaler", Role: v1.RoleAutoscaler, Replicas: 1})
		},
	},
	{name: "F21: it is scaled to zero", code: "SCHED-004", want: pass_, change: func(s *v1.Snapshot) {
		s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/kube-system/cluster-autoscaler", Role: v1.RoleAutoscaler})
	}},
	{
		name:   "F83: an autoscaler outside scales machines",
		code:   "SCHED-004",
		want:   warn,
		says:   []string{"runs elsewhere"},
		change: machine("MachineDeployment.cluster.k8s.io/kube-system/workers", func(m *v1.MachineObject) { m.Autoscaled = true }),
	},
	{name: "machines could not be listed", code: "SCHED-004", want: unknwn, change: noMachines},
	{name: "workloads could not be listed", code: "SCHED-004", want: unknwn, change: noWorkloads},

	{
		name:   "F21: all machines are there",
		code:   "SCHED-005",
		want:   pass_,
		says:   []string{"2 machine objects"},
		change: both(deployment(3, 3), machine(aMachine, nil)),
	},
	{
		name:   "F21: a rollout",
		code:   "SCHED-005",
		want:   fails,
		says:   []string{"2 of 3 ready", "kubectl -n kube-system describe machinedeployment.cluster.k8s.io workers"},
		change: deployment(3, 2),
	},
	{
		name:   "F21: a machine goes",
		code:   "SCHED-005",
		want:   fails,
		says:   []string{aMachine + " is being deleted"},
		change: machine(aMachine, func(m *v1.MachineObject) { m.Deleting = true }),
	},
	{name: "F83: a rollout that is paused", code: "SCHED-005", want: pass_, change: both(deployment(3, 2), func(s *v1.Snapshot) { s.Machines[0].Paused = true })},
	{name: "there are no machine objects", code: "SCHED-005", want: skipped},
	{name: "machines could not be listed", code: "SCHED-005", want: unknwn, change: noMachines},

	{name: "F36: machines to rotate", code: "SCHED-006", want: pass_, says: []string{"1 of 1 MachineDeployment has machines"}, change: deployment(3, 3)},
	{
		name:   "F36: scaled to zero",
		code:   "SCHED-006",
		want:   warn,
		says:   []string{"all 1 MachineDeployment is at zero", "template of before the migration"},
		change: deployment(0, 0),
	},
	{name: "there are none", code: "SCHED-006", want: skipped},
	{name: "machines could not be listed", code: "SCHED-006", want: unknwn, change: noMachines},

	{
		name:   "F82: machines of before",
		code:   "SCHED-007",
		want:   pass_,
		says:   []string{"all 1 machine was made for in-tree kubelets"},
		change: machine(aMachine, nil),
	},
	{
		name:   "F83: one was made too early",
		code:   "SCHED-007",
		want:   warn,
		says:   []string{"for an external kubelet", "3 of 3 kube-controller-managers in-tree"},
		change: both(machine(aMachine, madeExternal), machine("Machine.cluster.k8s.io/kube-system/worker-2", nil)),
	},
	{name: "F82: one was not rotated", code: "SCHED-007", base: migrated, want: warn, says: []string{"for an in-tree kubelet"}, change: machine(aMachine, nil)},
	{name: "F82: all were rotated", code: "SCHED-007", base: migrated, want: pass_, change: machine(aMachine, madeExternal)},
	{name: "machines of the Cluster API say nothing", code: "SCHED-007", want: skipped, change: machine("Machine.cluster.x-k8s.io/default/worker-1", nil)},
	{name: "machines could not be listed", code: "SCHED-007", want: unknwn, change: noMachines},
}
