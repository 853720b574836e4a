package check

import (
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// planeFacts are the facts of a healthy cluster that checks of tooling, the control plane and versions look at.
func planeFacts(s *v1.Snapshot) {
	for i := range s.Nodes {
		s.Nodes[i].KubeletVersion, s.Nodes[i].Created = "v1.26.0", taken.Add(-100*24*time.Hour)
	}
	for i := range s.Hosts {
		setFlags(s, i, component.KAS, map[string]string{"authorization-mode": "Node,RBAC"})
		s.Clocks = append(s.Clocks, v1.Clock{Who: "host/" + s.Hosts[i].Name, OffsetMillis: int64(i * 10), UncertaintyMillis: 5})
	}
	s.Clocks = append(s.Clocks, v1.Clock{Who: "api", OffsetMillis: -300, UncertaintyMillis: 500})
	for _, right := range []string{"get nodes", "patch nodes/status", "delete nodes", "patch services/status"} {
		s.Access = append(s.Access, managerRight(right, true))
	}
	for _, verb := range []string{"get", "update"} {
		s.Access = append(s.Access,
			v1.AccessAnswer{Who: component.UserKCM, Verb: verb, Resource: "leases", Namespace: "kube-system", Name: component.KCM, Allowed: true},
			v1.AccessAnswer{Who: component.UserCCM, Verb: verb, Resource: "leases", Namespace: "kube-system", Name: component.CCM, Allowed: true})
	}
	s.APIGroups = []string{"apps/v1", "batch/v1"}
	s.Kubeadm = &v1.KubeadmConfig{
		KubernetesVersion: "v1.26.0", ClusterName: "lab", PodSubnet: "10.200.0.0/16",
		ExtraArgs: map[string]map[string]string{
			"apiServer":         {"cloud-provider": "aws"},
			"controllerManager": {"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf"},
		},
	}
}

// managerRight is an answer about the new manager's identity: "patch nodes/status".
func managerRight(right string, allowed bool) v1.AccessAnswer {
	verb, resource, _ := strings.Cut(right, " ")
	return v1.AccessAnswer{Who: component.UserCCM, Verb: verb, Resource: resource, Allowed: allowed}
}

// chartCCM is a cloud-controller-manager that came with a chart.
func chartCCM() v1.Workload {
	return v1.Workload{
		Ref: "Deployment/kube-system/aws-ccm", Role: v1.RoleCCM, Replicas: 2, Ready: 2, HostNetwork: true, Strategy: "Recreate",
		Containers: []v1.Container{{Name: "ccm", Image: upstreamCCM, Flags: map[string]string{"cloud-provider": "aws"}}},
	}
}

func withWorkload(change func(*v1.Workload)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		w := chartCCM()
		if change != nil {
			change(&w)
		}
		s.Workloads = append(s.Workloads, w)
	}
}

// migratedToDaemonSet is the cluster after its migration, with the new manager as a DaemonSet.
func migratedToDaemonSet() *v1.Snapshot {
	s := migrated()
	for i := range s.Hosts {
		var kept []v1.Component
		for _, c := range s.Hosts[i].Components {
			if c.Name != component.CCM {
				kept = append(kept, c)
			}
		}
		s.Hosts[i].Components = kept
	}
	w := chartCCM()
	w.Ref = "DaemonSet/kube-system/aws-ccm"
	s.Workloads = append(s.Workloads, w)
	return s
}

// started gives every component of the hosts a command line with these arguments and a process that runs it.
func started(s *v1.Snapshot) {
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			c := &s.Hosts[i].Components[j]
			c.Command = []string{c.Name, "--v=2"}
			c.Pod.Command = c.Command
			c.Processes[0].Args = []string{"/usr/local/bin/" + c.Name, "--v=2"}
		}
	}
}

func notGathered(facts ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { cannotGather(s, facts...) }
}

