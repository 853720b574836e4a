package awssim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/lab/awssim"
)

func TestWhatIsNotSimulatedFailsLoudly(t *testing.T) {
	for name, call := range map[string]struct {
		version, action string
		params          map[string]string
		code            string
		unknown         bool
	}{
		"an unknown action":             {"2016-11-15", "RunInstances", nil, "InvalidAction", true},
		"an action of another API":      {"2012-06-01", "DescribeInstances", nil, "InvalidAction", true},
		"an unknown version":            {"2011-06-15", "GetCallerIdentity", nil, "InvalidAction", true},
		"an unknown filter":             {"2016-11-15", "DescribeSubnets", map[string]string{"Filter.1.Name": "vpc", "Filter.1.Value.1": "vpc-lab"}, "InvalidParameterValue", true},
		"a tag filter where none is":    {"2016-11-15", "DescribeAvailabilityZones", map[string]string{"Filter.1.Name": "tag:a", "Filter.1.Value.1": "b"}, "InvalidParameterValue", true},
		"an unknown parameter":          {"2016-11-15", "CreateRoute", map[string]string{"RouteTableId": "rtb-lab", "NatGatewayId": "nat-1"}, "UnknownParameter", true},
		"an unknown member":             {"2012-06-01", "AddTags", map[string]string{"LoadBalancerNames.member.1": "a", "Tags.member.1.Name": "x"}, "UnknownParameter", true},
		"paging that is not simulated":  {"2012-06-01", "DescribeLoadBalancers", map[string]string{"PageSize": "10"}, "UnknownParameter", true},
		"a load balancer of other type": {"2015-12-01", "CreateLoadBalancer", map[string]string{"Name": "a", "Type": "application"}, "ValidationError", true},
		"a target of other type": {"2015-12-01", "CreateTargetGroup", map[string]string{"Name": "a", "Protocol": "TCP", "Port": "1", "VpcId": "vpc-lab", "TargetType": "ip"},
			"ValidationError", true},
		"another address family": {"2015-12-01", "CreateLoadBalancer", map[string]string{"Name": "a", "Type": "network", "IpAddressType": "dualstack"}, "ValidationError", true},
		"a dry run": {
			"2016-11-15",
			"DeleteRoute",
			map[string]string{"RouteTableId": "rtb-lab", "DestinationCidrBlock": "0.0.0.0/0", "DryRun": "true"},
			"DryRunOperation",
			false,
		},
		"a doubtful dry run":      {"2016-11-15", "DescribeVpcs", map[string]string{"DryRun": "perhaps"}, "InvalidParameterValue", false},
		"an empty list":           {"2016-11-15", "DescribeSubnets", map[string]string{"SubnetId": "", "DryRun": "false"}, "", false},
		"an empty list of ELB":    {"2015-12-01", "DescribeLoadBalancers", map[string]string{"Names": ""}, "", false},
		"a list without its dots": {"2016-11-15", "DescribeSubnets", map[string]string{"SubnetId": "subnet-a"}, "UnknownParameter", true},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, awssim.Options{})
			before := stateJSON(t, sim.Server)
			got := sim.post(t, testKey, call.version, call.action, call.params)
			if got.code != call.code {
				t.Errorf("answered %q, want %q:\n%s", got.code, call.code, got.body)
			}
			unknown := sim.Unknown()
			if (len(unknown) == 1) != call.unknown {
				t.Errorf("recorded as unknown: %+v, want that: %v", unknown, call.unknown)
			}
			if len(unknown) == 1 && (unknown[0].Action != call.action || unknown[0].Effect != nil || unknown[0].Key != testKey) {
				t.Errorf("the record is %+v", unknown[0])
			}
			if after := stateJSON(t, sim.Server); after != before {
				t.Errorf("the call changed the cloud:\n%s", after)
			}
		})
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	sim := start(t, awssim.Options{})
	for name, body := range map[string]string{
		"no form":              "%zz",
		"a parameter twice":    "Action=DescribeVpcs&Version=2016-11-15&DryRun=false&DryRun=true",
		"a body without limit": "Action=DescribeVpcs&Version=2016-11-15&VpcId.1=" + strings.Repeat("v", 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sim.url(), strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := sim.transport().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("answered %s", answer.Status)
			}
		})
	}
	for _, c := range sim.Audit().Calls(awssim.Filter{}) {
		if c.Error != "MalformedQueryString" || c.Effect != nil {
			t.Errorf("recorded as %+v", c)
		}
	}
}

func TestKeysDoWhatTheirPolicySays(t *testing.T) {
	sim := start(t, awssim.Options{
		Instances: []awssim.Instance{{PrivateIP: "10.0.0.11"}},
		Keys:      map[string]awssim.Policy{"AKIALABCP1KCM": awssim.Full, "AKIALABCLI": awssim.ReadOnly},
	})
	const read, write = `{}`, `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24","InstanceId":"` + first + `"}`
	for _, c := range []struct{ key, action, in, code string }{
		{"AKIALABCLI", "DescribeInstances", read, ""},
		{"AKIALABCLI", "CreateRoute", write, "UnauthorizedOperation"},
		{"AKIALABOTHER", "DescribeInstances", read, "AuthFailure"},
		{"AKIALABOTHER", "CreateRoute", write, "AuthFailure"},
		{"AKIALABCP1KCM", "CreateRoute", write, ""},
		{"AKIALABCP1KCM", "CreateRoute", write, "RouteAlreadyExists"},
	} {
		for sdk, with := range map[string]func(*testing.T, endpoint, string) client{"sdk-v1": v1With, "sdk-v2": v2With} {
			_, code, err := with(t, sim, c.key).call("ec2", c.action, c.in)
			if c.key == "AKIALABCP1KCM" && c.code == "" && code == "RouteAlreadyExists" {
				continue // The other SDK was first.
			}
			if code != c.code || (err != nil) != (c.code != "") {
				t.Errorf("%s with %s: %s answers %q (%v), want %q", sdk, c.key, c.action, code, err, c.code)
			}
		}
	}
	for _, c := range sim.Audit().Calls(awssim.Filter{Keys: []string{"AKIALABCLI", "AKIALABOTHER"}, Actions: []string{"CreateRoute"}}) {
		if c.Effect != nil || !c.Mutating || c.Unknown {
			t.Errorf("a refused call is recorded as %+v", c)
		}
	}
}
