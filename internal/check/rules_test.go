package check

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// ruleCase is one case: what is done to a healthy cluster, and what a check says of it.
type ruleCase struct {
	name   string
	code   string
	base   func() *v1.Snapshot // healthy when nil
	change func(*v1.Snapshot)
	opts   facts.Options
	want   v1.Outcome
	// says are parts of the finding that a reader needs: summary, found, objects, expected or fix.
	says []string
}

const (
	pass_   = v1.Pass
	warn    = v1.Warn
	fails   = v1.Fail
	skipped = v1.Skip
	unknwn  = v1.Unknown
)

func TestRules(t *testing.T) {
	seen := map[string]map[v1.Outcome]bool{}
	for _, tc := range allRules() {
		t.Run(tc.code+" "+tc.name, func(t *testing.T) { tc.run(t) })
		if seen[tc.code] == nil {
			seen[tc.code] = map[v1.Outcome]bool{}
		}
		seen[tc.code][tc.want] = true
	}
	for _, c := range Checks {
		cases := map[string]bool{
			"passes": seen[c.Code][pass_], "fails or warns": seen[c.Code][fails] || seen[c.Code][warn], "is unknown": seen[c.Code][unknwn],
		}
		for _, want := range slices.Sorted(maps.Keys(cases)) {
			why, never := neverEnds[c.Code+" "+want]
			switch {
			case !cases[want] && !never:
				t.Errorf("%s has no case that %s", c.Code, want)
			case cases[want] && never:
				t.Errorf("%s has a case that %s, although it is said that there can be none: %s", c.Code, want, why)
			}
		}
	}
}

// neverEnds says which checks cannot end in a certain way, and why.
var neverEnds = map[string]string{
	"API-001 fails or warns":   "an API server that does not answer is unknown",
	"CLOUD-001 fails or warns": "an inventory that could not be read is unknown",
	"FACT-001 fails or warns":  "what is not known is unknown",
	"GAP-001 passes":           "it tells what cannot be promised and always warns",
	"GAP-001 is unknown":       "it tells what cannot be promised and always warns",
	"CP-001 is unknown":        "a host without a manager is a failure; hosts that cannot be read are HOST-001's",
	"CP-019 is unknown":        "that no API server was found is CP-015's",
	"CP-008 is unknown":        "manifests that cannot be read are CP-003's, and nothing else is compared",
	"CP-009 is unknown":        "manifests that cannot be read are CP-003's, and nothing else is looked at",
	"LM-002 is unknown":        "manifests that cannot be read are CP-003's, and nothing else is looked at",
	"LM-014 is unknown":        "managers that do not answer are LM-006's",
	"VOL-005 is unknown":       "volumes that could not be listed are VOL-001's",
	"VOL-007 is unknown":       "classes that could not be listed are VOL-001's",
	"VOL-008 is unknown":       "volumes that could not be listed are VOL-001's",
	"CFG-002 is unknown":       "cloud configs that could not be read are CFG-001's",
	"CFG-003 is unknown":       "cloud configs that could not be read are CFG-001's",
	"CFG-004 is unknown":       "cloud configs that could not be read are CFG-001's",
	"CRED-003 is unknown":      "kubelets that could not be read are KUBELET-001's",
}

// finding is what the check of a case says.
// snapshot is the cluster of a case.
func (tc ruleCase) snapshot() *v1.Snapshot {
	s := healthy()
	if tc.base != nil {
		s = tc.base()
	}
	if tc.change != nil {
		tc.change(s)
	}
	return s
}

func (tc ruleCase) finding(t *testing.T) v1.Finding {
	t.Helper()
	return found(t, Run(tc.snapshot(), tc.opts), tc.code)
}

