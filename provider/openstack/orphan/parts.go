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

// addParts adds what goes with a load balancer, and what stays.
func (f *facts) addParts(out *v1.Orphan, b *balancer, owner naming.Owner) {
	out.Goes = []v1.OrphanPart{{Kind: kindBalancer, ID: b.ID, Name: b.Name}}
	if p := f.port(b.VipPortID); p != nil {
		part := v1.OrphanPart{Kind: kindPort, ID: p.ID, Name: b.VipAddress}
		if p.DeviceOwner == "Octavia" {
			out.Goes = append(out.Goes, part)
		} else {
			part.Reason = "Octavia deletes it if Octavia has made it"
			out.Stays = append(out.Stays, part)
		}
	}
	for _, ip := range f.floating {
		if ip.PortID != b.VipPortID || ip.PortID == "" {
			continue
		}
		part := v1.OrphanPart{
			Kind:   kindFloating,
			ID:     ip.ID,
			Name:   ip.FloatingIP,
			Reason: f.keepsFloating(ip, owner),
		}
		if part.Reason == "" {
			out.Goes = append(out.Goes, part)
		} else {
			out.Stays = append(out.Stays, part)
		}
	}
	for _, g := range f.groups {
		if !isGroupOf(g, owner) {
			continue
		}
		part := v1.OrphanPart{
			Kind:   kindGroup,
			ID:     g.ID,
			Name:   g.Name,
			Reason: f.keepsGroup(g, b.VipPortID, owner.UID != ""),
		}
		if part.Reason == "" {
			out.Goes = append(out.Goes, part)
		} else {
			out.Stays = append(out.Stays, part)
		}
	}
}

// keepsFloating is why the floating IP of a load balancer stays; empty for one that a manager has made for it.
func (f *facts) keepsFloating(ip floatingips.FloatingIP, owner naming.Owner) string {
	made, ok := naming.OfFloatingIP(ip.Description)
	switch {
	case ip.Description == "" && owner.UID != "" && !slices.Contains(f.IDs, ip.ID):
		return "it has no description, so that it may be yours: name its ID, too, and it goes"
	case ip.Description == "" && owner.UID != "":
		return ""
	case !ok:
		return "its description is not a manager's"
	case f.cluster != "" && made.Cluster != f.cluster,
		owner.UID == "" && (made.Service() != owner.Service() || made.Cluster != owner.Cluster):
		return "it was made for Service " + made.Service() + " of cluster " + quoteName(made.Cluster)
	}
	if there := f.serviceThere(func(s cloudprogram.OrphanService) bool {
		return made.Is(s.UID, s.Namespace, s.Name)
	}); there != "" {
		return "it was made for Service " + there + ", which is there"
	}
	return ""
}

// isGroupOf reports whether a security group has the name of a load balancer's Service.
func isGroupOf(g groups.SecGroup, owner naming.Owner) bool {
	uid, rest, ok := naming.OfGroup(g.Name)
	switch {
	case !ok:
		return false
	case owner.UID != "":
		return owner.Is(uid, "", "")
	}
	return rest == owner.Namespace+"-"+owner.Name
}

// keepsGroup is why a security group stays; empty for one that is the cluster's alone. A UID in the name of a load
// balancer that is the cluster's own is a proof. Else the ports that have the group, or whose groups name it, are.
func (f *facts) keepsGroup(g groups.SecGroup, vip string, proven bool) string {
	uid, _, _ := naming.OfGroup(g.Name)
	there := f.serviceThere(func(s cloudprogram.OrphanService) bool { return strings.EqualFold(s.UID, uid) })
	if there != "" {
		return "Service " + there + ", which it was made for, is there"
	}
	remote := map[string]bool{} // the groups with a rule that names this one
	for _, r := range f.rules {
		if r.RemoteGroupID == g.ID {
			remote[r.SecGroupID] = true
		}
	}
	for _, p := range f.ports {
		has := slices.Contains(p.SecurityGroups, g.ID)
		ours := p.ID == vip && vip != "" || f.isOurs(p.DeviceID)
		switch {
		case has && !ours:
			return "port " + p.ID + " has it, which is neither of its load balancer nor of a Node of this cluster"
		case ours && (has || slices.ContainsFunc(p.SecurityGroups, func(id string) bool { return remote[id] })):
			proven = true
		}
	}
	if proven || f.AssumeOwned {
		return ""
	}
	return "no port of this cluster's Nodes says that it is this cluster's: if you know that it is, name its ID with " +
		"--assume-owned"
}