var planeRules = []ruleCase{
	{name: "the hosts agree", code: "CP-008", want: pass_, says: []string{"6 components"}},
	{
		name: "a flag differs",
		code: "CP-008",
		want: warn,
		says: []string{"kube-apiserver --audit-log-path: (not given) on cp-1, cp-3 and /var/log/a on cp-2"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KAS, map[string]string{"audit-log-path": "/var/log/a"})
		},
	},
	{
		name:   "the environment differs",
		code:   "CP-008",
		want:   warn,
		says:   []string{"environment", "HTTPS_PROXY on cp-2"},
		change: func(s *v1.Snapshot) { manager(s, 1, component.KCM).EnvNames = []string{"HTTPS_PROXY"} },
	},
	{name: "addresses may differ", code: "CP-008", want: pass_, change: func(s *v1.Snapshot) {
		setFlags(s, 1, component.KAS, map[string]string{"advertise-address": "10.0.0.12"})
	}},
	{
		name:   "what the cloud loops do is another check's",
		code:   "CP-008",
		want:   pass_,
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KCM, map[string]string{"cluster-name": "b"}) },
	},

	{name: "plain manifests", code: "CP-009", want: pass_, says: []string{"6 manifests"}},
	{
		name:   "anchors",
		code:   "CP-009",
		want:   warn,
		says:   []string{"anchors", "on host cp-2", "transplant diff"},
		change: func(s *v1.Snapshot) { manager(s, 1, component.KCM).Remarks = []string{"anchors"} },
	},
	{name: "arguments split between command and args", code: "CP-009", want: warn, says: []string{"split"}, change: func(s *v1.Snapshot) {
		manager(s, 1, component.KCM).Remarks = []string{"args split between command and args"}
	}},
	{name: "a flag given twice", code: "CP-009", want: warn, says: []string{"--cluster-name is given 2 times"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Command = []string{component.KCM, "--cluster-name=a", "--cluster-name", "b"}
	}},
	{name: "gates may be given twice", code: "CP-009", want: pass_, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Command = []string{component.KCM, "--feature-gates=A=true", "--feature-gates=B=true"}
	}},

	{name: "all controllers", code: "CP-010", want: pass_, says: []string{"not given"}},
	{
		name:   "kubeadm's list",
		code:   "CP-010",
		want:   pass_,
		says:   []string{"the plan keeps the list"},
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,bootstrapsigner,tokencleaner"}),
	},
	{
		name:   "F26: a list without the star",
		code:   "CP-010",
		want:   warn,
		says:   []string{`without "*"`},
		change: flagsOf(component.KCM, map[string]string{"controllers": "service,route,cloud-node-lifecycle,deployment"}),
	},
	{
		name:   "F26: a loop is off",
		code:   "CP-010",
		want:   warn,
		says:   []string{"the route loop is off, and stays off"},
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,-route"}),
	},
	{
		name:   "F27: the node lifecycle controller is off",
		code:   "CP-010",
		want:   warn,
		says:   []string{"nodes whose kubelet is gone stay Ready"},
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,-nodelifecycle"}),
	},
	{name: "no manager", code: "CP-010", want: unknwn, change: onlyAPIServers},

	{name: "a range is allocated", code: "CP-018", want: pass_, says: []string{"10.200.0.0/16 by RangeAllocator"}},
	{name: "nothing is allocated", code: "CP-018", want: pass_, change: flagsOf(component.KCM, map[string]string{"allocate-node-cidrs": "false"})},
	{
		name: "F28: the cloud allocates, and the manager is external",
		code: "CP-018",
		want: fails,
		says: []string{"CloudAllocator needs a cloud provider", "exits when it leads"},
		change: flagsOf(component.KCM, map[string]string{
			"cloud-provider": "external", "cidr-allocator-type": "CloudAllocator",
		}),
	},
	{
		name:   "F28: the cloud allocates, and the cloud is not gce",
		code:   "CP-018",
		want:   fails,
		says:   []string{"for gce alone"},
		change: flagsOf(component.KCM, map[string]string{"cidr-allocator-type": "CloudAllocator"}),
	},
	{
		name:   "no range",
		code:   "CP-018",
		want:   fails,
		says:   []string{"without --cluster-cidr"},
		change: flagsOf(component.KCM, map[string]string{"cluster-cidr": ""}),
	},
	{
		name:   "nodeipam is off in the list",
		code:   "CP-018",
		want:   warn,
		says:   []string{"switches nodeipam off"},
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,-nodeipam"}),
	},
	{
		name:   "routes without CIDRs",
		code:   "CP-018",
		want:   warn,
		says:   []string{"--configure-cloud-routes=true does nothing"},
		change: flagsOf(component.KCM, map[string]string{"allocate-node-cidrs": "false", "configure-cloud-routes": "true"}),
	},
	{name: "no manager", code: "CP-018", want: unknwn, change: onlyAPIServers},

	{name: "the ports are free", code: "CP-011", want: pass_, says: []string{"port 10258", "3 control-plane hosts"}},
	{
		name: "F44: somebody else listens on the new manager's port",
		code: "CP-011",
		want: fails,
		says: []string{"port 10258 of host cp-2", "DaemonSet/kube-system/cni", "ss -ltnp"},
		change: func(s *v1.Snapshot) {
			s.Workloads = []v1.Workload{
				{
					Ref:         "DaemonSet/kube-system/cni",
					Role:        v1.RoleCNI,
					Replicas:    5,
					HostNetwork: true,
					Nodes:       []string{s.Hosts[1].NodeName},
					Containers:  []v1.Container{{HostPorts: []int32{10258}}},
				},
			}
		},
	},
	{
		name:   "F44: two components on one port",
		code:   "CP-011",
		base:   migrated,
		want:   fails,
		says:   []string{"kube-controller-manager and cloud-controller-manager"},
		change: flagsOf(component.CCM, map[string]string{"secure-port": "10257"}),
	},
	{
		name:   "F44: a rolling update on the host's network",
		code:   "CP-011",
		want:   fails,
		says:   []string{"maxSurge 25%"},
		change: withWorkload(func(w *v1.Workload) { w.Strategy = "RollingUpdate" }),
	},
	{name: "a rolling update that takes one away first", code: "CP-011", want: pass_, change: withWorkload(func(w *v1.Workload) {
		w.Strategy, w.MaxSurge, w.Nodes = "RollingUpdate", "0", []string{"worker-1"}
	})},
	{name: "where it runs is not known", code: "CP-011", want: warn, says: []string{"port 10258", "where its pods run is not known"}, change: withWorkload(nil)},
	{name: "workloads could not be listed", code: "CP-011", want: unknwn, change: notGathered("workloads")},

	{name: "no such workload", code: "CP-012", want: pass_},
	{
		name:   "F20 F25: a chart's manager beside in-tree ones",
		code:   "CP-012",
		want:   fails,
		says:   []string{"Deployment/kube-system/aws-ccm", upstreamCCM, "kubectl -n kube-system delete deployment aws-ccm"},
		change: withWorkload(nil),
	},
	{
		name:   "F25: scaled to nothing",
		code:   "CP-012",
		want:   warn,
		says:   []string{"is scaled to 0"},
		change: withWorkload(func(w *v1.Workload) { w.Replicas, w.Ready = 0, 0 }),
	},
	{
		name: "F25: two managers by two leases",
		code: "CP-012",
		base: migrated,
		want: fails,
		says: []string{"2 leases", "Lease/kube-system/mine"},
		change: withWorkload(func(w *v1.Workload) {
			w.Containers[0].Flags["leader-elect-resource-name"] = "mine"
		}),
	},
	{name: "two managers by one lease", code: "CP-012", base: migrated, want: pass_, change: withWorkload(nil)},
	{name: "workloads could not be listed", code: "CP-012", want: unknwn, change: notGathered("workloads")},

	{name: "three hosts", code: "CP-013", want: pass_, says: []string{"leader-migration fits 3"}},
	{
		name:   "F48: one host",
		code:   "CP-013",
		want:   warn,
		says:   []string{"a second one to hand over to", "--strategy=downtime"},
		change: func(s *v1.Snapshot) { s.Hosts = s.Hosts[:1] },
	},
	{
		name:   "F48: one host, by downtime",
		code:   "CP-013",
		want:   pass_,
		opts:   facts.Options{Strategy: "downtime"},
		change: func(s *v1.Snapshot) { s.Hosts = s.Hosts[:1] },
	},
	{
		name: "three hosts, by downtime",
		code: "CP-013",
		want: warn,
		opts: facts.Options{Strategy: "downtime"},
		says: []string{"leader migration would keep them running"},
	},
	{
		name:   "three hosts, by downtime, of a version without leader migration",
		code:   "CP-013",
		want:   pass_,
		opts:   facts.Options{Strategy: "downtime"},
		says:   []string{"v1.20.15"},
		change: ofVersion("v1.20.15"),
	},
	{
		name: "three hosts on Azure, whose manager has no leader migration",
		code: "CP-013",
		base: onAzure,
		want: pass_,
		opts: facts.Options{Strategy: "downtime"},
		says: []string{"has none"},
	},
	{
		name: "leader migration on Azure, with our manager",
		code: "CP-013",
		base: onAzure,
		want: pass_,
		opts: facts.Options{Strategy: "leader-migration", Image: "ours"},
	},
	{
		name: "leader migration on Azure, which no plan takes with the official manager",
		code: "CP-013",
		base: onAzure,
		want: fails,
		opts: facts.Options{Strategy: "leader-migration"},
		says: []string{"has none", "--strategy=downtime"},
	},
	{
		name:   "a Deployment of two, by downtime, which is all that a plan takes",
		code:   "CP-013",
		want:   pass_,
		opts:   facts.Options{Strategy: "downtime"},
		says:   []string{"runs as a Deployment"},
		change: hostedCluster,
	},
	{
		name:   "one host that is replaced",
		code:   "CP-013",
		want:   warn,
		opts:   facts.Options{ReplaceHosts: true},
		says:   []string{"without --replace-hosts"},
		change: func(s *v1.Snapshot) { s.Hosts = s.Hosts[:1] },
	},
	{name: "a Deployment of two", code: "CP-013", want: pass_, says: []string{"2 kube-controller-managers"}, change: hostedCluster},
	{name: "a strategy that does not exist", code: "CP-013", want: fails, opts: facts.Options{Strategy: "yolo"}, says: []string{`"yolo"`}},
	{name: "no manager", code: "CP-013", want: unknwn, change: onlyAPIServers},
	{name: "everything is over", code: "CP-013", base: migrated, want: skipped},

	{name: "one provider", code: "CP-014", want: pass_},
	{
		name: "F51 F20: an API server was made external by hand",
		code: "CP-014",
		want: fails,
		says: []string{"kube-apiserver@cp-2 is external while kube-controller-manager of the same host is in-tree"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KAS, map[string]string{"cloud-provider": "external"})
		},
	},
	{
		name:   "an API server that is external in a run",
		code:   "CP-014",
		want:   warn,
		opts:   facts.Options{InProgress: true},
		change: func(s *v1.Snapshot) { setFlags(s, 1, component.KAS, map[string]string{"cloud-provider": "external"}) },
	},
	{
		name:   "an API server of another cloud",
		code:   "CP-014",
		want:   fails,
		says:   []string{"names gce"},
		change: flagsOf(component.KAS, map[string]string{"cloud-provider": "gce"}),
	},
	{
		name:   "F51: an API server that was forgotten",
		code:   "CP-014",
		base:   migrated,
		want:   fails,
		says:   []string{"names aws although"},
		change: flagsOf(component.KAS, map[string]string{"cloud-provider": "aws"}),
	},
	{
		name: "F51: a volume plugin without the config that its host still has",
		code: "CP-014",
		base: migrated,
		want: fails,
		says: []string{"without --cloud-config"},
		change: changes(
			flagsOf(
				component.KCM,
				map[string]string{"external-cloud-volume-plugin": "aws"},
			),
			flagsOf(component.KAS, map[string]string{"cloud-config": "/etc/kubernetes/cloud.conf"}),
		),
	},
	{
		name:   "F51: a volume plugin without its config",
		code:   "CP-014",
		base:   migrated,
		want:   fails,
		says:   []string{"without --cloud-config"},
		change: flagsOf(component.KCM, map[string]string{"external-cloud-volume-plugin": "azure"}),
	},
	{
		name:   "a volume plugin that needs no config",
		code:   "CP-014",
		base:   migrated,
		want:   pass_,
		change: flagsOf(component.KCM, map[string]string{"external-cloud-volume-plugin": "aws"}),
	},
	{
		name: "F51: a volume plugin that is not in tree",
		code: "CP-014",
		base: migrated,
		want: fails,
		says: []string{"in 1.27: aws left after 1.26"},
		change: changes(ofVersion("v1.27.4"), flagsOf(component.KCM, map[string]string{
			"external-cloud-volume-plugin": "aws", "cloud-config": "/etc/kubernetes/cloud.conf",
		})),
	},
	{
		name:   "a volume plugin beside the in-tree provider",
		code:   "CP-014",
		want:   fails,
		says:   []string{"has no effect"},
		change: flagsOf(component.KCM, map[string]string{"external-cloud-volume-plugin": "aws"}),
	},
	{
		name:   "a volume plugin with its config",
		code:   "CP-014",
		base:   migrated,
		want:   pass_,
		change: flagsOf(component.KCM, map[string]string{"external-cloud-volume-plugin": "aws", "cloud-config": "/etc/kubernetes/cloud.conf"}),
	},
	{name: "nothing is known of either", code: "CP-014", want: unknwn, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].Components = []v1.Component{{Name: component.Scheduler, Manifest: "/etc/kubernetes/manifests/kube-scheduler.yaml"}}
		}
	}},

	{name: "no tunnels", code: "CP-015", want: pass_, says: []string{"3 kube-apiservers reach"}},
	{
		name:   "F51: SSH tunnels",
		code:   "CP-015",
		want:   fails,
		says:   []string{"--ssh-user=core", "egress-selector", "konnectivity"},
		change: flagsOf(component.KAS, map[string]string{"ssh-user": "core", "ssh-keyfile": "/key"}),
	},
	{
		name:   "an egress selector",
		code:   "CP-015",
		want:   pass_,
		says:   []string{"through an egress selector"},
		change: flagsOf(component.KAS, map[string]string{"egress-selector-config-file": "/etc/kubernetes/egress.yaml"}),
	},
	{name: "no API server on the hosts", code: "CP-015", want: unknwn, change: onlyManagers},

	{name: "kubelets may label nothing", code: "CP-019", want: pass_, says: []string{"3 kube-apiservers run with admission plugin NodeRestriction"}},
	{
		name:   "the plugin is the deprecated flag's",
		code:   "CP-019",
		want:   pass_,
		change: flagsOf(component.KAS, map[string]string{"enable-admission-plugins": "", "admission-control": "NamespaceLifecycle, NodeRestriction"}),
	},
	{
		name:   "another plugin",
		code:   "CP-019",
		want:   warn,
		says:   []string{"3 kube-apiservers run without", "kube-apiserver@cp-1 has no NodeRestriction in --enable-admission-plugins", "grep"},
		change: flagsOf(component.KAS, map[string]string{"enable-admission-plugins": "NodeRestrictionX,PodNodeSelector"}),
	},
	{
		name:   "enabled and disabled",
		code:   "CP-019",
		want:   warn,
		says:   []string{"in --disable-admission-plugins"},
		change: flagsOf(component.KAS, map[string]string{"disable-admission-plugins": "NodeRestriction"}),
	},
	{
		name: "one of three",
		code: "CP-019",
		want: warn,
		says: []string{"1 kube-apiserver runs without", "kube-apiserver@cp-2"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KAS, map[string]string{"enable-admission-plugins": ""})
		},
	},
	{name: "no API server whose flags are known", code: "CP-019", want: skipped, change: onlyManagers},

	{name: "processes run what the files say", code: "CP-016", want: pass_, says: []string{"6 processes"}, change: started},
	{
		name: "a unit was edited and not restarted",
		code: "CP-016",
		want: fails,
		says: []string{"kube-controller-manager@cp-1", "but --cloud-provider=aws", "pidof kube-controller-manager"},
		change: changes(started, func(s *v1.Snapshot) {
			c := manager(s, 0, component.KCM)
			c.Runs, c.Unit = v1.RunsSystemd, "kube-controller-manager.service"
			c.Processes[0].Args = append(c.Processes[0].Args, "--cloud-provider=aws")
		}),
	},
	{name: "paths of a container and variables", code: "CP-016", want: pass_, change: changes(started, func(s *v1.Snapshot) {
		c := manager(s, 0, component.KCM)
		c.Command = []string{
			component.KCM,
			"--kubeconfig=/etc/kubernetes/controller-manager.conf",
			"--bind-address=$(POD_IP)",
			"--cloud-config",
			"/etc/ccm/cloud.conf",
			"--tls-cert-file=/a/x.crt,/a/y.key",
		}
		c.Pod.Command = c.Command
		c.Processes[0].Args = []string{
			component.KCM,
			"--kubeconfig=/run/root/etc/kubernetes/controller-manager.conf",
			"--bind-address=10.0.0.1",
			"--cloud-config",
			"/run/root/etc/kubernetes/cloud.conf",
			"--tls-cert-file=/r/a/x.crt,/r/a/y.key",
		}
	})},
	{
		name: "another file",
		code: "CP-016",
		want: fails,
		says: []string{"not --cloud-config=/etc/kubernetes/cloud.conf, but --cloud-config=/etc/kubernetes/old.conf"},
		change: changes(started, func(s *v1.Snapshot) {
			c := manager(s, 0, component.KCM)
			c.Command = []string{component.KCM, "--cloud-config=/etc/kubernetes/cloud.conf"}
			c.Pod.Command = c.Command
			c.Processes[0].Args = []string{component.KCM, "--cloud-config=/etc/kubernetes/old.conf"}
		}),
	},
	{name: "processes could not be listed", code: "CP-016", want: unknwn, change: changes(started, notGathered("hosts/cp-2/processes/kube-apiserver"))},
	{name: "no arguments were seen", code: "CP-016", want: skipped},
	{name: "a unit has no pod", code: "CP-005", want: pass_, says: []string{"5 pods"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Runs, manager(s, 0, component.KCM).Pod = v1.RunsSystemd, nil
	}},
	{
		name: "a Deployment whose pods are not ready",
		code: "CP-005",
		want: fails,
		says: []string{"1 of 2 replicas are ready"},
		change: changes(hostedCluster, func(s *v1.Snapshot) {
			s.Workloads = []v1.Workload{{Ref: "Deployment/kube-system/kube-controller-manager", Role: v1.RoleKCM, Replicas: 2, Ready: 1}}
		}),
	},
	{name: "a Deployment is in-tree", code: "CP-001", want: pass_, says: []string{"1 Deployment with --cloud-provider=aws"}, change: hostedCluster},

	{
		name:   "F20: a manager was added beside in-tree ones by hand",
		code:   "CP-007",
		want:   fails,
		says:   []string{"remove it", "mv --backup=numbered /etc/kubernetes/manifests/cloud-controller-manager.yaml /var/tmp/   # on host cp-1"},
		change: func(s *v1.Snapshot) { addCCM(s, 0, upstreamCCM) },
	},
	{
		name: "F20: one host was made external by hand",
		code: "CP-007",
		want: fails,
		says: []string{
			"external on cp-2, and no cloud loop runs while one of them leads",
			"cp -p /etc/kubernetes/manifests/kube-controller-manager.yaml /etc/kubernetes/kube-controller-manager.yaml.new && " +
				"sed -i 's|--cloud-provider=external|--cloud-provider=aws|' /etc/kubernetes/kube-controller-manager.yaml.new && " +
				"mv /etc/kubernetes/kube-controller-manager.yaml.new /etc/kubernetes/manifests/kube-controller-manager.yaml   # on host cp-2",
		},
		change: func(s *v1.Snapshot) {
			setFlags(s, 1, component.KCM, map[string]string{"cloud-provider": "external"})
		},
	},
	{
		name: "F20: two hosts were made external by hand, one of them without its cloud config",
		code: "CP-007",
		want: fails,
		says: []string{
			"external on cp-2, cp-3",
			`\1--cloud-config=/etc/kubernetes/cloud.conf\2|; s|--cloud-provider=external|`,
			"# on host cp-2; the pod has to mount /etc/kubernetes/cloud.conf again, too",
		},
		change: func(s *v1.Snapshot) {
			externalWithoutConfig(1)(s)
			setFlags(s, 2, component.KCM, map[string]string{"cloud-provider": "external"})
			manager(s, 1, component.KCM).HostPaths = map[string]string{"/etc/kubernetes/pki": "/etc/kubernetes/pki"}
		},
	},
	{
		name: "F20: the file of a host was removed, and its directory is mounted",
		code: "CP-007",
		want: fails,
		says: []string{"kube-controller-manager.yaml   # on host cp-2, cp-3"},
		change: func(s *v1.Snapshot) {
			externalWithoutConfig(1, 2)(s)
			manager(s, 1, component.KCM).HostPaths = map[string]string{"/etc/kubernetes": "/etc/kubernetes"}
		},
	},
	{
		name: "a unit was made external by hand",
		code: "CP-007",
		want: fails,
		says: []string{"systemctl edit --full kube-controller-manager.service   # on host cp-2"},
		change: func(s *v1.Snapshot) {
			externalWithoutConfig(1)(s)
			manager(s, 1, component.KCM).Runs, manager(s, 1, component.KCM).Unit = v1.RunsSystemd, "kube-controller-manager.service"
		},
	},
	{
		name:   "all hosts were made external and nothing took over",
		code:   "CP-007",
		want:   fails,
		says:   []string{"nothing runs the cloud loops"},
		change: flagsOf(component.KCM, map[string]string{"cloud-provider": "external"}),
	},
	{name: "the middle of the documented procedure", code: "CP-007", want: fails, says: []string{"the middle of KEP-2436"}, change: func(s *v1.Snapshot) {
		addCCM(s, 0, upstreamCCM)
		eachHost(s, component.KCM, map[string]string{"enable-leader-migration": "true"})
		setFlags(s, 0, component.CCM, map[string]string{"enable-leader-migration": "true"})
	}},
	{
		name:   "leader migration is on and nothing has moved",
		code:   "CP-007",
		want:   pass_,
		says:   []string{"leader migration is on in 3"},
		change: flagsOf(component.KCM, map[string]string{"enable-leader-migration": "true"}),
	},
	{name: "no manager", code: "CP-007", want: unknwn, change: onlyAPIServers},
	{name: "no manager", code: "CP-002", want: unknwn, change: onlyAPIServers},
	{name: "no manager", code: "CP-004", want: unknwn, change: onlyAPIServers},
	{name: "no component at all", code: "CP-003", want: unknwn, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].Components = nil
		}
	}},
	{name: "Deployments", code: "CP-003", want: pass_, says: []string{"1 Deployment"}, change: hostedCluster},
	{
		name: "the pods of a Deployment say what they run",
		code: "LM-006",
		want: fails,
		says: []string{"loop service runs in 2 managers", "Deployment/kube-system/kube-controller-manager/b"},
		change: changes(hostedCluster, func(s *v1.Snapshot) {
			s.Managers = []v1.Manager{
				{Component: component.KCM, Host: "Deployment/kube-system/kube-controller-manager/a", Loops: []string{"service"}},
				{Component: component.KCM, Host: "Deployment/kube-system/kube-controller-manager/b", Loops: []string{"service"}},
			}
		}),
	},

	{name: "everything is over, with a DaemonSet", code: "CP-007", base: migratedToDaemonSet, want: pass_, says: []string{"1 cloud-controller-manager"}},
	{name: "a DaemonSet is one manager", code: "CP-012", base: migratedToDaemonSet, want: pass_, says: []string{"DaemonSet/kube-system/aws-ccm"}},
	{
		name: "the pods of a DaemonSet are asked by host",
		code: "LM-006",
		base: migratedToDaemonSet,
		want: pass_,
		says: []string{"service in cloud-controller-manager@cp-1"},
	},
	{
		name:   "F25: a DaemonSet beside in-tree managers",
		code:   "CP-007",
		want:   fails,
		says:   []string{"remove it", "kubectl -n kube-system delete daemonset aws-ccm"},
		change: withWorkload(func(w *v1.Workload) { w.Ref = "DaemonSet/kube-system/aws-ccm" }),
	},
	{name: "a manager that is scaled to nothing owns nothing", code: "CP-007", want: pass_, change: func(s *v1.Snapshot) {
		none := int32(0)
		s.Hosted = []v1.Component{{Name: component.CCM, Runs: v1.RunsDeployment, Manifest: "Deployment/kube-system/ccm", Replicas: &none}}
	}},
	{
		name: "the control planes of other clusters, which run here",
		code: "CP-004",
		want: pass_,
		says: []string{"3 kube-controller-managers"},
		change: func(s *v1.Snapshot) {
			s.Hosted = []v1.Component{
				{Name: component.KCM, Runs: v1.RunsDeployment, Manifest: "Deployment/cluster-a/kcm", Flags: map[string]string{"cloud-provider": "gce"}},
			}
		},
	},
	{name: "downtime needs no lease", code: "LM-003", opts: facts.Options{Strategy: "downtime"}, want: skipped, says: []string{"no migration lease"}},

	{name: "kubeadm knows", code: "CP-017", want: pass_},
	{
		name: "F81: a flag was edited in the manifest alone",
		code: "CP-017",
		want: warn,
		says: []string{
			"--cloud-provider is external in the manifest and aws in kubeadm-config",
			"cp-1, cp-2, cp-3",
			"kubectl -n kube-system edit configmap kubeadm-config",
		},
		change: flagsOf(component.KCM, map[string]string{"cloud-provider": "external"}),
	},
	{
		name:   "another name of the cluster",
		code:   "CP-017",
		want:   warn,
		says:   []string{"--cluster-name is lab in the manifest, and kubeadm would write prod"},
		change: func(s *v1.Snapshot) { s.Kubeadm.ClusterName = "prod" },
	},
	{
		name:   "kubeadm's own list of controllers",
		code:   "CP-017",
		want:   pass_,
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,bootstrapsigner,tokencleaner"}),
	},
	{
		name:   "a list of controllers that kubeadm does not know",
		code:   "CP-017",
		want:   warn,
		says:   []string{"--controllers=*,-route stands in the manifest"},
		change: flagsOf(component.KCM, map[string]string{"controllers": "*,-route"}),
	},
	{
		name: "the order of gates means nothing",
		code: "CP-017",
		want: pass_,
		change: changes(flagsOf(component.KCM, map[string]string{"feature-gates": "B=true,A=true"}), func(s *v1.Snapshot) {
			s.Kubeadm.ExtraArgs["controllerManager"]["feature-gates"] = "A=true,B=true"
		}),
	},
	{name: "kubeadm did not make the cluster", code: "CP-017", want: skipped, says: []string{"what made it"}, change: func(s *v1.Snapshot) { s.Kubeadm = nil }},
	{name: "it does not parse", code: "CP-017", want: unknwn, says: []string{"line 3"}, change: func(s *v1.Snapshot) { s.Kubeadm.Error = "line 3: no" }},
	{name: "it could not be read", code: "CP-017", want: unknwn, change: func(s *v1.Snapshot) {
		s.Kubeadm = nil
		cannotGather(s, "kubeadm")
	}},
}
