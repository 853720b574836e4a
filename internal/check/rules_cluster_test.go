package check

import (
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

var ownershipRules = []ruleCase{
	{
		name: "each loop has one owner",
		code: "LM-006",
		want: pass_,
		says: []string{"service in kube-controller-manager@cp-1", "nodeipam in kube-controller-manager@cp-1"},
	},
	{
		name: "each loop has one owner, after",
		code: "LM-006",
		base: migrated,
		want: pass_,
		says: []string{"service in cloud-controller-manager@cp-1", "nodeipam in kube-controller-manager@cp-1"},
	},
	{
		name: "F20: two managers run a loop",
		code: "LM-006",
		base: migrated,
		want: fails,
		says: []string{"loop service runs in 2 managers", "cloud-controller-manager@cp-1", "cloud-controller-manager@cp-3"},
		change: func(s *v1.Snapshot) {
			ccmManager(s, "cp-3").Loops = []string{"service"}
		},
	},
	{name: "nobody runs a loop", code: "LM-006", want: fails, says: []string{"loop route runs nowhere"}, change: func(s *v1.Snapshot) {
		s.Managers[0].Loops = []string{"cloud-node-lifecycle", "nodeipam", "service"}
	}},
	{name: "a loop that is switched off runs nowhere", code: "LM-006", want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"controllers": "*,-route"})
		}
		s.Managers[0].Loops = []string{"cloud-node-lifecycle", "nodeipam", "service"}
	}},
	{name: "no node IPAM without CIDRs to allocate", code: "LM-006", want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"allocate-node-cidrs": "false"})
		}
		s.Managers[0].Loops = []string{"cloud-node-lifecycle", "service"}
	}},
	{
		name:   "a manager cannot be scraped",
		code:   "LM-006",
		want:   unknwn,
		says:   []string{"kube-controller-manager@cp-3: connection refused"},
		change: func(s *v1.Snapshot) { s.Managers[2].Error = "connection refused" },
	},
	{
		name:   "a manager was not scraped",
		code:   "LM-006",
		want:   unknwn,
		says:   []string{"kube-controller-manager@cp-3"},
		change: func(s *v1.Snapshot) { s.Managers = s.Managers[:2] },
	},
	{name: "two owners are seen although a third does not answer", code: "LM-006", want: fails, change: func(s *v1.Snapshot) {
		s.Managers[1].Loops = []string{"service"}
		s.Managers[2].Error = "connection refused"
	}},

	{name: "no lease", code: "LM-007", want: skipped},
	{name: "the lease has run out", code: "LM-007", want: skipped, change: func(s *v1.Snapshot) { s.Leases = []v1.Lease{heldLease("cp-1_x", time.Minute)} }},
	{name: "the holder runs the loops", code: "LM-007", want: pass_, change: func(s *v1.Snapshot) {
		s.Leases = []v1.Lease{heldLease("cp-1_x", time.Second)}
		s.Managers[0].Leads = []string{component.MigrationLease, component.KCM}
	}},
	{
		name: "the holder runs nothing",
		code: "LM-007",
		base: migrated,
		want: fails,
		says: []string{"kube-controller-manager@cp-2", "cp-2_x"},
		change: func(s *v1.Snapshot) {
			s.Leases = []v1.Lease{heldLease("cp-2_x", time.Second)}
			s.Managers[1].Leads = []string{component.MigrationLease}
		},
	},
	{
		name:   "the holder is none of ours",
		code:   "LM-007",
		want:   fails,
		says:   []string{"elsewhere_x"},
		change: func(s *v1.Snapshot) { s.Leases = []v1.Lease{heldLease("elsewhere_x", time.Second)} },
	},
	{name: "the holder may be one that does not answer", code: "LM-007", want: unknwn, change: func(s *v1.Snapshot) {
		s.Leases = []v1.Lease{heldLease("cp-2_x", time.Second)}
		s.Managers[1].Error = "timeout"
	}},
	{name: "leases could not be listed", code: "LM-007", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "leases") }},

	{name: "an in-tree owner", code: "GAP-001", want: warn, says: []string{"may still write when it wakes: for up to 10s", "longer than its lease (15s)"}},
	{
		name: "an in-tree owner with flags, and a plan",
		code: "GAP-001",
		want: warn,
		opts: facts.Options{RenewDeadline: "5s"},
		says: []string{"may still write when it wakes: for up to 8s", "sets it to 5s"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 0, component.KCM, map[string]string{"leader-elect-renew-deadline": "8s"})
		},
	},
	{name: "no in-tree owner", code: "GAP-001", base: migrated, want: skipped},
}

