package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// fillInstance fills in what EC2 says of a node's instance. All of it comes with the answer that reports whether the
// instance exists; none costs a call.
func fillInstance(out *v1.CloudInstance, i ec2types.Instance) {
	out.ID, out.PrivateDNSName = aws.ToString(i.InstanceId), aws.ToString(i.PrivateDnsName)
	out.Type, out.Profile = string(i.InstanceType), i.IamInstanceProfile != nil
	if i.State != nil {
		out.State = string(i.State.Name)
	}
	if i.Placement != nil {
		out.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if i.PrivateDnsNameOptions != nil {
		out.HostnameType = string(i.PrivateDnsNameOptions.HostnameType)
	}
	if i.MetadataOptions != nil && i.MetadataOptions.HttpPutResponseHopLimit != nil {
		hops := int(*i.MetadataOptions.HttpPutResponseHopLimit)
		out.MetadataHops = &hops
	}
	for key, value := range tagsOf(i.Tags) {
		if id, ok := strings.CutPrefix(key, tagCluster); ok {
			out.ClusterTags = append(out.ClusterTags, id+"="+value)
		} else if key == tagClusterLegacy {
			out.ClusterTags = append(out.ClusterTags, value+"=legacy")
		}
	}
	slices.Sort(out.ClusterTags)
}

func tagsOf(tags []ec2types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

// countGroups says of each instance how many of its security groups carry the cluster's tag. The provider opens load
// balancers' ports in that group, and fails if there are several. The groups of all instances are few, and are asked
// for together.
func (a *Account) countGroups(ctx context.Context, cluster string, got answered, placed []v1.CloudInstance) error {
	var ids []string
	for _, i := range got.found {
		for _, g := range i.SecurityGroups {
			ids = append(ids, aws.ToString(g.GroupId))
		}
	}
	slices.Sort(ids)
	tagged := map[string]bool{}
	for part := range slices.Chunk(slices.Compact(ids), filterBatch) {
		// By a filter, not by id: one group that was deleted since would make the whole call fail.
		in := &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{filter("group-id", part...)}}
		p := ec2.NewDescribeSecurityGroupsPaginator(a.ec2, in)
		groups, err := pages.Read(ctx, "EC2 DescribeSecurityGroups", p.HasMorePages, p.NextPage,
			func(page *ec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return page.SecurityGroups })
		if err != nil {
			return translate("ec2:DescribeSecurityGroups", err)
		}
		for _, g := range groups {
			tagged[aws.ToString(g.GroupId)] = belongs(cluster, tagsOf(g.Tags))
		}
	}
	for i := range placed {
		instance, found := got.found[placed[i].ID]
		if !found {
			continue
		}
		n := 0
		for _, g := range instance.SecurityGroups {
			if tagged[aws.ToString(g.GroupId)] {
				n++
			}
		}
		placed[i].ClusterGroups = &n
	}
	return nil
}
