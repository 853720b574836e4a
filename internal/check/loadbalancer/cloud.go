package loadbalancer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// missingInventory reports whether the cloud's load balancers were not read; the finding says why.
func missingInventory(f facts.Facts) (v1.Finding, bool) {
	if f.Cloud == nil || len(f.CloudErrors("loadbalancers")) > 0 {
		return findings.Dependent("CLOUD-001"), true
	}
	if p, known := cloudprovider.Lookup(f.Cloud.Provider); known && !p.LoadBalancers {
		return findings.Skip("%s has no load balancers", p.Title), true
	}
	if finding, ok := f.Missing("services"); ok {
		return finding, true
	}
	return v1.Finding{}, false
}

// byAddress are the load balancers by the addresses that Services have in their status.
func byAddress(balancers []v1.LoadBalancer) map[string]v1.LoadBalancer {
	out := make(map[string]v1.LoadBalancer, len(balancers))
	for _, b := range balancers {
		if b.Address != "" {
			out[strings.ToLower(b.Address)] = b
		}
	}
	return out
}

// balancerOf is the load balancer of a Service.
func balancerOf(s v1.Service, balancers map[string]v1.LoadBalancer) (v1.LoadBalancer, bool) {
	for _, address := range s.Addresses {
		if b, ok := balancers[strings.ToLower(address)]; ok {
			return b, true
		}
	}
	return v1.LoadBalancer{}, false
}

var membersChange = rule.Check{
	Code:      "LB-008",
	Reason:    "MembersWouldChange",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the members that the load balancer has now",
	DependsOn: rule.OnAPI,
	Judge:     judgeMembers,
}

func judgeMembers(f facts.Facts) v1.Finding {
	if finding, ok := f.OtherProvider("aws"); ok {
		return finding // the members of other clouds are addresses or pools, which their inventories do not hold
	}
	if finding, ok := missingInventory(f); ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	balancers := byAddress(f.Cloud.LoadBalancers)
	sets := map[string]map[string]string{} // the members by the labels that a Service asks for
	looked := 0
	bad, finding, ok := eachService(f, func(s v1.Service) string {
		b, there := balancerOf(s, balancers)
		if !there || isForOtherController(f, s) {
			return ""
		}
		looked++
		labels := s.Annotations[AnnotationTargetLabels]
		if _, made := sets[labels]; !made {
			sets[labels] = newMembers(f, keyValues(labels))
		}
		return memberChange(b.Members, sets[labels])
	})
	switch {
	case !ok:
		return finding
	case bad.Empty():
		return findings.Pass(
			"the new manager would register the members that %s now",
			findings.Counting(looked, "load balancer", "has", "have"),
		)
	}
	return findings.With(
		bad.Finding(v1.Warn, "the members of %s would change at takeover", findings.Plural(len(bad), "load balancer")),
		"the nodes that are not excluded",
		sourceBalancers,
		kubectlService("get", bad[0].Object, "-o wide"),
	)
}

// AnnotationTargetLabels limits the members of a Service's load balancer on AWS to Nodes with labels.
const AnnotationTargetLabels = "service.beta.kubernetes.io/aws-load-balancer-target-node-labels"

// newMembers are the nodes that the new manager would register, by instance id; with labels, only those that have them.
func newMembers(f facts.Facts, labels map[string]string) map[string]string {
	instances, loop := facts.InstancesByNode(f), catalogue.ServiceLoopAt(f.NewMinor())
	out := make(map[string]string, len(f.Nodes))
	for _, n := range f.Nodes {
		i := instances[n.Name]
		id := findings.OrElse(cloudprovider.AWSInstanceID(n.ProviderID), i.ID)
		if id == "" || i.Node != "" && (!i.Found || i.State == "terminated") || !isIncluded(n, loop) {
			continue
		}
		has := true
		for key, value := range labels {
			has = has && n.Labels[key] == value
		}
		if has {
			out[id] = n.Name
		}
	}
	return out
}

