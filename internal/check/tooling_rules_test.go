package check

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// forbid makes every answer about an identity's access to a resource a no.
func forbid(s *v1.Snapshot, who, verb, resource, name string) {
	for i, a := range s.Access {
		if a.Who == who && a.Verb == verb && a.Resource == resource && a.Name == name {
			s.Access[i].Allowed = false
		}
	}
}

func withoutAccessOf(s *v1.Snapshot, who string) {
	var kept []v1.AccessAnswer
	for _, a := range s.Access {
		if a.Who != who {
			kept = append(kept, a)
		}
	}
	s.Access = kept
}

// onlyAPIServers takes the managers from every host.
func onlyAPIServers(s *v1.Snapshot) {
	for i := range s.Hosts {
		s.Hosts[i].Components = []v1.Component{*manager(s, i, component.KAS)}
	}
}

// onlyManagers takes the API servers from every host.
func onlyManagers(s *v1.Snapshot) {
	for i := range s.Hosts {
		s.Hosts[i].Components = []v1.Component{*manager(s, i, component.KCM)}
	}
}

func eachHost(s *v1.Snapshot, name string, flags map[string]string) {
	for i := range s.Hosts {
		setFlags(s, i, name, flags)
	}
}

// trusts makes the cluster and its hosts trust one authority.
func trusts(s *v1.Snapshot) {
	s.Authorities = []string{"authority"}
	for i := range s.Hosts {
		s.Hosts[i].Authorities = []string{"authority", "older"}
	}
}

