// Package naming decides for which Service an OpenStack object was made. It goes by the name or the description that a
// manager gave it: the in-tree one, cloud-provider-openstack, or ours.
package naming

import (
	"regexp"
	"strings"
)

// ServicePrefix begins the names and tags that the external provider and ours give. The cluster, the namespace and the
// name follow.
const ServicePrefix = "kube_service_"

// IsServiceName reports whether a name or a tag is one that names its Service.
func IsServiceName(name string) bool { return strings.HasPrefix(name, ServicePrefix) }

// longest is where the external provider cuts names.
const longest = 255

// Owner is the Service that an object was made for, as far as its name says.
type Owner struct {
	// Cluster, Namespace and Name are empty for an in-tree name.
	Cluster, Namespace, Name string
	// UID is the beginning of the Service's, without dashes; empty where no UID is in the name.
	UID string
}

// Service is namespace/name, or the UID.
func (o Owner) Service() string {
	if o.UID != "" {
		return o.UID
	}
	return o.Namespace + "/" + o.Name
}

// Is reports whether a Service with this UID, namespace and name is the owner. Another Service of the same name takes
// over what was made for the one before.
func (o Owner) Is(uid, namespace, name string) bool {
	if o.UID != "" {
		return strings.HasPrefix(strings.ReplaceAll(uid, "-", ""), o.UID)
	}
	return o.Namespace == namespace && o.Name == name
}

var (
	inTree   = regexp.MustCompile(`^a([0-9a-f]{31})$`)
	floating = regexp.MustCompile(`^Floating IP for Kubernetes external service ([^/ ]+)/([^/ ]+) from cluster (.*)$`)
	group    = regexp.MustCompile(`^lb-sg-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(.+)$`)
)

// OfBalancer returns the Service of a load balancer, or of a tag. A name that was cut does not say which it is.
func OfBalancer(name string) (Owner, bool) {
	if match := inTree.FindStringSubmatch(name); match != nil {
		return Owner{UID: match[1]}, true
	}
	rest, ok := strings.CutPrefix(name, ServicePrefix)
	if !ok || len(name) >= longest {
		return Owner{}, false
	}
	words := strings.Split(rest, "_") // a cluster may have underscores in its name, a Service has none
	last := len(words) - 1
	if last < 2 || words[last] == "" || words[last-1] == "" {
		return Owner{}, false
	}
	return Owner{
		Cluster: strings.Join(words[:last-1], "_"), Namespace: words[last-1], Name: words[last],
	}, true
}

// OfFloatingIP returns the Service of a floating IP. The in-tree provider describes none.
func OfFloatingIP(description string) (Owner, bool) {
	match := floating.FindStringSubmatch(description)
	if match == nil {
		return Owner{}, false
	}
	return Owner{Cluster: match[3], Namespace: match[1], Name: match[2]}, true
}

// OfGroup returns the UID of a security group's Service, with dashes, and what follows it: the namespace, a dash, and
// the name.
func OfGroup(name string) (uid, rest string, ok bool) {
	match := group.FindStringSubmatch(strings.ToLower(name))
	if match == nil {
		return "", "", false
	}
	return match[1], match[2], true
}