var versionRules = []ruleCase{
	{name: "within our range", code: "VER-001", want: pass_, says: []string{"1.24 to 1.37", "is tested"}},
	{
		name: "of the minor that ours is built from", code: "VER-001", want: pass_, says: []string{"that our cloud-controller-manager is built from"},
		change: func(s *v1.Snapshot) { s.Cluster.Version = "v1.37.2" },
	},
	{
		name:   "before our range",
		code:   "VER-001",
		want:   fails,
		opts:   facts.Options{Image: "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"},
		says:   []string{"v1.23.4", "1.24 to 1.37"},
		change: func(s *v1.Snapshot) { s.Cluster.Version = "v1.23.4" },
	},
	{name: "after our range", code: "VER-001", want: fails, change: func(s *v1.Snapshot) { s.Cluster.Version = "v1.38.0" }},
	{
		name: "another image of the same minor",
		code: "VER-001",
		want: pass_,
		opts: facts.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.1"},
	},
	{name: "F47: another image that is newer", code: "VER-001", want: fails, opts: facts.Options{Image: upstreamCCM}, says: []string{"1.25 or 1.26"}},
	{
		name: "no image is known",
		code: "VER-001",
		want: fails,
		says: []string{"no cloud-controller-manager is known for gce and Kubernetes v1.22.4", "--image="},
		change: func(s *v1.Snapshot) {
			s.Cluster.Version, s.Cluster.Provider = "v1.22.4", "gce"
			eachComponent(s, func(c *v1.Component) { c.Flags = map[string]string{"cloud-provider": "gce"} })
		},
	},
	{name: "another image without a version", code: "VER-001", want: unknwn, opts: facts.Options{Image: "example.com/ccm:latest"}},
	{name: "a version that cannot be compared", code: "VER-001", want: unknwn, change: func(s *v1.Snapshot) { s.Cluster.Version = "devel" }},
	{name: "a vendor's version", code: "VER-001", want: pass_, change: func(s *v1.Snapshot) { s.Cluster.Version = "v1.27.3-eks-a5565ad" }},

	{name: "1.26 has AWS", code: "VER-002", want: pass_},
	{name: "F92: 1.27 has not", code: "VER-002", want: fails, says: []string{"aws left after 1.26"}, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Image = "registry.k8s.io/kube-controller-manager:v1.27.4"
	}},
	{
		name:   "a provider that never was",
		code:   "VER-002",
		want:   fails,
		says:   []string{`"awz"`},
		change: func(s *v1.Snapshot) { setFlags(s, 0, component.KCM, map[string]string{"cloud-provider": "awz"}) },
	},
	{name: "the image has no tag and the cluster no version", code: "VER-002", want: unknwn, change: func(s *v1.Snapshot) {
		manager(s, 0, component.KCM).Image = "localhost:5000/kcm"
		s.Cluster.Version = "devel"
	}},
	{
		name:   "the image has no tag",
		code:   "VER-002",
		want:   pass_,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "localhost:5000/kcm@sha256:aa" },
	},
	{name: "nothing in-tree", code: "VER-002", base: migrated, want: skipped},

	{name: "the same version", code: "VER-003", want: pass_},
	{
		name:   "a manager one minor behind",
		code:   "VER-003",
		want:   pass_,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "r/kube-controller-manager:v1.25.0" },
	},
	{
		name:   "F47: a manager that is newer",
		code:   "VER-003",
		want:   fails,
		says:   []string{"kube-controller-manager@cp-1 is 1.27"},
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "r/kube-controller-manager:v1.27.0" },
	},
	{
		name:   "a manager two minors behind",
		code:   "VER-003",
		want:   fails,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "r/kube-controller-manager:v1.24.0" },
	},
	{name: "units whose programs say their version", code: "VER-003", want: pass_, change: ofUnits("v1.26.0")},
	{name: "a unit whose program is newer", code: "VER-003", want: fails, says: []string{"is 1.27"}, change: ofUnits("v1.27.1")},
	{
		name:   "units whose programs were not asked",
		code:   "VER-003",
		want:   unknwn,
		says:   []string{"the program of unit kube-controller-manager.service was not asked"},
		change: ofUnits(""),
	},
	{name: "units of one version", code: "VER-007", want: pass_, change: ofUnits("v1.26.0")},
	{name: "an upgrade of one unit", code: "VER-007", want: fails, says: []string{"kube-controller-manager is "}, change: ofUnits("v1.27.1")},
	{
		name:   "an image without a tag",
		code:   "VER-003",
		want:   unknwn,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).Image = "r/kube-controller-manager" },
	},
}

