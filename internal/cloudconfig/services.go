package cloudconfig

// renamed maps the names by which the two providers find a service override. The in-tree one uses endpoint IDs of
// version 1 of the AWS SDK, the external one service IDs of version 2 (k8s.io/cloud-provider-aws,
// pkg/providers/v1/config). Both compare letter by letter, and an override that is not found is no error: calls go to
// the public endpoint.
var renamed = map[string][]string{
	"ec2": {"EC2"},
	// one endpoint in-tree, two services outside
	"elasticloadbalancing": {"Elastic Load Balancing", "Elastic Load Balancing v2"},
	"kms":                  {"KMS"},
	"ec2metadata":          {metadataService},
}

// metadataService is the instance metadata service to version 2 of the SDK (feature/ec2/imds.ServiceID).
const metadataService = "ec2imds"

// external are the names that the external provider looks for.
var external = map[string]bool{
	"EC2":                       true,
	"Elastic Load Balancing":    true,
	"Elastic Load Balancing v2": true,
	"KMS":                       true,
	metadataService:             true,
}

// uncalled are services that neither provider's cloud loops call through an override; what a file says of them changes
// nothing.
var uncalled = map[string]bool{
	"autoscaling":  true,
	"Auto Scaling": true,
	"sts":          true,
	"STS":          true,
	"s3":           true,
	"S3":           true,
}

const noHint = "the external provider would ignore it and call the public endpoint: correct the name or remove the section"
