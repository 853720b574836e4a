package check

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// kcmFlags gives every kube-controller-manager flags.
func kcmFlags(flags map[string]string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range s.Hosts {
			setFlags(s, i, component.KCM, flags)
		}
	}
}

var noRouteLoop = kcmFlags(map[string]string{"configure-cloud-routes": "false"})

func cni(image string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		s.Workloads = append(s.Workloads, v1.Workload{
			Ref:         "DaemonSet/kube-system/cni",
			Role:        v1.RoleCNI,
			HostNetwork: true,
			Tolerations: []string{"*:"},
			Containers:  []v1.Container{{Name: "install", Image: "busybox"}, {Name: "node", Image: image}},
		})
	}
}

func podCIDRsOf(i int, cidrs ...string) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) { s.Nodes[i].PodCIDRs = cidrs }
}

func waitsForNetwork(s *v1.Snapshot) { s.Nodes[3].NetworkUnavailable = "True" }

func routesNotRead(s *v1.Snapshot) {
	s.Cloud.Routes, s.Cloud.Errors = nil, []string{"routes: AccessDenied"}
}

// both does one after the other.
func both(changes ...func(*v1.Snapshot)) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for _, change := range changes {
			change(s)
		}
	}
}

// moreRoutes adds rows and nodes of another network.
func moreRoutes(n int) func(*v1.Snapshot) {
	return func(s *v1.Snapshot) {
		for i := range n {
			s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: fmt.Sprintf("10.201.%d.0/24", i), Target: "eni-1", State: "active"})
		}
	}
}

