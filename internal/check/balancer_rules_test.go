package check

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/loadbalancer"
	"github.com/transplant-dev/transplant/internal/component"
)

// served gives a cluster two Services with a classic and a network load balancer, whose members are all nodes.
func served(s *v1.Snapshot) {
	var members []string
	for _, i := range s.Cloud.Instances {
		members = append(members, i.ID)
	}
	slices.Sort(members)
	for i, address := range []string{"a0-1.us-east-1.elb.amazonaws.com", "a1-2.elb.us-east-1.amazonaws.com"} {
		kind := []string{"classic", "network"}[i]
		service := v1.Service{
			Namespace: "shop", Name: "web-" + kind, UID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), Created: taken.AddDate(0, -1, 0),
			Addresses: []string{address}, Finalizers: []string{loadbalancer.FinalizerBalancer}, ExternalTrafficPolicy: "Cluster", Annotations: map[string]string{},
		}
		if kind == "network" {
			service.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"] = "nlb"
		}
		s.Services = append(s.Services, service)
		s.Cloud.LoadBalancers = append(s.Cloud.LoadBalancers, v1.LoadBalancer{
			ID:      kind,
			Name:    loadbalancer.DefaultBalancerName(service.UID),
			Kind:    kind,
			Address: address,
			Created: taken.AddDate(0, -1, 0),
			Members: slices.Clone(members),
		})
	}
}

// service changes the first Service, which has a classic load balancer.
func service(change func(*v1.Service)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { change(&s.Services[0]) }
}

func noServices(s *v1.Snapshot) {
	s.Services = nil
	cannotGather(s, "services")
}

func withoutServices(s *v1.Snapshot) { s.Services = nil }

func annotation(key, value string) func(*v1.Snapshot) {
	return service(func(s *v1.Service) { s.Annotations[key] = value })
}

func noBalancers(s *v1.Snapshot) {
	s.Cloud.LoadBalancers, s.Cloud.Errors = nil, []string{"loadbalancers: AccessDenied"}
}

const (
	awsType     = "service.beta.kubernetes.io/aws-load-balancer-type"
	extraGroups = "service.beta.kubernetes.io/aws-load-balancer-extra-security-groups"
)

// addressed gives the Services IP addresses, as clouds other than AWS do.
func addressed(base func() *v1.Snapshot) func() *v1.Snapshot {
	return func() *v1.Snapshot {
		s := base()
		for i := range s.Services {
			s.Services[i].Addresses = []string{fmt.Sprintf("203.0.113.%d", i+1)}
		}
		return s
	}
}

// octavia is what the cloud config of every host says of load balancers.
func octavia(value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = &v1.CloudConfig{Path: "/etc/kubernetes/cloud.conf", Settings: map[string]string{"LoadBalancer.use-octavia": value}}
		}
	}
}

// configInSeed is a control plane in a seed with a cloud config that sets a key.
func configInSeed(key, value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Cluster.Seed, s.Hosts = "cluster-x", nil
		s.Hosted = []v1.Component{{
			Name: component.KCM, Runs: v1.RunsDeployment, Manifest: "Deployment/cluster-x/controller-manager", Flags: map[string]string{"cloud-provider": "openstack"},
			CloudConfig: &v1.CloudConfig{Path: "/etc/cloud/config", Provider: "openstack", Settings: map[string]string{key: value}},
		}}
	}
}

// monitors is what the cloud config of every host says of health monitors.
func monitors(value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = &v1.CloudConfig{Path: "/etc/kubernetes/cloud.conf", Settings: map[string]string{"LoadBalancer.create-monitor": value}}
		}
	}
}

func tags(all ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Cloud.Instances[3].ClusterTags = all }
}

func groups(n int) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Cloud.Instances[3].ClusterGroups = ptr.To(n) }
}

// installedCCM adds a cloud-controller-manager that somebody installed.
func installedCCM(flags map[string]string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Workloads = append(s.Workloads, v1.Workload{
			Ref: "DaemonSet/kube-system/aws-cloud-controller-manager", Role: v1.RoleCCM, HostNetwork: true, Tolerations: []string{"*:"},
			Containers: []v1.Container{{Name: "ccm", Image: upstreamCCM, Flags: flags}},
		})
	}
}

