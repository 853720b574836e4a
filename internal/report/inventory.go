package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/servingrequest"
)

// endpoints says which Services had ready endpoints and have none. Other numbers come and go with every deployment, and
// are no loss.
func (c *inventories) endpoints() {
	if !c.canComparePart("endpointslices", "endpoints", "endpointslices") {
		return
	}
	now := map[string]v1.ServiceEndpoints{}
	for _, a := range c.after.Endpoints {
		now[a.Service] = a
		if a.Ready > 0 {
			c.out.Serving.After++
		}
	}
	for _, b := range c.before.Endpoints {
		if b.Ready == 0 {
			continue
		}
		c.out.Serving.Before++
		a, there := now[b.Service]
		object, had := "Service/"+b.Service, fmt.Sprintf("%d of %d ready", b.Ready, b.Total)
		switch {
		case a.Ready > 0:
		case !there:
			c.expect(object, "endpoints", had, "", "the Service was deleted: no step of a migration deletes one")
		case a.Total > 0:
			c.differ(object, "endpoints", had, fmt.Sprintf("0 of %d ready", a.Total))
		default:
			c.differ(object, "endpoints", had, "none: no pod that it selects runs")
		}
	}
}

// whyNetwork explains a node's condition NetworkUnavailable by who clears it.
func whyNetwork(after string) string {
	if after == "False" || after == "" {
		return "its network is available: the route controller or the CNI has set it"
	}
	return ""
}

// whyAnnotation explains another annotation of a Node.
func (c *inventories) whyAnnotation(key, _, after string) string {
	switch {
	case key == "alpha.kubernetes.io/provided-node-ip":
		return "the kubelet writes the address that its flags give it, where its provider is external"
	case key == "csi.volume.kubernetes.io/nodeid" && after != "":
		return "the registrars of CSI drivers write it"
	case strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/"),
		key == "csi.volume.kubernetes.io/nodeid",
		key == "volumes.kubernetes.io/controller-managed-attach-detach":
		return ""
	}
	return "no step of a migration writes it: another client did"
}

// fieldObject is the field of a difference that is the coming or going of the whole object.
const fieldObject = "object"

// inventories compares two snapshots.
type inventories struct {
	before, after *v1.Snapshot
	forward       bool
	out           v1.InventoryReport
	// cameNodes and wentNodes are Nodes that are in one of the two only; by name.
	cameNodes, wentNodes map[string]bool
	// goes are the Nodes that the migration itself has taken down or given up, each with why; by name.
	goes map[string]string
	// unready are the Nodes that were not Ready, before or after.
	unready map[string]bool
	// namesBefore and namesAfter are the names and addresses of Nodes.
	namesBefore, namesAfter *servingrequest.Nodes
}

// inventory compares what there was before with what there is after. goes are Nodes that have to be gone, each with
// why.
func inventory(before, after *v1.Snapshot, direction string, goes map[string]string) v1.InventoryReport {
	c := &inventories{
		before: before, after: after, forward: direction == directionForward, goes: goes,
		cameNodes: map[string]bool{}, wentNodes: map[string]bool{}, unready: map[string]bool{},
	}
	c.out.Known = before != nil && after != nil && len(gatherErrors(before)) == 0 && len(gatherErrors(after)) == 0
	c.count()
	if before == nil || after == nil {
		return c.out
	}
	c.namesBefore, c.namesAfter = servingrequest.NodesOf(before), servingrequest.NodesOf(after)
	if c.hasListed("nodes") {
		c.nodes()
	}
	if c.hasListed("services") {
		c.services()
	}
	c.endpoints()
	c.volumes()
	if before.Cloud != nil && after.Cloud != nil {
		if c.hasListed("cloud", "cloud/loadbalancers") {
			c.loadBalancers()
		}
		if c.hasListed("cloud", "cloud/routes") {
			c.routes()
		}
	}
	sort.SliceStable(c.out.Differences, func(a, b int) bool {
		x, y := c.out.Differences[a], c.out.Differences[b]
		if x.Expected != y.Expected {
			return y.Expected
		}
		if x.Object != y.Object {
			return x.Object < y.Object
		}
		return x.Field < y.Field
	})
	return c.out
}

