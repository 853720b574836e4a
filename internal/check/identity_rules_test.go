package check

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/node"
	"github.com/transplant-dev/transplant/internal/component"
)

// addressesOf are the addresses of the n-th node.
func addressesOf(name string, n int) []string {
	return []string{fmt.Sprintf("InternalIP=10.0.%d.%d", n/250, n%250+1), "Hostname=" + name, "InternalDNS=" + name}
}

// instanceOf is a running instance that everything is right with.
func instanceOf(node, id string) v1.CloudInstance {
	return v1.CloudInstance{
		Node: node, ID: id, State: "running", Found: true, PrivateDNSName: node, HostnameType: "ip-name", Zone: "us-east-1a", Type: "m5.large",
		ClusterTags: []string{"lab=owned"}, ClusterGroups: ptr.To(1),
	}
}

// previewed gives a cluster a preview in which nothing changes.
func previewed(s *v1.Snapshot) {
	s.Preview = &v1.Preview{Provider: "aws", Calls: 2}
	for _, n := range s.Nodes {
		s.Preview.Nodes = append(s.Preview.Nodes, v1.NodePreview{
			Node: n.Name, Found: true, ProviderID: n.ProviderID, Addresses: n.Addresses, Zone: "us-east-1a", Region: "us-east-1", Type: "m5.large",
		})
	}
}

// clusterOn makes a cluster one of another provider: its managers' flags and its nodes' providerIDs.
func clusterOn(provider string, id func(i int) string) func() *v1.Snapshot {
	return func() *v1.Snapshot {
		s := healthy()
		s.Cloud, s.Preview = nil, nil
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, map[string]string{"cloud-provider": provider})
		}
		for i := range s.Nodes {
			s.Nodes[i].Name = fmt.Sprintf("worker-%d", i)
			s.Nodes[i].ProviderID = id(i)
			s.Nodes[i].SystemUUID = uuidOf(i)
		}
		return s
	}
}

func uuidOf(i int) string { return fmt.Sprintf("42250f96-c7fc-a3ce-2e94-%012d", i) }

var (
	gceCluster       = clusterOn("gce", func(i int) string { return fmt.Sprintf("gce://project/europe-west1-b/worker-%d", i) })
	openstackCluster = clusterOn("openstack", func(i int) string { return "openstack:///" + uuidOf(i) })
	vsphereCluster   = clusterOn("vsphere", func(i int) string { return "vsphere://" + uuidOf(i) })
	azureCluster     = clusterOn("azure", func(i int) string {
		return fmt.Sprintf("azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/worker-%d", i)
	})
)

func providerID(id string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Nodes[3].ProviderID = id }
}

// kubeletFlag gives the kubelet of the first host a flag.
func kubeletFlag(name, value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		kubelet := v1.Kubelet{Flags: map[string]string{}}
		if s.Hosts[0].Kubelet != nil {
			kubelet = *s.Hosts[0].Kubelet
		}
		flags := map[string]string{name: value}
		for k, v := range kubelet.Flags {
			if k != name {
				flags[k] = v
			}
		}
		kubelet.Flags = flags
		s.Hosts[0].Kubelet = &kubelet
	}
}

func preview(change func(*v1.NodePreview)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { change(&s.Preview.Nodes[3]) }
}

func notAsked(s *v1.Snapshot) { s.Preview = nil }

