package check

import (
	"maps"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/kubelet"
	"github.com/transplant-dev/transplant/internal/component"
)

const kubeadmFlagsEnv = "/var/lib/kubelet/kubeadm-flags.env"

// withKubelets gives the control-plane hosts of the healthy cluster in-tree kubelets that run with what their files say.
func withKubelets(s *v1.Snapshot) {
	for i := range s.Hosts {
		flags := map[string]string{"cloud-provider": "aws", "cloud-config": "/etc/kubernetes/cloud.conf", "config": "/var/lib/kubelet/config.yaml"}
		s.Hosts[i].Kubelet = &v1.Kubelet{
			Source: kubeadmFlagsEnv, SHA256: "cccc", Flags: flags, Version: "v1.26.0",
			Process: &v1.Process{PID: 700 + i, StartTicks: 3, State: "S", Args: kubeletArgs(flags)},
			Config:  &v1.KubeletConfig{Path: "/var/lib/kubelet/config.yaml", StaticPodPath: "/etc/kubernetes/manifests", RotateCertificates: true},
		}
	}
	s.KubeletDefaults = &v1.KubeletDefaults{Name: "kubelet-config"}
}

func kubeletArgs(flags map[string]string) []string {
	args := []string{"/usr/bin/kubelet"}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	return args
}

// kubeletFlags changes the flags of the i-th host's kubelet, in its files and its process.
func kubeletFlags(s *v1.Snapshot, i int, flags map[string]string) {
	k := s.Hosts[i].Kubelet
	maps.Copy(k.Flags, flags)
	k.Process.Args = kubeletArgs(k.Flags)
}

// kubeletVersion changes the version of the i-th host's kubelet.
func kubeletVersion(s *v1.Snapshot, i int, version string) {
	s.Hosts[i].Kubelet.Version, s.Nodes[i].KubeletVersion = version, version
}

// pulling gives the i-th node images of a registry of the cloud.
func pulling(s *v1.Snapshot, i int) {
	s.Nodes[i].Registries = []string{"123456789012.dkr.ecr.us-east-1.amazonaws.com"}
}

// credentials gives the i-th host's kubelet an image credential provider that answers.
func credentials(s *v1.Snapshot, i int) *v1.CredentialProviders {
	kubeletFlags(
		s,
		i,
		map[string]string{"image-credential-provider-config": "/etc/kubernetes/credentials.yaml", "image-credential-provider-bin-dir": "/usr/local/bin"},
	)
	s.Hosts[i].Kubelet.Credentials = &v1.CredentialProviders{
		ConfigPath: "/etc/kubernetes/credentials.yaml", BinDir: "/usr/local/bin", APIVersion: "kubelet.config.k8s.io/v1",
		Providers: []v1.CredentialProvider{{
			Name: "ecr-credential-provider", APIVersion: "credentialprovider.kubelet.k8s.io/v1", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com"}, Present: true,
			Asked: "123456789012.dkr.ecr.us-east-1.amazonaws.com/app", Answered: true,
		}},
	}
	return s.Hosts[i].Kubelet.Credentials
}

// withCredentialProvider is the healthy cluster with an image credential provider on the first host.
func withCredentialProvider() *v1.Snapshot {
	s := healthy()
	pulling(s, 0)
	credentials(s, 0)
	return s
}

// ownProviderOnly leaves the kubelet with a provider that is not the cloud's.
func ownProviderOnly(s *v1.Snapshot) {
	p := &s.Hosts[0].Kubelet.Credentials.Providers[0]
	p.Name, p.MatchImages = "own-credential-provider", []string{"registry.example"}
}

func noHostKubelets(s *v1.Snapshot) {
	for i := range s.Hosts {
		s.Hosts[i].Kubelet = nil
	}
}

