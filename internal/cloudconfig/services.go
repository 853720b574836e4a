package cloudconfig

// renamed maps the names by which the in-tree provider finds a service override (endpoint IDs of version 1 of the AWS SDK) to those by which the
// external provider does (service IDs of version 2; k8s.io/cloud-provider-aws, pkg/providers/v1/config). Both compare letter by letter, and an
// override that is not found is no error: calls go to the public endpoint.
var renamed = map[string][]string{
	"ec2":                  {"EC2"},
	"elasticloadbalancing": {"Elastic Load Balancing", "Elastic Load Balancing v2"}, // one endpoint in-tree, two services outside
	"kms":                  {"KMS"},
}

// external are the names that the external provider looks for.
var external = map[string]bool{"EC2": true, "Elastic Load Balancing": true, "Elastic Load Balancing v2": true, "KMS": true, "ec2imds": true}

// uncalled are services that neither provider's cloud loops call through an override; what a file says of them changes nothing.
var uncalled = map[string]bool{"autoscaling": true, "Auto Scaling": true, "sts": true, "STS": true, "s3": true, "S3": true}

// hints say what to do about a service that cannot be carried over.
var hints = map[string]string{
	"ec2metadata": "the external provider's override of the metadata service (ec2imds) takes another form of URL: write it by hand, or set " +
		"AWS_EC2_METADATA_SERVICE_ENDPOINT instead, and take this section out",
}

const noHint = "the external provider would ignore it and call the public endpoint: correct the name or take the section out"

// dropped are the variables that the external provider has no use for, and why.
var dropped = []struct{ section, key, why string }{
	{globalSection, "DisableStrictZoneCheck", "the external provider does not check zones"},
	{overrideSection, "SigningMethod", "the external provider always signs with version 4"},
}

// known are the spellings of the variables, for descriptions.
var known = []string{
	"Zone", "Region", "VPC", "SubnetID", "RouteTableID", "RoleARN", "SourceARN", "KubernetesClusterTag", "KubernetesClusterID",
	"DisableSecurityGroupIngress", "ElbSecurityGroup", "DisableStrictZoneCheck", "NodeIPFamilies", "ClusterServiceLoadBalancerHealthProbeMode",
	"ClusterServiceSharedLoadBalancerHealthProbePort", "ClusterServiceSharedLoadBalancerHealthProbePath", "SupportedTopologyInstanceTypePattern",
	"NLBSecurityGroupMode", "Service", "URL", "SigningRegion", "SigningMethod", "SigningName",
}