// openstackInventoried has three Services on OpenStack whose load balancers are found by address, by the in-tree name and
// by the external one, and a floating IP and a group of Services that are there.
func openstackInventoried() *v1.Snapshot {
	s := openstackCluster()
	s.Services = []v1.Service{
		{Namespace: "default", Name: "web", UID: "0-1", Addresses: []string{"203.0.113.1"}},
		{Namespace: "default", Name: "mail", UID: "0-3", Addresses: []string{"203.0.113.3.nip.io"}},
		{Namespace: "default", Name: "dns", UID: "0-4", Addresses: []string{"203.0.113.4"}},
	}
	s.Cloud = &v1.CloudInventory{
		Provider: "openstack",
		LoadBalancers: []v1.LoadBalancer{
			{Name: "kube_service_other_x_y", Kind: "octavia", Address: "203.0.113.1"},
			{Name: "kube_service_lab_default_mail", Kind: "octavia", Address: "203.0.113.3"},
			{Name: "a04", Kind: "octavia", Address: "203.0.113.44"},
		},
		Leftovers: []v1.CloudLeftover{
			{Kind: "floating IP", ID: "f", Name: "203.0.113.8", Service: "default/web"},
			{Kind: "security group", ID: "g", Name: "lb-sg-0-3-default-mail", UID: "0-3"},
		},
	}
	return s
}

var ownOpenStack = facts.Options{Image: "ghcr.io/transplant-dev/openstack-cloud-controller-manager:v0.1.0"}