// withoutConfigs takes the cloud config from every component, or makes its flag an empty one, under a provider.
func withoutConfigs(provider string, empty bool) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Cluster.Provider = provider
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = nil
			for j := range s.Hosts[i].Components {
				flags := s.Hosts[i].Components[j].Flags
				if flags["cloud-provider"] != "" {
					flags["cloud-provider"] = provider
				}
				if _, has := flags["cloud-config"]; has && empty {
					flags["cloud-config"] = ""
				} else {
					delete(flags, "cloud-config")
				}
			}
		}
	}
}

var configRules = []ruleCase{
	{
		name: "a Deployment with its config on a volume",
		code: "CFG-001",
		want: warn,
		says: []string{"the first phase derives the external provider's config from it", "get deployment kube-controller-manager"},
		change: changes(hostedCluster, func(s *v1.Snapshot) {
			s.Hosted[0].Flags["cloud-config"] = "/etc/cloud/config"
		}),
	},
	{name: "with changes", code: "CFG-001", want: pass_, says: []string{"1 change", "renamed ServiceOverride ec2 to EC2"}},
	{name: "as it is", code: "CFG-001", want: pass_, says: []string{"as it is"}, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig.DerivedChanges = nil
		}
	}},
	{
		name:   "F40: it does not parse",
		code:   "CFG-001",
		want:   fails,
		says:   []string{"line 3"},
		change: func(s *v1.Snapshot) { s.Hosts[0].CloudConfig.Error = "line 3: no section" },
	},
	{name: "one manager names none", code: "CFG-001", want: warn, says: []string{"cp-2 has no --cloud-config, and others have one"}, change: func(s *v1.Snapshot) {
		delete(manager(s, 1, component.KCM).Flags, "cloud-config")
		s.Hosts[1].CloudConfig = nil
	}},
	{name: "no manager names one, on AWS", code: "CFG-001", want: pass_, says: []string{"needs none", "metadata service"}, change: withoutConfigs("aws", false)},
	{name: "every manager names an empty one, on AWS", code: "CFG-001", want: pass_, says: []string{"needs none"}, change: withoutConfigs("aws", true)},
	{name: "no manager names one, on Google", code: "CFG-001", want: pass_, says: []string{"needs none", "project"}, change: withoutConfigs("gce", false)},
	{
		name:   "no manager names one, on Azure",
		code:   "CFG-001",
		want:   fails,
		says:   []string{"no --cloud-config", "azure-cloud-provider"},
		change: withoutConfigs("azure", false),
	},
	{
		name:   "every manager names an empty one, on OpenStack",
		code:   "CFG-001",
		want:   fails,
		says:   []string{"neither manager starts"},
		change: withoutConfigs("openstack", true),
	},
	{
		name:   "no manager names one, on vSphere",
		code:   "CFG-001",
		want:   fails,
		says:   []string{"takes its machine for a worker"},
		change: withoutConfigs("vsphere", false),
	},
	{
		name: "ours refuses several load balancers on Azure",
		code: "CFG-001",
		base: onAzure,
		opts: facts.Options{Image: "ours"},
		want: fails,
		says: []string{"this manager has one load balancer of each kind", "transplant plan --image=official"},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"multipleStandardLoadBalancerConfigurations": ""})
		},
	},
	{
		name: "the official manager takes several load balancers on Azure",
		code: "CFG-001",
		base: onAzure,
		want: pass_,
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"multipleStandardLoadBalancerConfigurations": ""})
		},
	},
	{
		name:   "ours reads no Secret on Azure",
		code:   "CFG-001",
		base:   onAzure,
		opts:   facts.Options{Image: "ours"},
		want:   fails,
		says:   []string{"cloudConfigType is secret"},
		change: func(s *v1.Snapshot) { configSettings(s, 0, map[string]string{"CloudConfigType": "Secret"}) },
	},
	{
		name: "ours reads the file on Azure",
		code: "CFG-001",
		base: onAzure,
		opts: facts.Options{Image: "ours"},
		want: pass_,
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"cloudConfigType": "file", "serviceGatewayEnabled": "false"})
		},
	},
	{
		name: "ours refuses to manage security groups on OpenStack",
		code: "CFG-001",
		base: openstackCluster,
		opts: facts.Options{Image: "ours"},
		want: fails,
		says: []string{
			"this manager changes no security group", "loadBalancerSourceRanges is not enforced", "lb-sg-* with rules in the nodes' group stay behind",
			"Set it to false", "30000-32767", "transplant plan --image=official",
		},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"LoadBalancer.manage-security-groups": "Yes", "LoadBalancer.enabled": "true"})
		},
	},
	{
		name: "ours leaves security groups alone on OpenStack",
		code: "CFG-001",
		base: openstackCluster,
		opts: facts.Options{Image: "ours"},
		want: pass_,
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"LoadBalancer.manage-security-groups": "false"})
		},
	},
	{
		name: "no in-tree manager has managed security groups on OpenStack",
		code: "CFG-001",
		base: openstackCluster,
		opts: facts.Options{Image: "official"},
		want: pass_,
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"LoadBalancer.manage-security-groups": "true", "LoadBalancer.enabled": "off"})
		},
	},
	{
		name: "ours has no load balancers to manage groups for on OpenStack",
		code: "CFG-001",
		base: openstackCluster,
		opts: facts.Options{Image: "ours"},
		want: pass_,
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"LoadBalancer.manage-security-groups": "true", "LoadBalancer.enabled": "no"})
		},
	},
	{
		name: "the in-tree manager has managed security groups on OpenStack by half, whichever manager follows",
		code: "CFG-001",
		base: openstackCluster,
		opts: facts.Options{Image: "official"},
		want: warn,
		says: []string{
			"in tree half of it is applied: loadBalancerSourceRanges is not enforced", "lb-sg-* with rules in the nodes' group stay behind",
			"Set it to false", "External managers enforce loadBalancerSourceRanges",
		},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"LoadBalancer.manage-security-groups": "true"})
		},
	},
	{name: "it could not be read", code: "CFG-001", want: unknwn, change: func(s *v1.Snapshot) {
		s.Hosts[0].CloudConfig = nil
		cannotGather(s, "hosts/cp-1/cloud-config")
	}},
	{name: "the snapshot lacks it", code: "CFG-001", want: unknwn, change: func(s *v1.Snapshot) { s.Hosts[0].CloudConfig = nil }},

	{
		name:   "no credentials in the environment",
		code:   "CRED-001",
		want:   pass_,
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).EnvNames = []string{"AWS_REGION"} },
	},
	{
		name:   "credentials in the environment",
		code:   "CRED-001",
		want:   warn,
		says:   []string{"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "--ccm-env"},
		change: inEnvironment,
	},
	{
		name:   "credentials in the environment and a file for the new manager",
		code:   "CRED-001",
		want:   pass_,
		opts:   facts.Options{CCMEnv: []string{"AWS_SHARED_CREDENTIALS_FILE"}},
		change: inEnvironment,
	},
	{
		name:   "credentials in the environment, and nobody runs the loops meanwhile",
		code:   "CRED-001",
		want:   fails,
		opts:   facts.Options{Strategy: facts.StrategyDowntime},
		says:   []string{"the new manager would not get them"},
		change: inEnvironment,
	},
	{name: "a region is no credential", code: "CRED-001", want: warn, opts: facts.Options{CCMEnv: []string{"AWS_REGION"}}, change: inEnvironment},
}