func (tc ruleCase) run(t *testing.T) {
	f := tc.finding(t)
	if f.Outcome != tc.want {
		t.Fatalf("got %s, want %s: %s (found: %s)", f.Outcome, tc.want, f.Summary, f.Found)
	}
	text := strings.Join(append([]string{f.Summary, f.Found, f.Expected, f.Source, f.Fix}, f.Objects...), "\n")
	for _, part := range tc.says {
		if !strings.Contains(text, part) {
			t.Errorf("the finding does not say %q:\n%s", part, text)
		}
	}
	if f.Outcome == fails && (len(f.Objects) == 0 || f.Expected == "" || f.Source == "") {
		t.Errorf("a failure lacks objects, what was expected or the source: %+v", f)
	}
}

// announced has each host called as its Node is, and labelled, and the API servers at these addresses.
func announced(s *v1.Snapshot, addresses ...string) {
	for i := range s.Hosts {
		s.Hosts[i].Name = s.Hosts[i].NodeName
	}
	s.APIServers = addresses
}

var accessRules = []ruleCase{
	{name: "the API answers", code: "API-001", want: pass_, says: []string{"v1.26.0"}},
	{name: "the API does not answer", code: "API-001", want: unknwn, says: []string{"cluster/version"}, change: func(s *v1.Snapshot) {
		s.Cluster.Version = ""
		cannotGather(s, "cluster/version")
	}},
	{name: "a snapshot without a cluster", code: "API-001", want: unknwn, change: func(s *v1.Snapshot) { s.Cluster = v1.Cluster{} }},

	{name: "the manifests were read", code: "HOST-001", want: pass_, says: []string{"3 control-plane hosts"}},
	{
		name:   "one host cannot be read",
		code:   "HOST-001",
		want:   unknwn,
		says:   []string{"hosts/cp-2"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-2") },
	},
	{name: "one manifest cannot be read", code: "HOST-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-2/manifests/x.yaml") }},
	{name: "the units cannot be read", code: "HOST-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-2/units") }},
	{
		name:   "only a process list is missing",
		code:   "HOST-001",
		want:   pass_,
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-2/processes/kube-apiserver") },
	},
	{
		name: "a worker with manifests of a control plane",
		code: "HOST-001",
		want: fails,
		says: []string{"1 host has control-plane manifests", "host w-1 runs kube-apiserver, kube-controller-manager by its own word alone", "kubectl get nodes -L"},
		change: func(s *v1.Snapshot) {
			s.Hosts = append(s.Hosts, v1.Host{Name: "w-1", Claims: []string{"kube-apiserver", "kube-controller-manager"}})
		},
	},
	{
		name: "each labelled host has the address of an API server", code: "HOST-001", want: pass_,
		change: func(s *v1.Snapshot) { announced(s, "10.0.0.2", "10.0.0.3", "10.0.0.4") },
	},
	{
		name: "a labelled worker", code: "HOST-001", want: fails,
		says: []string{
			"1 host is labelled as control plane and at no address of an API server", "no API server announces one of its addresses (10.0.0.4), only 10.0.0.2, 10.0.0.3",
			"kubectl -n default get endpointslice kubernetes",
		},
		change: func(s *v1.Snapshot) { announced(s, "10.0.0.2", "10.0.0.3") },
	},
	{
		name: "a worker with the address of an API server", code: "HOST-001", want: fails,
		says: []string{"1 address is of API servers on several Nodes", "all have the address 10.0.0.2 of an API server"},
		change: func(s *v1.Snapshot) {
			announced(s, "10.0.0.2", "10.0.0.3", "10.0.0.4")
			s.Nodes[4].Addresses = append(s.Nodes[4].Addresses, "InternalIP=10.0.0.2")
		},
	},
	{
		name: "a load balancer is announced", code: "HOST-001", want: fails,
		says: []string{
			"3 hosts are labelled as control plane and at no address of an API server", "any account that may patch Nodes could have set the label",
			"no Node has an address that the API servers announce (10.9.9.9)", "--control-plane-hosts=cp-1",
		},
		change: func(s *v1.Snapshot) { announced(s, "10.9.9.9"); s.Hosts[0].Name, s.Nodes[0].Name = "cp-1", "cp-1" },
	},
	{
		name: "the addresses of the real hosts were removed from their Nodes", code: "HOST-001", want: fails,
		says: []string{"no Node has an address that the API servers announce (10.0.0.2, 10.0.0.3)"},
		change: func(s *v1.Snapshot) {
			announced(s, "10.0.0.2", "10.0.0.3")
			for i := range s.Nodes {
				s.Nodes[i].Addresses = nil
			}
		},
	},
	{
		name: "a load balancer is announced, and one host is not named", code: "HOST-001", want: fails, says: []string{"1 host is labelled"},
		change: func(s *v1.Snapshot) {
			announced(s, "10.9.9.9")
			s.NamedHosts = []string{s.Hosts[0].Name, s.Hosts[1].Name}
		},
	},
	{
		name: "a load balancer is announced, and the hosts are named", code: "HOST-001", want: warn,
		says: []string{"3 hosts are taken for the control plane by the label of a Node and by --control-plane-hosts", "cp-1, ip-10"},
		change: func(s *v1.Snapshot) {
			announced(s, "10.9.9.9")
			s.Hosts[0].Name, s.Nodes[0].Name = "cp-1", "cp-1"
			for _, h := range s.Hosts {
				s.NamedHosts = append(s.NamedHosts, h.Name)
			}
		},
	},
	{
		name: "what is announced cannot be read", code: "HOST-001", want: unknwn, says: []string{"could not be read"},
		change: func(s *v1.Snapshot) { announced(s); cannotGather(s, "endpoints") },
	},
	{
		name: "in a migration, an API server may be about to come back", code: "HOST-001", want: warn,
		says: []string{"its addresses (10.0.0.4)"}, opts: facts.Options{InProgress: true},
		change: func(s *v1.Snapshot) { announced(s, "10.0.0.2", "10.0.0.3") },
	},
	{
		name: "in a migration, no two Nodes come back to one address", code: "HOST-001", want: fails, opts: facts.Options{InProgress: true},
		change: func(s *v1.Snapshot) {
			announced(s, "10.0.0.2", "10.0.0.3", "10.0.0.4")
			s.Nodes[4].Addresses = append(s.Nodes[4].Addresses, "InternalIP=10.0.0.2")
		},
	},
	{name: "no host at all", code: "HOST-001", want: unknwn, says: []string{"--host-access"}, change: func(s *v1.Snapshot) { s.Hosts = nil }},

	{name: "every Node has its host", code: "HOST-002", want: pass_},
	{name: "a Node has no host", code: "HOST-002", want: fails, says: []string{"ip-10-0-0-14.ec2.internal", "--host-access"}, change: func(s *v1.Snapshot) {
		s.ControlPlaneNodes = append(s.ControlPlaneNodes, "ip-10-0-0-14.ec2.internal")
	}},
	{
		name:   "a host's Node is not known",
		code:   "HOST-002",
		want:   unknwn,
		says:   []string{"cp-1", "ip-10-0-0-11.ec2.internal"},
		change: func(s *v1.Snapshot) { s.Hosts[0].NodeName = "" },
	},
	{name: "pods could not be listed", code: "HOST-002", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "pods") }},

	{name: "everything is allowed", code: "RBAC-001", want: pass_, says: []string{"all 2 things"}},
	{
		name: "a verb is missing",
		code: "RBAC-001",
		want: fails,
		says: []string{"create leases.coordination.k8s.io in kube-system is refused", "kubectl auth can-i create leases.coordination.k8s.io -n kube-system"},
		change: func(s *v1.Snapshot) {
			s.Access = append(s.Access, v1.AccessAnswer{Who: "self", Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system"})
		},
	},
	{name: "escalate is refused", code: "RBAC-001", want: warn, says: []string{"escalate"}, change: func(s *v1.Snapshot) {
		s.Access = append(s.Access, v1.AccessAnswer{Who: "self", Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"})
	}},
	{name: "a review failed", code: "RBAC-001", want: unknwn, change: func(s *v1.Snapshot) { s.Access[0].Error = "forbidden" }},
	{name: "nothing was asked", code: "RBAC-001", want: unknwn, says: []string{"access"}, change: func(s *v1.Snapshot) {
		s.Access = nil
		cannotGather(s, "access")
	}},
}

var controlPlaneRules = []ruleCase{
	{name: "each component has one manifest", code: "CP-003", want: pass_, says: []string{"6 manifests"}},
	{
		name: "a backup is a second pod",
		code: "CP-003",
		want: fails,
		says: []string{"kube-controller-manager.yaml.bak", "mv --backup=numbered /etc/kubernetes/manifests/kube-controller-manager.yaml.bak"},
		change: func(s *v1.Snapshot) {
			c := *manager(s, 1, component.KCM)
			c.Manifest += ".bak"
			s.Hosts[1].Components = append(s.Hosts[1].Components, c)
		},
	},
	{name: "a manifest is no Pod", code: "CP-003", want: fails, says: []string{"is a Deployment"}, change: func(s *v1.Snapshot) {
		s.Hosts[0].Components = append(
			s.Hosts[0].Components,
			v1.Component{Name: "kube-scheduler", Manifest: "/etc/kubernetes/manifests/kube-scheduler.yaml", Error: "is a Deployment, not a Pod"},
		)
	}},
	{name: "the hosts cannot be read", code: "CP-003", want: skipped, says: []string{"HOST-001"}, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1") }},

	{name: "in-tree everywhere", code: "CP-001", want: pass_, says: []string{"all 3 control-plane hosts", "--cloud-provider=aws"}},
	{
		name:   "one host is external",
		code:   "CP-001",
		want:   fails,
		says:   []string{"kube-controller-manager@cp-2"},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"}) },
	},
	{
		name:   "one host has no manager",
		code:   "CP-001",
		want:   fails,
		says:   []string{"host cp-3 has no kube-controller-manager"},
		change: func(s *v1.Snapshot) { s.Hosts[2].Components = s.Hosts[2].Components[:1] },
	},
	{
		name:   "two providers",
		code:   "CP-001",
		want:   fails,
		says:   []string{"aws, gce"},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "gce"}) },
	},
	{
		name: "one host is external and a run is in progress", code: "CP-001", want: warn, opts: facts.Options{InProgress: true}, says: []string{"transplant apply"},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"}) },
	},
	{name: "external everywhere", code: "CP-001", base: migrated, want: skipped},

	{
		name:   "elections are on by default",
		code:   "CP-002",
		want:   pass_,
		change: func(s *v1.Snapshot) { delete(manager(s, 0, component.KCM).Flags, "leader-elect") },
	},
	{
		name:   "elections are off",
		code:   "CP-002",
		want:   fails,
		says:   []string{"kube-controller-manager@cp-2"},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"leader-elect": "false"}) },
	},
	{
		name:   "elections are off in the new manager",
		code:   "CP-002",
		base:   migrated,
		want:   fails,
		says:   []string{"cloud-controller-manager@cp-1"},
		change: func(s *v1.Snapshot) { setFlags(s, 0, component.CCM, map[string]string{"leader-elect": "0"}) },
	},

	{name: "the flags agree", code: "CP-004", want: pass_},
	{
		name:   "F31: the cluster's name differs",
		code:   "CP-004",
		want:   fails,
		says:   []string{"--cluster-name: lab on cp-1, cp-3 and other on cp-2"},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cluster-name": "other"}) },
	},
	{
		name:   "the cloud config differs",
		code:   "CP-004",
		want:   v1.Warn,
		says:   []string{"cloud config"},
		change: func(s *v1.Snapshot) { s.Hosts[1].CloudConfig.SHA256 = "cccccccccccc" },
	},
	{
		name:   "addresses may differ",
		code:   "CP-004",
		want:   pass_,
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"bind-address": "127.1.2.12"}) },
	},
	{
		name: "the moved hosts differ while a run is in progress", code: "CP-004", want: pass_, opts: facts.Options{InProgress: true},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"}) },
	},

	{name: "pods run what the manifests say", code: "CP-005", want: pass_, says: []string{"6 pods"}},
	{name: "a pod is stale", code: "CP-005", want: fails, says: []string{"not --v=2", "but --v=4"}, change: func(s *v1.Snapshot) {
		c := manager(s, 0, component.KCM)
		c.Command = []string{component.KCM, "--v=2"}
		c.Pod.Command = []string{component.KCM, "--v=4"}
	}},
	{
		name:   "a pod is not ready",
		code:   "CP-005",
		want:   fails,
		says:   []string{"is not ready"},
		change: func(s *v1.Snapshot) { manager(s, 0, component.KAS).Pod.Ready = false },
	},
	{name: "a pod is missing", code: "CP-005", want: fails, says: []string{"has no pod"}, change: func(s *v1.Snapshot) { manager(s, 0, component.KAS).Pod = nil }},
	{name: "the host's Node is not known", code: "CP-005", want: unknwn, says: []string{"kube-apiserver@cp-1"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KAS).Pod, manager(s, 0, component.KCM).Pod = nil, nil
		s.Hosts[0].NodeName = ""
	}},
	{name: "pods could not be listed", code: "CP-005", want: unknwn, change: func(s *v1.Snapshot) {
		cannotGather(s, "pods")
		for i := range s.Hosts {
			s.Hosts[i].NodeName = ""
			manager(s, i, component.KAS).Pod, manager(s, i, component.KCM).Pod = nil, nil
		}
	}},

	{name: "one process each", code: "CP-006", want: pass_},
	{name: "two processes", code: "CP-006", want: fails, says: []string{"2 processes: 1001, 7"}, change: func(s *v1.Snapshot) {
		c := manager(s, 0, component.KCM)
		c.Processes = append(c.Processes, v1.Process{PID: 7})
	}},
	{
		name:   "no process",
		code:   "CP-006",
		want:   fails,
		says:   []string{"kube-apiserver@cp-3 has no process"},
		change: func(s *v1.Snapshot) { manager(s, 2, component.KAS).Processes = nil },
	},
	{
		name:   "a stopped process",
		code:   "CP-006",
		want:   fails,
		says:   []string{"in state T"},
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Processes[0].State = "T" },
	},
	{name: "processes could not be listed", code: "CP-006", want: unknwn, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Processes = nil
		cannotGather(s, "hosts/cp-1/processes/kube-controller-manager")
	}},

	{name: "nothing has begun", code: "CP-007", want: pass_},
	{name: "everything is over", code: "CP-007", base: migrated, want: pass_},
	{name: "half-way without a journal", code: "CP-007", want: fails, change: func(s *v1.Snapshot) { addCCM(s, 0, upstreamCCM) }},
	{name: "a cloud-controller-manager runs elsewhere", code: "CP-007", want: fails, says: []string{"node-7_x"}, change: func(s *v1.Snapshot) {
		l := heldLease("node-7_x", time.Second)
		l.Name = component.CCM
		s.Leases = []v1.Lease{l}
	}},
	{name: "the lease of a cloud-controller-manager that is gone", code: "CP-007", want: pass_, change: func(s *v1.Snapshot) {
		l := heldLease("node-7_x", time.Minute)
		l.Name = component.CCM
		s.Leases = []v1.Lease{l}
	}},
	{
		name:   "half-way with a journal",
		code:   "CP-007",
		want:   warn,
		opts:   facts.Options{InProgress: true},
		change: func(s *v1.Snapshot) { addCCM(s, 0, upstreamCCM) },
	},
}