var balancerRules = []ruleCase{
	{name: "every Service has its address", code: "LB-002", want: pass_, says: []string{"2 Services"}},
	{
		name: "F34: one is pending",
		code: "LB-002",
		want: warn,
		says: []string{"shop/web-classic", "no address since 2026-04-04 10:00", "LoadBalancerReady=False(Quota)", "kubectl -n shop describe service web-classic"},
		change: service(func(s *v1.Service) {
			s.Addresses, s.Conditions = nil, []string{"LoadBalancerReady=False(Quota)"}
		}),
	},
	{
		name:   "F35: one of another controller is pending",
		code:   "LB-002",
		want:   pass_,
		says:   []string{"1 Service "},
		change: service(func(s *v1.Service) { s.Addresses, s.Class = nil, "example.com/lb" }),
	},
	{
		name:   "F35: one of the AWS Load Balancer Controller is pending",
		code:   "LB-002",
		want:   pass_,
		change: service(func(s *v1.Service) { s.Addresses, s.Annotations[awsType] = nil, "external" }),
	},
	{
		name: "on vSphere no manager runs the loops of services and routes", code: "LM-006", base: vsphereCluster, want: pass_,
		says: []string{"cloud-node-lifecycle in"},
		change: func(s *v1.Snapshot) {
			for i := range s.Managers {
				s.Managers[i].Loops = slices.DeleteFunc(slices.Clone(s.Managers[i].Loops), func(loop string) bool { return loop == "service" || loop == "route" })
			}
		},
	},
	{name: "vSphere makes none", code: "LB-002", base: vsphereCluster, want: skipped, says: []string{"vsphere had no load balancers"}},
	{name: "there is none", code: "LB-002", want: skipped, change: withoutServices},
	{name: "Services could not be listed", code: "LB-002", want: unknwn, change: noServices},

	{name: "none is being deleted", code: "LB-003", want: pass_},
	{
		name:   "F35: one is being deleted",
		code:   "LB-003",
		want:   warn,
		says:   []string{"1 Service waits", "held by " + loadbalancer.FinalizerBalancer},
		change: service(func(s *v1.Service) { s.Deleting = true }),
	},
	{name: "Services could not be listed", code: "LB-003", want: unknwn, change: noServices},

	{name: "F35: every Service has its finalizer", code: "LB-004", want: pass_, says: []string{"2 Services"}},
	{
		name:   "F35: one has none",
		code:   "LB-004",
		want:   warn,
		says:   []string{"would leave a load balancer behind", "kubectl -n shop annotate service web-classic"},
		change: service(func(s *v1.Service) { s.Finalizers = []string{"example.com/other"} }),
	},
	{name: "Services could not be listed", code: "LB-004", want: unknwn, change: noServices},

	{name: "both providers read all annotations alike", code: "LB-005", want: pass_},
	{
		name:   "F35: an annotation that is refused",
		code:   "LB-005",
		want:   fails,
		says:   []string{"shop/web-network", extraGroups + ": is refused"},
		change: func(s *v1.Snapshot) { s.Services[1].Annotations[extraGroups] = "sg-1" },
	},
	{
		name:   "F35: an older manager does not refuse it",
		code:   "LB-005",
		want:   pass_,
		opts:   facts.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.27.1"},
		change: func(s *v1.Snapshot) { s.Services[1].Annotations[extraGroups] = "sg-1" },
	},
	{
		name:   "F35: the type was changed after the load balancer was made",
		code:   "LB-005",
		want:   fails,
		says:   []string{"asks for a network load balancer and has a classic one"},
		change: annotation(awsType, "nlb"),
	},
	{
		name:   "F35: the type was taken away",
		code:   "LB-005",
		want:   fails,
		says:   []string{"asks for a classic load balancer and has a network one"},
		change: func(s *v1.Snapshot) { delete(s.Services[1].Annotations, awsType) },
	},
	{
		name: "F35: an annotation that only 1.21 knew",
		code: "LB-005",
		base: addressed(azureCluster),
		want: warn,
		says: []string{"mixed-protocols"},
		change: func(s *v1.Snapshot) {
			annotation("service.beta.kubernetes.io/azure-load-balancer-mixed-protocols", "true")(s)
			for i := range s.Hosts {
				manager(s, i, component.KCM).Image = "registry.k8s.io/kube-controller-manager:v1.21.14"
			}
		},
	},
	{name: "Services could not be listed", code: "LB-005", want: unknwn, change: noServices},

	{name: "no annotation begins to matter", code: "LB-006", want: pass_},
	{
		name:   "F35: timeouts on OpenStack",
		code:   "LB-006",
		base:   addressed(openstackCluster),
		want:   warn,
		says:   []string{"with loadbalancer.openstack.org/timeout-client-data=5000 it changes its timeouts"},
		change: annotation("loadbalancer.openstack.org/timeout-client-data", "5000"),
	},
	{
		name:   "F35: an address on Azure",
		code:   "LB-006",
		base:   addressed(azureCluster),
		want:   warn,
		says:   []string{"it moves the load balancer to that address"},
		change: annotation("service.beta.kubernetes.io/azure-load-balancer-ipv4", "203.0.113.9"),
	},
	{
		name:   "F35: both of OpenStack's providers know the subnet",
		code:   "LB-006",
		base:   addressed(openstackCluster),
		want:   pass_,
		change: annotation("loadbalancer.openstack.org/subnet-id", "x"),
	},
	{name: "Services could not be listed", code: "LB-006", want: unknwn, change: noServices},

	{name: "nobody asks for an address", code: "LB-007", want: pass_, says: []string{"no Service asks"}},
	{
		name:   "F35: the address it has",
		code:   "LB-007",
		base:   addressed(openstackCluster),
		want:   pass_,
		says:   []string{"1 Service asks"},
		change: service(func(s *v1.Service) { s.LoadBalancerIP = "203.0.113.1" }),
	},
	{
		name:   "F32 F35: another address",
		code:   "LB-007",
		base:   addressed(gceCluster),
		want:   fails,
		says:   []string{"asks for 203.0.113.9 and has 203.0.113.1"},
		change: service(func(s *v1.Service) { s.LoadBalancerIP = "203.0.113.9" }),
	},
	{
		name:   "F35: AWS refuses it in-tree",
		code:   "LB-007",
		want:   fails,
		says:   []string{"ignores the field and makes one"},
		change: service(func(s *v1.Service) { s.LoadBalancerIP, s.Addresses = "203.0.113.9", nil }),
	},
	{name: "Services could not be listed", code: "LB-007", want: unknwn, change: noServices},

	{name: "F34: the members stay", code: "LB-008", want: pass_, says: []string{"2 load balancers"}},
	{
		name: "F34: a node that is not ready comes back",
		code: "LB-008",
		want: warn,
		says: []string{"gets ip-10-0-1-11.ec2.internal", "2 load balancers would change"},
		change: func(s *v1.Snapshot) {
			s.Nodes[3].Ready = "False"
			for i := range s.Cloud.LoadBalancers {
				s.Cloud.LoadBalancers[i].Members = slices.DeleteFunc(s.Cloud.LoadBalancers[i].Members, func(id string) bool { return id == s.Cloud.Instances[3].ID })
			}
		},
	},
	{name: "F34: an instance that is no node leaves", code: "LB-008", want: warn, says: []string{"loses i-gone"}, change: func(s *v1.Snapshot) {
		s.Cloud.LoadBalancers[0].Members = append(s.Cloud.LoadBalancers[0].Members, "i-gone")
	}},
	{name: "a label that says false", code: "LB-008", want: warn, says: []string{"gets ip-10-0-0-11"}, change: func(s *v1.Snapshot) {
		s.Nodes[0].Labels[facts.LabelExclude] = "false"
		s.Cloud.LoadBalancers[0].Members = slices.DeleteFunc(s.Cloud.LoadBalancers[0].Members, func(id string) bool { return id == s.Cloud.Instances[0].ID })
	}},
	{
		name:   "a node that the autoscaler is about to delete",
		code:   "LB-008",
		want:   warn,
		says:   []string{"loses i-10000000000000001"},
		change: func(s *v1.Snapshot) { s.Nodes[3].Taints = []string{"ToBeDeletedByClusterAutoscaler=1:NoSchedule"} },
	},
	{
		name: "F34: an older manager removes it",
		code: "LB-008",
		want: pass_,
		opts: facts.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.1"},
		change: func(s *v1.Snapshot) {
			s.Nodes[3].Ready = "False"
			for i := range s.Cloud.LoadBalancers {
				s.Cloud.LoadBalancers[i].Members = slices.DeleteFunc(s.Cloud.LoadBalancers[i].Members, func(id string) bool { return id == s.Cloud.Instances[3].ID })
			}
		},
	},
	{
		name: "a label that an older manager does not read",
		code: "LB-001",
		want: skipped,
		opts: facts.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.27.1"},
	},
	{name: "a Service that chooses its nodes", code: "LB-008", want: pass_, change: func(s *v1.Snapshot) {
		annotation(loadbalancer.AnnotationTargetLabels, "pool=edge")(s)
		label("pool", "edge")(s)
		s.Cloud.LoadBalancers[0].Members = []string{s.Cloud.Instances[3].ID}
	}},
	{name: "load balancers could not be read", code: "LB-008", want: skipped, says: []string{"CLOUD-001"}, change: noBalancers},
	{name: "nodes could not be listed", code: "LB-008", want: unknwn, change: noNodes},
	{name: "the cloud was not asked", code: "LB-008", want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},

	{name: "every load balancer has its Service", code: "LB-009", want: pass_, says: []string{"2 load balancers are in the cloud"}},
	{
		name: "F31: one is left",
		code: "LB-009",
		want: warn,
		says: []string{"a-old (old.elb.amazonaws.com, made 2026-05-04, 0 members)", "aws elb describe-load-balancers"},
		change: func(s *v1.Snapshot) {
			s.Cloud.LoadBalancers = append(s.Cloud.LoadBalancers, v1.LoadBalancer{Name: "a-old", Kind: "classic", Address: "old.elb.amazonaws.com", Created: taken})
		},
	},
	{name: "one that is found by its name", code: "LB-009", want: pass_, change: service(func(s *v1.Service) { s.Addresses = nil })},
	{name: "load balancers could not be read", code: "LB-009", want: skipped, says: []string{"CLOUD-001"}, change: noBalancers},
	{name: "Services could not be listed", code: "LB-009", want: unknwn, change: noServices},

	{name: "OpenStack: each has its Service, by its name or its address", code: "LB-009", base: openstackInventoried, want: pass_, says: []string{"3 load balancers are in the cloud"}},
	{
		name: "OpenStack: load balancer, floating IP and group are left", code: "LB-009", base: openstackInventoried, want: warn,
		says: []string{"3 cloud objects are left", "a99 (203.0.113.99", "floating IP 203.0.113.7 (f-1)", "security group lb-sg-9-x-y (g-1)", "openstack loadbalancer status show a99"},
		change: func(s *v1.Snapshot) {
			s.Cloud.LoadBalancers = append(s.Cloud.LoadBalancers, v1.LoadBalancer{Name: "a99", Kind: "octavia", Address: "203.0.113.99"})
			s.Cloud.Leftovers = append(s.Cloud.Leftovers,
				v1.CloudLeftover{Kind: "floating IP", ID: "f-1", Name: "203.0.113.7", Service: "default/gone"},
				v1.CloudLeftover{Kind: "security group", ID: "g-1", Name: "lb-sg-9-x-y", UID: "9"})
		},
	},
	{
		name: "OpenStack: the command removes one load balancer by its ID", code: "LB-009", base: openstackInventoried, want: warn,
		says: []string{"a99 (0b1c2d3e, 203.0.113.99", "transplant remove-orphans --cloud=openstack:cluster=lab 0b1c2d3e"},
		change: func(s *v1.Snapshot) {
			s.Cloud.LoadBalancers = append(s.Cloud.LoadBalancers, v1.LoadBalancer{ID: "0b1c2d3e", Name: "a99", Kind: "octavia", Address: "203.0.113.99"})
		},
	},
	{
		name: "OpenStack: a floating IP alone is left", code: "LB-009", base: openstackInventoried, want: warn, says: []string{"1 cloud object is left", "openstack floating ip show f-1"},
		change: func(s *v1.Snapshot) {
			s.Cloud.Leftovers = append(s.Cloud.Leftovers, v1.CloudLeftover{Kind: "floating IP", ID: "f-1", Name: "203.0.113.7", Service: "default/gone"})
		},
	},
	{name: "OpenStack: a Service with a host name has its load balancer by its name", code: "LB-010", base: openstackInventoried, want: pass_, says: []string{"3 Services"}},
	{
		name: "OpenStack: one was deleted in the cloud", code: "LB-010", base: openstackInventoried, want: fails, says: []string{"would get a new one with a new address"},
		change: func(s *v1.Snapshot) { s.Cloud.LoadBalancers = s.Cloud.LoadBalancers[1:] },
	},
	{name: "OpenStack: the inventory is read", code: "CLOUD-001", base: openstackInventoried, want: pass_, says: []string{"3 load balancers"}},
	{
		name: "OpenStack: it was not asked", code: "CLOUD-001", base: openstackCluster, want: unknwn, says: []string{"transplant check --cloud=openstack"},
		change: func(s *v1.Snapshot) { s.Cloud = nil },
	},
	{
		name: "OpenStack: a part could not be read", code: "CLOUD-001", base: openstackInventoried, want: unknwn, says: []string{"routes: refused", "openstack token issue"},
		change: func(s *v1.Snapshot) { s.Cloud.Errors = []string{"routes: refused"} },
	},

	{name: "the cloud has them all", code: "LB-010", want: pass_, says: []string{"2 Services"}},
	{
		name:   "F31 F34: one was deleted in the cloud",
		code:   "LB-010",
		want:   fails,
		says:   []string{"has the address a0-1.us-east-1.elb.amazonaws.com", "would get a new one with a new address"},
		change: func(s *v1.Snapshot) { s.Cloud.LoadBalancers = s.Cloud.LoadBalancers[1:] },
	},
	{name: "Services could not be listed", code: "LB-010", want: unknwn, change: noServices},

	{name: "F31: one name everywhere", code: "LB-011", want: pass_, says: []string{"3 managers have --cluster-name=lab"}},
	{
		name:   "F31: a manager of another name on OpenStack, whose load balancers are named by the Service in tree",
		code:   "LB-011",
		base:   openstackCluster,
		want:   warn,
		says:   []string{"DaemonSet/kube-system/aws-cloud-controller-manager", "--cluster-name=prod"},
		change: installedCCM(map[string]string{"cluster-name": "prod"}),
	},
	{
		name:   "F31: a manager of the default name on Azure",
		code:   "LB-011",
		base:   azureCluster,
		want:   fails,
		says:   []string{"--cluster-name=kubernetes"},
		change: installedCCM(map[string]string{"v": "2"}),
	},
	{name: "F31: the same on AWS", code: "LB-011", want: warn, change: installedCCM(map[string]string{"v": "2"})},
	{
		name:   "F31: kubeadm would write another",
		code:   "LB-011",
		want:   warn,
		says:   []string{"kubeadm would write --cluster-name=kubernetes"},
		change: func(s *v1.Snapshot) { s.Kubeadm = &v1.KubeadmConfig{ClusterName: "kubernetes"} },
	},
	{name: "F31: kubeadm is told the same by an argument", code: "LB-011", want: pass_, change: func(s *v1.Snapshot) {
		s.Kubeadm = &v1.KubeadmConfig{ClusterName: "kubernetes", ExtraArgs: map[string]map[string]string{"controllerManager": {"cluster-name": "lab"}}}
	}},
	{name: "no manager says it", code: "LB-011", want: unknwn, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].Components = s.Hosts[i].Components[:1]
		}
	}},

	{name: "F32: Octavia", code: "LB-012", base: addressed(openstackCluster), want: pass_, says: []string{"use-octavia=true"}, change: octavia("true")},
	{
		name:   "F32: Neutron by default",
		code:   "LB-012",
		base:   addressed(openstackCluster),
		want:   fails,
		says:   []string{"the load balancers of 2 Services are Neutron's", "nothing, which means false"},
		change: octavia(""),
	},
	{
		name: "F32: Octavia, in a seed", code: "LB-012", base: addressed(openstackCluster), want: pass_, says: []string{"1 cloud config says use-octavia=true"},
		change: configInSeed("LoadBalancer.use-octavia", "true"),
	},
	{
		name: "F32: Neutron by default, in a seed", code: "LB-012", base: addressed(openstackCluster), want: fails,
		says:   []string{"Deployment/cluster-x/controller-manager:/etc/cloud/config says use-octavia=nothing"},
		change: configInSeed("LoadBalancer.use-octavia", ""),
	},
	{
		name: "the configuration in a seed could not be read", code: "LB-012", base: addressed(openstackCluster), want: unknwn,
		change: func(s *v1.Snapshot) {
			configInSeed("", "")(s)
			s.Hosted[0].CloudConfig.Error = "forbidden"
		},
	},
	{name: "F32: Neutron without load balancers", code: "LB-012", base: openstackCluster, want: pass_, change: func(s *v1.Snapshot) {
		octavia("false")(s)
		s.Services = nil
	}},
	{name: "the configuration could not be read", code: "LB-012", base: addressed(openstackCluster), want: unknwn, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].CloudConfig = nil
		}
		cannotGather(s, "hosts/cp-1/cloud-config")
	}},
	{name: "another cloud", code: "LB-012", want: skipped},

	{
		name:   "F34: members are checked",
		code:   "LB-016",
		base:   addressed(openstackCluster),
		opts:   ownOpenStack,
		want:   pass_,
		says:   []string{"create-monitor=true"},
		change: monitors("true"),
	},
	{
		name: "F34: members are checked, in a seed", code: "LB-016", base: addressed(openstackCluster), opts: ownOpenStack, want: pass_,
		says: []string{"create-monitor=true"}, change: configInSeed("LoadBalancer.create-monitor", "true"),
	},
	{
		name:   "F34: members are not checked",
		code:   "LB-016",
		base:   addressed(openstackCluster),
		opts:   ownOpenStack,
		want:   warn,
		says:   []string{"the load balancers of 2 Services go on sending", "enable-health-monitor=true"},
		change: monitors(""),
	},
	{
		name: "F34: the Services ask for it",
		code: "LB-016",
		base: addressed(openstackCluster),
		opts: ownOpenStack,
		want: pass_,
		says: []string{"2 Services ask"},
		change: func(s *v1.Snapshot) {
			monitors("false")(s)
			for i := range s.Services {
				s.Services[i].Annotations = map[string]string{"loadbalancer.openstack.org/enable-health-monitor": "true"}
			}
		},
	},
	{
		name: "the configuration could not be read",
		code: "LB-016",
		base: addressed(openstackCluster),
		opts: ownOpenStack,
		want: unknwn,
		change: func(s *v1.Snapshot) {
			for i := range s.Hosts {
				s.Hosts[i].CloudConfig = nil
			}
			cannotGather(s, "hosts/cp-1/cloud-config")
		},
	},
	{
		name:   "F34: a manager of the same kind",
		code:   "LB-016",
		base:   addressed(openstackCluster),
		opts:   facts.Options{Image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.25.6"},
		want:   skipped,
		says:   []string{"library 0.25"},
		change: monitors(""),
	},
	{name: "other clouds check by themselves", code: "LB-016", want: skipped},

	{name: "F33: one cluster", code: "LB-013", want: pass_, says: []string{"kubernetes.io/cluster/lab"}},
	{name: "F33: shared is a tag too", code: "LB-013", want: pass_, change: tags("lab=shared")},
	{
		name:   "F33: no tag",
		code:   "LB-013",
		want:   fails,
		says:   []string{"has no tag", "aws ec2 create-tags --resources i-10000000000000001 --tags Key=kubernetes.io/cluster/lab,Value=owned"},
		change: tags(),
	},
	{
		name:   "F33: two clusters",
		code:   "LB-013",
		want:   fails,
		says:   []string{"is tagged for lab and other", "aws ec2 delete-tags --resources i-10000000000000001 --tags Key=kubernetes.io/cluster/other"},
		change: tags("lab=owned", "other=owned"),
	},
	{
		name:   "F33: another cluster",
		code:   "LB-013",
		want:   fails,
		says:   []string{"is tagged for other", "Key=kubernetes.io/cluster/lab,Value=owned && aws ec2 delete-tags"},
		change: tags("other=owned"),
	},
	{name: "an inventory without tags", code: "LB-013", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Cloud.Instances {
			s.Cloud.Instances[i].ClusterTags, s.Cloud.Instances[i].ClusterGroups = nil, nil
		}
	}},
	{name: "instances could not be read", code: "LB-013", want: skipped, says: []string{"CLOUD-001"}, change: instancesNotRead},
	{name: "nodes could not be listed", code: "LB-013", want: unknwn, change: noNodes},

	{name: "F33: one group each", code: "LB-014", want: pass_, says: []string{"5 instances"}},
	{
		name:   "security groups could not be read",
		code:   "LB-014",
		want:   skipped,
		says:   []string{"CLOUD-001"},
		change: func(s *v1.Snapshot) { s.Cloud.Errors = []string{"securitygroups: AccessDenied"} },
	},
	{name: "F34 F33: two groups", code: "LB-014", want: fails, says: []string{"has 2", "i-10000000000000001"}, change: groups(2)},
	{name: "F33: no group", code: "LB-014", want: warn, says: []string{"has none"}, change: groups(0)},
	{name: "instances could not be read", code: "LB-014", want: skipped, says: []string{"CLOUD-001"}, change: instancesNotRead},
	{name: "nodes could not be listed", code: "LB-014", want: unknwn, change: noNodes},

	{name: "nothing is served twice", code: "LB-015", want: pass_, says: []string{"no Service has both a class"}},
	{
		name:   "F35: a class and the cloud's finalizer",
		code:   "LB-015",
		want:   warn,
		says:   []string{"class example.com/lb"},
		change: service(func(s *v1.Service) { s.Class = "example.com/lb" }),
	},
	{name: "Services could not be listed", code: "LB-015", want: unknwn, change: noServices},
}