// judgeFloating judges a floating IP that was named by itself.
func (f *facts) judgeFloating(ip floatingips.FloatingIP) v1.Orphan {
	out := v1.Orphan{ID: ip.ID, Kind: kindFloating, Name: ip.FloatingIP}
	for _, id := range f.IDs {
		if b := f.balancers[id]; b != nil && ip.PortID == b.VipPortID && ip.PortID != "" {
			return f.judgeAttached(out, b)
		}
	}
	owner, made := naming.OfFloatingIP(ip.Description)
	if made {
		out.Service = owner.Service()
	}
	switch there := f.serviceThere(func(s cloudprogram.OrphanService) bool {
		return made && owner.Is(s.UID, s.Namespace, s.Name) || slices.Contains(s.Addresses, ip.FloatingIP)
	}); {
	case ip.PortID != "":
		return refused(out, "it is in use, at port %s: name the load balancer that has this port, if that is an orphan", ip.PortID)
	case there != "":
		return refused(out, "it is no orphan: Service %s, which it is of, is there", there)
	case !made:
		return refused(out, "its description %q is not a manager's, so that it may be yours", ip.Description)
	case f.cluster == "":
		return refused(out, "its description says that it is of cluster %q: say which one this is, by its --cluster-name, with "+
			"--cloud=openstack:cluster=NAME", owner.Cluster)
	case owner.Cluster != f.cluster:
		return refused(out, "its description says that it is of cluster %q, and this one is %q", owner.Cluster, f.cluster)
	}
	out.State, out.Goes = v1.OrphanFound, []v1.OrphanPart{{Kind: kindFloating, ID: ip.ID, Name: ip.FloatingIP}}
	return out
}

// judgeAttached judges a floating IP that was named together with the load balancer that has it: it goes with that one.
func (f *facts) judgeAttached(out v1.Orphan, b *balancer) v1.Orphan {
	of := f.judgeBalancer(b)
	out.Service = of.Service
	if of.State == v1.OrphanRefused {
		return refused(out, "its load balancer %s is refused", b.ID)
	}
	isIt := func(p v1.OrphanPart) bool { return p.ID == out.ID }
	if i := slices.IndexFunc(of.Stays, isIt); i >= 0 {
		return refused(out, "%s", of.Stays[i].Reason)
	}
	out.State, out.Reason = v1.OrphanFound, "it goes with its load balancer "+b.ID
	out.Goes = of.Goes[slices.IndexFunc(of.Goes, isIt):][:1]
	return out
}

// judgeGroup judges a security group that was named by itself.
func (f *facts) judgeGroup(g groups.SecGroup) v1.Orphan {
	out := v1.Orphan{ID: g.ID, Kind: kindGroup, Name: g.Name}
	uid, _, named := naming.OfGroup(g.Name)
	if !named {
		return refused(out, "no manager names the security group of a Service %q", g.Name)
	}
	out.Service = uid
	vip, proven := "", false
	for _, id := range f.IDs {
		if b := f.balancers[id]; b != nil && f.judgeBalancer(b).State == v1.OrphanFound {
			if owner, _ := naming.OfBalancer(b.Name); isGroupOf(g, owner) {
				vip, proven = b.VipPortID, owner.UID != ""
			}
		}
	}
	if why := f.keepsGroup(g, vip, proven); why != "" {
		return refused(out, "%s", why)
	}
	out.State, out.Goes = v1.OrphanFound, []v1.OrphanPart{{Kind: kindGroup, ID: g.ID, Name: g.Name}}
	return out
}