var identityRules = []ruleCase{
	{name: "F06: the provider reads every providerID", code: "NODE-005", want: pass_, says: []string{"5 providerIDs have the form aws:///<zone>/<instance id>"}},
	{
		name:   "F07: a placeholder of machine-controller",
		code:   "NODE-005",
		want:   fails,
		says:   []string{"kubermatic://machine-1", "ip-10-0-1-11.ec2.internal", "kubectl drain", `"preconditions":{"uid":`, "restart the kubelet"},
		change: providerID("kubermatic://machine-1"),
	},
	{
		name:   "F06: a region that the in-tree provider refused",
		code:   "NODE-005",
		base:   openstackCluster,
		want:   pass_,
		change: providerID("openstack://RegionOne/" + uuidOf(3)),
	},
	{name: "F06: a UUID in capitals", code: "NODE-005", base: vsphereCluster, want: pass_, change: providerID("vsphere://" + strings.ToUpper(uuidOf(3)))},
	{
		name:   "F06: a machine's name instead of its UUID",
		code:   "NODE-005",
		base:   vsphereCluster,
		want:   fails,
		says:   []string{"vsphere://worker-3"},
		change: providerID("vsphere://worker-3"),
	},
	{name: "Azure's long ids", code: "NODE-005", base: azureCluster, want: pass_},
	{name: "a node of another cloud", code: "NODE-005", base: gceCluster, want: fails, change: providerID("aws:///us-east-1a/i-1")},
	{
		name: "every node is of another cloud, so that the provider is in doubt",
		code: "NODE-005",
		base: gceCluster,
		want: fails,
		says: []string{"kubectl get nodes -o custom-columns"},
		change: func(s *v1.Snapshot) {
			for i := range s.Nodes {
				s.Nodes[i].ProviderID = fmt.Sprintf("aws:///us-east-1a/i-%d", i)
			}
		},
	},
	{name: "nobody names a provider", code: "NODE-005", want: skipped, change: func(s *v1.Snapshot) {
		s.Hosts, s.Cloud = s.Hosts[:1], nil
		setFlags(s, 0, component.KCM, map[string]string{"cloud-provider": "external"})
	}},
	{name: "nodes could not be listed", code: "NODE-005", want: unknwn, change: noNodes},

	{name: "every node has its own", code: "NODE-006", want: pass_, says: []string{"5 nodes have a providerID, and no two the same"}},
	{
		name: "F12: two nodes of one instance",
		code: "NODE-006",
		want: fails,
		says: []string{"is also that of ip-10-0-0-11.ec2.internal", "this node ready: Unknown"},
		change: func(s *v1.Snapshot) {
			s.Nodes[3].ProviderID, s.Nodes[3].Ready = s.Nodes[0].ProviderID, "Unknown"
		},
	},
	{
		name:   "F04: two nodes without one share nothing",
		code:   "NODE-006",
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Nodes[3].ProviderID, s.Nodes[4].ProviderID = "", "" },
	},
	{name: "nodes could not be listed", code: "NODE-006", want: unknwn, change: noNodes},

	{name: "every node has its own", code: "NODE-007", want: pass_, says: []string{"among 5 nodes"}},
	{
		name:   "F10: two nodes with one address",
		code:   "NODE-007",
		want:   fails,
		says:   []string{"InternalIP 10.0.0.2 is also that of ip-10-0-0-11.ec2.internal"},
		change: func(s *v1.Snapshot) { s.Nodes[3].Addresses = s.Nodes[0].Addresses },
	},
	{name: "nodes could not be listed", code: "NODE-007", want: unknwn, change: noNodes},

	{name: "AWS is compared by NODE-002", code: "NODE-008", want: pass_, says: []string{"are compared by NODE-002"}},
	{name: "F01: named as on GCE", code: "NODE-008", base: gceCluster, want: pass_, says: []string{"5 nodes are named"}},
	{
		name:   "F01: named with the domain",
		code:   "NODE-008",
		base:   gceCluster,
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Nodes[3].Name = "worker-3.c.project.internal" },
	},
	{
		name:   "F01: named otherwise on GCE",
		code:   "NODE-008",
		base:   gceCluster,
		want:   fails,
		says:   []string{"blue: the instance is worker-3"},
		change: func(s *v1.Snapshot) { s.Nodes[3].Name = "blue" },
	},
	{
		name:   "F01: Azure does not look at the case",
		code:   "NODE-008",
		base:   azureCluster,
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Nodes[3].ProviderID = strings.ToUpper(s.Nodes[3].ProviderID) },
	},
	{
		name:   "F03: the kubelet would register another node",
		code:   "NODE-008",
		want:   fails,
		says:   []string{"would register cp-1.example.com"},
		change: kubeletFlag("hostname-override", "cp-1.example.com"),
	},
	{
		name:   "F01: an empty override",
		code:   "NODE-008",
		want:   fails,
		says:   []string{"--hostname-override of its kubelet is empty"},
		change: kubeletFlag("hostname-override", ""),
	},
	{name: "a kubelet could not be read", code: "NODE-008", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/kubelet") }},
	{
		name:   "a host could not be read",
		code:   "NODE-008",
		want:   skipped,
		says:   []string{"HOST-001"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1") },
	},
	{
		name:   "an override that fits",
		code:   "NODE-008",
		want:   pass_,
		says:   []string{"named as --hostname-override says"},
		change: kubeletFlag("hostname-override", "ip-10-0-0-11.ec2.internal"),
	},
	{name: "nodes could not be listed", code: "NODE-008", want: unknwn, change: noNodes},

	{name: "F02: names by address and nodes by address", code: "NODE-009", want: pass_, says: []string{"5 nodes"}},
	{
		name:   "F02: names by resource and nodes by address",
		code:   "NODE-009",
		want:   warn,
		says:   []string{"hostname type resource-name", "aws ec2 describe-instances --instance-ids i-00000000000000001"},
		change: resourceNamed,
	},
	{name: "F02: the kubelet is told its name", code: "NODE-009", want: pass_, change: func(s *v1.Snapshot) {
		resourceNamed(s)
		kubeletFlag("hostname-override", s.Hosts[0].NodeName)(s)
	}},
	{name: "the inventory does not say", code: "NODE-009", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Cloud.Instances {
			s.Cloud.Instances[i].HostnameType = ""
		}
	}},
	{name: "instances could not be read", code: "NODE-009", want: skipped, says: []string{"CLOUD-001"}, change: instancesNotRead},
	{name: "nodes could not be listed", code: "NODE-009", want: unknwn, change: noNodes},
	{name: "another cloud", code: "NODE-009", base: gceCluster, want: skipped, says: []string{"not for gce"}},
	{name: "the cloud was not asked", code: "NODE-009", want: skipped, says: []string{"CLOUD-001"}, change: func(s *v1.Snapshot) { s.Cloud = nil }},

	{name: "F12: the new provider finds all", code: "NODE-010", want: pass_, says: []string{"all 5 nodes", "2 calls"}},
	{
		name:   "F01: the new provider does not find one",
		code:   "NODE-010",
		want:   fails,
		says:   []string{"would delete 1 node when not ready", "no instance for providerID aws:///us-east-1a/i-10000000000000001"},
		change: preview(func(p *v1.NodePreview) { p.Found = false }),
	},
	{
		name: "F12: the new provider is in another account",
		code: "NODE-010",
		want: fails,
		says: []string{"finds none of 5 nodes", "another account"},
		change: func(s *v1.Snapshot) {
			for i := range s.Preview.Nodes {
				s.Preview.Nodes[i].Found = false
			}
		},
	},
	{
		name:   "the new provider did not answer for one",
		code:   "NODE-010",
		want:   unknwn,
		says:   []string{"throttled"},
		change: preview(func(p *v1.NodePreview) { p.Error = "throttled" }),
	},
	{
		name:   "the new provider did not answer at all",
		code:   "NODE-010",
		want:   unknwn,
		says:   []string{"no credentials"},
		change: func(s *v1.Snapshot) { s.Preview = &v1.Preview{Error: "no credentials"} },
	},
	{name: "the preview could not be made", code: "NODE-010", want: unknwn, change: func(s *v1.Snapshot) {
		s.Preview = nil
		cannotGather(s, "preview")
	}},
	{name: "the new provider was not asked", code: "NODE-010", want: skipped, says: []string{"--prove"}, change: notAsked},
	{name: "no program has the new provider's code", code: "NODE-010", base: onCloudStack, want: skipped, says: []string{"no program with the code of cloudstack"}, change: notAsked},

	{name: "F06: the same ids", code: "NODE-011", want: pass_, says: []string{"all 5 nodes"}},
	{
		name:   "F06: a region in the id",
		code:   "NODE-011",
		want:   fails,
		says:   []string{"would be openstack://RegionOne/x"},
		change: preview(func(p *v1.NodePreview) { p.ProviderID = "openstack://RegionOne/x" }),
	},
	{name: "F06: another case", code: "NODE-011", want: pass_, change: preview(func(p *v1.NodePreview) { p.ProviderID = strings.ToUpper(p.ProviderID) })},
	{name: "nodes could not be listed", code: "NODE-011", want: unknwn, change: noNodes},
	{name: "nodes could not be listed", code: "NODE-012", want: unknwn, change: noNodes},
	{name: "nodes could not be listed", code: "NODE-013", want: unknwn, change: noNodes},
	{name: "F06: one has another id, one is not found", code: "NODE-011", want: fails, change: func(s *v1.Snapshot) {
		s.Preview.Nodes[1].Found, s.Preview.Nodes[3].ProviderID = false, "aws:///us-east-1b/i-1"
	}},
	{name: "the new provider was not asked", code: "NODE-011", want: skipped, says: []string{"NODE-010"}, change: notAsked},
	{
		name:   "one node is not known",
		code:   "NODE-011",
		want:   skipped,
		says:   []string{"NODE-010"},
		change: preview(func(p *v1.NodePreview) { p.Error = "throttled" }),
	},

	{name: "F08: the same addresses", code: "NODE-012", want: pass_},
	{
		name: "F08: another internal address",
		code: "NODE-012",
		want: fails,
		says: []string{"InternalIP 10.0.0.5 would be 192.168.0.7"},
		change: preview(func(p *v1.NodePreview) {
			p.Addresses = []string{"InternalIP=192.168.0.7", p.Addresses[1], p.Addresses[2]}
		}),
	},
	{
		name: "F10: two in another order",
		code: "NODE-012",
		want: fails,
		says: []string{"InternalIP 10.0.0.5,192.168.0.7 would be 192.168.0.7,10.0.0.5"},
		change: func(s *v1.Snapshot) {
			s.Nodes[3].Addresses = append([]string{"InternalIP=10.0.0.5", "InternalIP=192.168.0.7"}, s.Nodes[3].Addresses[1:]...)
			s.Preview.Nodes[3].Addresses = append([]string{"InternalIP=192.168.0.7", "InternalIP=10.0.0.5"}, s.Nodes[3].Addresses[2:]...)
		},
	},
	{
		name:   "F08: the types in another order",
		code:   "NODE-012",
		want:   pass_,
		change: preview(func(p *v1.NodePreview) { p.Addresses = []string{p.Addresses[2], p.Addresses[1], p.Addresses[0]} }),
	},
	{
		name:   "F08: a hostname that the cloud does not give",
		code:   "NODE-012",
		want:   pass_,
		change: preview(func(p *v1.NodePreview) { p.Addresses = []string{p.Addresses[0], p.Addresses[2]} }),
	},
	{name: "F10: the kubelet chose one of two", code: "NODE-012", want: pass_, change: func(s *v1.Snapshot) {
		s.Nodes[3].Annotations = map[string]string{facts.AnnotationProvidedIP: "10.0.0.5"}
		s.Preview.Nodes[3].Addresses = append([]string{"InternalIP=192.168.0.7"}, s.Preview.Nodes[3].Addresses...)
	}},

	{name: "F11: the same labels", code: "NODE-013", want: pass_},
	{
		name:   "F11: another zone",
		code:   "NODE-013",
		want:   fails,
		says:   []string{"zone us-east-1a would be nova"},
		change: preview(func(p *v1.NodePreview) { p.Zone = "nova" }),
	},
	{
		name:   "F11: another type",
		code:   "NODE-013",
		want:   fails,
		says:   []string{"type m5.large would be m5"},
		change: preview(func(p *v1.NodePreview) { p.Type = "m5" }),
	},
	{name: "F11: a provider without zones", code: "NODE-013", want: pass_, change: preview(func(p *v1.NodePreview) { p.Zone, p.Region = "", "" })},

	{name: "F11: both names agree", code: "NODE-014", want: pass_, says: []string{"5 nodes have a zone"}, change: label(node.ZoneLabels.Beta, "us-east-1a")},
	{
		name:   "F11: the beta label says otherwise",
		code:   "NODE-014",
		want:   fails,
		says:   []string{"topology.kubernetes.io/zone=us-east-1a would follow failure-domain.beta.kubernetes.io/zone=us-east-1b"},
		change: label(node.ZoneLabels.Beta, "us-east-1b"),
	},
	{
		name:   "F11: a node without a zone among others",
		code:   "NODE-014",
		want:   warn,
		says:   []string{"no zone"},
		change: func(s *v1.Snapshot) { s.Nodes[3].Labels = map[string]string{node.RegionLabels.Beta: "us-east-1"} },
	},
	{name: "F11: nobody has zones", code: "NODE-014", want: pass_, says: []string{"no node has a label"}, change: func(s *v1.Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].Labels = nil
		}
	}},
	{name: "nodes could not be listed", code: "NODE-014", want: unknwn, change: noNodes},

	{
		name:   "F08: the address is the node's",
		code:   "NODE-015",
		want:   pass_,
		says:   []string{"1 kubelet is told"},
		change: annotate(facts.AnnotationProvidedIP, "10.0.0.5"),
	},
	{
		name:   "F09: the cloud does not know the address",
		code:   "NODE-015",
		want:   fails,
		says:   []string{"told 172.16.0.9"},
		change: annotate(facts.AnnotationProvidedIP, "172.16.0.9"),
	},
	{
		name: "F09: the new provider does not know the node's address",
		code: "NODE-015",
		want: fails,
		says: []string{"told 10.0.0.5, knows InternalIP=192.168.0.7"},
		change: func(s *v1.Snapshot) {
			annotate(facts.AnnotationProvidedIP, "10.0.0.5")(s)
			s.Preview.Nodes[3].Addresses = []string{"InternalIP=192.168.0.7"}
		},
	},
	{name: "F09: the new provider refuses the address", code: "NODE-015", want: fails, says: []string{"failed to match nodeIP"}, change: func(s *v1.Snapshot) {
		annotate(facts.AnnotationProvidedIP, "10.0.0.5")(s)
		s.Preview.Nodes[3].Addresses, s.Preview.Nodes[3].Error = nil, "failed to match nodeIP"
	}},
	{
		name:   "F09: the flag of an in-tree kubelet",
		code:   "NODE-015",
		want:   fails,
		says:   []string{"told 172.16.0.9", "ip-10-0-0-11.ec2.internal"},
		change: kubeletFlag("node-ip", "172.16.0.9"),
	},
	{name: "F09: any address of a family", code: "NODE-015", want: pass_, change: kubeletFlag("node-ip", "::")},
	{name: "nodes could not be listed", code: "NODE-015", want: unknwn, change: noNodes},

	{name: "one each", code: "NODE-016", want: pass_, says: []string{"5 nodes have one"}},
	{name: "F10: one of each family", code: "NODE-016", want: pass_, change: internalIPs("10.0.0.5", "fd00::5")},
	{name: "F10: two networks", code: "NODE-016", want: warn, says: []string{"10.0.0.5, 192.168.0.7", "--prove"}, change: func(s *v1.Snapshot) {
		internalIPs("10.0.0.5", "192.168.0.7")(s)
		s.Preview = nil
	}},
	{name: "F10: two networks of a provider that cannot be asked", code: "NODE-016", base: onCloudStack, want: warn, says: []string{"kubectl get nodes -o 'custom-columns="}, change: func(s *v1.Snapshot) {
		internalIPs("10.0.0.5", "192.168.0.7")(s)
		s.Preview = nil
	}},
	{
		name:   "F10: two networks, and the new provider was asked",
		code:   "NODE-016",
		want:   pass_,
		says:   []string{"1 node has several"},
		change: internalIPs("10.0.0.5", "192.168.0.7"),
	},
	{name: "nodes could not be listed", code: "NODE-016", want: unknwn, change: noNodes},

	{name: "F13: the same UUID", code: "NODE-017", base: vsphereCluster, want: pass_, says: []string{"5 nodes"}},
	{
		name:   "F13: old hardware swaps bytes",
		code:   "NODE-017",
		base:   vsphereCluster,
		want:   pass_,
		change: func(s *v1.Snapshot) { s.Nodes[3].SystemUUID = "960F2542-FCC7-CEA3-2e94-000000000003" },
	},
	{
		name:   "F13: a machine that was cloned",
		code:   "NODE-017",
		base:   vsphereCluster,
		want:   fails,
		says:   []string{"worker-3"},
		change: func(s *v1.Snapshot) { s.Nodes[3].SystemUUID = uuidOf(9) },
	},
	{name: "nodes could not be listed", code: "NODE-017", base: vsphereCluster, want: unknwn, change: noNodes},
	{name: "another cloud", code: "NODE-017", want: skipped},

	{name: "F91: nothing was set by hand", code: "NODE-018", want: pass_, says: []string{"no node has"}},
	{name: "F91: a ready node with a label of its own", code: "NODE-018", want: pass_, says: []string{"1 node has"}, change: label("team", "blue")},
	{
		name: "F91: a node that could be deleted",
		code: "NODE-018",
		want: warn,
		says: []string{"label team", "taint dedicated=db:NoSchedule", "get node ip-10-0-1-11.ec2.internal -o yaml > node.yaml"},
		change: func(s *v1.Snapshot) {
			label("team", "blue")(s)
			s.Nodes[3].Taints = []string{"dedicated=db:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}
			s.Nodes[3].Ready, s.Cloud.Instances[3].Found = "Unknown", false
		},
	},
	{name: "F91: not ready, and the cloud has its instance", code: "NODE-018", want: pass_, change: func(s *v1.Snapshot) {
		label("team", "blue")(s)
		s.Nodes[3].Ready = "Unknown"
	}},
	{name: "nodes could not be listed", code: "NODE-018", want: unknwn, change: noNodes},

	{name: "no Windows", code: "NODE-019", want: pass_},
	{name: "a Windows node", code: "NODE-019", want: warn, says: []string{"1 Windows node"}, change: func(s *v1.Snapshot) { s.Nodes[3].OS = "windows" }},
	{name: "nodes could not be listed", code: "NODE-019", want: unknwn, change: noNodes},
}

func instancesNotRead(s *v1.Snapshot) {
	s.Cloud.Instances, s.Cloud.Errors = nil, []string{"instances: throttled"}
}

func resourceNamed(s *v1.Snapshot) { s.Cloud.Instances[0].HostnameType = "resource-name" }

func label(key, value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Nodes[3].Labels[key] = value }
}

func annotate(key, value string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Nodes[3].Annotations = map[string]string{key: value} }
}

func internalIPs(ips ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Nodes[3].Addresses = nil
		for _, ip := range ips {
			s.Nodes[3].Addresses = append(s.Nodes[3].Addresses, "InternalIP="+ip)
		}
	}
}
