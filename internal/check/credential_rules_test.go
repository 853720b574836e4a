package check

import (
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// withIdentities gives the instances of the healthy cluster an identity, and a metadata service that pods can reach.
func withIdentities(s *v1.Snapshot) {
	hops := 2
	for i := range s.Cloud.Instances {
		s.Cloud.Instances[i].Profile, s.Cloud.Instances[i].MetadataHops = true, &hops
	}
}

// onAzure names Azure in every manager of the healthy cluster.
func onAzure() *v1.Snapshot {
	s := healthy()
	for i := range s.Hosts {
		setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "azure"})
	}
	return s
}

// onCloudStack is on a cloud of which no program can be asked.
func onCloudStack() *v1.Snapshot {
	s := healthy()
	for i := range s.Hosts {
		setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "cloudstack"})
	}
	return s
}

// onAzureAfter is a migrated cluster on Azure with the official manager and cloud-node-manager.
func onAzureAfter() *v1.Snapshot {
	s := migrated()
	for i := range s.Hosts {
		setFlags(s, i, component.CCM, map[string]string{"cloud-provider": "azure", "controllers": "*,-cloud-node"})
		for j := range s.Hosts[i].Components {
			if c := &s.Hosts[i].Components[j]; c.Name == component.CCM {
				c.Image = "mcr.microsoft.com/oss/kubernetes/azure-cloud-controller-manager:v1.26.19"
			}
		}
	}
	s.Workloads = append(s.Workloads, v1.Workload{Ref: "DaemonSet/kube-system/cloud-node-manager", Role: v1.RoleNodeManager, Replicas: 5, Ready: 5})
	return s
}

// nodeManagerOn adds a cloud-node-manager with a node selector and so many pods. It takes the place of one that selects
// every node.
func nodeManagerOn(selector map[string]string, pods int32) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Workloads = slices.DeleteFunc(s.Workloads, func(w v1.Workload) bool {
			return w.Role == v1.RoleNodeManager && len(w.NodeSelector) == 0
		})
		s.Workloads = append(s.Workloads, v1.Workload{
			Ref:  "DaemonSet/kube-system/cloud-node-manager-" + selector["kubernetes.io/os"],
			Role: v1.RoleNodeManager, NodeSelector: selector, Replicas: pods, Ready: pods,
		})
	}
}

// configSettings adds keys to the cloud config of the i-th host.
func configSettings(s *v1.Snapshot, i int, settings map[string]string) {
	c := s.Hosts[i].CloudConfig
	for key, value := range settings {
		c.Keys = append(c.Keys, key)
		if c.Settings == nil {
			c.Settings = map[string]string{}
		}
		c.Settings[key] = value
	}
}

// tokensEnd gives every manager a token that ends so long after the snapshot.
func tokensEnd(after time.Duration) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].ManagerToken = &v1.ManagerToken{Path: "/etc/kubernetes/cloud-controller-manager/token", Expires: s.TakenAt.Add(after)}
		}
	}
}

func tokenInSeed(after time.Duration) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Cluster.Seed = "cluster-x"
		s.SeedToken = &v1.ManagerToken{Path: "Secret/cluster-x/ccm", Expires: s.TakenAt.Add(after)}
	}
}

// secretIn puts a client secret into the cloud config of the first host, a file of the mode.
func secretIn(s *v1.Snapshot, mode string) {
	c := s.Hosts[0].CloudConfig
	c.Keys = append(c.Keys, "aadClientSecret")
	if mode != "" {
		s.Hosts[0].Files = append(s.Hosts[0].Files, v1.File{Path: c.Path, Present: true, Mode: mode})
	}
}

// envFile are options that name a file with credentials to the new manager.
func envFile(path string) facts.Options {
	return facts.Options{CCMEnv: []string{"AWS_SHARED_CREDENTIALS_FILE"}, CCMFiles: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": path}}
}

// hasFiles are the hosts that have a file ccm.<host>, which was looked for on all of them.
func hasFiles(hosts ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			h := &s.Hosts[i]
			there := slices.Contains(hosts, h.Name)
			h.Files = append(h.Files, v1.File{Path: "/etc/kubernetes/ccm." + h.Name, Present: there}, v1.File{Path: "/etc/kubernetes/ccm.cp-2", Present: there})
		}
	}
}

