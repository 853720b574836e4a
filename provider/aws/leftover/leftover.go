// Package leftover decides what of a load balancer is left in an AWS account once the load balancer itself is gone, and
// removes it. Everything that it removes has the cluster's tag and can only belong to the one Service.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// EC2 are the calls of EC2 that are needed.
type EC2 interface {
	DescribeSecurityGroups(
		context.Context,
		*ec2.DescribeSecurityGroupsInput,
		...func(*ec2.Options),
	) ([]ec2types.SecurityGroup, error)
	DeleteSecurityGroup(
		context.Context,
		*ec2.DeleteSecurityGroupInput,
		...func(*ec2.Options),
	) (*ec2.DeleteSecurityGroupOutput, error)
	RevokeSecurityGroupIngress(
		context.Context, *ec2.RevokeSecurityGroupIngressInput, ...func(*ec2.Options),
	) (*ec2.RevokeSecurityGroupIngressOutput, error)
}

// ELBV2 are the calls of Elastic Load Balancing v2 that are needed.
type ELBV2 interface {
	elbv2.DescribeTargetGroupsAPIClient

	DescribeTags(context.Context, *elbv2.DescribeTagsInput, ...func(*elbv2.Options)) (*elbv2.DescribeTagsOutput, error)
	DeleteTargetGroup(
		context.Context,
		*elbv2.DeleteTargetGroupInput,
		...func(*elbv2.Options),
	) (*elbv2.DeleteTargetGroupOutput, error)
}

// Remover removes what is left of the load balancers of one cluster.
type Remover struct {
	EC2   EC2
	ELBV2 ELBV2
	// Cluster is the cluster's ID in tags.
	Cluster string
}

// The provider's names for what belongs to a load balancer.
const (
	securityGroupPrefix = "k8s-elb-"
	targetGroupPrefix   = "k8s-"
	tagsPerRequest      = 20
)

// Remove removes what is left of a Service's load balancer, which does not exist any more. It reads two lists, or four
// for a network load balancer, and changes nothing where nothing is left.
func (r Remover) Remove(ctx context.Context, balancer string, service *corev1.Service) error {
	groups, err := r.securityGroups(ctx)
	if err != nil {
		return err
	}
	if service.Annotations[awsv1.ServiceAnnotationLoadBalancerType] == "nlb" {
		if err := r.targetGroups(ctx, service.Namespace+"/"+service.Name); err != nil {
			return err
		}
		for i := range groups {
			if err := r.rules(ctx, &groups[i], balancer); err != nil {
				return err
			}
		}
	}
	for i := range groups {
		if aws.ToString(groups[i].GroupName) != securityGroupPrefix+balancer {
			continue
		}
		id := groups[i].GroupId
		klog.InfoS(
			"Deleting the security group that was left of a load balancer",
			"securityGroup",
			aws.ToString(id),
			"service",
			klog.KObj(service),
		)
		_, err := r.EC2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: id})
		if err != nil && code(err) != "InvalidGroup.NotFound" {
			return fmt.Errorf(
				"deleting security group %s, which is left of load balancer %s: %w",
				aws.ToString(id),
				balancer,
				err,
			)
		}
	}
	return nil
}