var leaderMigrationRules = []ruleCase{
	{name: "no config", code: "LM-001", want: skipped},
	{name: "short names in 1.26", code: "LM-001", want: pass_, change: func(s *v1.Snapshot) { migrating(s, component.KCM, shortNames) }},
	{
		name:   "canonical names in 1.26",
		code:   "LM-001",
		want:   fails,
		says:   []string{"service-lb-controller", leaderMigrationPath},
		change: func(s *v1.Snapshot) { migrating(s, component.KCM, canonicalNames) },
	},
	{
		name: "documented names in an upstream CCM of 1.37",
		code: "LM-001",
		base: migrated,
		want: fails,
		says: []string{"write service-lb-controller"},
		change: func(s *v1.Snapshot) {
			manager(s, 0, component.CCM).Image = upstreamCCM
			migrating(s, component.CCM, shortNames)
		},
	},
	{name: "documented names in our CCM", code: "LM-001", base: migrated, want: pass_, change: func(s *v1.Snapshot) { migrating(s, component.CCM, shortNames) }},
	{
		name: "upstream's mistaken names in our CCM",
		code: "LM-001",
		base: migrated,
		want: fails,
		says: []string{"service-controller"},
		change: func(s *v1.Snapshot) {
			migrating(s, component.CCM, strings.ReplaceAll(canonicalNames, "service-lb-controller", "service-controller"))
		},
	},
	{name: "a loop is not listed", code: "LM-001", want: fails, says: []string{"route loop is not listed"}, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, strings.ReplaceAll(shortNames, "- {name: route, component: \"*\"}\n", ""))
	}},
	{name: "the file is not YAML", code: "LM-001", want: fails, change: func(s *v1.Snapshot) { migrating(s, component.KCM, "a: [") }},
	{name: "the flag is there and leader migration is off", code: "LM-001", want: skipped, change: func(s *v1.Snapshot) {
		setFlags(s, 0, component.KCM, map[string]string{"leader-migration-config": leaderMigrationPath})
	}},
	{name: "the file could not be read", code: "LM-001", want: unknwn, says: []string{leaderMigrationPath}, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, shortNames)
		s.Hosts[1].LeaderMigration = nil
	}},
	{name: "the manager's version is not known", code: "LM-001", base: migrated, want: unknwn, says: []string{"example.com/ccm"}, change: func(s *v1.Snapshot) {
		migrating(s, component.CCM, canonicalNames)
		manager(s, 2, component.CCM).Image = "example.com/ccm@sha256:abc"
	}},

	{name: "an external manager without it", code: "LM-002", base: migrated, want: pass_},
	{
		name: "F24: an external manager with it",
		code: "LM-002",
		base: migrated,
		want: fails,
		says: []string{"kube-controller-manager@cp-2"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"enable-leader-migration": "true"})
		},
	},
	{name: "an in-tree manager with it", code: "LM-002", want: skipped, change: func(s *v1.Snapshot) { migrating(s, component.KCM, shortNames) }},

	{name: "both may", code: "LM-003", want: pass_, says: []string{"both managers may"}},
	{
		name:   "the manager may not, before",
		code:   "LM-003",
		want:   pass_,
		says:   []string{"the plan grants it", "may not update"},
		change: func(s *v1.Snapshot) { forbidLease(s, component.UserKCM, "update") },
	},
	{
		name: "F24: the manager may not, and leader migration is on",
		code: "LM-003",
		want: fails,
		says: []string{component.UserKCM + " may not create", "create role leader-migration ", "--resource-name=cloud-provider-extraction-migration"},
		change: func(s *v1.Snapshot) {
			migrating(s, component.KCM, shortNames)
			forbidLease(s, component.UserKCM, "create")
		},
	},
	{name: "the other manager may not, and leader migration is on here", code: "LM-003", want: fails, says: []string{component.UserCCM}, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, shortNames)
		forbidLease(s, component.UserCCM, "get")
	}},
	{name: "nobody needs it any more", code: "LM-003", base: migrated, want: pass_, change: func(s *v1.Snapshot) { forbidLease(s, component.UserKCM, "create") }},
	{name: "it was not asked", code: "LM-003", want: unknwn, change: func(s *v1.Snapshot) { s.Access = s.Access[:2] }},
	{name: "another lease was asked for", code: "LM-003", want: unknwn, opts: facts.Options{LeaseName: "our-migration"}, says: []string{"our-migration"}},

	{name: "a good config", code: "LM-004", want: pass_, change: func(s *v1.Snapshot) { migrating(s, component.KCM, shortNames) }},
	{
		name:   "ignored in 1.26",
		code:   "LM-004",
		want:   warn,
		says:   []string{"1.26 ignores it"},
		change: func(s *v1.Snapshot) { migrating(s, component.KCM, shortNames+"resourceLock: leases\n") },
	},
	{name: "fatal in 1.37", code: "LM-004", base: migrated, want: fails, says: []string{"exits at start", "remove it"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.CCM).Image = upstreamCCM
		migrating(s, component.CCM, canonicalNames+"resourceLock: leases\n")
	}},
	{name: "ignored by our CCM", code: "LM-004", base: migrated, want: warn, says: []string{"this manager ignores it", "remove it"}, change: func(s *v1.Snapshot) {
		migrating(s, component.CCM, canonicalNames+"resourceLock: leases\n")
	}},
	{name: "a lock that cannot be made, in our CCM", code: "LM-004", base: migrated, want: fails, says: []string{"endpoints"}, change: func(s *v1.Snapshot) {
		migrating(s, component.CCM, strings.Replace(canonicalNames, "/v1\n", "/v1beta1\n", 1)+"resourceLock: endpoints\n")
	}},
	{name: "the file could not be read", code: "LM-004", want: unknwn, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, shortNames)
		s.Hosts[1].LeaderMigration = nil
	}},

	{name: "leader migration is off", code: "LM-005", base: migrated, want: skipped},
	{
		name: "an upstream CCM on its default",
		code: "LM-005",
		base: migrated,
		want: fails,
		says: []string{"cloud-controller-manager@cp-1 (1.37)"},
		change: func(s *v1.Snapshot) {
			manager(s, 0, component.CCM).Image = upstreamCCM
			migrating(s, component.CCM, "")
		},
	},
	{name: "our CCM on its default", code: "LM-005", base: migrated, want: pass_, change: func(s *v1.Snapshot) { migrating(s, component.CCM, "") }},
	{name: "an old CCM on its default", code: "LM-005", base: migrated, want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			manager(s, i, component.CCM).Image = "registry.k8s.io/provider-aws/cloud-controller-manager:v1.27.9"
		}
		migrating(s, component.CCM, "")
	}},
	{name: "a CCM of unknown version on its default", code: "LM-005", base: migrated, want: unknwn, change: func(s *v1.Snapshot) {
		manager(s, 0, component.CCM).Image = "example.com/ccm"
		migrating(s, component.CCM, "")
	}},

	{name: "leader migration is off", code: "LM-008", want: skipped},
	{name: "the same lease", code: "LM-008", want: pass_, change: func(s *v1.Snapshot) { migrating(s, component.KCM, shortNames) }},
	{
		name: "F24: one names another lease",
		code: "LM-008",
		want: fails,
		says: []string{`"other"`, "kube-controller-manager@cp-2", "sed -i.before 's/^leaderName: .*/leaderName: cloud-provider-extraction-migration/'", "on cp-2;"},
		change: func(s *v1.Snapshot) {
			migrating(s, component.KCM, shortNames)
			s.Hosts[1].LeaderMigration[0].Content = strings.ReplaceAll(shortNames, "cloud-provider-extraction-migration", "other")
		},
	},
	{name: "F24: all name another lease", code: "LM-008", want: fails, says: []string{"transplant check --lease-name=other "}, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, strings.ReplaceAll(shortNames, "cloud-provider-extraction-migration", "other"))
	}},
	{name: "a file could not be read", code: "LM-008", want: unknwn, change: func(s *v1.Snapshot) {
		migrating(s, component.KCM, shortNames)
		s.Hosts[1].LeaderMigration = nil
	}},
}

func forbidLease(s *v1.Snapshot, user, verb string) {
	for i, a := range s.Access {
		if a.Who == user && a.Verb == verb {
			s.Access[i].Allowed = false
		}
	}
}

func heldLease(holder string, age time.Duration) v1.Lease {
	renewed := taken.Add(-age)
	return v1.Lease{Name: component.MigrationLease, Holder: holder, DurationSeconds: 15, RenewTime: &renewed}
}