func inEnvironment(s *v1.Snapshot) {
	manager(s, 0, component.KCM).EnvNames = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HOME"}
}

func noNodes(s *v1.Snapshot) {
	s.Nodes = nil
	cannotGather(s, "nodes")
}

var nodeRules = []ruleCase{
	{name: "every node has one", code: "NODE-001", want: pass_, says: []string{"all 5 nodes"}},
	{
		name:   "F04 F05: a node has none",
		code:   "NODE-001",
		want:   fails,
		says:   []string{"ip-10-0-0-12.ec2.internal", "1 of 5 nodes has no providerID"},
		change: func(s *v1.Snapshot) { s.Nodes[1].ProviderID = "" },
	},
	{name: "nodes could not be listed", code: "NODE-001", want: unknwn, change: noNodes},
	{name: "there are no nodes", code: "NODE-001", want: unknwn, change: func(s *v1.Snapshot) { s.Nodes = nil }},

	{name: "the cloud knows them", code: "NODE-002", want: pass_},
	{
		name:   "F12 F91: the cloud does not know one",
		code:   "NODE-002",
		want:   fails,
		says:   []string{"i-00000000000000002", "node ready: True"},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[1].Found = false },
	},
	{
		name:   "one is terminated",
		code:   "NODE-002",
		want:   fails,
		says:   []string{"is terminated"},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[1].State = "terminated" },
	},
	{
		name:   "F01: one has another name",
		code:   "NODE-002",
		want:   fails,
		says:   []string{"has the private DNS name ip-1"},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[1].PrivateDNSName = "ip-1.ec2.internal" },
	},
	{name: "one is named after its instance", code: "NODE-002", want: pass_, change: func(s *v1.Snapshot) {
		s.Nodes[1].Name, s.Cloud.Instances[1].Node = s.Cloud.Instances[1].ID, s.Cloud.Instances[1].ID
	}},
	{name: "a stopped instance stays", code: "NODE-002", want: pass_, change: func(s *v1.Snapshot) { s.Cloud.Instances[1].State = "stopped" }},
	{name: "the cloud did not answer for one", code: "NODE-002", want: unknwn, says: []string{"instances: throttled"}, change: func(s *v1.Snapshot) {
		s.Cloud.Instances = s.Cloud.Instances[1:]
		s.Cloud.Errors = []string{"instances: throttled"}
	}},
	{name: "the cloud was not asked", code: "NODE-002", want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},

	{name: "all ready", code: "NODE-003", want: pass_},
	{name: "one is not", code: "NODE-003", want: warn, says: []string{"Ready is Unknown"}, change: func(s *v1.Snapshot) { s.Nodes[3].Ready = "Unknown" }},
	{name: "nodes could not be listed", code: "NODE-003", want: unknwn, change: noNodes},

	{name: "none waits", code: "NODE-004", want: pass_},
	{
		name:   "F22: one waits",
		code:   "NODE-004",
		want:   warn,
		change: func(s *v1.Snapshot) { s.Nodes[3].Taints = []string{component.TaintUninitialized + "=true:NoSchedule"} },
	},
	{name: "nodes could not be listed", code: "NODE-004", want: unknwn, change: noNodes},

	{name: "no label", code: "LB-001", want: pass_},
	{
		name:   "a label that says true",
		code:   "LB-001",
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Nodes[3].Labels = map[string]string{facts.LabelExclude: "true"} },
	},
	{name: "a label without a value", code: "LB-001", want: pass_, change: func(s *v1.Snapshot) { s.Nodes[3].Labels = map[string]string{facts.LabelExclude: ""} }},
	{
		name: "a label that says false",
		code: "LB-001",
		want: warn,
		says: []string{"kubectl label --overwrite node ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) {
			s.Nodes[3].Labels = map[string]string{facts.LabelExclude: "false"}
		},
	},
	{name: "nodes could not be listed", code: "LB-001", want: unknwn, change: noNodes},
}

