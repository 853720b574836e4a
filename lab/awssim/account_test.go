package awssim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
)

func TestTheDefaultAccountIsTheDocumentedOne(t *testing.T) {
	tags := map[string]string{"kubernetes.io/cluster/lab": "owned"}
	want := ec2.State{
		Name:  "us-east-1",
		Zones: []ec2.Zone{{Name: "us-east-1a", ID: "use1-az1"}, {Name: "us-east-1b", ID: "use1-az2"}},
		VPC:   ec2.VPC{ID: "vpc-lab", CIDR: "10.0.0.0/16", Tags: tags},
		Subnets: map[string]*ec2.Subnet{
			"subnet-a": {ID: "subnet-a", Zone: "us-east-1a", CIDR: "10.0.0.0/20", Tags: tags},
			"subnet-b": {ID: "subnet-b", Zone: "us-east-1b", CIDR: "10.0.16.0/20", Tags: tags},
		},
		RouteTables: map[string]*ec2.RouteTable{"rtb-lab": {ID: "rtb-lab", Subnets: []string{"subnet-a", "subnet-b"}, Tags: tags, Routes: []ec2.Route{
			{CIDR: "10.0.0.0/16", Gateway: "local", State: "active", Origin: "CreateRouteTable"},
			{CIDR: "0.0.0.0/0", Gateway: "igw-lab", State: "active", Origin: "CreateRoute"},
		}}},
		SecurityGroups: map[string]*ec2.SecurityGroup{
			"sg-nodes": {ID: "sg-nodes", Name: "nodes", Description: "Nodes of the cluster lab", Rules: []ec2.Rule{}, Tags: tags},
		},
		Instances: map[string]*ec2.Instance{first: {
			ID: first, Type: "m5.large", State: "running", Zone: "us-east-1a", Subnet: "subnet-a", PrivateIP: "10.0.0.11",
			PrivateDNS: "ip-10-0-0-11.ec2.internal", SecurityGroups: []string{"sg-nodes"}, Tags: tags,
		}},
	}
	if diff := cmp.Diff(want, start(t, oneInstance()).State().EC2); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOtherRegionsHaveOtherNames(t *testing.T) {
	sim := start(t, awssim.Options{Region: "eu-west-2", Instances: []awssim.Instance{{PrivateIP: "10.0.0.11"}, {PrivateIP: "10.0.0.12"}}})
	for _, i := range sim.Instances() {
		if !strings.HasSuffix(i.PrivateDNS, ".eu-west-2.compute.internal") || !strings.HasPrefix(i.Zone, "eu-west-2") {
			t.Errorf("%s is called %s and lies in %s", i.ID, i.PrivateDNS, i.Zone)
		}
	}
	if got := sim.State().EC2.Zones[1].ID; got != "euw2-az2" {
		t.Errorf("the second zone's id is %s", got)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options awssim.Options
		says    string
	}{
		"a range that is none":         {awssim.Options{VPCCIDR: "10.0.0.0"}, `vpcCIDR "10.0.0.0"`},
		"a range that is too small":    {awssim.Options{VPCCIDR: "10.0.0.0/24"}, `vpcCIDR "10.0.0.0/24"`},
		"a zone of another region":     {awssim.Options{Zones: []string{"eu-west-1a"}}, `zone "eu-west-1a"`},
		"a zone twice":                 {awssim.Options{Zones: []string{"us-east-1a", "us-east-1a"}}, `zone "us-east-1a"`},
		"too many zones":               {awssim.Options{Zones: strings.Fields(strings.Repeat("us-east-1x ", 17))}, "17 zones"},
		"a policy that is none":        {awssim.Options{Keys: map[string]awssim.Policy{"K": "admin"}}, `policy "admin"`},
		"an extra subnet elsewhere":    {awssim.Options{ExtraSubnets: []ec2.Subnet{{ID: "subnet-x", Zone: "us-east-1x"}}}, `extra subnet "subnet-x"`},
		"an instance without address":  {awssim.Options{Instances: []awssim.Instance{{ID: first}}}, "private address"},
		"an instance with a bad id":    {awssim.Options{Instances: []awssim.Instance{{ID: "worker-1", PrivateIP: "10.0.0.1"}}}, "hexadecimal"},
		"two instances, one id":        {awssim.Options{Instances: []awssim.Instance{{ID: first, PrivateIP: "10.0.0.1"}, {ID: first, PrivateIP: "10.0.0.2"}}}, "there is one with this id"},
		"two instances, one address":   {awssim.Options{Instances: []awssim.Instance{{ID: first, PrivateIP: "10.0.0.1"}, {ID: second, PrivateIP: "10.0.0.1"}}}, "belongs to " + first},
		"an instance in no subnet":     {awssim.Options{Instances: []awssim.Instance{{PrivateIP: "10.0.0.1", Zone: "us-east-1a", Subnet: "subnet-b"}}}, `no subnet "subnet-b"`},
		"an instance in no group":      {awssim.Options{Instances: []awssim.Instance{{PrivateIP: "10.0.0.1", SecurityGroups: []string{"sg-x"}}}}, `no security group "sg-x"`},
		"an instance in no state":      {awssim.Options{Instances: []awssim.Instance{{PrivateIP: "10.0.0.1", State: "sleeping"}}}, `unknown state "sleeping"`},
		"several problems, named both": {awssim.Options{VPCCIDR: "x", Keys: map[string]awssim.Policy{"K": "admin"}}, `policy "admin"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := awssim.New(c.options)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestDriftAndFateChangeTheCloudAndAreRecorded(t *testing.T) {
	sim := start(t, oneInstance())
	const nlb = "Subnets.member.1"
	steps := []struct {
		name string
		do   func() error
	}{
		{"launching", func() error {
			i, err := sim.AddInstance(awssim.Instance{PrivateIP: "10.0.1.11"})
			if err == nil && (i.Zone != "us-east-1b" || i.PrivateDNS != "ip-10-0-1-11.ec2.internal") {
				t.Errorf("launched %+v", i)
			}
			return err
		}},
		{"creating a load balancer", func() error {
			return sim.Do("elb", "CreateLoadBalancer", map[string]string{"LoadBalancerName": "a", nlb: "subnet-a", "Listeners.member.1.Protocol": "TCP",
				"Listeners.member.1.LoadBalancerPort": "80", "Listeners.member.1.InstancePort": "30080"})
		}},
		{"registering", func() error {
			return sim.Do("elb", "RegisterInstancesWithLoadBalancer", map[string]string{"LoadBalancerName": "a", "Instances.member.1.InstanceId": first})
		}},
		{"deregistering", func() error { return sim.DeregisterInstance("a", first) }},
		{"deleting it", func() error { return sim.DeleteLoadBalancer("a") }},
		{"creating a target group", func() error {
			return sim.Do("elbv2", "CreateTargetGroup", map[string]string{"Name": "t", "Protocol": "TCP", "Port": "80", "VpcId": "vpc-lab"})
		}},
		{"deregistering a target", func() error {
			for arn := range sim.State().ELBV2.TargetGroups {
				return sim.DeregisterTarget(arn, first)
			}
			return nil
		}},
		{"terminating", func() error { return sim.SetInstanceState(first, "terminated") }},
		{"vanishing", func() error { return sim.VanishInstance(first) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	calls := sim.Audit().Calls(awssim.Filter{Keys: []string{awssim.LabKey}})
	if len(calls) != len(steps) {
		t.Errorf("%d calls recorded for %d steps", len(calls), len(steps))
	}
	if left := sim.Instances(); len(left) != 1 || left[0].PrivateIP != "10.0.1.11" {
		t.Errorf("left: %+v", left)
	}
	for name, err := range map[string]error{
		"an unknown instance's state":      sim.SetInstanceState(nobody, "stopped"),
		"an unknown state":                 sim.SetInstanceState("i-0000000000a00010b", "sleeping"),
		"an unknown instance's vanishing":  sim.VanishInstance(nobody),
		"an unknown service":               sim.Do("s3", "ListBuckets", nil),
		"an unknown action":                sim.Do("ec2", "RunInstances", nil),
		"an unknown parameter":             sim.Do("ec2", "DescribeVpcs", map[string]string{"X": "1"}),
		"a refusal of the API":             sim.DeleteRoute("10.9.0.0/24"),
		"a second instance at one address": errorOf(sim.AddInstance(awssim.Instance{ID: nobody, PrivateIP: "10.0.1.11"})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestTheStateIsACopyWithTheSameBytesEveryTime(t *testing.T) {
	sim := start(t, scriptOptions())
	play(t, "sdk-v2", newV2(t, sim), sim, "elb", elbScript()[:6])
	before := stateJSON(t, sim.Server)
	copied := sim.State()
	copied.EC2.Instances[first].State = "gone"
	copied.ELB["a1b2"].Instances = append(copied.ELB["a1b2"].Instances, nobody)
	for range 20 {
		if again := stateJSON(t, sim.Server); again != before {
			t.Fatalf("the state changed by being looked at:\n%s", cmp.Diff(before, again))
		}
	}
	var back awssim.State
	if err := json.Unmarshal([]byte(before), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sim.State(), back); diff != "" {
		t.Errorf("what the JSON says is another state (-state +json):\n%s", diff)
	}
}