// isIncluded reports whether a service loop registers a node.
func isIncluded(n v1.Node, loop catalogue.ServiceLoop) bool {
	if !loop.KeepsNotReady && n.Ready != "True" {
		return false
	}
	for _, t := range n.Taints {
		if strings.HasPrefix(t, "ToBeDeletedByClusterAutoscaler") {
			return false
		}
	}
	value, labelled := n.Labels[facts.LabelExclude]
	if !labelled || !loop.ReadsExclusion {
		return !labelled
	}
	excluded, err := strconv.ParseBool(value)
	return err == nil && !excluded
}

// memberChange says which members a load balancer would get and lose; empty when none.
func memberChange(has []string, would map[string]string) string {
	has = slices.Compact(slices.Sorted(slices.Values(has)))
	var leave, join []string
	for _, id := range has {
		if _, stays := would[id]; !stays {
			leave = append(leave, id)
		}
	}
	if len(leave) == 0 && len(has) == len(would) {
		return ""
	}
	is := make(map[string]bool, len(has))
	for _, id := range has {
		is[id] = true
	}
	for id, node := range would {
		if !is[id] {
			join = append(join, node)
		}
	}
	slices.Sort(leave)
	slices.Sort(join)
	var parts []string
	if len(join) > 0 {
		parts = append(parts, "gets "+findings.Few(join))
	}
	if len(leave) > 0 {
		parts = append(parts, "loses "+findings.Few(leave))
	}
	return strings.Join(parts, " and ")
}

// keyValues reads k1=v1,k2=v2.
func keyValues(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if key != "" {
			out[key] = value
		}
	}
	return out
}

var balancersLeft = rule.Check{
	Code:      "LB-009",
	Reason:    "BalancerWithoutService",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "tags, members and time of creation: whether it still serves anything",
	OnlyIf:    "no client uses its address any more, and no other cluster of the project has its Service",
	Warning:   "connections through it end, and its addresses are given away; the command shows all that goes, and asks",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := missingInventory(f); ok {
			return finding
		}
		addresses := map[string]bool{}
		for _, s := range f.Services {
			for _, a := range s.Addresses {
				addresses[strings.ToLower(a)] = true
			}
			addresses[strings.ToLower(DefaultBalancerName(s.UID))] = true
		}
		reads := cloudprovider.InventoryOrDefault(f.CloudName())
		named := reads.NamedBalancers
		var bad findings.Problems
		fix := ""
		for _, b := range f.Cloud.LoadBalancers {
			if b.Kind == "application" || addresses[strings.ToLower(b.Address)] || addresses[strings.ToLower(b.Name)] {
				continue // application load balancers are made by ingress controllers
			}
			if named && slices.ContainsFunc(f.Services, func(s v1.Service) bool { return isNamedFor(b.Name, s) }) {
				continue // it may have no address yet, or the Service shows a host name
			}
			fix = findings.OrElse(fix, findings.OrElse(removeOrphan(f, b.ID), reads.Balancer+shell.Quote(b.Name)))
			bad.Add(
				b.Name,
				"%s (%s%s, made %s, %s)",
				b.Name,
				idOf(reads, b),
				findings.OrElse(b.Address, "no address"),
				b.Created.UTC().Format("2006-01-02"),
				findings.Plural(len(b.Members), "member"),
			)
		}
		others := false
		if left := leftovers(f); len(left) > 0 {
			others = true
			for _, l := range left {
				bad.Add(l.Name, "%s %s (%s)", l.Kind, l.Name, l.ID)
			}
			fix = findings.OrElse(fix, showLeftover(left[0])) // a floating IP may have been kept on purpose
		}
		if bad.Empty() {
			return findings.Pass(
				"%s in the cloud, and none without a Service",
				findings.Counting(len(f.Cloud.LoadBalancers), "load balancer", "is", "are"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s left in the cloud without a Service",
				countLeft(len(bad), others),
			),
			"a Service for each",
			sourceBalancers,
			fix,
		)
	},
}

