package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// classicBalancers are the classic load balancers that are tagged for the cluster.
func (a *Account) classicBalancers(ctx context.Context, cluster string) ([]v1.LoadBalancer, error) {
	byName := map[string]elbtypes.LoadBalancerDescription{}
	var names []string
	p := elasticloadbalancing.NewDescribeLoadBalancersPaginator(
		a.elb, &elasticloadbalancing.DescribeLoadBalancersInput{})
	all, err := pages.Read(ctx, "ELB DescribeLoadBalancers", p.HasMorePages, p.NextPage,
		func(page *elasticloadbalancing.DescribeLoadBalancersOutput) []elbtypes.LoadBalancerDescription {
			return page.LoadBalancerDescriptions
		})
	if err != nil {
		return nil, translate("elasticloadbalancing:DescribeLoadBalancers (classic)", err)
	}
	for _, b := range all {
		name := aws.ToString(b.LoadBalancerName)
		byName[name] = b
		names = append(names, name)
	}
	var out []v1.LoadBalancer
	for part := range slices.Chunk(names, tagsBatch) {
		answer, err := a.elb.DescribeTags(ctx, &elasticloadbalancing.DescribeTagsInput{LoadBalancerNames: part})
		if err != nil {
			return nil, translate("elasticloadbalancing:DescribeTags (classic)", err)
		}
		for _, d := range answer.TagDescriptions {
			tags := map[string]string{}
			for _, t := range d.Tags {
				tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			}
			if belongs(cluster, tags) {
				out = append(out, classic(byName[aws.ToString(d.LoadBalancerName)]))
			}
		}
	}
	return out, nil
}

func classic(b elbtypes.LoadBalancerDescription) v1.LoadBalancer {
	out := v1.LoadBalancer{
		Name: aws.ToString(
			b.LoadBalancerName,
		),
		Kind:    "classic",
		Address: aws.ToString(b.DNSName),
		Scheme:  aws.ToString(b.Scheme),
		Created: aws.ToTime(b.CreatedTime).UTC(),
	}
	// A classic load balancer has no id, and one that is deleted and made again has the same name.
	out.ID = out.Name + "@" + out.Created.Format(time.RFC3339Nano)
	for _, i := range b.Instances {
		out.Members = append(out.Members, aws.ToString(i.InstanceId))
	}
	for _, l := range b.ListenerDescriptions {
		if l.Listener != nil {
			out.Listeners = append(
				out.Listeners,
				listener(l.Listener.LoadBalancerPort, aws.ToString(l.Listener.Protocol), aws.ToInt32(l.Listener.InstancePort)),
			)
		}
	}
	slices.Sort(out.Members)
	slices.Sort(out.Listeners)
	return out
}

// networkBalancers are the load balancers of the newer API that are tagged for the cluster, of every type.
func (a *Account) networkBalancers(ctx context.Context, cluster string) ([]v1.LoadBalancer, error) {
	byARN := map[string]elbv2types.LoadBalancer{}
	var arns []string
	p := elasticloadbalancingv2.NewDescribeLoadBalancersPaginator(
		a.elbv2, &elasticloadbalancingv2.DescribeLoadBalancersInput{})
	all, err := pages.Read(ctx, "ELBv2 DescribeLoadBalancers", p.HasMorePages, p.NextPage,
		func(page *elasticloadbalancingv2.DescribeLoadBalancersOutput) []elbv2types.LoadBalancer {
			return page.LoadBalancers
		})
	if err != nil {
		return nil, translate("elasticloadbalancing:DescribeLoadBalancers", err)
	}
	for _, b := range all {
		arn := aws.ToString(b.LoadBalancerArn)
		byARN[arn] = b
		arns = append(arns, arn)
	}
	var out []v1.LoadBalancer
	for part := range slices.Chunk(arns, tagsBatch) {
		answer, err := a.elbv2.DescribeTags(ctx, &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: part})
		if err != nil {
			return nil, translate("elasticloadbalancing:DescribeTags", err)
		}
		for _, d := range answer.TagDescriptions {
			tags := map[string]string{}
			for _, t := range d.Tags {
				tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			}
			if !belongs(cluster, tags) {
				continue
			}
			b, err := a.network(ctx, byARN[aws.ToString(d.ResourceArn)])
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

func (a *Account) network(ctx context.Context, b elbv2types.LoadBalancer) (v1.LoadBalancer, error) {
	out := v1.LoadBalancer{
		ID: aws.ToString(
			b.LoadBalancerArn,
		),
		Name:    aws.ToString(b.LoadBalancerName),
		Kind:    string(b.Type),
		Address: aws.ToString(b.DNSName),
		Scheme:  string(b.Scheme),
		Created: aws.ToTime(b.CreatedTime).UTC(),
	}
	ports := map[string]int32{}
	groups, err := a.targetGroups(ctx, b)
	if err != nil {
		return out, err
	}
	for _, g := range groups {
		ports[aws.ToString(g.TargetGroupArn)] = aws.ToInt32(g.Port)
		health, err := a.elbv2.DescribeTargetHealth(
			ctx,
			&elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: g.TargetGroupArn},
		)
		if err != nil {
			return out, translate("elasticloadbalancing:DescribeTargetHealth", err)
		}
		for _, h := range health.TargetHealthDescriptions {
			// A target that is draining has been removed already.
			if h.Target != nil && (h.TargetHealth == nil || h.TargetHealth.State != elbv2types.TargetHealthStateEnumDraining) {
				out.Members = append(out.Members, aws.ToString(h.Target.Id))
			}
		}
	}
	listeners, err := a.listeners(ctx, b)
	if err != nil {
		return out, err
	}
	for _, l := range listeners {
		for _, action := range l.DefaultActions {
			out.Listeners = append(
				out.Listeners,
				listener(aws.ToInt32(l.Port), string(l.Protocol), ports[aws.ToString(action.TargetGroupArn)]),
			)
		}
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members)
	slices.Sort(out.Listeners)
	return out, nil
}

func (a *Account) targetGroups(ctx context.Context, b elbv2types.LoadBalancer) ([]elbv2types.TargetGroup, error) {
	p := elasticloadbalancingv2.NewDescribeTargetGroupsPaginator(
		a.elbv2, &elasticloadbalancingv2.DescribeTargetGroupsInput{LoadBalancerArn: b.LoadBalancerArn})
	all, err := pages.Read(ctx, "ELBv2 DescribeTargetGroups", p.HasMorePages, p.NextPage,
		func(page *elasticloadbalancingv2.DescribeTargetGroupsOutput) []elbv2types.TargetGroup {
			return page.TargetGroups
		})
	if err != nil {
		return nil, translate("elasticloadbalancing:DescribeTargetGroups", err)
	}
	return all, nil
}

func (a *Account) listeners(ctx context.Context, b elbv2types.LoadBalancer) ([]elbv2types.Listener, error) {
	p := elasticloadbalancingv2.NewDescribeListenersPaginator(
		a.elbv2, &elasticloadbalancingv2.DescribeListenersInput{LoadBalancerArn: b.LoadBalancerArn})
	all, err := pages.Read(ctx, "ELBv2 DescribeListeners", p.HasMorePages, p.NextPage,
		func(page *elasticloadbalancingv2.DescribeListenersOutput) []elbv2types.Listener {
			return page.Listeners
		})
	if err != nil {
		return nil, translate("elasticloadbalancing:DescribeListeners", err)
	}
	return all, nil
}

// listener is 80/TCP->31234.
func listener(port int32, protocol string, target int32) string {
	return fmt.Sprintf("%d/%s->%d", port, strings.ToUpper(protocol), target)
}
