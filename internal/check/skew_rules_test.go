package check

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// ofVersion makes the cluster one of another version, kubelets included.
func ofVersion(version string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Cluster.Version = version
		if s.Kubeadm != nil {
			s.Kubeadm.KubernetesVersion = version
		}
		for i := range s.Nodes {
			s.Nodes[i].KubeletVersion = version
		}
		for i := range s.Hosts {
			for j := range s.Hosts[i].Components {
				c := &s.Hosts[i].Components[j]
				if c.Name != component.CCM {
					c.Image = "registry.k8s.io/" + c.Name + ":" + version
				}
			}
		}
	}
}

// changes makes several changes, in order.
func changes(all ...func(*v1.Snapshot)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for _, c := range all {
			c(s)
		}
	}
}

func flagsOf(name string, flags map[string]string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { eachHost(s, name, flags) }
}

func noVersion(s *v1.Snapshot) {
	for i := range s.Hosts {
		for j := range s.Hosts[i].Components {
			s.Hosts[i].Components[j].Image = "localhost:5000/x"
		}
	}
	s.Cluster.Version = "devel"
}

// previewOf takes the second node's providerID and gives the new provider's answer about it.
func previewOf(id, err string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Nodes[1].ProviderID = ""
		s.Preview = &v1.Preview{Provider: "aws", Nodes: []v1.NodePreview{{Node: s.Nodes[1].Name, Found: true, ProviderID: id, Error: err}}}
	}
}

// pulled gives every control-plane node the images of a version.
func pulled(version string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Nodes {
			for _, name := range []string{component.KAS, component.KCM, component.Scheduler} {
				s.Nodes[i].ControlPlaneImages = append(s.Nodes[i].ControlPlaneImages, "registry.k8s.io/"+name+":"+version)
			}
		}
	}
}

