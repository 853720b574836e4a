package leftover_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/provider/aws/leftover"
)

// account has what is left in it, and notes what is removed.
type account struct {
	groups  []ec2types.SecurityGroup
	targets []elbv2types.TargetGroup
	tags    map[string]map[string]string // by ARN
	denied  bool                         // the right to read tags
	refused error                        // of each removal
	removed []string
}

func (a *account) DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput, ...func(*ec2.Options)) ([]ec2types.SecurityGroup, error) {
	return slices.Clone(a.groups), nil
}

func (a *account) DeleteSecurityGroup(
	_ context.Context, in *ec2.DeleteSecurityGroupInput, _ ...func(*ec2.Options),
) (*ec2.DeleteSecurityGroupOutput, error) {
	a.removed = append(a.removed, *in.GroupId)
	return &ec2.DeleteSecurityGroupOutput{}, a.refused
}

func (a *account) RevokeSecurityGroupIngress(
	_ context.Context, in *ec2.RevokeSecurityGroupIngressInput, _ ...func(*ec2.Options),
) (*ec2.RevokeSecurityGroupIngressOutput, error) {
	for _, p := range in.IpPermissions {
		a.removed = append(a.removed, *in.GroupId+" "+*p.IpRanges[0].Description)
	}
	return &ec2.RevokeSecurityGroupIngressOutput{}, a.refused
}

func (a *account) DescribeTargetGroups(
	context.Context, *elbv2.DescribeTargetGroupsInput, ...func(*elbv2.Options),
) (*elbv2.DescribeTargetGroupsOutput, error) {
	return &elbv2.DescribeTargetGroupsOutput{TargetGroups: a.targets}, nil
}

func (a *account) DescribeTags(_ context.Context, in *elbv2.DescribeTagsInput, _ ...func(*elbv2.Options)) (*elbv2.DescribeTagsOutput, error) {
	if a.denied {
		return nil, &smithy.GenericAPIError{Code: "AccessDenied"}
	}
	out := &elbv2.DescribeTagsOutput{}
	for _, arn := range in.ResourceArns {
		d := elbv2types.TagDescription{ResourceArn: &arn}
		for key, value := range a.tags[arn] {
			d.Tags = append(d.Tags, elbv2types.Tag{Key: &key, Value: &value})
		}
		out.TagDescriptions = append(out.TagDescriptions, d)
	}
	return out, nil
}

func (a *account) DeleteTargetGroup(
	_ context.Context, in *elbv2.DeleteTargetGroupInput, _ ...func(*elbv2.Options),
) (*elbv2.DeleteTargetGroupOutput, error) {
	a.removed = append(a.removed, *in.TargetGroupArn)
	return &elbv2.DeleteTargetGroupOutput{}, a.refused
}

func (a *account) group(id, name, cluster string, rules ...string) {
	g := ec2types.SecurityGroup{GroupId: &id, GroupName: &name, Tags: []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + cluster)}}}
	for _, rule := range rules {
		g.IpPermissions = append(g.IpPermissions, ec2types.IpPermission{IpRanges: []ec2types.IpRange{{Description: &rule}}})
	}
	a.groups = append(a.groups, g)
}

func (a *account) target(arn, name, cluster, service string, balancers ...string) {
	a.targets = append(a.targets, elbv2types.TargetGroup{TargetGroupArn: &arn, TargetGroupName: &name, LoadBalancerArns: balancers})
	if a.tags == nil {
		a.tags = map[string]map[string]string{}
	}
	a.tags[arn] = map[string]string{"kubernetes.io/cluster/" + cluster: "owned", "kubernetes.io/service-name": service}
}

func (a *account) remove(t *testing.T, kind string) error {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
		"service.beta.kubernetes.io/aws-load-balancer-type": kind,
	}}}
	return leftover.Remover{EC2: a, ELBV2: a, Cluster: "lab"}.Remove(t.Context(), "a1b2", service)
}

func TestOnlyWhatBelongsToTheServiceIsRemoved(t *testing.T) {
	made := func() *account {
		a := &account{}
		a.group("sg-1", "k8s-elb-a1b2", "lab")
		a.group("sg-2", "k8s-elb-a1b2", "other")
		a.group("sg-3", "k8s-elb-a1b2c3", "lab")
		a.group("sg-nodes", "nodes", "lab", "kubernetes.io/rule/nlb/client=a1b2", "kubernetes.io/rule/nlb/client=other",
			"kubernetes.io/rule/nlb/mtu", "kubernetes.io/rule/nlb/health=a1b2", "ssh")
		a.group("sg-last", "nodes", "lab", "kubernetes.io/rule/nlb/client=a1b2", "kubernetes.io/rule/nlb/mtu")
		a.target("tg-1", "k8s-default-web-1", "lab", "default/web")
		a.target("tg-used", "k8s-default-web-2", "lab", "default/web", "arn:of:a:balancer")
		a.target("tg-other-service", "k8s-default-web-3", "lab", "default/web2")
		a.target("tg-other-cluster", "k8s-default-web-4", "other", "default/web")
		a.target("tg-of-a-person", "web", "lab", "default/web")
		return a
	}
	classic, network := made(), made()
	if err := errors.Join(classic.remove(t, ""), network.remove(t, "nlb")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sg-1"}, classic.removed); diff != "" {
		t.Errorf("of a classic load balancer (-want +removed):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"tg-1",
		"sg-nodes kubernetes.io/rule/nlb/client=a1b2", "sg-nodes kubernetes.io/rule/nlb/health=a1b2",
		"sg-last kubernetes.io/rule/nlb/client=a1b2", "sg-last kubernetes.io/rule/nlb/mtu",
		"sg-1",
	}, network.removed); diff != "" {
		t.Errorf("of a network load balancer (-want +removed):\n%s", diff)
	}
}

func TestAMissingRightDoesNotKeepAServiceForEver(t *testing.T) {
	a := &account{denied: true}
	a.group("sg-1", "k8s-elb-a1b2", "lab")
	a.target("tg-1", "k8s-default-web-1", "lab", "default/web")
	if err := a.remove(t, "nlb"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sg-1"}, a.removed); diff != "" {
		t.Errorf("without the right to read tags (-want +removed):\n%s", diff)
	}
}

func TestWhatCannotBeRemovedIsNamedAndTriedAgain(t *testing.T) {
	for refusal, want := range map[string]string{"DependencyViolation": "deleting security group sg-1", "InvalidGroup.NotFound": ""} {
		a := &account{refused: &smithy.GenericAPIError{Code: refusal}}
		a.group("sg-1", "k8s-elb-a1b2", "lab")
		err := a.remove(t, "")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %s the error is %v, want %q", refusal, err, want)
		}
	}
}