var routeRules = []ruleCase{
	{name: "no node waits", code: "ROUTE-002", want: pass_},
	{
		name:   "F29: a node waits, and the loop runs",
		code:   "ROUTE-002",
		want:   warn,
		says:   []string{"1 node waits for a route", "10.200.4.0/24"},
		change: waitsForNetwork,
	},
	{
		name:   "F29: a node waits, and nobody makes routes",
		code:   "ROUTE-002",
		want:   fails,
		says:   []string{"no manager runs the route loop"},
		change: both(waitsForNetwork, noRouteLoop),
	},
	{name: "the CNI plugin cleared it", code: "ROUTE-002", want: pass_, change: func(s *v1.Snapshot) { s.Nodes[3].NetworkUnavailable = "False" }},
	{name: "nodes could not be listed", code: "ROUTE-002", want: unknwn, change: noNodes},

	{name: "there is no other manager", code: "ROUTE-003", want: pass_, says: []string{"the route loop is on in-tree"}},
	{
		name:   "F29: a manager that begins to write routes by default",
		code:   "ROUTE-003",
		want:   fails,
		says:   []string{"would begin to write routes", "--configure-cloud-routes=true (default)", "--configure-cloud-routes=false"},
		change: both(noRouteLoop, installedCCM(map[string]string{"cluster-cidr": "10.200.0.0/16"})),
	},
	{
		name:   "F29: in-tree routes need allocated CIDRs",
		code:   "ROUTE-003",
		want:   fails,
		says:   []string{"would begin"},
		change: both(kcmFlags(map[string]string{"allocate-node-cidrs": "false"}), installedCCM(map[string]string{"cluster-cidr": "10.200.0.0/16"})),
	},
	{
		name:   "F29: a manager that leaves the routes alone",
		code:   "ROUTE-003",
		want:   fails,
		says:   []string{"would leave the routes alone"},
		change: installedCCM(map[string]string{"configure-cloud-routes": "false"}),
	},
	{
		name:   "F29: a manager with the same flags",
		code:   "ROUTE-003",
		want:   pass_,
		says:   []string{"on in 1 cloud-controller-manager"},
		change: installedCCM(map[string]string{"cluster-cidr": "10.200.0.0/16"}),
	},
	{name: "workloads could not be listed", code: "ROUTE-003", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},
	{name: "after the migration", code: "ROUTE-003", base: migrated, want: skipped},

	{name: "routes and no other router", code: "ROUTE-004", want: pass_},
	{
		name:   "F29: routes beside an overlay",
		code:   "ROUTE-004",
		want:   warn,
		says:   []string{"DaemonSet/kube-system/cni (Calico)"},
		change: cni("docker.io/calico/node:v3.26.1"),
	},
	{
		name:   "F29: a plugin that may rely on routes",
		code:   "ROUTE-004",
		want:   pass_,
		says:   []string{"none of 1 CNI workload"},
		change: cni("docker.io/flannel/flannel:v0.22.0"),
	},
	{name: "F29: an overlay without routes", code: "ROUTE-004", want: skipped, change: both(noRouteLoop, cni("docker.io/calico/node:v3.26.1"))},
	{name: "workloads could not be listed", code: "ROUTE-004", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},

	{name: "room for all", code: "ROUTE-005", want: pass_, says: []string{"5 routes in 1 table, of 50"}},
	{name: "F29: nearly full", code: "ROUTE-005", want: warn, says: []string{"rtb-lab: 45 rows of 50", "L-93826ACB"}, change: moreRoutes(40)},
	{
		name:   "F29: no room for a node",
		code:   "ROUTE-005",
		want:   fails,
		says:   []string{"50 rows and 1 nodes without one, of 50"},
		change: both(moreRoutes(45), podCIDRsOf(3, "10.200.99.0/24")),
	},
	{name: "F29: a quota that was raised", code: "ROUTE-005", want: warn, says: []string{"more than the default"}, change: moreRoutes(60)},
	{name: "routes could not be read", code: "ROUTE-005", want: skipped, says: []string{"CLOUD-001"}, change: routesNotRead},
	{name: "nodes could not be listed", code: "ROUTE-005", want: unknwn, change: noNodes},
	{name: "no route loop", code: "ROUTE-005", want: skipped, change: noRouteLoop},

	{name: "one table", code: "ROUTE-006", want: pass_, says: []string{"5 routes are in one table"}},
	{
		name:   "two tables",
		code:   "ROUTE-006",
		want:   fails,
		says:   []string{"rtb-lab with 4 rows", "rtb-other with 1 row", "aws ec2 describe-route-tables --route-table-ids rtb-lab rtb-other"},
		change: func(s *v1.Snapshot) { s.Cloud.Routes[4].Table = "rtb-other" },
	},
	{name: "routes could not be read", code: "ROUTE-006", want: skipped, says: []string{"CLOUD-001"}, change: routesNotRead},
	{name: "nodes could not be listed", code: "ROUTE-006", want: unknwn, change: noNodes},
	{name: "another cloud", code: "ROUTE-006", base: gceCluster, want: skipped},

	{name: "every route leads to its node", code: "ROUTE-007", want: pass_, says: []string{"5 pod CIDRs"}},
	{
		name:   "a route leads to another node",
		code:   "ROUTE-007",
		want:   fails,
		says:   []string{"10.200.4.0/24 of node ip-10-0-1-11.ec2.internal leads to ip-10-0-0-11.ec2.internal"},
		change: func(s *v1.Snapshot) { s.Cloud.Routes[3].Target = s.Cloud.Instances[0].ID },
	},
	{
		name: "a row of a pod CIDR that the node had",
		code: "ROUTE-007",
		want: warn,
		says: []string{"10.200.77.0/24, which leads to ip-10-0-0-11.ec2.internal, is no node's and would be deleted"},
		change: func(s *v1.Snapshot) {
			s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: "10.200.77.0/24", Target: s.Cloud.Instances[0].ID, State: "active"})
		},
	},
	{name: "a row outside the cluster's network", code: "ROUTE-007", want: pass_, change: func(s *v1.Snapshot) {
		s.Cloud.Routes = append(s.Cloud.Routes, v1.Route{Table: "rtb-lab", CIDR: "172.31.0.0/16", Target: s.Cloud.Instances[0].ID, State: "active"})
	}},
	{
		name:   "a node without a route",
		code:   "ROUTE-007",
		want:   warn,
		says:   []string{"10.200.5.0/24 of node ip-10-0-1-12.ec2.internal has no route"},
		change: func(s *v1.Snapshot) { s.Cloud.Routes = s.Cloud.Routes[:4] },
	},
	{name: "nodes could not be listed", code: "ROUTE-007", want: unknwn, change: noNodes},
	{name: "routes could not be read", code: "ROUTE-007", want: skipped, says: []string{"CLOUD-001"}, change: routesNotRead},

	{name: "ranges of the cluster CIDR", code: "IPAM-001", want: pass_, says: []string{"3 kube-controller-managers give out"}},
	{
		name:   "F28: the cloud allocates on GCE",
		code:   "IPAM-001",
		base:   gceCluster,
		want:   warn,
		says:   []string{"node IPAM moves"},
		change: kcmFlags(map[string]string{"cidr-allocator-type": "CloudAllocator"}),
	},
	{
		name:   "F28: the cloud allocates on AWS",
		code:   "IPAM-001",
		want:   fails,
		says:   []string{"--cidr-allocator-type=CloudAllocator with --cloud-provider=aws"},
		change: kcmFlags(map[string]string{"cidr-allocator-type": "CloudAllocator"}),
	},
	{
		name:   "F28: an allocator that nobody can take over",
		code:   "IPAM-001",
		base:   gceCluster,
		want:   fails,
		change: kcmFlags(map[string]string{"cidr-allocator-type": "IPAMFromCluster"}),
	},
	{
		name: "F28: the cloud allocates on GCE, in a seed",
		code: "IPAM-001",
		base: gceCluster,
		want: warn,
		says: []string{"node IPAM moves with the other loops", "--cidr-allocator-type=CloudAllocator"},
		change: func(s *v1.Snapshot) {
			kcmFlags(map[string]string{"cidr-allocator-type": "CloudAllocator"})(s)
			s.Cluster.Seed = "cluster-x"
		},
	},
	{name: "no manager was found", code: "IPAM-001", want: unknwn, change: func(s *v1.Snapshot) {
		for i := range s.Hosts {
			s.Hosts[i].Components = s.Hosts[i].Components[:1]
		}
	}},
	{name: "nobody allocates", code: "IPAM-001", want: skipped, change: kcmFlags(map[string]string{"allocate-node-cidrs": "false"})},

	{name: "every node has one", code: "IPAM-002", want: pass_, says: []string{"5 nodes have a pod CIDR"}},
	{name: "F30: a node has none", code: "IPAM-002", want: fails, says: []string{"1 of 5 nodes has no pod CIDR"}, change: podCIDRsOf(3)},
	{name: "nobody allocates", code: "IPAM-002", want: skipped, change: kcmFlags(map[string]string{"allocate-node-cidrs": "false"})},
	{name: "nodes could not be listed", code: "IPAM-002", want: unknwn, change: noNodes},

	{name: "apart and inside", code: "IPAM-003", want: pass_, says: []string{"5 pod CIDRs of 5 nodes", "10.200.0.0/16"}},
	{
		name:   "F30: two nodes with one",
		code:   "IPAM-003",
		want:   fails,
		says:   []string{"ip-10-0-1-12.ec2.internal: 10.200.4.0/24 overlaps 10.200.4.0/24 of ip-10-0-1-11.ec2.internal"},
		change: podCIDRsOf(4, "10.200.4.0/24"),
	},
	{
		name:   "F30: one inside a larger one",
		code:   "IPAM-003",
		want:   fails,
		says:   []string{"10.200.2.0/24 overlaps 10.200.0.0/22"},
		change: podCIDRsOf(4, "10.200.0.0/22"),
	},
	{
		name:   "F30: outside the cluster CIDR",
		code:   "IPAM-003",
		want:   fails,
		says:   []string{"172.16.4.0/24 is outside --cluster-cidr 10.200.0.0/16"},
		change: podCIDRsOf(4, "172.16.4.0/24"),
	},
	{
		name:   "F30: two families",
		code:   "IPAM-003",
		want:   pass_,
		change: both(podCIDRsOf(4, "10.200.5.0/24", "fd00:10::/64"), kcmFlags(map[string]string{"cluster-cidr": "10.200.0.0/16,fd00:10::/56"})),
	},
	{
		name:   "F30: the Services' range lies inside",
		code:   "IPAM-003",
		want:   fails,
		says:   []string{"overlaps the Services' range 10.200.128.0/20"},
		change: kcmFlags(map[string]string{"service-cluster-ip-range": "10.200.128.0/20"}),
	},
	{name: "one that cannot be read", code: "IPAM-003", want: fails, says: []string{"pod CIDR banana is none"}, change: podCIDRsOf(4, "banana")},
	{name: "no node has one", code: "IPAM-003", want: skipped, change: func(s *v1.Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].PodCIDRs = nil
		}
	}},
	{name: "nodes could not be listed", code: "IPAM-003", want: unknwn, change: noNodes},

	{name: "the size of the flags", code: "IPAM-004", want: pass_, says: []string{"251 of 256 pod CIDRs in 10.200.0.0/16 are free"}},
	{name: "F30: another size", code: "IPAM-004", want: warn, says: []string{"10.200.4.0/25 instead of /24"}, change: podCIDRsOf(3, "10.200.4.0/25")},
	{
		name:   "F30: a size that the flags say",
		code:   "IPAM-004",
		want:   warn,
		says:   []string{"10.200.1.0/24 instead of /26"},
		change: kcmFlags(map[string]string{"node-cidr-mask-size": "26"}),
	},
	{
		name:   "F30: none left",
		code:   "IPAM-004",
		want:   warn,
		says:   []string{"0 of 4 pod CIDRs in 10.200.0.0/22 are free"},
		change: kcmFlags(map[string]string{"cluster-cidr": "10.200.0.0/22"}),
	},
	{
		name:   "F30: the cloud chooses the size",
		code:   "IPAM-004",
		want:   skipped,
		says:   []string{"--cidr-allocator-type=CloudAllocator"},
		change: both(podCIDRsOf(3, "10.200.4.0/25"), kcmFlags(map[string]string{"cidr-allocator-type": "CloudAllocator"})),
	},
	{name: "nobody allocates", code: "IPAM-004", want: skipped, change: kcmFlags(map[string]string{"allocate-node-cidrs": "false"})},
	{name: "nodes could not be listed", code: "IPAM-004", want: unknwn, change: noNodes},

	{name: "there is no other manager", code: "IPAM-005", want: pass_, says: []string{"3 kube-controller-managers allocate pod CIDRs"}},
	{
		name:   "F30: Azure's manager with copied flags",
		code:   "IPAM-005",
		base:   azureCluster,
		want:   fails,
		says:   []string{"--allocate-node-cidrs=true --controllers=*"},
		change: installedCCM(map[string]string{"allocate-node-cidrs": "true"}),
	},
	{
		name:   "F30: Azure's manager without node IPAM",
		code:   "IPAM-005",
		base:   azureCluster,
		want:   pass_,
		change: installedCCM(map[string]string{"allocate-node-cidrs": "true", "controllers": "*,-node-ipam-controller"}),
	},
	{name: "F30: AWS has no such loop", code: "IPAM-005", want: pass_, change: installedCCM(map[string]string{"allocate-node-cidrs": "true"})},
	{
		name:   "F30: nobody else allocates",
		code:   "IPAM-005",
		base:   azureCluster,
		want:   pass_,
		change: both(installedCCM(map[string]string{"allocate-node-cidrs": "true"}), kcmFlags(map[string]string{"allocate-node-cidrs": "false"})),
	},
	{name: "workloads could not be listed", code: "IPAM-005", want: unknwn, change: func(s *v1.Snapshot) { cannotGather(s, "workloads") }},
}