var toolingRules = []ruleCase{
	{name: "each host is a node", code: "HOST-003", want: pass_, says: []string{"3 hosts"}},
	{
		name: "two hosts of one node",
		code: "HOST-003",
		want: fails,
		says: []string{"hosts cp-1 and cp-2 are all taken for Node ip-10-0-0-11.ec2.internal", "leave out of --host-access"},
		change: func(s *v1.Snapshot) {
			s.Hosts[1].NodeName = s.Hosts[0].NodeName
		},
	},
	{
		name: "a host that is no node",
		code: "HOST-003",
		want: fails,
		says: []string{"host w-1 has a kubelet and is no Node of this cluster"},
		change: func(s *v1.Snapshot) {
			s.Hosts = append(s.Hosts, v1.Host{Name: "w-1", Kubelet: &v1.Kubelet{}})
		},
	},
	{
		name: "two nodes of one host name",
		code: "HOST-003",
		want: warn,
		says: []string{"1 host name is shared", "have the host name twin"},
		change: func(s *v1.Snapshot) {
			for i := range s.Nodes[:2] {
				s.Nodes[i].Labels = map[string]string{facts.LabelHostname: "twin"}
			}
		},
	},
	{name: "the nodes are not known", code: "HOST-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},
	{name: "hosts of this cluster", code: "HOST-004", want: pass_, says: []string{"3 hosts and the cluster trust the same authority"}, change: trusts},
	{
		name: "a host of another cluster",
		code: "HOST-004",
		want: fails,
		says: []string{
			"1 host is of another cluster: cp-2",
			"host cp-2 trusts another authority (SHA-256 anothers-aut) than the cluster (authority)",
			"--host-access or --context",
		},
		change: func(s *v1.Snapshot) {
			trusts(s)
			s.Hosts[1].Authorities = []string{"anothers-authority"}
		},
	},
	{name: "a cluster that shows no authority", code: "HOST-004", want: skipped},
	{name: "hosts that show no authority", code: "HOST-004", want: skipped, change: func(s *v1.Snapshot) { s.Authorities = []string{"authority"} }},
	{name: "an authority that may not be read", code: "HOST-004", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "authorities") }},
	{name: "clocks agree", code: "API-002", want: pass_, says: []string{"4 clocks", "2s"}},
	{
		name:   "one host is ahead",
		code:   "API-002",
		want:   fails,
		says:   []string{"host/cp-3 is 9s ahead", "chronyc tracking", "apart"},
		change: func(s *v1.Snapshot) { s.Clocks[2].OffsetMillis = 9000 },
	},
	{
		name:   "a difference within the uncertainty",
		code:   "API-002",
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Clocks[3].OffsetMillis, s.Clocks[3].UncertaintyMillis = 2500, 900 },
	},
	{name: "only this machine is off", code: "API-002", want: warn, says: []string{"the machine that runs transplant"}, change: func(s *v1.Snapshot) {
		for i := range s.Clocks {
			s.Clocks[i].OffsetMillis -= 60_000
		}
	}},
	{name: "a clock could not be read", code: "API-002", want: unknwn, says: []string{"clocks/cp-2"}, change: func(s *v1.Snapshot) {
		s.Clocks = s.Clocks[:1]
		cannotGather(s, "clocks/cp-2")
	}},
	{name: "no clock was read", code: "API-002", want: skipped, change: func(s *v1.Snapshot) { s.Clocks = nil }},
	{name: "no clock could be read", code: "API-002", want: unknwn, change: func(s *v1.Snapshot) {
		s.Clocks = nil
		cannotGather(s, "clocks/api")
	}},

	{
		name:   "a host that only the API shows is a host that is missing",
		code:   "HOST-002",
		want:   fails,
		says:   []string{"ip-10-0-0-12.ec2.internal", "--host-access"},
		change: func(s *v1.Snapshot) { s.Hosts[1].APIOnly = true },
	},
	{
		name:   "a reason that all hosts have is said once",
		code:   "HOST-001",
		want:   unknwn,
		says:   []string{"reading hosts/cp-1: forbidden (2 in all: cp-1, cp-2)"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1", "hosts/cp-2") },
	},
	{name: "the control plane runs as Deployments", code: "HOST-001", want: pass_, says: []string{"1 Deployment"}, change: hostedCluster},

	{name: "the new identity has its rights", code: "RBAC-002", want: pass_, says: []string{"all 4 things"}},
	{
		name:   "F46: a right is missing before",
		code:   "RBAC-002",
		want:   pass_,
		says:   []string{"lacks 1 of 4", "patch nodes/status", "the plan grants"},
		change: func(s *v1.Snapshot) { forbid(s, component.UserCCM, "patch", "nodes/status", "") },
	},
	{
		name: "F46: a right is missing while the manager runs",
		code: "RBAC-002",
		base: migrated,
		want: fails,
		says: []string{"1 of 4 things", "patch nodes/status", "--as=" + component.UserCCM},
		change: func(s *v1.Snapshot) {
			forbid(s, component.UserCCM, "patch", "nodes/status", "")
		},
	},
	{name: "the reviews failed", code: "RBAC-002", want: unknwn, says: []string{"timeout"}, change: func(s *v1.Snapshot) {
		for i := range s.Access {
			s.Access[i].Error = "timeout"
		}
	}},
	{name: "nobody asked", code: "RBAC-002", want: unknwn, change: func(s *v1.Snapshot) { withoutAccessOf(s, component.UserCCM) }},
	{name: "nobody could ask", code: "RBAC-002", want: unknwn, says: []string{"reading access"}, change: func(s *v1.Snapshot) {
		s.Access = nil
		cannotGather(s, "access")
	}},

	{name: "RBAC among the modes", code: "RBAC-003", want: pass_, says: []string{"3 kube-apiservers authorize by RBAC"}},
	{
		name: "a policy file",
		code: "RBAC-003",
		want: fails,
		says: []string{"kube-apiserver@cp-1 has --authorization-mode=Node,ABAC", component.UserCCM, "create leases.coordination.k8s.io", "nodes/status"},
		change: func(s *v1.Snapshot) {
			eachHost(s, component.KAS, map[string]string{"authorization-mode": "Node,ABAC"})
		},
	},
	{name: "everybody may do everything", code: "RBAC-003", want: pass_, says: []string{"nothing has to be granted"}, change: func(s *v1.Snapshot) {
		eachHost(s, component.KAS, map[string]string{"authorization-mode": "AlwaysAllow"})
	}},
	{name: "an authorization configuration", code: "RBAC-003", want: pass_, says: []string{"asked of the API server"}, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			delete(manager(s, i, component.KAS).Flags, "authorization-mode")
		}
		eachHost(s, component.KAS, map[string]string{"authorization-config": "/etc/kubernetes/authz.yaml"})
	}},
	{name: "no API server on the hosts", code: "RBAC-003", want: unknwn, change: onlyManagers},

	{name: "the main leases may be used", code: "RBAC-004", base: migrated, want: pass_},
	{
		name: "F24: a role was patched by merge",
		code: "RBAC-004",
		base: migrated,
		want: fails,
		says: []string{component.UserCCM + " may not update the lease cloud-controller-manager", "leader-locking"},
		change: func(s *v1.Snapshot) {
			forbid(s, component.UserCCM, "update", "leases", component.CCM)
		},
	},
	{
		name:   "no such manager, no such right",
		code:   "RBAC-004",
		want:   pass_,
		change: func(s *v1.Snapshot) { forbid(s, component.UserCCM, "update", "leases", component.CCM) },
	},
	{
		name: "F24: create stands under resourceNames",
		code: "RBAC-004",
		want: fails,
		says: []string{"a rule with resourceNames does not stand for create"},
		change: func(s *v1.Snapshot) {
			forbid(s, component.UserKCM, "create", "leases", "")
		},
	},
	{name: "nobody asked", code: "RBAC-004", want: unknwn, change: func(s *v1.Snapshot) { withoutAccessOf(s, component.UserKCM) }},
	{name: "a review failed", code: "RBAC-004", want: unknwn, says: []string{"timeout"}, change: func(s *v1.Snapshot) {
		for i := range s.Access {
			if s.Access[i].Who == component.UserKCM {
				s.Access[i].Error = "timeout"
			}
		}
	}},
	{name: "nobody may ask about others: one cause, one line", code: "RBAC-004", want: skipped, says: []string{"RBAC-002"}, change: func(s *v1.Snapshot) {
		for i := range s.Access {
			s.Access[i].Error = "forbidden"
		}
	}},

	{name: "nobody asked for the proof", code: "PROOF-001", want: skipped, says: []string{"--prove"}},
	{name: "everything is taken", code: "PROOF-001", want: pass_, says: []string{"all 2 objects"}, change: dryRuns(v1.DryRun{OK: true}, v1.DryRun{OK: true})},
	{
		name: "a webhook refuses",
		code: "PROOF-001",
		want: fails,
		says: []string{"1 of 2 objects", "ConfigMap/kube-system/x", "kubectl get validatingwebhookconfigurations"},
		change: dryRuns(
			v1.DryRun{OK: true},
			v1.DryRun{Verb: "create", Ref: "ConfigMap/kube-system/x", Error: `admission webhook "labels.example.com" denied the request`},
		),
	},
	{
		name:   "a quota refuses",
		code:   "PROOF-001",
		want:   fails,
		says:   []string{"exceeded quota"},
		change: dryRuns(v1.DryRun{Verb: "create", Ref: "ConfigMap/kube-system/x", Error: "exceeded quota: count"}),
	},
	{
		name:   "no answer",
		code:   "PROOF-001",
		want:   unknwn,
		says:   []string{"timeout"},
		change: dryRuns(v1.DryRun{Verb: "create", Ref: "ConfigMap/kube-system/x", Error: "timeout", Unanswered: true}),
	},
	{name: "the API could not be asked", code: "PROOF-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "dryruns") }},
}

func dryRuns(all ...v1.DryRun) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.DryRuns = all }
}

// hostedCluster moves the in-tree manager and the API server of the first host into a Deployment each, and takes the hosts away.
func hostedCluster(s *v1.Snapshot) {
	c := *manager(s, 0, component.KCM)
	c.Runs, c.Manifest, c.Processes, c.Pod = v1.RunsDeployment, "Deployment/kube-system/kube-controller-manager", nil, nil
	replicas := int32(2)
	c.Replicas = &replicas
	s.Hosted = []v1.Component{c}
	s.Hosts, s.ControlPlaneNodes = nil, nil
}