var skewRules = []ruleCase{
	{name: "no version changes", code: "VER-012", want: skipped, says: []string{"--target-version is not given"}},
	{name: "hosts are replaced", code: "VER-012", want: skipped, opts: facts.Options{ReplaceHosts: true, TargetVersion: "v1.27.4"}},
	{
		name:   "every image is there",
		code:   "VER-012",
		want:   pass_,
		opts:   facts.Options{TargetVersion: "v1.27.4"},
		change: changes(ofVersion("v1.26.0"), pulled("v1.27.4")),
	},
	{
		name:   "images have to be pulled",
		code:   "VER-012",
		want:   warn,
		opts:   facts.Options{TargetVersion: "v1.27.4"},
		change: ofVersion("v1.26.0"),
		says: []string{
			"on 3 control-plane hosts",
			"cp-1 has no registry.k8s.io/kube-apiserver:v1.27.4",
			"crictl pull registry.k8s.io/kube-controller-manager:v1.27.4",
		},
	},
	{name: "images that say no version", code: "VER-012", want: unknwn, opts: facts.Options{TargetVersion: "v1.27.4"}, change: noVersion},
	{
		name: "our manager fits the version to come",
		code: "VER-001",
		want: pass_,
		opts: facts.Options{TargetVersion: "v1.27.4"},
		says: []string{"v1.27.4, to which the plan upgrades it"},
	},
	{
		name: "a manager of the version before fits the version to come",
		code: "VER-001",
		want: pass_,
		opts: facts.Options{TargetVersion: "v1.27.4", Image: "r/cloud-controller-manager:v1.26.1"},
	},
	{
		name: "a manager that is too old for the version to come",
		code: "VER-001",
		want: fails,
		opts: facts.Options{TargetVersion: "v1.27.4", Image: "r/cloud-controller-manager:v1.25.1"},
	},
	{
		name:   "a kubelet that fits now and not the version to come",
		code:   "VER-006",
		want:   fails,
		opts:   facts.Options{TargetVersion: "v1.27.4"},
		says:   []string{"3 minor versions older"},
		change: changes(ofVersion("v1.26.0"), func(s *v1.Snapshot) { s.Nodes[1].KubeletVersion = "v1.24.2" }),
	},
	{
		name:   "kubelets of the version before fit the version to come",
		code:   "VER-006",
		want:   pass_,
		opts:   facts.Options{TargetVersion: "v1.27.4"},
		change: ofVersion("v1.26.0"),
	},
	{
		name: "the plan goes to the next version itself",
		code: "VER-008",
		want: skipped,
		opts: facts.Options{TargetVersion: "v1.27.4"},
		says: []string{"the plan goes to v1.27.4"},
	},
	{name: "known", code: "VER-004", want: pass_, says: []string{"v1.26.0", "1.20"}},
	{name: "1.19 is too old", code: "VER-004", want: fails, says: []string{"v1.19.16", "1.20 or later"}, change: ofVersion("v1.19.16")},
	{name: "1.20 has no leader migration", code: "VER-004", want: fails, says: []string{"v1.20.15", "--strategy=downtime"}, change: ofVersion("v1.20.15")},
	{name: "1.20 by downtime", code: "VER-004", want: pass_, opts: facts.Options{Strategy: "downtime"}, change: ofVersion("v1.20.15")},
	{name: "a version that cannot be compared", code: "VER-004", want: unknwn, change: func(s *v1.Snapshot) { s.Cluster.Version = "devel" }},

	{name: "the gates are off by default in 1.26", code: "VER-005", want: pass_},
	{name: "F47: 1.29 switches the in-tree provider off by default", code: "VER-005", want: fails, says: []string{
		"kube-controller-manager@cp-1 (1.29)", "by default", "exits as soon as it leads", "DisableCloudProviders=false",
	}, change: ofVersion("v1.29.3")},
	{
		name:   "F47: the API server of 1.29 does not start with the gate",
		code:   "VER-005",
		want:   fails,
		says:   []string{"kube-apiserver@cp-2", "it does not start"},
		change: ofVersion("v1.29.3"),
	},
	{name: "1.29 with both gates off", code: "VER-005", want: pass_, change: changes(ofVersion("v1.29.3"),
		flagsOf(component.KCM, map[string]string{"feature-gates": "DisableCloudProviders=false,DisableKubeletCloudCredentialProviders=false"}),
		flagsOf(component.KAS, map[string]string{"feature-gates": "DisableKubeletCloudCredentialProviders=false,DisableCloudProviders=false"}))},
	{
		name: "the lines were left behind beside external",
		code: "VER-005",
		base: migrated,
		want: fails,
		says: []string{"is external while DisableCloudProviders is off (given as false)"},
		change: changes(ofVersion("v1.30.2"),
			flagsOf(component.KAS, map[string]string{"feature-gates": "DisableCloudProviders=false"})),
	},
	{name: "given twice, the values add up", code: "VER-005", want: pass_, change: changes(ofVersion("v1.29.3"), func(s *v1.Snapshot) {
		for i := range s.Hosts {
			for _, name := range []string{component.KAS, component.KCM} {
				c := manager(s, i, name)
				c.Command = []string{name, "--feature-gates=DisableCloudProviders=false", "--feature-gates", "DisableKubeletCloudCredentialProviders=false"}
				c.Flags["feature-gates"] = "DisableKubeletCloudCredentialProviders=false"
			}
		}
	})},
	{name: "no version", code: "VER-005", want: unknwn, change: noVersion},

	{name: "kubelets of the same version", code: "VER-006", want: pass_, says: []string{"all 5 nodes", "v1.26.0"}},
	{name: "F47: kubelets two minors behind", code: "VER-006", want: pass_, change: func(s *v1.Snapshot) { s.Nodes[3].KubeletVersion = "v1.24.17" }},
	{
		name:   "F47: kubelets three minors behind",
		code:   "VER-006",
		want:   fails,
		says:   []string{"1 of 5 nodes", "3 minor versions older", "1.24 to 1.26"},
		change: func(s *v1.Snapshot) { s.Nodes[3].KubeletVersion = "v1.23.1" },
	},
	{
		name:   "three are allowed from 1.28 on",
		code:   "VER-006",
		want:   pass_,
		change: changes(ofVersion("v1.28.1"), func(s *v1.Snapshot) { s.Nodes[3].KubeletVersion = "v1.25.1" }),
	},
	{
		name:   "a kubelet that is newer",
		code:   "VER-006",
		want:   fails,
		says:   []string{"is newer than the API server"},
		change: func(s *v1.Snapshot) { s.Nodes[3].KubeletVersion = "v1.27.1" },
	},
	{name: "a kubelet without a version", code: "VER-006", want: unknwn, change: func(s *v1.Snapshot) { s.Nodes[3].KubeletVersion = "" }},
	{name: "nodes could not be listed", code: "VER-006", want: unknwn, change: noNodes},

	{name: "one version", code: "VER-007", want: pass_, says: []string{"6 components"}},
	{
		name: "an upgrade of one host",
		code: "VER-007",
		want: fails,
		says: []string{"kube-apiserver is ", "v1.27.1 on cp-1", "kubeadm upgrade plan"},
		change: func(s *v1.Snapshot) {
			manager(s, 0, component.KAS).Image = "registry.k8s.io/kube-apiserver:v1.27.1"
		},
	},
	{
		name:   "F92: kubeadm was told another minor",
		code:   "VER-007",
		want:   fails,
		says:   []string{"kubeadm-config says v1.27.0"},
		change: func(s *v1.Snapshot) { s.Kubeadm.KubernetesVersion = "v1.27.0" },
	},
	{
		name:   "hosts are replaced by newer ones",
		code:   "VER-007",
		want:   warn,
		opts:   facts.Options{ReplaceHosts: true},
		change: func(s *v1.Snapshot) { manager(s, 0, component.KAS).Image = "registry.k8s.io/kube-apiserver:v1.27.1" },
	},
	{name: "patch versions", code: "VER-007", want: warn, says: []string{"v1.26.3 on cp-1"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Image = "registry.k8s.io/kube-controller-manager:v1.26.3"
	}},
	{
		name:   "an image without a version",
		code:   "VER-007",
		want:   unknwn,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "localhost:5000/kcm@sha256:aa" },
	},
	{name: "kubeadm-config could not be read", code: "VER-007", want: unknwn, change: func(s *v1.Snapshot) {
		s.Kubeadm = nil
		cannotGather(s, "kubeadm")
	}},

	{name: "F92: the last version", code: "VER-010", want: pass_, says: []string{"1.26 is the last version", "migrate before the next upgrade"}},
	{name: "F92: versions are left", code: "VER-010", want: pass_, says: []string{"ends after 1.26", "may be upgraded up to it"}, change: ofVersion("v1.24.9")},
	{
		name:   "F92: a kubelet is past the end",
		code:   "VER-010",
		want:   fails,
		says:   []string{"ip-10-0-1-12.ec2.internal", "past 1.26"},
		change: func(s *v1.Snapshot) { s.Nodes[4].KubeletVersion = "v1.27.0" },
	},
	{
		name:   "kubeadm is past the end",
		code:   "VER-010",
		want:   fails,
		says:   []string{"kubeadm-config is v1.27.0"},
		change: func(s *v1.Snapshot) { s.Kubeadm.KubernetesVersion = "v1.27.0" },
	},
	{name: "nodes could not be listed", code: "VER-010", want: unknwn, change: noNodes},
	{name: "nothing in-tree", code: "VER-010", base: migrated, want: skipped},

	{name: "every flag is known", code: "VER-009", want: pass_, says: []string{"6 components", "1.26"}},
	{
		name:   "F47: a flag that went",
		code:   "VER-009",
		want:   fails,
		says:   []string{"kube-apiserver@cp-1", "--insecure-port"},
		change: flagsOf(component.KAS, map[string]string{"insecure-port": "0"}),
	},
	{
		name:   "F47: a gate that came later",
		code:   "VER-009",
		want:   fails,
		says:   []string{"feature gate CloudDualStackNodeIPs", "grep -n"},
		change: flagsOf(component.KCM, map[string]string{"feature-gates": "CloudDualStackNodeIPs=true"}),
	},
	{
		name:   "a gate that is locked",
		code:   "VER-009",
		want:   fails,
		says:   []string{"ControllerManagerLeaderMigration=false (locked to true)"},
		change: flagsOf(component.KCM, map[string]string{"feature-gates": "ControllerManagerLeaderMigration=false"}),
	},
	{
		name: "a flag that went, in a Deployment",
		code: "VER-009",
		want: fails,
		says: []string{`kubectl -n kube-system get deployment kube-controller-manager -o yaml | grep -n -- "--port"`},
		change: changes(hostedCluster, func(s *v1.Snapshot) {
			s.Hosted[0].Flags["port"] = "0"
		}),
	},
	{name: "a vendor's own gate", code: "VER-009", want: pass_, change: flagsOf(component.KCM, map[string]string{"feature-gates": "AcmeFastPath=true"})},
	{name: "no version", code: "VER-009", want: unknwn, change: noVersion},

	{name: "the next version knows all", code: "VER-008", want: pass_, says: []string{"1.27"}},
	{
		name:   "F47: a gate that goes with the next version",
		code:   "VER-008",
		want:   warn,
		says:   []string{"1.27 does not take feature gate ControllerManagerLeaderMigration"},
		change: flagsOf(component.KCM, map[string]string{"feature-gates": "ControllerManagerLeaderMigration=true"}),
	},
	{name: "no version", code: "VER-008", want: unknwn, change: noVersion},

	{name: "all nodes have one", code: "VER-011", want: pass_, says: []string{"0.37", "all 5 nodes"}},
	{
		name:   "F05: a node that nobody can name",
		code:   "VER-011",
		want:   fails,
		says:   []string{"never initialise 1 node", "ip-10-0-0-12.ec2.internal", "kubectl patch node"},
		change: previewOf("", ""),
	},
	{name: "F05: the provider finds it", code: "VER-011", want: pass_, change: previewOf("aws:///us-east-1a/i-2", "")},
	{name: "F05: the provider did not answer", code: "VER-011", want: warn, says: []string{"--prove"}, change: previewOf("", "throttled")},
	{
		name:   "an older library does not mind",
		code:   "VER-011",
		want:   pass_,
		opts:   facts.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.1"},
		says:   []string{"0.26"},
		change: previewOf("", ""),
	},
	{name: "nodes could not be listed", code: "VER-011", want: unknwn, change: noNodes},

	{name: "F47: a scheduler that is newer", code: "VER-003", want: fails, says: []string{"kube-scheduler@cp-1 is 1.27"}, change: func(s *v1.Snapshot) {
		s.Hosts[0].Components = append(s.Hosts[0].Components, newComponent(component.Scheduler, "registry.k8s.io/kube-scheduler:v1.27.0", nil))
	}},
	{
		name:   "a provider that has no successor",
		code:   "VER-002",
		want:   fails,
		says:   []string{"Apache CloudStack, which Transplant cannot move"},
		change: flagsOf(component.KCM, map[string]string{"cloud-provider": "cloudstack"}),
	},
	{name: "the official manager for a version that ours is not proven with", code: "VER-001", want: pass_, says: []string{"1.24"}, change: ofVersion("v1.24.9")},
}