// securityGroups are those that have the cluster's tag.
func (r Remover) securityGroups(ctx context.Context) ([]ec2types.SecurityGroup, error) {
	groups, err := r.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []ec2types.Filter{
			{Name: aws.String("tag-key"), Values: []string{awsv1.TagNameKubernetesClusterPrefix + r.Cluster}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("looking for what is left of a load balancer: listing security groups: %w", err)
	}
	// The list is filtered again: what is in it may be deleted.
	return slices.DeleteFunc(groups, func(g ec2types.SecurityGroup) bool {
		return !slices.ContainsFunc(g.Tags, func(t ec2types.Tag) bool {
			return aws.ToString(t.Key) == awsv1.TagNameKubernetesClusterPrefix+r.Cluster
		})
	}), nil
}

// targetGroups removes those of a Service that no load balancer uses.
func (r Remover) targetGroups(ctx context.Context, service string) error {
	var unused []string
	p := elbv2.NewDescribeTargetGroupsPaginator(r.ELBV2, &elbv2.DescribeTargetGroupsInput{})
	all, err := pages.Read(ctx, "ELBv2 DescribeTargetGroups", p.HasMorePages, p.NextPage,
		func(page *elbv2.DescribeTargetGroupsOutput) []elbv2types.TargetGroup { return page.TargetGroups })
	if err != nil {
		return fmt.Errorf("looking for what is left of a load balancer: listing target groups: %w", err)
	}
	for _, g := range all {
		if len(g.LoadBalancerArns) == 0 && strings.HasPrefix(aws.ToString(g.TargetGroupName), targetGroupPrefix) {
			unused = append(unused, aws.ToString(g.TargetGroupArn))
		}
	}
	for part := range slices.Chunk(unused, tagsPerRequest) {
		answer, err := r.ELBV2.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: part})
		if cloud.Classify(err) == cloud.OutcomeAuth {
			// The policy of the AWS guide does not give this right: without it a Service could not be deleted any more.
			klog.ErrorS(
				err,
				"Target groups of a deleted load balancer may be left: give the manager elasticloadbalancing:DescribeTags",
				"service",
				service,
				"unused",
				len(unused),
			)
			return nil
		}
		if err != nil {
			return fmt.Errorf("looking for what is left of a load balancer: reading the tags of target groups: %w", err)
		}
		for _, d := range answer.TagDescriptions {
			arn := aws.ToString(d.ResourceArn)
			if !has(d.Tags, awsv1.TagNameKubernetesClusterPrefix+r.Cluster, "owned") ||
				!has(d.Tags, awsv1.TagNameKubernetesService, service) || !slices.Contains(part, arn) {
				continue
			}
			klog.InfoS("Deleting the target group that was left of a load balancer", "targetGroup", arn, "service", service)
			if _, err := r.ELBV2.DeleteTargetGroup(ctx, &elbv2.DeleteTargetGroupInput{TargetGroupArn: &arn}); err != nil {
				return fmt.Errorf(
					"deleting target group %s, which is left of the load balancer of Service %s: %w",
					arn,
					service,
					err,
				)
			}
		}
	}
	return nil
}

func has(tags []elbv2types.Tag, key, value string) bool {
	return slices.ContainsFunc(
		tags,
		func(t elbv2types.Tag) bool { return aws.ToString(t.Key) == key && aws.ToString(t.Value) == value },
	)
}

// rules removes what a network load balancer opened in a security group. The rule for the discovery of path MTUs is
// shared by all of them and goes with the last one.
func (r Remover) rules(ctx context.Context, group *ec2types.SecurityGroup, balancer string) error {
	client, health := awsv1.NLBClientRuleDescription+"="+balancer, awsv1.NLBHealthCheckRuleDescription+"="+balancer
	var revoked, shared []ec2types.IpPermission
	others := false
	for _, p := range group.IpPermissions {
		for _, ip := range p.IpRanges {
			rule := ec2types.IpPermission{
				IpProtocol: p.IpProtocol,
				FromPort:   p.FromPort,
				ToPort:     p.ToPort,
				IpRanges:   []ec2types.IpRange{ip},
			}
			switch description := aws.ToString(ip.Description); {
			case description == client, description == health:
				revoked = append(revoked, rule)
			case description == awsv1.NLBMtuDiscoveryRuleDescription:
				shared = append(shared, rule)
			case strings.HasPrefix(description, awsv1.NLBClientRuleDescription+"="):
				others = true
			}
		}
	}
	if !others {
		revoked = append(revoked, shared...)
	}
	if len(revoked) == 0 {
		return nil
	}
	klog.InfoS(
		"Removing the rules that were left of a load balancer",
		"securityGroup",
		aws.ToString(group.GroupId),
		"loadBalancer",
		balancer,
	)
	_, err := r.EC2.RevokeSecurityGroupIngress(
		ctx,
		&ec2.RevokeSecurityGroupIngressInput{GroupId: group.GroupId, IpPermissions: revoked},
	)
	if err != nil && code(err) != "InvalidPermission.NotFound" {
		return fmt.Errorf(
			"removing rules of security group %s, which are left of load balancer %s: %w",
			aws.ToString(group.GroupId),
			balancer,
			err,
		)
	}
	return nil
}

// code is the code of an answer that refuses.
func code(err error) string {
	var refusal smithy.APIError
	if errors.As(err, &refusal) {
		return refusal.ErrorCode()
	}
	return ""
}
