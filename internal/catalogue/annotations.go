package catalogue

import (
	"maps"
	"slices"
	"strings"
)

// Reading is how the external provider's reading of a Service annotation differs from the in-tree one's.
type Reading string

// Readings. What both read in the same way has no row.
const (
	// Lost is an annotation that the in-tree provider obeys and the external one does not know.
	Lost Reading = "lost"
	// Begins is an annotation that the in-tree provider does not know, so that it does nothing today and something after
	// the handover.
	Begins Reading = "begins"
	// Refused is an annotation with which the external provider does not touch the Service any more, not even to change
	// its members.
	Refused Reading = "refused"
	// Elsewhere is an annotation with which both leave the Service to another controller.
	Elsewhere Reading = "elsewhere"
)

// Annotation is a Service annotation that the in-tree and the external provider do not read in the same way.
type Annotation struct {
	// Key of the annotation, or the beginning of the keys of a family when Family is set.
	Key    string
	Family bool
	// Values for which the row holds; none means every value.
	Values  []string
	Reading Reading
	// With are the values that other annotations must have for the row to hold.
	With map[string]string
	// InTree is the last minor whose in-tree provider obeys a lost annotation; 0 means every one.
	InTree int
	// Since is the first minor of the external provider for which the row holds; 0 means every one, or that it is not
	// known.
	Since int
	// Effect is what the handover changes, a clause without a subject: "gets health checks".
	Effect string
}

// AnnotationsOf returns the rows of a provider that hold for a Service with these annotations, in the table's order.
// The in-tree minor is that of the kube-controller-manager, the external one that of the cloud-controller-manager's
// library.
func AnnotationsOf(provider string, annotations map[string]string, inTree, external int) []Annotation {
	var out []Annotation
	for _, row := range annotationRows[provider] {
		if row.InTree != 0 && inTree > row.InTree || row.Since > external {
			continue
		}
		if key, ok := row.key(annotations); ok {
			row.Key = key
			out = append(out, row)
		}
	}
	return out
}

// key is the annotation for which the row holds.
func (a Annotation) key(annotations map[string]string) (string, bool) {
	for key, value := range a.With {
		if annotations[key] != value {
			return "", false
		}
	}
	if !a.Family {
		value, ok := annotations[a.Key]
		return a.Key, ok && a.matchesValue(value)
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, a.Key) && a.matchesValue(annotations[key]) {
			return key, true
		}
	}
	return "", false
}

func (a Annotation) matchesValue(value string) bool {
	return len(a.Values) == 0 || slices.Contains(a.Values, value)
}

const (
	awsAnnotation       = "service.beta.kubernetes.io/aws-load-balancer-"
	azureAnnotation     = "service.beta.kubernetes.io/azure-"
	openstackAnnotation = "loadbalancer.openstack.org/"
)

