package ownership

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestLoopOf(t *testing.T) {
	for _, c := range []struct {
		service, action string
		params          map[string]string
		resources       []string
		want            string
	}{
		{"ec2", "CreateRoute", nil, nil, "route"},
		{"ec2", "DeleteRoute", nil, nil, "route"},
		{"ec2", "ModifyInstanceAttribute", map[string]string{"SourceDestCheck.Value": "false"}, nil, "route"},
		{"ec2", "ModifyInstanceAttribute", map[string]string{"Attribute": "sourceDestCheck"}, nil, "route"},
		{"ec2", "ModifyInstanceAttribute", map[string]string{"UserData.Value": "x"}, nil, "other/ModifyInstanceAttribute"},
		{"ec2", "CreateSecurityGroup", nil, nil, "service"},
		{"ec2", "AuthorizeSecurityGroupIngress", nil, nil, "service"},
		{"ec2", "RevokeSecurityGroupIngress", nil, nil, "service"},
		{"ec2", "CreateTags", map[string]string{"ResourceId.1": "sg-1", "Tag.1.Key": "k"}, nil, "service"},
		{"ec2", "CreateTags", nil, []string{"sg-1"}, "service"},
		{"ec2", "CreateTags", map[string]string{"ResourceId.1": "sg-1", "ResourceId.2": "i-1"}, nil, "other/CreateTags"},
		{"ec2", "CreateTags", nil, nil, "other/CreateTags"},
		{"elb", "RegisterInstancesWithLoadBalancer", nil, nil, "service"},
		{"elb", "AddTags", nil, nil, "service"},
		{"elbv2", "CreateTargetGroup", nil, nil, "service"},
		{"ec2", "AttachVolume", nil, nil, "other/AttachVolume"},
		{"load-balancer", "PUT lbaas/pools/{id}/members", nil, nil, "service"},
		{"network", "POST floatingips", nil, nil, "service"},
		{"network", "DELETE security-group-rules/{id}", nil, nil, "service"},
		{"network", "PUT ports/{id}", map[string]string{"security_groups": "[]"}, nil, "service"},
		{"network", "PUT ports/{id}", map[string]string{"allowed_address_pairs": "[]"}, nil, "route"},
		{"network", "PUT routers/{id}", nil, nil, "route"},
		{"network", "PUT routers/{id}/add_extraroutes", nil, nil, "route"},
		{"network", "POST subnets", nil, nil, "other/POST subnets"},
	} {
		got := LoopOf(v1.CloudCall{Service: c.service, Action: c.action, Params: c.params, Resources: c.resources})
		if got != c.want {
			t.Errorf("%s %s %v %v belongs to %q, want %q", c.service, c.action, c.params, c.resources, got, c.want)
		}
	}
}