// idOf is the ID of a load balancer, by which it is removed, in front of its address; empty where it is not.
func idOf(reads cloudprovider.Inventory, b v1.LoadBalancer) string {
	if !reads.RemovesOrphans || b.ID == "" {
		return ""
	}
	return b.ID + ", "
}

// removeOrphan is the command that removes one load balancer; empty where there is none.
func removeOrphan(f facts.Facts, id string) string {
	reads := cloudprovider.InventoryOrDefault(f.CloudName())
	if !reads.RemovesOrphans || id == "" {
		return ""
	}
	flag := reads.Flag
	if managers := f.InstancesOf(component.KCM); len(managers) > 0 {
		flag += ":cluster=" + shell.Quote(managers[0].Flag("cluster-name", defaultClusterName))
	}
	return "transplant remove-orphans " + flag + " " + shell.Quote(id)
}

// showLeftover is the command that shows an object in OpenStack, whose kind may have two words.
func showLeftover(l v1.CloudLeftover) string {
	kind := strings.Join(shell.QuoteAll(strings.Fields(strings.ToLower(l.Kind))), " ")
	return "openstack " + kind + " show " + shell.Quote(l.ID)
}

// countLeft is how many load balancers, or other objects of Services, are left.
func countLeft(n int, others bool) string {
	if others {
		return findings.Counting(n, "cloud object", "is", "are")
	}
	return findings.Counting(n, "load balancer", "is", "are")
}

// leftovers are the floating IPs and security groups whose Service is not there. Another cluster of the project may
// have it: names of security groups do not say which.
func leftovers(f facts.Facts) (left []v1.CloudLeftover) {
	there := map[string]bool{}
	for _, s := range f.Services {
		there[s.Namespace+"/"+s.Name], there[s.UID] = true, true
	}
	for _, l := range f.Cloud.Leftovers {
		if !there[l.Service] && !there[l.UID] {
			left = append(left, l)
		}
	}
	return left
}

// isNamedFor reports whether a load balancer has the name that cloud-provider-openstack gives a Service's, under any
// name of the cluster.
func isNamedFor(name string, s v1.Service) bool {
	return strings.HasPrefix(name, "kube_service_") && strings.HasSuffix(name, "_"+s.Namespace+"_"+s.Name)
}

// DefaultBalancerName is the name that AWS, GCE and OpenStack's in-tree provider give the load balancer of a Service:
// DefaultLoadBalancerName of k8s.io/cloud-provider.
func DefaultBalancerName(uid string) string {
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), 32)]
}

var balancersThere = rule.Check{
	Code:      "LB-010",
	Reason:    "ServiceWithoutBalancer",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "EXTERNAL-IP: the address of a load balancer that the cloud does not have any more",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := missingInventory(f); ok {
			return finding
		}
		balancers := byAddress(f.Cloud.LoadBalancers)
		named := cloudprovider.InventoryOrDefault(f.CloudName()).NamedBalancers
		there := 0
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			if len(s.Addresses) == 0 || s.Deleting || isForOtherController(f, s) {
				return ""
			}
			_, found := balancerOf(s, balancers)
			if found || named && slices.ContainsFunc(f.Cloud.LoadBalancers, func(b v1.LoadBalancer) bool {
				return b.Name == DefaultBalancerName(s.UID) || isNamedFor(b.Name, s)
			}) {
				there++
				return ""
			}
			return fmt.Sprintf("has the address %s, which no load balancer of the cluster has", strings.Join(s.Addresses, ", "))
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s a load balancer in the cloud, and none lacks it",
				findings.Counting(there, "Service", "has", "have"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Fail,
				"%s no load balancer in the cloud, and would get a new one with a new address",
				findings.Counting(len(bad), "Service", "has", "have"),
			),
			"a load balancer with the address in the status",
			sourceBalancers,
			kubectlService("get", bad[0].Object, "-o wide"),
		)
	},
}