// going are the Nodes that a migration takes down, or has given up with their hosts, each with why.
func going(j v1.Journal) map[string]string {
	out := map[string]string{}
	steps := j.Plan.Steps
	if j.Rollback != nil {
		steps = slices.Concat(steps, j.Rollback.Steps)
	}
	for _, s := range steps {
		if s.Await != nil && s.Await.NodeGone != "" {
			out[s.Await.NodeGone] = "its host was replaced, as the plan says"
		}
	}
	for _, h := range j.Without {
		out[h.Node] = fmt.Sprintf("its host %s was gone for good, and %s excluded it from the migration", h.Name, h.By)
	}
	return out
}

// hasListed reports whether none of these facts is unknown, on either side: what could not be listed is not gone.
func (c *inventories) hasListed(facts ...string) bool {
	return !slices.ContainsFunc(
		slices.Concat(c.before.Errors, c.after.Errors),
		func(e v1.GatherError) bool { return slices.Contains(facts, e.Fact) },
	)
}

// gatherErrors are the parts of an inventory that could not be read.
func gatherErrors(s *v1.Snapshot) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, e := range s.Errors {
		if e.Fact == "nodes" || e.Fact == "services" || e.Fact == "cloud" || strings.HasPrefix(e.Fact, "cloud/") {
			out = append(out, e.Fact+": "+e.Error)
		}
	}
	if s.Cloud == nil {
		if len(out) == 0 {
			out = append(out, "cloud: it was not read")
		}
		return out
	}
	for _, e := range s.Cloud.Errors {
		if !slices.ContainsFunc(out, func(have string) bool { return strings.HasSuffix(have, e) }) {
			out = append(out, "cloud: "+e)
		}
	}
	return out
}

func (c *inventories) count() {
	if c.before != nil {
		c.out.Nodes.Before, c.out.Services.Before = len(c.before.Nodes), len(c.before.Services)
		if c.before.Cloud != nil {
			c.out.LoadBalancers.Before, c.out.Routes.Before = len(c.before.Cloud.LoadBalancers), len(c.before.Cloud.Routes)
		}
	}
	if c.after != nil {
		c.out.Nodes.After, c.out.Services.After = len(c.after.Nodes), len(c.after.Services)
		if c.after.Cloud != nil {
			c.out.LoadBalancers.After, c.out.Routes.After = len(c.after.Cloud.LoadBalancers), len(c.after.Cloud.Routes)
		}
	}
}

// differ records a difference that nothing explains.
func (c *inventories) differ(object, field, before, after string) {
	c.expect(object, field, before, after, "")
}

// expect records a difference, which is expected when there is a reason.
func (c *inventories) expect(object, field, before, after, why string) {
	if before != after {
		c.out.Differences = append(c.out.Differences, v1.Difference{
			Object: object, Field: field, Before: before, After: after, Expected: why != "", Why: why,
		})
	}
}

func (c *inventories) services() {
	after := map[string]v1.Service{}
	for _, s := range c.after.Services {
		after[serviceName(s)] = s
	}
	seen := map[string]bool{}
	for _, b := range c.before.Services {
		name := serviceName(b)
		seen[name] = true
		a, ok := after[name]
		if !ok {
			c.expect(name, fieldObject, "present", "", "another client deleted it: no step of a migration deletes a Service")
			continue
		}
		c.differ(name, "uid", b.UID, a.UID)
		c.differ(name, "addresses", strings.Join(b.Addresses, ", "), strings.Join(a.Addresses, ", "))
		c.differ(name, "ports", strings.Join(b.Ports, ", "), strings.Join(a.Ports, ", "))
		c.differ(name, "class", b.Class, a.Class)
		c.failing(name, b, a)
		c.differ(name, "finalizers", strings.Join(sorted(b.Finalizers), ", "), strings.Join(sorted(a.Finalizers), ", "))
		c.maps(name, "annotation", b.Annotations, a.Annotations, func(string, string, string) string {
			return "no controller manager writes annotations of a Service: another client did"
		})
	}
	for name := range after {
		if !seen[name] {
			c.expect(name, fieldObject, "", "present", "another client created it: no step of a migration creates a Service")
		}
	}
}