func ccmWorkload() v1.Workload {
	return v1.Workload{
		Ref:           "Deployment/kube-system/aws-cloud-controller-manager",
		Role:          v1.RoleCCM,
		HostNetwork:   true,
		PriorityClass: "system-cluster-critical",
		Replicas:      2,
		Ready:         2,
		Containers:    []v1.Container{{Name: "manager", Image: upstreamCCM, Requests: map[string]string{"cpu": "100m", "memory": "128Mi"}}},
	}
}

var credentialRules = []ruleCase{
	{name: "F40: every key is understood", code: "CFG-002", want: pass_, says: []string{"3 cloud configs"}},
	{
		name: "F40: a key that no provider knows",
		code: "CFG-002",
		want: warn,
		says: []string{"Global.Zonne is no key of the external provider", "grep -n Zonne /etc/kubernetes/cloud.conf", "host cp-2"},
		change: func(s *v1.Snapshot) {
			s.Hosts[1].CloudConfig.Problems = []string{"Global.Zonne is no key of the external provider"}
		},
	},
	{
		name: "a kubelet's cloud config has one",
		code: "CFG-002",
		want: warn,
		says: []string{"cp-1:/etc/kubernetes/kubelet-cloud.conf"},
		change: func(s *v1.Snapshot) {
			s.Hosts[0].CloudConfigs = []v1.CloudConfig{{Path: "/etc/kubernetes/kubelet-cloud.conf", Problems: []string{"Global.X: unknown"}}}
		},
	},
	{name: "no external config can be derived", code: "CFG-002", want: skipped, says: []string{"CFG-001"}, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig.Error = "Global.secret-name: its Secret is read in tree only"
		}
	}},
	{name: "no cloud config", code: "CFG-002", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = nil
		}
	}},
	{
		name:   "it could not be read",
		code:   "CFG-002",
		want:   skipped,
		says:   []string{"CFG-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/cloud-config") },
	},

	{name: "F40: nothing changes", code: "CFG-003", want: pass_},
	{
		name: "a key that is read in tree only",
		code: "CFG-003",
		want: pass_,
		says: []string{"Global.DisableStrictZoneCheck is read in tree only"},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"Global.DisableStrictZoneCheck": "true"})
		},
	},
	{name: "F40: a default that changes", code: "CFG-003", want: warn, says: []string{"loadBalancerSku is not set"}, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig.Provider = "azure"
		}
	}},
	{name: "F40: the type of machines on Azure", code: "CFG-003", base: onAzure, want: warn, says: []string{"vmType is not set: standard in tree, vmss outside"}},
	{name: "F40: the type of machines and of load balancers on Azure is given", code: "CFG-003", base: onAzure, want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			configSettings(s, i, map[string]string{"vmType": "standard", "loadBalancerSku": "basic", "primaryAvailabilitySetName": "prod-as"})
		}
	}},
	{name: "F40: it is written down by the derivation", code: "CFG-003", base: onAzure, want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			configSettings(s, i, map[string]string{"primaryAvailabilitySetName": "prod-as"})
			s.Hosts[i].CloudConfig.DerivedChanges = []string{"vmType: standard is written down: x", "loadBalancerSku: basic is written down: x"}
		}
	}},
	{
		name: "the machines' availability set is not named",
		code: "CFG-003",
		base: onAzure,
		want: warn,
		says: []string{"primaryAvailabilitySetName is not set, and vmType is standard", "stays a member of its load balancers"},
		change: func(s *v1.Snapshot) {
			for i := range s.Hosts {
				configSettings(s, i, map[string]string{"vmType": "standard", "loadBalancerSku": "basic"})
			}
		},
	},
	{name: "scale sets have no such name", code: "CFG-003", base: onAzure, want: pass_, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			configSettings(s, i, map[string]string{"vmType": "vmss", "loadBalancerSku": "standard"})
		}
	}},
	{
		name:   "it could not be read",
		code:   "CFG-003",
		want:   skipped,
		says:   []string{"CFG-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/cloud-config") },
	},

	{name: "no secret", code: "CRED-002", want: pass_, says: []string{"no secret"}},
	{name: "a secret that only root reads", code: "CRED-002", base: onAzure, want: pass_, change: func(s *v1.Snapshot) { secretIn(s, "0600") }},
	{
		name:   "a secret that everybody reads",
		code:   "CRED-002",
		base:   onAzure,
		want:   warn,
		says:   []string{"aadClientSecret", "mode 0644", "chmod 600 /etc/kubernetes/cloud.conf"},
		change: func(s *v1.Snapshot) { secretIn(s, "0644") },
	},
	{name: "the mode is not known", code: "CRED-002", base: onAzure, want: unknwn, change: func(s *v1.Snapshot) { secretIn(s, "") }},

	{name: "nothing is in the environment", code: "CFG-004", want: pass_},
	{
		name: "F45: a proxy",
		code: "CFG-004",
		want: warn,
		says: []string{"HTTPS_PROXY, no_proxy", "--ccm-env HTTPS_PROXY=<value> --ccm-env no_proxy=<value>"},
		change: func(s *v1.Snapshot) {
			manager(s, 0, component.KCM).EnvNames = []string{"HTTPS_PROXY", "no_proxy", "TZ"}
		},
	},
	{
		name:   "F45: a proxy that the new manager gets",
		code:   "CFG-004",
		want:   pass_,
		opts:   facts.Options{CCMEnv: []string{"HTTPS_PROXY"}},
		change: func(s *v1.Snapshot) { manager(s, 0, component.KCM).EnvNames = []string{"HTTPS_PROXY"} },
	},
	{
		name: "F45: OpenStack's variables",
		code: "CFG-004",
		want: fails,
		says: []string{"OS_REGION_NAME, which the external provider does not read"},
		change: func(s *v1.Snapshot) {
			for i := range s.Hosts {
				setFlags(s, i, component.KCM, map[string]string{"cloud-provider": "openstack"})
			}
			manager(s, 0, component.KCM).EnvNames = []string{"OS_REGION_NAME"}
		},
	},
	{
		name: "F45: a private authority that is not mounted",
		code: "CFG-004",
		want: fails,
		says: []string{"Global.ca-file is /etc/kubernetes/pki/cloud-ca.crt", "--ccm-env SSL_CERT_FILE"},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"Global.ca-file": "/etc/kubernetes/pki/cloud-ca.crt"})
		},
	},
	{name: "F45: a private authority among the distribution's", code: "CFG-004", want: pass_, change: func(s *v1.Snapshot) {
		configSettings(s, 0, map[string]string{"Global.ca-file": "/etc/ssl/certs/cloud-ca.crt"})
	}},
	{name: "after the migration", code: "CFG-004", base: migrated, want: skipped},
	{
		name:   "the cloud config could not be read",
		code:   "CFG-004",
		want:   skipped,
		says:   []string{"CFG-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/cloud-config") },
	},

	{name: "F50: two hops and no half of a config", code: "CFG-005", want: pass_},
	{
		name: "F50: a driver behind one hop",
		code: "CFG-005",
		want: fails,
		says: []string{"Deployment/kube-system/ebs-csi-controller has a pod network", "--http-put-response-hop-limit 2 --instance-id i-00000000000000002"},
		change: func(s *v1.Snapshot) {
			hops := 1
			s.Cloud.Instances[1].MetadataHops = &hops
		},
	},
	{name: "F50: no instance answers pods", code: "CFG-005", want: fails, says: []string{"5 of the instances answer one hop only"}, change: func(s *v1.Snapshot) {
		hops := 1
		for i := range s.Cloud.Instances {
			s.Cloud.Instances[i].MetadataHops = &hops
		}
		w := theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
		w.HostNetwork = false
		for i := range w.Containers {
			w.Containers[i].EnvNames = nil
		}
	}},
	{name: "F50: a driver with credentials of its own", code: "CFG-005", want: pass_, change: func(s *v1.Snapshot) {
		hops := 1
		s.Cloud.Instances[1].MetadataHops = &hops
		theWorkload(s, "Deployment/kube-system/ebs-csi-controller").Containers[0].EnvNames = []string{"AWS_WEB_IDENTITY_TOKEN_FILE"}
	}},
	{
		name: "F50: half of what spares the metadata service",
		code: "CFG-005",
		want: warn,
		says: []string{"lacks KubernetesClusterID, SubnetID"},
		change: func(s *v1.Snapshot) {
			configSettings(s, 0, map[string]string{"Global.Zone": "us-east-1a", "Global.VPC": "vpc-1"})
		},
	},
	{name: "all of it", code: "CFG-005", want: pass_, change: func(s *v1.Snapshot) {
		configSettings(
			s,
			0,
			map[string]string{"Global.Zone": "us-east-1a", "Global.VPC": "vpc-1", "Global.SubnetID": "subnet-1", "Global.KubernetesClusterID": "lab"},
		)
	}},
	{name: "the cloud was not asked", code: "CFG-005", want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},
	{name: "another cloud", code: "CFG-005", base: onAzure, want: skipped, says: []string{"azure"}},
	{name: "workloads could not be listed", code: "CFG-005", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},

	{name: "they are needed until the end", code: "CRED-003", want: pass_, says: []string{"3 of 3 kubelets have a cloud config", "5 instances have an identity"}},
	{
		name: "a kubelet after the migration",
		code: "CRED-003",
		base: migrated,
		want: warn,
		says: []string{"kubelet@cp-1 is external and has --cloud-config=/etc/kubernetes/cloud.conf", kubeadmFlagsEnv},
		change: func(s *v1.Snapshot) {
			kubeletFlags(s, 0, map[string]string{"cloud-config": "/etc/kubernetes/cloud.conf"})
		},
	},
	{name: "after the migration nothing is left", code: "CRED-003", base: migrated, want: pass_},
	{name: "no kubelet was read", code: "CRED-003", want: skipped, change: noHostKubelets},
	{
		name:   "one could not be read",
		code:   "CRED-003",
		want:   skipped,
		says:   []string{"KUBELET-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet") },
	},

	{name: "no token", code: "CRED-005", want: skipped},
	{name: "31 days", code: "CRED-005", base: migrated, want: pass_, says: []string{"3 tokens", "2026-06-0"}, change: tokensEnd(31 * 24 * time.Hour)},
	{
		name: "29 days", code: "CRED-005", base: migrated, want: warn, change: tokensEnd(30*24*time.Hour - time.Second),
		says: []string{"cp-1", "cp-3", "in 29 days", "transplant renew --host-access=pod:node-role.kubernetes.io/control-plane"},
	},
	{name: "ended", code: "CRED-005", base: migrated, want: warn, says: []string{"ended 20", "transplant renew"}, change: tokensEnd(-time.Hour)},
	{name: "no token in the file", code: "CRED-005", base: migrated, want: warn, says: []string{"host cp-2: never"}, change: func(s *v1.Snapshot) {
		tokensEnd(90 * 24 * time.Hour)(s)
		s.Hosts[1].ManagerToken = &v1.ManagerToken{Path: "/token", Error: "never"}
	}},
	{
		name: "in a seed, 29 days", code: "CRED-005", base: migrated, want: warn, change: tokenInSeed(30*24*time.Hour - time.Second),
		says: []string{"Secret/cluster-x/ccm of the seed ends", "in 29 days", "transplant renew --seed-namespace cluster-x"},
	},
	{name: "in a seed, 31 days", code: "CRED-005", base: migrated, want: pass_, says: []string{"1 token,"}, change: tokenInSeed(31 * 24 * time.Hour)},
	{name: "a Secret that could not be read", code: "CRED-005", want: unknwn, change: func(s *v1.Snapshot) {
		s.Cluster.Seed = "cluster-x"
		cannotGather(s, "manager-token")
	}},
	{name: "a file that could not be read", code: "CRED-005", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/manager-token") }},

	{name: "every instance has an identity", code: "CRED-004", want: pass_, says: []string{"3 instances"}},
	{
		name:   "F12: an instance without",
		code:   "CRED-004",
		want:   warn,
		says:   []string{"ip-10-0-0-12.ec2.internal (i-00000000000000002) has no instance profile"},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[1].Profile = false },
	},
	{name: "an inventory that does not say", code: "CRED-004", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Cloud.Instances {
			s.Cloud.Instances[i].Profile, s.Cloud.Instances[i].MetadataHops = false, nil
		}
	}},
	{
		name:   "a file is given",
		code:   "CRED-004",
		want:   pass_,
		opts:   facts.Options{CCMEnv: []string{"AWS_SHARED_CREDENTIALS_FILE"}},
		change: func(s *v1.Snapshot) { s.Cloud.Instances[1].Profile = false },
	},
	{name: "a file is given and there", code: "CRED-004", want: pass_, opts: envFile("/etc/kubernetes/ccm.{host}"), change: hasFiles("cp-1", "cp-2", "cp-3")},
	{
		name:   "a file is given and not there",
		code:   "CRED-004",
		want:   skipped,
		opts:   envFile("/etc/kubernetes/ccm.{host}"),
		says:   []string{"CRED-001"},
		change: hasFiles("cp-1", "cp-3"),
	},
	{
		name:   "a file is given and not there",
		code:   "CRED-001",
		want:   fails,
		opts:   envFile("/etc/kubernetes/ccm.{host}"),
		says:   []string{"is not on host cp-2", "ls -l /etc/kubernetes/ccm.cp-2   # on host cp-2"},
		change: hasFiles("cp-1", "cp-3"),
	},
	{name: "a file is given and there", code: "CRED-001", want: pass_, opts: envFile("/etc/kubernetes/ccm.{host}"), change: hasFiles("cp-1", "cp-2", "cp-3")},
	{name: "a file is given that no plan mounts", code: "CRED-001", want: fails, opts: envFile("/opt/credentials"), says: []string{"is outside /etc/"}},
	{
		name: "a file is given that was not looked for",
		code: "CRED-001",
		want: unknwn,
		opts: envFile("/etc/kubernetes/other"),
		says: []string{"transplant snapshot --ccm-env"},
	},
	{
		name:   "an authority's file is not there",
		code:   "CFG-004",
		want:   fails,
		opts:   facts.Options{CCMEnv: []string{"SSL_CERT_FILE"}, CCMFiles: map[string]string{"SSL_CERT_FILE": "/etc/kubernetes/ccm.cp-2"}},
		says:   []string{"is not on host cp-2"},
		change: hasFiles("cp-1", "cp-3"),
	},
	{name: "the cloud was not asked", code: "CRED-004", want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},
	{name: "instances could not be read", code: "CRED-004", want: unknwn, change: func(s *v1.Snapshot) { s.Cloud.Errors = []string{"instances: no right"} }},

	{
		name:   "another cloud has no inventory",
		code:   "CLOUD-001",
		base:   onCloudStack,
		want:   unknwn,
		says:   []string{"no inventory of cloudstack", `check --accept CLOUD-001=`},
		change: func(s *v1.Snapshot) { s.Cloud = nil },
	},
	{
		name:   "Azure was not asked",
		code:   "CLOUD-001",
		base:   onAzure,
		want:   unknwn,
		says:   []string{"the cloud was not asked", "transplant check --cloud=azure:config=FILE"},
		change: func(s *v1.Snapshot) { s.Cloud = nil },
	},

	{name: "F49: AWS has none", code: "CLOUD-002", want: skipped, says: []string{"aws"}},
	{name: "F49: Azure before the migration", code: "CLOUD-002", base: onAzure, want: pass_, says: []string{"the plan starts it"}},
	{
		name:   "F49: Azure in a seed",
		code:   "CLOUD-002",
		base:   onAzure,
		want:   pass_,
		says:   []string{"the plan starts it"},
		change: func(s *v1.Snapshot) { s.Cluster.Seed = "cluster-x" },
	},
	{name: "F49: Azure in a seed, installed before", code: "CLOUD-002", base: onAzure, want: pass_, change: func(s *v1.Snapshot) {
		s.Cluster.Seed = "cluster-x"
		s.Workloads = append(s.Workloads, v1.Workload{Ref: "DaemonSet/kube-system/cloud-node-manager", Role: v1.RoleNodeManager, Replicas: 5, Ready: 5})
	}},
	{
		name: "F49: Azure with hosts that are replaced",
		code: "CLOUD-002",
		base: onAzure,
		opts: facts.Options{ReplaceHosts: true},
		want: fails,
		says: []string{"hosts are replaced", "kubectl apply"},
	},
	{name: "F49: Azure on Deployments", code: "CLOUD-002", base: onAzure, want: pass_, says: []string{"the plan starts it"}, change: func(s *v1.Snapshot) {
		s.Hosted = []v1.Component{{Name: component.KCM, Runs: v1.RunsDeployment, Manifest: "Deployment/kube-system/kube-controller-manager"}}
	}},
	{name: "F49: Azure after it", code: "CLOUD-002", base: onAzureAfter, want: pass_},
	{
		name:   "F49: Azure after it without",
		code:   "CLOUD-002",
		base:   onAzureAfter,
		want:   fails,
		says:   []string{"cloud-node-manager does not run"},
		change: func(s *v1.Snapshot) { s.Workloads = s.Workloads[:len(s.Workloads)-1] },
	},
	{
		name:   "F49: one node lacks it",
		code:   "CLOUD-002",
		base:   onAzureAfter,
		want:   fails,
		says:   []string{"4 of 5 pods ready"},
		change: func(s *v1.Snapshot) { theWorkload(s, "DaemonSet/kube-system/cloud-node-manager").Ready = 4 },
	},
	{
		name:   "F49: one for Windows alone, after it",
		code:   "CLOUD-002",
		base:   onAzureAfter,
		want:   fails,
		says:   []string{"no cloud-node-manager is meant for ip-10-0-0-11.ec2.internal"},
		change: nodeManagerOn(map[string]string{"kubernetes.io/os": "windows"}, 0),
	},
	{
		name:   "F49: one for Windows alone, before it",
		code:   "CLOUD-002",
		base:   onAzure,
		want:   pass_,
		says:   []string{"the plan starts it on the others"},
		change: nodeManagerOn(map[string]string{"kubernetes.io/os": "windows"}, 0),
	},
	{
		name: "F49: one for control planes alone, before it",
		code: "CLOUD-002",
		base: onAzure,
		want: fails,
		says: []string{"no cloud-node-manager is meant for ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) {
			nodeManagerOn(map[string]string{"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": ""}, 3)(s)
			for i := range s.ControlPlaneNodes {
				s.Nodes[i].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			}
		},
	},
	{
		name:   "F49: an affinity leaves nodes out",
		code:   "CLOUD-002",
		base:   onAzureAfter,
		want:   fails,
		says:   []string{"cloud-node-manager has 3 pods for 5 nodes"},
		change: nodeManagerOn(nil, 3),
	},
	{
		name: "F49: an affinity leaves nodes out, and the pods are known",
		code: "CLOUD-002",
		base: onAzure,
		want: fails,
		says: []string{"no cloud-node-manager is meant for ip-10-0-1-11.ec2.internal"},
		change: func(s *v1.Snapshot) {
			nodeManagerOn(nil, 3)(s)
			s.Workloads[len(s.Workloads)-1].Nodes = slices.Clone(s.ControlPlaneNodes)
		},
	},
	{
		name: "F49: one for each operating system",
		code: "CLOUD-002",
		base: onAzureAfter,
		want: pass_,
		says: []string{"ready on every node"},
		change: func(s *v1.Snapshot) {
			nodeManagerOn(map[string]string{"kubernetes.io/os": "linux"}, 4)(s)
			nodeManagerOn(map[string]string{"kubernetes.io/os": "windows"}, 1)(s)
			s.Nodes[4].OS = "windows"
		},
	},
	{
		name: "F49: a virtual node needs none",
		code: "CLOUD-002",
		base: onAzureAfter,
		want: pass_,
		change: func(s *v1.Snapshot) {
			nodeManagerOn(nil, 4)(s)
			s.Nodes[4].Labels = map[string]string{"type": "virtual-kubelet"}
		},
	},
	{name: "F49: nodes could not be listed", code: "CLOUD-002", base: onAzureAfter, want: unknwn, change: noNodes},
	{
		name: "F49: two initialise nodes",
		code: "CLOUD-002",
		base: onAzureAfter,
		want: fails,
		says: []string{"cloud-controller-manager@cp-1 initialises nodes too"},
		change: func(s *v1.Snapshot) {
			setFlags(s, 0, component.CCM, map[string]string{"controllers": "*"})
		},
	},
	{
		name: "our manager for Azure needs none", code: "CLOUD-002", base: onAzure, opts: facts.Options{Image: "ours"},
		want: pass_, says: []string{"initialises nodes by itself"},
	},
	{
		name: "our manager for Azure in a seed needs none",
		code: "CLOUD-002",
		base: onAzure,
		opts: facts.Options{Image: "registry.example.com/transplant-dev/azure-cloud-controller-manager:v0.1.0"},
		want: pass_,
		change: func(s *v1.Snapshot) {
			s.Cluster.Seed = "cluster-x"
		},
	},
	{
		name: "F49: our manager for Azure next to one on each node",
		code: "CLOUD-002",
		base: onAzure,
		opts: facts.Options{Image: "ours"},
		want: fails,
		says: []string{"and so does this project's manager", "kubectl -n kube-system delete daemonset cloud-node-manager"},
		change: func(s *v1.Snapshot) {
			s.Workloads = append(s.Workloads, v1.Workload{Ref: "DaemonSet/kube-system/cloud-node-manager", Role: v1.RoleNodeManager, Replicas: 5, Ready: 5})
		},
	},
	{
		name: "our manager for Azure after the migration",
		code: "CLOUD-002",
		base: onAzureAfter,
		want: pass_,
		says: []string{"initialises nodes by itself"},
		change: func(s *v1.Snapshot) {
			s.Workloads = s.Workloads[:len(s.Workloads)-1]
			for i := range s.Hosts {
				for j := range s.Hosts[i].Components {
					if c := &s.Hosts[i].Components[j]; c.Name == component.CCM {
						c.Image = "ghcr.io/transplant-dev/azure-cloud-controller-manager:v0.1.0"
					}
				}
			}
		},
	},
	{name: "workloads could not be listed", code: "CLOUD-002", base: onAzure, want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},

	{name: "none runs as a workload", code: "CLOUD-003", want: skipped},
	{name: "one that is as it should be", code: "CLOUD-003", want: pass_, change: func(s *v1.Snapshot) { s.Workloads = append(s.Workloads, ccmWorkload()) }},
	{
		name: "one that requests nothing",
		code: "CLOUD-003",
		want: warn,
		says: []string{"container manager of Deployment/kube-system/aws-cloud-controller-manager requests no cpu or memory"},
		change: func(s *v1.Snapshot) {
			w := ccmWorkload()
			w.Containers[0].Requests = nil
			s.Workloads = append(s.Workloads, w)
		},
	},
	{
		name: "one with a CPU limit and no priority",
		code: "CLOUD-003",
		want: warn,
		says: []string{"may use 100m of CPU", "priority class of every pod"},
		change: func(s *v1.Snapshot) {
			w := ccmWorkload()
			w.PriorityClass, w.Containers[0].Limits = "", map[string]string{"cpu": "100m"}
			s.Workloads = append(s.Workloads, w)
		},
	},
	{name: "workloads could not be listed", code: "CLOUD-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},
}
