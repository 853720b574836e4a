package aws

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
)

// resourcePrefix begins the names of nodes that are called by their instance's ID, with or without a domain.
const resourcePrefix = "i-"

// asked is how EC2 is asked for a node's instance: by its ID, or else by its private DNS name. Of a node without
// providerID, the one that goes into it is made from EC2's answer.
type asked struct {
	id, name   string
	providerID string
	err        error
}

// queryFor decides how the instance of a node is found, as the provider does. That is by spec.providerID. Without it,
// it is by the ID that the name is, or by the providerID that the cache of Nodes has got meanwhile. Last comes the name
// as private DNS name.
func (c *Cloud) queryFor(ctx context.Context, node *corev1.Node) asked {
	if providerID := node.Spec.ProviderID; providerID != "" {
		id, err := awsv1.KubernetesInstanceID(providerID).MapToAWSInstanceID()
		if err != nil {
			return asked{err: fmt.Errorf("reading spec.providerID of node %q: %w", node.Name, err)}
		}
		return asked{id: string(id), providerID: providerID}
	}
	if own, err := c.CurrentNodeName(ctx, ""); err == nil && string(own) == node.Name {
		// The provider knows its own instance by heart, and asks no more whether it is tagged for the cluster.
		path, err := c.InstanceID(ctx, types.NodeName(node.Name))
		if err != nil {
			return asked{err: fmt.Errorf("asking for the ID of our own instance, node %q: %w", node.Name, err)}
		}
		return asked{id: path[strings.LastIndex(path, "/")+1:], providerID: providerPrefix + path}
	}
	if strings.HasPrefix(node.Name, resourcePrefix) {
		id, _, _ := strings.Cut(node.Name, ".")
		return asked{id: id}
	}
	if known := c.cachedNode(node.Name); known != nil && known.Spec.ProviderID != "" {
		if id, err := awsv1.KubernetesInstanceID(known.Spec.ProviderID).MapToAWSInstanceID(); err == nil {
			return asked{id: string(id)}
		}
	}
	return asked{name: node.Name}
}

// cachedNode is a Node as the cache has it; nil if it has not.
func (c *Cloud) cachedNode(name string) *corev1.Node {
	if c.nodes == nil || !c.nodes.Informer().HasSynced() {
		return nil
	}
	node, err := c.nodes.Lister().Get(name)
	if err != nil {
		return nil
	}
	return node
}

const (
	providerPrefix = awsv1.ProviderName + "://"
	// The tags by which EC2's objects belong to a cluster.
	tagCluster       = awsv1.TagNameKubernetesClusterPrefix
	tagClusterLegacy = awsv1.TagNameKubernetesClusterLegacy
)

// configuredClusterID is the cluster ID of the cloud config; empty if it has none.
func configuredClusterID(cfg *awsconfig.CloudConfig) string {
	return cmp.Or(cfg.Global.KubernetesClusterTag, cfg.Global.KubernetesClusterID)
}

// clusterID is what the provider tells the cluster's objects by: the cloud config's, or that of the tag of the instance
// that this runs on. The provider does not say which it found. A process that is away has no instance: it reads the
// tags of the cluster's.
func (c *Cloud) clusterID(ctx context.Context, cfg *awsconfig.CloudConfig, o Options) (string, error) {
	if configured := configuredClusterID(cfg); configured != "" {
		return configured, nil
	}
	if o.Away {
		if len(o.Instances) == 0 {
			return "", nil
		}
		// By a filter, since EC2 refuses a list of IDs as a whole if one of them is gone.
		instances, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
			Filters: []ec2types.Filter{{Name: sdk.String("instance-id"), Values: o.Instances}},
		})
		if err != nil {
			return "", fmt.Errorf("reading the tags of the cluster's instances: %w", err)
		}
		return clusterIDOf(instances), nil
	}
	if !c.HasClusterID() {
		return "", nil
	}
	own, err := c.CurrentNodeName(ctx, "")
	if err != nil {
		return "", fmt.Errorf("asking for the name of our own instance: %w", err)
	}
	instances, err := c.ec2.DescribeInstances(
		ctx,
		&ec2.DescribeInstancesInput{InstanceIds: []string{c.queryFor(ctx, nodeNamed(string(own))).id}},
	)
	if err != nil {
		return "", fmt.Errorf("reading the tags of our own instance: %w", err)
	}
	return clusterIDOf(instances), nil
}

// clusterIDOf is the cluster ID in the tags of instances; empty if none has one.
func clusterIDOf(instances []ec2types.Instance) string {
	legacy := ""
	for _, instance := range instances {
		for _, tag := range instance.Tags {
			if id, ok := strings.CutPrefix(sdk.ToString(tag.Key), tagCluster); ok {
				return id
			}
			if sdk.ToString(tag.Key) == tagClusterLegacy {
				legacy = sdk.ToString(tag.Value)
			}
		}
	}
	return legacy
}

func nodeNamed(name string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	return node
}

// hasClusterTag reports whether tags are those of the cluster's objects. Without a cluster ID, everything is.
func (c *Cloud) hasClusterTag(tags []ec2types.Tag) bool {
	for _, tag := range tags {
		key := sdk.ToString(tag.Key)
		if key == tagCluster+c.cluster || (key == tagClusterLegacy && sdk.ToString(tag.Value) == c.cluster) {
			return true
		}
	}
	return c.cluster == ""
}