// failing says of which load balancers a manager says that it cannot keep them, and could before.
func (c *inventories) failing(name string, b, a v1.Service) {
	switch {
	case a.Failing == nil, !a.Failing.Last.After(c.before.TakenAt):
	case b.Failing != nil:
		c.expect(name, "failing", b.Failing.Reason, a.Failing.Reason+" "+a.Failing.Message, "it failed before the migration, too")
	default:
		c.differ(name, "failing", "", a.Failing.Reason+": "+a.Failing.Message)
	}
}

func serviceName(s v1.Service) string { return "Service/" + s.Namespace + "/" + s.Name }

// maps compares two maps key by key; why explains a difference of a key, or returns "".
func (c *inventories) maps(
	object, what string,
	before, after map[string]string,
	why func(key, before, after string) string,
) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for k := range keys {
		b, hadIt := before[k]
		a, hasIt := after[k]
		if hadIt && hasIt && b == a {
			continue
		}
		if b == a || b == "" && hadIt || a == "" && hasIt { // an empty value is not an absent one
			b, a = quoteIfPresent(b, hadIt), quoteIfPresent(a, hasIt)
		}
		c.expect(object, what+" "+k, b, a, why(k, b, a))
	}
}

func quoteIfPresent(s string, present bool) string {
	if !present {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

func (c *inventories) loadBalancers() {
	after := map[string]v1.LoadBalancer{}
	for _, lb := range c.after.Cloud.LoadBalancers {
		after[lb.Name] = lb
	}
	seen := map[string]bool{}
	for _, b := range c.before.Cloud.LoadBalancers {
		seen[b.Name] = true
		if a, ok := after[b.Name]; ok {
			c.loadBalancer(b, a)
			continue
		}
		why := ""
		if owner := serviceOf(c.before, b); owner != "" && serviceOf(c.after, b) == "" && !hasService(c.after, owner) {
			why = "its " + owner + " is gone too"
		}
		c.expect("LoadBalancer/"+b.Name, fieldObject, b.Address, "", why)
	}
	for name, a := range after {
		if seen[name] {
			continue
		}
		why := ""
		if owner := serviceOf(c.after, a); owner != "" && !hasService(c.before, owner) {
			why = "its " + owner + " is new too"
		}
		c.expect("LoadBalancer/"+name, fieldObject, "", a.Address, why)
	}
}

// loadBalancer compares one that has kept its name. Names are made from the Service's UID, so that one which was
// recreated has the same.
func (c *inventories) loadBalancer(b, a v1.LoadBalancer) {
	object := "LoadBalancer/" + b.Name
	if b.ID != a.ID || !b.Created.Equal(a.Created) {
		c.out.LoadBalancers.Recreated++
		c.differ(object, "identity", identity(b), identity(a))
	}
	if b.Address != a.Address {
		c.out.LoadBalancers.AddressChanged++
		c.differ(object, "address", b.Address, a.Address)
	}
	c.differ(object, "kind", b.Kind, a.Kind)
	c.differ(object, "scheme", b.Scheme, a.Scheme)
	c.differ(object, "listeners", strings.Join(sorted(b.Listeners), ", "), strings.Join(sorted(a.Listeners), ", "))
	for _, m := range b.Members {
		if !slices.Contains(a.Members, m) {
			c.expect(object, "member "+m, "registered", "", c.whyMember(m, c.wentNodes, ""))
		}
	}
	for _, m := range a.Members {
		if !slices.Contains(b.Members, m) {
			c.expect(object, "member "+m, "", "registered", c.whyMember(m, c.cameNodes,
				"the external manager registers nodes that are not ready, and leaves their health to the load balancer"))
		}
	}
}

func identity(lb v1.LoadBalancer) string {
	return lb.ID + ", made " + lb.Created.UTC().Format(time.RFC3339)
}

// whyMember explains the coming or going of a load balancer's member by that of its node, or by the node's readiness.
func (c *inventories) whyMember(instance string, moved map[string]bool, unready string) string {
	node := nodeOf(c.after, instance)
	if node == "" {
		node = nodeOf(c.before, instance)
	}
	switch {
	case node == "":
		return ""
	case moved[node]:
		return "so did its Node " + node
	case c.unready[node] && c.forward:
		return unready
	}
	return ""
}

// whyOtherTarget explains another target of a route. Node IPAM gives the pod CIDR of a Node that is gone to the next
// one that comes.
func (c *inventories) whyOtherTarget(cidr, before, after string) string {
	has := slices.ContainsFunc(c.after.Nodes, func(n v1.Node) bool {
		return n.Name == nodeOf(c.after, after) && slices.Contains(n.PodCIDRs, cidr)
	})
	if !has {
		return ""
	}
	went, came := c.whyMember(before, c.wentNodes, ""), c.whyMember(after, c.cameNodes, "")
	if went == "" || came == "" {
		return ""
	}
	return fmt.Sprintf(
		"Node %s is gone, and Node %s that came has its pod CIDR",
		nodeOf(c.before, before),
		nodeOf(c.after, after),
	)
}

func nodeOf(s *v1.Snapshot, instance string) string {
	for _, i := range s.Cloud.Instances {
		if i.ID == instance {
			return i.Node
		}
	}
	for _, n := range s.Nodes {
		if strings.HasSuffix(n.ProviderID, "/"+instance) {
			return n.Name
		}
	}
	return ""
}

// serviceOf names the Service that publishes the load balancer's address.
func serviceOf(s *v1.Snapshot, lb v1.LoadBalancer) string {
	for _, svc := range s.Services {
		if lb.Address != "" && slices.Contains(svc.Addresses, lb.Address) {
			return serviceName(svc)
		}
	}
	return ""
}

func hasService(s *v1.Snapshot, name string) bool {
	return slices.ContainsFunc(s.Services, func(svc v1.Service) bool { return serviceName(svc) == name })
}

func (c *inventories) routes() {
	key := func(r v1.Route) string { return "Route/" + r.Table + "/" + r.CIDR }
	after := map[string]v1.Route{}
	for _, r := range c.after.Cloud.Routes {
		after[key(r)] = r
	}
	seen := map[string]bool{}
	for _, b := range c.before.Cloud.Routes {
		name := key(b)
		seen[name] = true
		a, ok := after[name]
		if !ok {
			c.expect(name, fieldObject, "to "+b.Target, "", c.whyMember(b.Target, c.wentNodes, ""))
			continue
		}
		c.expect(name, "target", b.Target, a.Target, c.whyOtherTarget(b.CIDR, b.Target, a.Target))
		c.differ(name, "state", b.State, a.State)
	}
	for name, a := range after {
		if !seen[name] {
			c.expect(name, fieldObject, "", "to "+a.Target, c.whyMember(a.Target, c.cameNodes, ""))
		}
	}
}

// initialisedLabels are the labels that a cloud-controller-manager sets on a node that it initialises, and leaves alone
// on others.
var initialisedLabels = []string{
	"topology.kubernetes.io/zone",
	"topology.kubernetes.io/region",
	"node.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region",
	"beta.kubernetes.io/instance-type",
}

func (c *inventories) nodes() {
	after := map[string]v1.Node{}
	for _, n := range c.after.Nodes {
		after[n.Name] = n
		if n.Ready != "True" {
			c.unready[n.Name] = true
		}
	}
	seen := map[string]bool{}
	for _, b := range c.before.Nodes {
		seen[b.Name] = true
		if b.Ready != "True" {
			c.unready[b.Name] = true
		}
		a, ok := after[b.Name]
		// it counts as gone, and whether its Node still has to be deleted is asked elsewhere
		if why := c.goes[b.Name]; ok && why != "" {
			c.wentNodes[b.Name] = true
			c.expect("Node/"+b.Name, "ready", b.Ready, a.Ready, why)
			continue
		}
		if !ok {
			c.wentNodes[b.Name] = true
			c.expect("Node/"+b.Name, fieldObject, "present", "", c.goes[b.Name])
			continue
		}
		c.node(b, a)
		if c.hasListed("csrs") {
			c.serving(b.Name)
		}
	}
	for name := range after {
		if !seen[name] {
			c.cameNodes[name] = true
			c.expect("Node/"+name, fieldObject, "", "present", "it joined: no step of a migration adds a Node")
		}
	}
}

func (c *inventories) node(b, a v1.Node) {
	object := "Node/" + b.Name
	if b.UID != a.UID {
		c.out.Nodes.Recreated++
		c.differ(object, "uid", b.UID, a.UID)
	}
	if b.ProviderID != a.ProviderID {
		c.out.Nodes.ChangedProviderID++
		c.differ(object, "providerID", b.ProviderID, a.ProviderID)
	}
	c.expect(
		object,
		"addresses",
		strings.Join(b.Addresses, ", "),
		strings.Join(a.Addresses, ", "),
		c.whyAddresses(b.Addresses, a.Addresses),
	)
	c.differ(object, "podCIDRs", strings.Join(b.PodCIDRs, ", "), strings.Join(a.PodCIDRs, ", "))
	c.differ(object, "taints", strings.Join(sorted(b.Taints), ", "), strings.Join(sorted(a.Taints), ", "))
	c.differ(object, "ready", b.Ready, a.Ready)
	c.expect(object, "networkUnavailable", b.NetworkUnavailable, a.NetworkUnavailable, whyNetwork(a.NetworkUnavailable))
	c.expect(
		object,
		component.Kubelet,
		b.KubeletVersion,
		a.KubeletVersion,
		"no step of a migration installs a kubelet: it was installed outside the migration",
	)
	c.maps(object, "annotation", b.Annotations, a.Annotations, c.whyAnnotation)
	c.maps(
		object,
		"allocatable",
		b.Attachable,
		a.Attachable,
		func(_, _, after string) string { return c.whyAttachable(b.Name, after) },
	)
	c.maps(object, "label", b.Labels, a.Labels, func(key, before, _ string) string {
		switch {
		case !c.forward || before != "":
			return ""
		case strings.HasPrefix(key, "topology.k8s.aws/"), slices.Contains(initialisedLabels, key):
			return "the external manager labels nodes that it initialises"
		}
		return ""
	})
}

// serving compares whether a node's kubelet waits for a serving certificate. One whose addresses changed asks for
// another certificate. Until the request is answered, logs and exec of its pods fail. That comes minutes after its
// step. A kubelet that waited before waits for nothing that the migration did.
func (c *inventories) serving(node string) {
	was, is := unissuedRequest(c.before, c.namesBefore, node), unissuedRequest(c.after, c.namesAfter, node)
	if was == "" && is != "" {
		c.differ("Node/"+node, "servingCertificate", "no request waits", is)
	}
}

// unissuedRequest names the first request for a serving certificate of a node that is not issued, and what answers it;
// empty for none.
func unissuedRequest(s *v1.Snapshot, names *servingrequest.Nodes, node string) string {
	for _, r := range s.CertificateRequests {
		switch {
		case r.SignerName != certificatesv1.KubeletServingSignerName || r.Username != servingrequest.UserPrefix+node:
		case r.State == "Pending":
			command, err := names.Approve(r)
			if err != nil {
				return fmt.Sprintf("%q waits; do not approve it before you know why: %v", r.Name, err)
			}
			return r.Name + " waits (" + command + ")"
		case r.State != string(certificatesv1.CertificateApproved):
			command := servingrequest.Command("delete csr", r.Name)
			return r.Name + " is " + r.State + " (" + command + ": the kubelet asks again)"
		}
	}
	return ""
}

// whyAddresses explains a change of addresses: after a migration the external manager writes them, in an order of its
// own, and DNS names with them.
func (c *inventories) whyAddresses(before, after []string) string {
	if !c.forward {
		return ""
	}
	if slices.Equal(sorted(before), sorted(after)) {
		return "the same addresses: the external manager writes them in its own order"
	}
	for _, b := range before {
		if !slices.Contains(after, b) {
			return ""
		}
	}
	for _, a := range after {
		kind, _, _ := strings.Cut(a, "=")
		if !slices.Contains(before, a) && kind != "InternalDNS" && kind != "ExternalDNS" && kind != "Hostname" {
			return ""
		}
	}
	return "the external manager writes the DNS names of the instance too"
}
