package orphan

import (
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// annotationID is the annotation by which a Service uses a load balancer that is not its own.
const annotationID = "loadbalancer.openstack.org/load-balancer-id"

// judge says whether an object may be removed, and what goes with it.
func (f *facts) judge(id string) v1.Orphan {
	if b := f.balancers[id]; b != nil {
		return f.judgeBalancer(b)
	}
	if i := slices.IndexFunc(f.floating, func(ip floatingips.FloatingIP) bool { return ip.ID == id }); i >= 0 {
		return f.judgeFloating(f.floating[i])
	}
	if i := slices.IndexFunc(f.groups, func(g groups.SecGroup) bool { return g.ID == id }); i >= 0 {
		return f.judgeGroup(f.groups[i])
	}
	return v1.Orphan{
		ID: id, State: v1.OrphanMissing,
		Reason: "the project has no load balancer, floating IP or security group of this ID: it was removed before, or the ID " +
			"is mistyped",
	}
}

func (f *facts) judgeBalancer(b *balancer) v1.Orphan {
	out := v1.Orphan{ID: b.ID, Kind: kindBalancer, Name: b.Name}
	owner, named := naming.OfBalancer(b.Name)
	if !named {
		return refused(out, "no manager names the load balancer of a Service %q: it was made by hand, or for something else",
			b.Name)
	}
	out.Service = owner.Service()
	for _, objection := range []func(*balancer, naming.Owner) string{
		f.ofOtherCluster, f.served, f.shared, f.notProven,
	} {
		if why := objection(b, owner); why != "" {
			return refused(out, "%s", why)
		}
	}
	out.State = v1.OrphanFound
	f.addParts(&out, b, owner)
	return out
}

// ofOtherCluster is what a name with a cluster in it says against this one; empty for nothing.
func (f *facts) ofOtherCluster(b *balancer, owner naming.Owner) string {
	switch {
	case owner.UID != "", owner.Cluster == f.cluster && f.cluster != "":
		return ""
	case f.cluster == "":
		return "its name says that it is of cluster " + quoteName(owner.Cluster) + ": say which one this is, by its " +
			"--cluster-name, with --cloud=openstack:cluster=NAME"
	}
	return "its name says that it is of cluster " + quoteName(owner.Cluster) + ", and this one is " + quoteName(f.cluster)
}

// served is which Service of the cluster uses a load balancer, or would take it over; empty for none.
func (f *facts) served(b *balancer, owner naming.Owner) string {
	addresses := []string{strings.ToLower(b.VipAddress)}
	for _, vip := range b.AdditionalVips {
		addresses = append(addresses, strings.ToLower(vip.IPAddress))
	}
	for _, ip := range f.floating {
		if ip.PortID == b.VipPortID && ip.PortID != "" {
			addresses = append(addresses, ip.FloatingIP)
		}
	}
	for _, test := range []struct {
		says    string
		matches func(cloudprogram.OrphanService) bool
	}{
		{"which it was made for, is there", func(s cloudprogram.OrphanService) bool {
			return owner.Is(s.UID, s.Namespace, s.Name)
		}},
		{"uses it: its annotation names it", func(s cloudprogram.OrphanService) bool {
			return strings.EqualFold(strings.TrimSpace(s.Annotations[annotationID]), b.ID)
		}},
		{"shows its address", func(s cloudprogram.OrphanService) bool {
			return slices.ContainsFunc(s.Addresses, func(a string) bool {
				return a != "" && slices.Contains(addresses, strings.ToLower(a))
			})
		}},
	} {
		if there := f.serviceThere(test.matches); there != "" {
			return "it is no orphan: Service " + there + " " + test.says
		}
	}
	return ""
}

// shared is what on a load balancer is not of the Service that it was made for; empty for nothing. The external
// provider tags those of the in-tree one: one tag is the Service's own.
func (f *facts) shared(b *balancer, owner naming.Owner) string {
	tags, foreign := tagsOf(b)
	if foreign != "" {
		return "its listener " + quoteName(foreign) + " was not made by a manager: remove that one first, if nothing uses it"
	}
	own := b.Name
	if owner.UID != "" {
		if i := slices.IndexFunc(tags, naming.IsServiceName); i >= 0 {
			own = tags[i]
		}
	}
	for _, tag := range tags {
		switch of, known := naming.OfBalancer(tag); {
		case !naming.IsServiceName(tag):
		case tag != own:
			return "it is shared: the tag " + quoteName(tag) + " is that of another Service"
		case !known || owner.UID != "" && f.cluster != "" && of.Cluster != f.cluster:
			return "its tag " + quoteName(tag) + " is not of this cluster"
		case owner.UID != "":
			if there := f.serviceThere(func(s cloudprogram.OrphanService) bool {
				return of.Is(s.UID, s.Namespace, s.Name)
			}); there != "" {
				return "it is no orphan: it has the tag of Service " + there + ", which is there"
			}
		}
	}
	return ""
}

// tagsOf are the tags of a load balancer and its listeners, and the name of a listener that no manager made; empty for
// none.
func tagsOf(b *balancer) (tags []string, foreign string) {
	tags = slices.Clone(b.Tags)
	for _, l := range b.listeners {
		if l.Name != "" && !strings.Contains(l.Name, b.Name) && !slices.ContainsFunc(l.Tags, naming.IsServiceName) {
			return nil, l.Name
		}
		tags = append(tags, l.Tags...)
	}
	return tags, ""
}

// notProven is what is wrong with the members, or missing. A name says too little: two clusters may have one name, and
// in-tree names have none.
func (f *facts) notProven(b *balancer, _ naming.Owner) string {
	proven := false
	for _, address := range b.members {
		of := f.servers(address)
		ours := slices.ContainsFunc(of, f.isOurs)
		others := slices.DeleteFunc(slices.Clone(of), f.isOurs)
		switch {
		case ours && len(others) == 0:
			proven = true
		case !ours && len(others) > 0 && f.doubted[others[0]] != "":
			return "its member " + address + " is server " + others[0] + ": " + f.doubted[others[0]] + "; if you know that it " +
				"is this cluster's, add --assume-owned"
		case !ours && len(others) > 0:
			return "its member " + address + " is server " + others[0] + ", which is no Node of this cluster: it may be another " +
				"cluster's, or its nodes are not registered yet"
		}
	}
	if proven || f.AssumeOwned {
		return ""
	}
	return "none of its members is a server of this cluster's Nodes, so that it may be another cluster's: if you know that it " +
		"is this one's, add --assume-owned"
}

func quoteName(name string) string { return `"` + name + `"` }
