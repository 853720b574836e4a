package catalogue

import (
	"regexp"
	"strings"
)

// IDForm is what a provider's providerIDs look like.
type IDForm struct {
	// Pattern matches a whole providerID that the external provider can read.
	Pattern *regexp.Regexp
	// Example for people.
	Example string
}

// ProviderIDForm returns the form of a provider's providerIDs; false when the table has none.
func ProviderIDForm(provider string) (IDForm, bool) {
	form, ok := idForms[provider]
	return form, ok
}

// NodeNameIn returns the name that a node with this providerID has to have, where the providerID says it; empty where only the cloud can. Names of
// Azure differ in case between its own answers.
func NodeNameIn(provider, providerID string) string {
	last := providerID[strings.LastIndex(providerID, "/")+1:]
	switch {
	case provider == "gce", provider == "azure" && !strings.Contains(strings.ToLower(providerID), "/virtualmachinescalesets/"):
		return last
	}
	return ""
}

// NamesBalancersByCluster tells whether the cluster's name is a part of the names of load balancers, so that another name is another load balancer.
func NamesBalancersByCluster(provider string) bool { return balancersByCluster[provider] }

// TakesLoadBalancerIP tells whether the external provider obeys spec.loadBalancerIP of a Service. The in-tree ones of the others ignored it, or, on AWS,
// refused the Service.
func TakesLoadBalancerIP(provider string) bool { return loadBalancerIP[provider] }

// RouteLimit is how many rows a route table of the cloud may have by default, and the command that shows the account's own limit; 0 when the table
// does not know.
func RouteLimit(provider string) (rows int, command string) {
	l := routeLimits[provider]
	return l.rows, l.command
}

// HasNodeIPAM tells whether the official external manager of a provider can allocate pod CIDRs.
func HasNodeIPAM(provider string) bool { return nodeIPAM[provider] }

// RoutingCNI returns the name of the CNI plugin in an image that, with these flags, brings packets to pods on other nodes by itself, without routes in the
// cloud; empty for others.
func RoutingCNI(image string, flags map[string]string) string {
	for _, cni := range routingCNIs {
		if strings.Contains(image, cni.image) {
			if cni.offFlag != "" && flags[cni.offFlag] == "false" {
				return ""
			}
			return cni.name
		}
	}
	return ""
}