var kubeletRules = []ruleCase{
	{name: "F85: those that matter were read", code: "KUBELET-001", want: pass_, says: []string{"3 of 5 kubelets"}},
	{
		name:   "F85: a worker that pulls from the cloud was not read",
		code:   "KUBELET-001",
		want:   warn,
		says:   []string{"ip-10-0-1-11.ec2.internal", "--host-access"},
		change: func(s *v1.Snapshot) { pulling(s, 3) },
	},
	{
		name:   "F85: a worker with in-tree volumes was not read",
		code:   "KUBELET-001",
		want:   warn,
		says:   []string{"kubernetes.io/aws-ebs"},
		change: func(s *v1.Snapshot) { mountInTree(s, 4) },
	},
	{
		name:   "the flags of one are not known",
		code:   "KUBELET-001",
		want:   unknwn,
		says:   []string{"cp-2", "no unit"},
		change: func(s *v1.Snapshot) { s.Hosts[1].Kubelet = &v1.Kubelet{Error: "no unit"} },
	},
	{name: "one could not be read", code: "KUBELET-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet") }},
	{name: "no host has one", code: "KUBELET-001", want: skipped, says: []string{"--host-access"}, change: noHostKubelets},

	{name: "F85: they run with what their files say", code: "KUBELET-002", want: pass_, says: []string{"3 kubelets run"}},
	{
		name: "F85: the file was edited and the kubelet not restarted",
		code: "KUBELET-002",
		want: fails,
		says: []string{`kubelet@cp-2 runs with --cloud-provider="aws"`, `says "external"`, kubeadmFlagsEnv},
		change: func(s *v1.Snapshot) {
			s.Hosts[1].Kubelet.Flags["cloud-provider"] = "external"
		},
	},
	{
		name: "F81: the provider is given in two places",
		code: "KUBELET-002",
		want: warn,
		says: []string{"given --cloud-provider 2 times (external, aws)", "/etc/default/kubelet"},
		change: func(s *v1.Snapshot) {
			k := s.Hosts[0].Kubelet
			k.Process.Args = slices.Insert(k.Process.Args, 1, "--cloud-provider", "external")
			k.Sources = map[string]string{"cloud-provider": "/etc/default/kubelet"}
		},
	},
	{
		name:   "one shows no process",
		code:   "KUBELET-002",
		want:   unknwn,
		says:   []string{"kubelet@cp-3"},
		change: func(s *v1.Snapshot) { s.Hosts[2].Kubelet.Process = nil },
	},
	{name: "processes could not be read", code: "KUBELET-002", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet-process") }},
	{name: "none shows a process", code: "KUBELET-002", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].Kubelet.Process = nil
		}
	}},

	{name: "all name one provider", code: "KUBELET-003", want: pass_, says: []string{"3 with aws", "2 not read"}},
	{
		name: "F83 F23: one is external before the managers",
		code: "KUBELET-003",
		want: warn,
		says: []string{"2 with aws, 1 with external", "kubelet@cp-1 is external before"},
		change: func(s *v1.Snapshot) {
			kubeletFlags(s, 0, map[string]string{"cloud-provider": "external"})
		},
	},
	{
		name:   "one names another provider",
		code:   "KUBELET-003",
		want:   fails,
		says:   []string{"names gce, and the managers aws"},
		change: func(s *v1.Snapshot) { kubeletFlags(s, 0, map[string]string{"cloud-provider": "gce"}) },
	},
	{
		name:   "one of a version without the provider",
		code:   "KUBELET-003",
		want:   fails,
		says:   []string{`kubelet 1.27 has no provider "aws"`},
		change: func(s *v1.Snapshot) { kubeletVersion(s, 0, "v1.27.4") },
	},
	{name: "the gate switches the provider off", code: "KUBELET-003", want: fails, says: []string{"DisableCloudProviders is on"}, change: func(s *v1.Snapshot) {
		s.Hosts[0].Kubelet.Config.FeatureGates = map[string]bool{"DisableCloudProviders": true}
	}},
	{
		name: "in-tree ones after the migration, in their last version",
		code: "KUBELET-003",
		base: migrated,
		want: warn,
		says: []string{"still in-tree"},
		change: func(s *v1.Snapshot) {
			kubeletFlags(s, 0, map[string]string{"cloud-provider": "aws"})
		},
	},
	{
		name:   "one could not be read",
		code:   "KUBELET-003",
		want:   skipped,
		says:   []string{"KUBELET-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet") },
	},

	{name: "nodes could not be listed", code: "KUBELET-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "the hosts have the nodes' names", code: "KUBELET-004", want: pass_, change: func(s *v1.Snapshot) { labelHostnames(s) }},
	{
		name: "F01 F02 F81: the name came from the cloud, and the plan keeps it",
		code: "KUBELET-004",
		want: warn,
		says: []string{"1 node has its name from the cloud: the plan gives --hostname-override",
			"ip-10-0-0-12.ec2.internal would come back as ip-10-0-0-12"},
		change: func(s *v1.Snapshot) {
			labelHostnames(s)
			s.Nodes[1].Labels[facts.LabelHostname] = "ip-10-0-0-12"
		},
	},
	{
		name: "F01 F02 F81: the name came from the cloud, to a kubelet that no plan changes",
		code: "KUBELET-004",
		want: fails,
		says: []string{"ip-10-0-0-12.ec2.internal would come back as ip-10-0-0-12"},
		change: func(s *v1.Snapshot) {
			labelHostnames(s)
			s.Nodes[1].Labels[facts.LabelHostname] = "ip-10-0-0-12"
			kubeletFlags(s, 1, map[string]string{"cloud-provider": "openstack"})
		},
	},
	{
		name: "F81: the name of a kubelet that a migration left in-tree",
		code: "KUBELET-004",
		base: migrated,
		want: fails,
		says: []string{"would come back as ip-10-0-0-12"},
		change: func(s *v1.Snapshot) {
			labelHostnames(s)
			s.Nodes[1].Labels[facts.LabelHostname] = "ip-10-0-0-12"
			kubeletFlags(s, 1, map[string]string{"cloud-provider": "aws"})
		},
	},
	{
		name: "F81: the name of a worker that was not read",
		code: "KUBELET-004",
		want: warn,
		says: []string{"ip-10-0-1-12.ec2.internal would come back as worker-2"},
		change: func(s *v1.Snapshot) {
			labelHostnames(s)
			s.Nodes[4].Labels[facts.LabelHostname] = "worker-2"
		},
	},
	{name: "F81: the name is kept by --hostname-override", code: "KUBELET-004", want: pass_, change: func(s *v1.Snapshot) {
		labelHostnames(s)
		s.Nodes[0].Labels[facts.LabelHostname] = "cp-1"
		kubeletFlags(s, 0, map[string]string{"hostname-override": s.Nodes[0].Name})
	}},
	{name: "nodes could not be listed", code: "KUBELET-004", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "F09: 1.26 fills in its addresses", code: "KUBELET-005", want: pass_, says: []string{"all 5 nodes"}},
	{
		name:   "F09: 1.29 without --node-ip",
		code:   "KUBELET-005",
		want:   warn,
		says:   []string{"ip-10-0-0-11.ec2.internal (v1.29.3)"},
		change: func(s *v1.Snapshot) { kubeletVersion(s, 0, "v1.29.3") },
	},
	{name: "F09: 1.29 with --node-ip", code: "KUBELET-005", want: pass_, change: func(s *v1.Snapshot) {
		kubeletVersion(s, 0, "v1.29.3")
		kubeletFlags(s, 0, map[string]string{"node-ip": "10.0.0.11"})
	}},
	{name: "nodes could not be listed", code: "KUBELET-005", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "flags that both versions know", code: "KUBELET-006", want: pass_},
	{
		name:   "F81: a flag that went",
		code:   "KUBELET-006",
		want:   fails,
		says:   []string{"1.26 does not take --network-plugin"},
		change: func(s *v1.Snapshot) { kubeletFlags(s, 1, map[string]string{"network-plugin": "cni"}) },
	},
	{
		name: "a gate that the next version does not know",
		code: "KUBELET-006",
		want: warn,
		says: []string{"1.27 does not take feature gate"},
		change: func(s *v1.Snapshot) {
			s.Hosts[1].Kubelet.Config.FeatureGates = map[string]bool{"ExpandCSIVolumes": true}
		},
	},
	{name: "gates that keep a kubelet in-tree and go with the migration", code: "KUBELET-006", want: pass_, change: func(s *v1.Snapshot) {
		kubeletVersion(s, 1, "v1.30.0")
		s.Hosts[1].Kubelet.Config.FeatureGates = map[string]bool{"DisableCloudProviders": false}
	}},
	{
		name:   "its configuration could not be read",
		code:   "KUBELET-006",
		want:   skipped,
		says:   []string{"KUBELET-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet-config") },
	},
	{
		name:   "the version is not known",
		code:   "KUBELET-006",
		want:   unknwn,
		says:   []string{"kubelet@cp-1"},
		change: func(s *v1.Snapshot) { kubeletVersion(s, 0, "") },
	},

	{name: "F81: the defaults agree", code: "KUBELET-007", want: pass_, says: []string{"ConfigMap/kube-system/kubelet-config", "3 kubelets"}},
	{
		name: "F81: kubeadm would take a gate away",
		code: "KUBELET-007",
		want: warn,
		says: []string{"CSIMigrationAWS=true where the ConfigMap has nothing"},
		change: func(s *v1.Snapshot) {
			s.Hosts[2].Kubelet.Config.FeatureGates = map[string]bool{"CSIMigrationAWS": true}
		},
	},
	{
		name:   "a gate of another matter",
		code:   "KUBELET-007",
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Hosts[2].Kubelet.Config.FeatureGates = map[string]bool{"SwapOn": true} },
	},
	{
		name:   "F81: one providerID for every node",
		code:   "KUBELET-007",
		want:   fails,
		says:   []string{"aws:///us-east-1a/i-1"},
		change: func(s *v1.Snapshot) { s.KubeletDefaults.ProviderID = "aws:///us-east-1a/i-1" },
	},
	{name: "not kubeadm's", code: "KUBELET-007", want: skipped, change: func(s *v1.Snapshot) { s.KubeletDefaults = nil }},
	{name: "the ConfigMap could not be read", code: "KUBELET-007", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "kubelet-defaults") }},

	{name: "F08: no kubelet asks", code: "KUBELET-008", want: pass_, says: []string{"no kubelet asks"}},
	{
		name:   "F08: a request waits",
		code:   "KUBELET-008",
		want:   warn,
		says:   []string{"csr-1 of ip-10-0-1-11.ec2.internal waits", "kubectl certificate approve csr-1"},
		change: func(s *v1.Snapshot) { serving(s, "Pending", time.Hour) },
	},
	{
		name:   "F08: a request was denied",
		code:   "KUBELET-008",
		want:   warn,
		says:   []string{"is denied", "kubectl delete csr csr-1"},
		change: func(s *v1.Snapshot) { serving(s, "Denied", time.Hour) },
	},
	{
		name:   "F08: kubelets ask and nobody is known to approve",
		code:   "KUBELET-008",
		want:   warn,
		says:   []string{"no approver", "serverTLSBootstrap"},
		change: func(s *v1.Snapshot) { s.KubeletDefaults.ServerTLSBootstrap = true },
	},
	{name: "kubelets ask and are answered", code: "KUBELET-008", want: pass_, says: []string{"an approver answers"}, change: func(s *v1.Snapshot) {
		serving(s, "Pending", time.Minute)
		s.Workloads = append(s.Workloads, v1.Workload{Ref: "Deployment/kube-system/approver", Role: v1.RoleCSRApprover, Replicas: 1, Ready: 1})
	}},
	{name: "requests could not be listed", code: "KUBELET-008", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "csrs") }},

	{name: "none is told", code: "KUBELET-009", want: pass_, says: []string{"none of 3 kubelets"}},
	{
		name:   "F81: one is told its neighbour's",
		code:   "KUBELET-009",
		want:   fails,
		says:   []string{"kubelet@cp-2 is told"},
		change: func(s *v1.Snapshot) { s.Hosts[1].Kubelet.Config.ProviderID = s.Nodes[0].ProviderID },
	},
	{
		name:   "one is told its own",
		code:   "KUBELET-009",
		want:   pass_,
		says:   []string{"1 of 3"},
		change: func(s *v1.Snapshot) { s.Hosts[1].Kubelet.Config.ProviderID = s.Nodes[1].ProviderID },
	},
	{name: "nodes could not be listed", code: "KUBELET-009", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "no image of the cloud's registry", code: "PULL-001", want: pass_, says: []string{"no image on 5 nodes"}},
	{name: "F80: the provider is there", code: "PULL-001", base: withCredentialProvider, want: pass_, says: []string{"1 node with images"}},
	{
		name:   "F80: it will be needed",
		code:   "PULL-001",
		want:   warn,
		says:   []string{"ecr-credential-provider", "123456789012.dkr.ecr.us-east-1.amazonaws.com"},
		change: func(s *v1.Snapshot) { pulling(s, 0) },
	},
	{
		name:   "F80: a worker that was not read",
		code:   "PULL-001",
		want:   warn,
		says:   []string{"its kubelet was not read"},
		change: func(s *v1.Snapshot) { pulling(s, 3) },
	},
	{
		name: "F80: the built-in one is gone with the version",
		code: "PULL-001",
		want: fails,
		says: []string{"kubelet 1.27 has no built-in credentials"},
		change: func(s *v1.Snapshot) {
			pulling(s, 3)
			s.Nodes[3].KubeletVersion = "v1.27.0"
		},
	},
	{
		name: "F80: the built-in one is off by its gate",
		code: "PULL-001",
		want: fails,
		says: []string{"DisableKubeletCloudCredentialProviders is on"},
		change: func(s *v1.Snapshot) {
			pulling(s, 0)
			kubeletFlags(s, 0, map[string]string{"feature-gates": "DisableKubeletCloudCredentialProviders=true"})
		},
	},
	{name: "OpenStack has none", code: "PULL-001", want: skipped, says: []string{"openstack"}, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "openstack"})
		}
	}},
	{name: "nodes could not be listed", code: "PULL-001", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},

	{name: "none is named", code: "PULL-002", want: skipped},
	{name: "F80: it answers", code: "PULL-002", base: withCredentialProvider, want: pass_, says: []string{"1 of them answered"}},
	{
		name: "F80: its binary is not there",
		code: "PULL-002",
		base: withCredentialProvider,
		want: fails,
		says: []string{"cp-1 has no executable /usr/local/bin/ecr-credential-provider"},
		change: func(s *v1.Snapshot) {
			s.Hosts[0].Kubelet.Credentials.Providers[0].Present = false
		},
	},
	{name: "F80: it does not answer", code: "PULL-002", base: withCredentialProvider, want: fails, says: []string{"no role"}, change: func(s *v1.Snapshot) {
		p := &s.Hosts[0].Kubelet.Credentials.Providers[0]
		p.Answered, p.Error = false, "no role"
	}},
	{
		name:   "its configuration is broken",
		code:   "PULL-002",
		base:   withCredentialProvider,
		want:   fails,
		says:   []string{"line 2"},
		change: func(s *v1.Snapshot) { s.Hosts[0].Kubelet.Credentials.Error = "line 2: no kind" },
	},
	{
		name:   "it could not be looked at",
		code:   "PULL-002",
		base:   withCredentialProvider,
		want:   unknwn,
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/credential-providers") },
	},

	{name: "F80: v1 and 1.26", code: "PULL-003", base: withCredentialProvider, want: pass_},
	{
		name: "F80: v1 and 1.25",
		code: "PULL-003",
		base: withCredentialProvider,
		want: fails,
		says: []string{"kubelet 1.25 of cp-1 does not read /etc/kubernetes/credentials.yaml of kubelet.config.k8s.io/v1"},
		change: func(s *v1.Snapshot) {
			kubeletVersion(s, 0, "v1.25.0")
		},
	},
	{
		name: "a protocol that the kubelet does not speak",
		code: "PULL-003",
		base: withCredentialProvider,
		want: fails,
		says: []string{"credentialprovider.kubelet.k8s.io/v2"},
		change: func(s *v1.Snapshot) {
			s.Hosts[0].Kubelet.Credentials.Providers[0].APIVersion = "credentialprovider.kubelet.k8s.io/v2"
		},
	},
	{
		name: "F80: an alpha version that may go",
		code: "PULL-003",
		base: withCredentialProvider,
		want: warn,
		says: []string{"v1alpha1"},
		change: func(s *v1.Snapshot) {
			s.Hosts[0].Kubelet.Credentials.APIVersion = "kubelet.config.k8s.io/v1alpha1"
		},
	},
	{
		name: "F80: the gate of 1.22 is off",
		code: "PULL-003",
		base: withCredentialProvider,
		want: fails,
		says: []string{"KubeletCredentialProviders is off in kubelet 1.22"},
		change: func(s *v1.Snapshot) {
			kubeletVersion(s, 0, "v1.22.0")
			c := s.Hosts[0].Kubelet.Credentials
			c.APIVersion, c.Providers[0].APIVersion = "kubelet.config.k8s.io/v1alpha1", "credentialprovider.kubelet.k8s.io/v1alpha1"
		},
	},
	{name: "the version is not known", code: "PULL-003", base: withCredentialProvider, want: unknwn, change: func(s *v1.Snapshot) { kubeletVersion(s, 0, "") }},

	{name: "F80: every registry is matched", code: "PULL-004", base: withCredentialProvider, want: pass_, says: []string{"1 registry is matched"}},
	{
		name: "F80: a registry in China is not",
		code: "PULL-004",
		base: withCredentialProvider,
		want: fails,
		says: []string{"no provider of cp-1 matches 123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"},
		change: func(s *v1.Snapshot) {
			s.Nodes[0].Registries = append(s.Nodes[0].Registries, "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn")
		},
	},
	{
		name: "F80: a plan adds the cloud's provider to others", code: "PULL-004", base: withCredentialProvider, want: pass_,
		opts:   facts.Options{CredentialProvider: true},
		says:   []string{"1 registry is matched"},
		change: ownProviderOnly,
	},
	{
		name: "F80: no plan adds it", code: "PULL-004", base: withCredentialProvider, want: fails,
		says:   []string{"no provider of cp-1 matches 123456789012.dkr.ecr.us-east-1.amazonaws.com", "--credential-provider"},
		change: ownProviderOnly,
	},
	{
		name: "F80: the cloud's provider is there, for others, and stays so", code: "PULL-004", base: withCredentialProvider, want: fails,
		opts: facts.Options{CredentialProvider: true},
		says: []string{"no provider of cp-1 matches"},
		change: func(s *v1.Snapshot) {
			s.Hosts[0].Kubelet.Credentials.Providers[0].MatchImages = []string{"registry.example"}
		},
	},
	{
		name: "F80: a kubelet that is external already gets none", code: "PULL-004", base: withCredentialProvider, want: fails,
		opts: facts.Options{CredentialProvider: true},
		says: []string{"no provider of cp-1 matches"},
		change: func(s *v1.Snapshot) {
			ownProviderOnly(s)
			kubeletFlags(s, 0, map[string]string{"cloud-provider": "external"})
		},
	},
	{name: "nodes could not be listed", code: "PULL-004", base: withCredentialProvider, want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "nodes") }},
}

func labelHostnames(s *v1.Snapshot) {
	for i, n := range s.Nodes {
		s.Nodes[i].Labels = maps.Clone(n.Labels)
		if s.Nodes[i].Labels == nil {
			s.Nodes[i].Labels = map[string]string{}
		}
		s.Nodes[i].Labels[facts.LabelHostname] = n.Name
	}
}

// serving is a request of a kubelet for a serving certificate.
func serving(s *v1.Snapshot, state string, age time.Duration) {
	s.CertificateRequests = append(s.CertificateRequests, v1.CertificateRequest{
		Name: "csr-1", SignerName: kubelet.SignerServing, Username: "system:node:ip-10-0-1-11.ec2.internal", State: state, Created: taken.Add(-age),
		Names: []string{"ip-10-0-1-11.ec2.internal"},
	})
}