var cloudRules = []ruleCase{
	{name: "everything was read", code: "CLOUD-001", want: pass_, says: []string{"5 routes"}},
	{name: "F12 F90: it was not asked", code: "CLOUD-001", want: unknwn, says: []string{"--cloud=aws"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},
	{name: "it could not be opened", code: "CLOUD-001", want: unknwn, says: []string{"reading cloud"}, change: func(s *v1.Snapshot) {
		s.Cloud = nil
		cannotGather(s, "cloud")
	}},
	{
		name:   "a part could not be read",
		code:   "CLOUD-001",
		want:   unknwn,
		says:   []string{"loadbalancers: AccessDenied"},
		change: func(s *v1.Snapshot) { s.Cloud.Errors = []string{"loadbalancers: AccessDenied"} },
	},

	{name: "every route has its node", code: "ROUTE-001", want: pass_, says: []string{"5 routes"}},
	{
		name: "a route leads to no node",
		code: "ROUTE-001",
		want: fails,
		says: []string{"i-gone", "aws ec2 delete-route --route-table-id rtb-lab --destination-cidr-block 10.200.9.0/24"},
		change: func(s *v1.Snapshot) {
			s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: "10.200.9.0/24", Target: "i-gone", State: "active"})
		},
	},
	{
		name:   "a route leads to an instance that is gone",
		code:   "ROUTE-001",
		want:   fails,
		says:   []string{"which the cloud does not know"},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[4].Found = false },
	},
	{
		name:   "a route is a blackhole",
		code:   "ROUTE-001",
		want:   fails,
		says:   []string{"blackhole"},
		change: func(s *v1.Snapshot) { s.Cloud.Routes[4].State = "blackhole" },
	},
	{name: "routes to gateways are not looked at", code: "ROUTE-001", want: pass_, change: func(s *v1.Snapshot) {
		s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: "10.9.0.0/16", Target: "eni-1", State: "active"})
	}},
	{name: "no route loop", code: "ROUTE-001", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"configure-cloud-routes": "false"})
		}
	}},
	{name: "routes could not be read", code: "ROUTE-001", want: unknwn, change: func(s *v1.Snapshot) {
		s.Cloud.Routes, s.Cloud.Errors = nil, []string{"routes: AccessDenied"}
	}},
	{name: "nodes could not be listed", code: "ROUTE-001", want: unknwn, change: noNodes},
	{name: "the cloud was not asked", code: "ROUTE-001", want: skipped, change: func(s *v1.Snapshot) { s.Cloud = nil }},
}

// ofUnits makes units of the components; that of the first kube-controller-manager says the version, all others the cluster's.
func ofUnits(version string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			for j := range s.Hosts[i].Components {
				c := &s.Hosts[i].Components[j]
				c.Runs, c.Unit, c.Image, c.Version = v1.RunsSystemd, c.Name+".service", "", s.Cluster.Version
			}
		}
		manager(s, 0, component.KCM).Version = version
	}
}
