package check

import (
	"fmt"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/loadbalancer"
	"github.com/transplant-dev/transplant/internal/check/node"
	"github.com/transplant-dev/transplant/internal/check/route"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/check/scheduling"
	"github.com/transplant-dev/transplant/internal/component"
)

// large is the healthy cluster with so many nodes and Services, each Service with a load balancer of all nodes.
func large(nodes, services int) *v1.Snapshot {
	s := healthy()
	for i := len(s.Nodes); i < nodes; i++ {
		addNode(s, fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", 1+i/65000, i/250, i%250), fmt.Sprintf("i-2%016d", i))
		cidr := fmt.Sprintf("10.%d.%d.0/24", 200+(i+1)/256, (i+1)%256)
		s.Nodes[i].PodCIDRs, s.Cloud.Routes[i].CIDR = []string{cidr}, cidr
	}
	for i := range s.Hosts {
		setFlags(s, i, component.KCM, map[string]string{"cluster-cidr": "10.192.0.0/10"})
	}
	previewed(s)
	s.Services, s.Cloud.LoadBalancers = nil, nil
	served(s)
	members := s.Cloud.LoadBalancers[0].Members
	for i := len(s.Services); i < services; i++ {
		service, balancer := s.Services[0], s.Cloud.LoadBalancers[0]
		service.Name, service.UID = fmt.Sprintf("web-%d", i), fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		service.Addresses = []string{fmt.Sprintf("a%d-1.us-east-1.elb.amazonaws.com", i)}
		if i%2 == 0 {
			service.Annotations = map[string]string{loadbalancer.AnnotationTargetLabels: "topology.kubernetes.io/region=us-east-1"}
		}
		balancer.Name, balancer.Address, balancer.Members = loadbalancer.DefaultBalancerName(service.UID), service.Addresses[0], members
		s.Services, s.Cloud.LoadBalancers = append(s.Services, service), append(s.Cloud.LoadBalancers, balancer)
	}
	return s
}

// ours are the checks whose cost grows with nodes, Services, routes and webhooks.
func ours() []rule.Check {
	return slices.Concat(node.Checks, loadbalancer.Checks, route.Checks, scheduling.Checks)
}

func TestALargeClusterPassesAsASmallOneDoes(t *testing.T) {
	s := large(500, 2000)
	f := facts.New(s, facts.Options{})
	for _, c := range ours() {
		got := c.Judge(f)
		if got.Outcome == v1.Fail || got.Outcome == v1.Unknown || got.Outcome == v1.Warn && c.Code != "ROUTE-005" {
			t.Errorf("%s is %s: %.300s", c.Code, got.Outcome, got.Summary+" "+got.Found)
		}
	}
}

func TestWhatIsWrongEverywhereIsSaidInFewWords(t *testing.T) {
	s := large(500, 2000)
	for i := range s.Nodes {
		s.Nodes[i].ProviderID, s.Nodes[i].PodCIDRs, s.Nodes[i].NetworkUnavailable = "kubermatic://x", []string{"192.168.0.0/24"}, "True"
		s.Nodes[i].Addresses, s.Nodes[i].Ready = []string{"InternalIP=10.0.0.1"}, "Unknown"
		s.Preview.Nodes[i].Zone = "nova"
	}
	for i := range s.Services {
		s.Services[i].Addresses, s.Services[i].Finalizers, s.Services[i].LoadBalancerIP = nil, nil, "203.0.113.1"
	}
	f := facts.New(s, facts.Options{})
	for _, c := range ours() {
		got := c.Judge(f)
		if n := len(got.Found) + len(got.Summary) + len(got.Fix); n > 4000 {
			t.Errorf("%s says %d characters", c.Code, n)
		}
	}
}

func BenchmarkChecksOfNodesAndServices(b *testing.B) {
	for _, size := range []struct{ nodes, services int }{{50, 200}, {500, 2000}} {
		b.Run(fmt.Sprintf("%d nodes, %d Services", size.nodes, size.services), func(b *testing.B) {
			f := facts.New(large(size.nodes, size.services), facts.Options{})
			for b.Loop() {
				for _, c := range ours() {
					c.Judge(f)
				}
			}
		})
	}
}