// annotationRows by provider. In-tree: the constants ServiceAnnotation* of k8s.io/legacy-cloud-providers v0.20.0 to
// v0.30.14 (aws.go, azure_loadbalancer.go, gce_annotations.go; openstack_loadbalancer.go of v0.25.0, which knows
// three). External: k8s.io/cloud-provider-aws v1.37.0 pkg/providers/v1 (aws.go, aws_validations.go),
// sigs.k8s.io/cloud-provider-azure pkg/consts/consts.go, k8s.io/cloud-provider-gcp providers/gce/gce_annotations.go,
// k8s.io/cloud-provider-openstack pkg/openstack/loadbalancer.go. vSphere had no load balancers in tree.
var annotationRows = map[string][]Annotation{
	"aws": {
		{
			Key:     awsAnnotation + "type",
			Values:  []string{"external", "nlb-ip"},
			Reading: Elsewhere,
			Effect:  "is served by the AWS Load Balancer Controller",
		},
		{
			Key:     awsAnnotation + "extra-security-groups",
			With:    map[string]string{awsAnnotation + "type": "nlb"},
			Reading: Refused,
			Since:   34,
			Effect:  "is refused: extra security groups are not supported by network load balancers",
		},
		{
			Key:     awsAnnotation + "target-group-attributes",
			With:    map[string]string{awsAnnotation + "type": ""},
			Reading: Refused,
			Since:   34,
			Effect:  "is refused: only network load balancers have target group attributes",
		},
		{
			Key:     awsAnnotation + "target-group-attributes",
			With:    map[string]string{awsAnnotation + "type": "nlb"},
			Reading: Begins,
			Since:   34,
			Effect:  "changes attributes of the target groups",
		},
		{
			Key:     awsAnnotation + "private-ipv4-addresses",
			Reading: Begins,
			Effect:  "asks for private addresses, which an existing load balancer cannot get",
		},
	},
	"azure": {
		// Basic load balancers of 1.20 and 1.21 needed it; later ones mix protocols by themselves.
		{
			Key:     azureAnnotation + "load-balancer-mixed-protocols",
			Reading: Lost,
			InTree:  21,
			Effect:  "loses nothing if the provider mixes protocols by itself, which those of 1.22 and later do",
		},
		{Key: azureAnnotation + "load-balancer-ipv4", Reading: Begins, Effect: "moves the load balancer to that address"},
		{Key: azureAnnotation + "load-balancer-ipv6", Reading: Begins, Effect: "moves the load balancer to that address"},
		{Key: azureAnnotation + "pip-name-ipv6", Reading: Begins, Effect: "changes the public address"},
		{Key: azureAnnotation + "pip-prefix-id", Family: true, Reading: Begins, Effect: "changes the public address"},
		{Key: azureAnnotation + "load-balancer-configurations", Reading: Begins, Effect: "may move to another load balancer"},
		{
			Key:     azureAnnotation + "deny-all-except-load-balancer-source-ranges",
			Values:  []string{"true"},
			Reading: Begins,
			Effect:  "refuses traffic from all other sources",
		},
		{Key: azureAnnotation + "allowed-ip-ranges", Reading: Begins, Effect: "refuses traffic from all other sources"},
		{
			Key:     azureAnnotation + "disable-load-balancer-floating-ip",
			Values:  []string{"true"},
			Reading: Begins,
			Effect:  "sends traffic to the nodes' own addresses",
		},
		{
			Key:     azureAnnotation + "load-balancer-disable-tcp-reset",
			Values:  []string{"true"},
			Reading: Begins,
			Effect:  "sends no TCP reset when a connection is idle",
		},
		{Key: azureAnnotation + "additional-public-ips", Reading: Begins, Effect: "gets further addresses in its status"},
		{Key: azureAnnotation + "load-balancer-health-probe-interval", Reading: Begins, Effect: "changes its health probes"},
		{
			Key:     azureAnnotation + "load-balancer-health-probe-num-of-probe",
			Reading: Begins,
			Effect:  "changes its health probes",
		},
		{
			Key:     "service.beta.kubernetes.io/port_",
			Family:  true,
			Reading: Begins,
			Effect:  "changes the rule or the health probe of a port",
		},
		{Key: azureAnnotation + "pls-", Family: true, Reading: Begins, Effect: "gets a private link service"},
	},
	"gce": {
		{
			Key:     "cloud.google.com/l4-rbs",
			Values:  []string{"enabled"},
			Reading: Elsewhere,
			Effect:  "is served by the ingress controller for GCE",
		},
		{
			Key:     "cloud.google.com/load-balancer-resource-labels",
			Reading: Begins,
			Effect:  "gets labels on its forwarding rules, and loses those that are not named",
		},
	},
	"openstack": {
		{
			Key:     openstackAnnotation + "load-balancer-id",
			Reading: Begins,
			Effect:  "takes that load balancer instead of its own",
		},
		{
			Key:     openstackAnnotation + "class",
			Reading: Begins,
			Effect:  "takes networks and subnets from a section of the configuration",
		},
		{
			Key:     openstackAnnotation + "port-id",
			Reading: Begins,
			Effect:  "asks for a port, which an existing load balancer cannot change",
		},
		{
			Key:     openstackAnnotation + "network-id",
			Reading: Begins,
			Effect:  "asks for a network, which an existing load balancer cannot change",
		},
		{
			Key:     openstackAnnotation + "flavor-id",
			Reading: Begins,
			Effect:  "asks for a flavour, which an existing load balancer cannot change",
		},
		{
			Key:     openstackAnnotation + "availability-zone",
			Reading: Begins,
			Effect:  "asks for a zone, which an existing load balancer cannot change",
		},
		{
			Key:     openstackAnnotation + "floating-subnet",
			Family:  true,
			Reading: Begins,
			Effect:  "takes floating addresses from that subnet",
		},
		{
			Key:     openstackAnnotation + "keep-floatingip",
			Values:  []string{"true"},
			Reading: Begins,
			Effect:  "keeps its floating address when it is deleted",
		},
		{
			Key:     openstackAnnotation + "proxy-protocol",
			Reading: Begins,
			Effect:  "sends the PROXY protocol to its members, for which its pools are made again",
		},
		{
			Key:     openstackAnnotation + "x-forwarded-for",
			Values:  []string{"true"},
			Reading: Begins,
			Effect:  "becomes an HTTP load balancer, for which its listeners are made again",
		},
		{
			Key:     openstackAnnotation + "default-tls-container-ref",
			Reading: Begins,
			Effect:  "ends TLS itself, for which its listeners are made again",
		},
		{Key: openstackAnnotation + "connection-limit", Reading: Begins, Effect: "gets a limit of connections"},
		{Key: openstackAnnotation + "timeout-", Family: true, Reading: Begins, Effect: "changes its timeouts"},
		{Key: openstackAnnotation + "enable-health-monitor", Reading: Begins, Effect: "gets or loses health monitors"},
		{Key: openstackAnnotation + "health-monitor-", Family: true, Reading: Begins, Effect: "changes its health monitors"},
	},
}
