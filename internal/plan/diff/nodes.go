package diff

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// annotationNodeIP is where a kubelet with an external provider says which address --node-ip gives it.
const annotationNodeIP = "alpha.kubernetes.io/provided-node-ip"

// changeNodes applies what a step does to Nodes, and what a kubelet or a manager does to them because of it. A taint or
// a cordon that comes and goes within the plan leaves no difference.
//
//	a manager starts   initialises Nodes that have the taint, has stable labels follow beta ones, writes addresses
//	a kubelet changes  writes its label of the host's name and the annotation of --node-ip; leaves addresses to the manager
//	InitializeNode     has the manager initialise the Node
//	a host goes        its Node goes
//
// A rollback removes a taint only where its journal shows that the migration gave it, which no snapshot shows.
func (d *differ) changeNodes(s v1.Step) error {
	switch {
	case s.Kind == v1.StepInitializeNode && s.Restore == "":
		return d.changeNode(strings.TrimPrefix(s.Ref, "Node/"), d.initialiseNode)
	case s.Kind == v1.StepKubelet:
		i := slices.IndexFunc(d.snap.Hosts, func(h v1.Host) bool { return h.Name == s.Host })
		if i < 0 {
			return nil
		}
		h := d.snap.Hosts[i]
		return d.changeNode(h.NodeName, func(n *nodeState) { d.restartKubelet(n, h, s) })
	case s.Await != nil && s.Await.NodeGone != "":
		return d.removeNode(s.Await.NodeGone)
	case !d.managed && d.startsNodeLoop(s):
		d.managed = true
		for _, n := range d.snap.Nodes {
			if err := d.changeNode(n.Name, d.manageNode); err != nil {
				return err
			}
		}
	}
	return nil
}

// startsNodeLoop reports whether a manager that initialises Nodes runs after a step.
func (d *differ) startsNodeLoop(s v1.Step) bool {
	switch {
	case s.Ref == layout.NodeManagerDaemonSet:
		return s.Kind == v1.StepEnsureObject
	case s.Component != component.CCM:
		return false
	case s.Await != nil:
		// The manager of such a provider leaves Nodes to another one, which a plan that replaces hosts does not start.
		p, _ := cloudprovider.Lookup(d.provider())
		return s.Await.Nodes > 0 && p.NodeManager == ""
	case s.Kind == v1.StepAddManifest || s.Kind == v1.StepEnsureObject:
		start, err := planstep.ReadManagerStart(s)
		return err == nil && !start.LeavesNodes()
	}
	return false
}

func (d *differ) changeNode(name string, change func(*nodeState)) error {
	n := d.nodes.find(name)
	if n == nil {
		return nil
	}
	before := *n // changes copy what they write
	change(n)
	if reflect.DeepEqual(before, *n) {
		return nil
	}
	c, err := d.differenceAt(nodeRef(name), func() (string, error) { return nodeText(before) })
	if err != nil {
		return err
	}
	c.After, err = nodeText(*n)
	return err
}

func (d *differ) removeNode(name string) error {
	n := d.nodes.find(name)
	if n == nil {
		return nil
	}
	c, err := d.differenceAt(nodeRef(name), func() (string, error) { return nodeText(*n) })
	if err != nil {
		return err
	}
	c.After = ""
	delete(d.nodes.all, name) // a later step about it would show it again
	return nil
}

func nodeRef(name string) string { return "Node/" + name }

// manageNode is what a manager does when it finds a Node.
func (d *differ) manageNode(n *nodeState) {
	if slices.ContainsFunc(n.Taints, isUninitialized) {
		d.initialiseNode(n)
	}
	for _, pair := range labelPairs {
		if value, ok := n.Labels[pair.beta]; ok {
			n.setLabel(pair.stable, value)
		}
	}
	if d.nodes.external[n.Name] {
		d.writeAddresses(n)
	}
}

// restartKubelet is what a kubelet writes about its Node when a step has changed its flags.
func (d *differ) restartKubelet(n *nodeState, h v1.Host, s v1.Step) {
	if e, ok := planstep.LastEdit(s, flagvalue.FlagHostname); ok && e.Op == v1.EditSetFlag {
		n.setLabel(kubelet.LabelHostname, e.Value)
	}
	if !planstep.SetsFlag(s, "cloud-provider", "external") {
		return
	}
	ip := ""
	if h.Kubelet != nil {
		ip = singleAddress(h.Kubelet.Flags["node-ip"])
	}
	if ip != "" && n.Annotations[annotationNodeIP] != ip {
		n.Annotations = withValue(n.Annotations, annotationNodeIP, ip)
		return // the manager orders and filters the addresses by it, which no preview has seen
	}
	d.writeAddresses(n)
}

// singleAddress returns the one address of --node-ip; empty where that chooses a family or names two addresses.
func singleAddress(flag string) string {
	ip, err := netip.ParseAddr(strings.TrimSpace(flag))
	if err != nil || ip.IsUnspecified() {
		return ""
	}
	return ip.Unmap().String()
}

// initialiseNode is what a manager writes about a Node with the taint, once and for good. A Node without an instance
// keeps the taint.
func (d *differ) initialiseNode(n *nodeState) {
	found, complete := d.nodes.instanceOf(n.Name)
	if complete && !found.Found {
		return
	}
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), isUninitialized)
	if n.ProviderID == "" {
		n.ProviderID = found.ProviderID
	}
	if n.ProviderID == "" {
		n.addRemark(remarkProviderID)
	}
	for _, label := range []struct {
		value string
		pair  labelPair
	}{{found.Zone, zoneLabels}, {found.Region, regionLabels}, {found.Type, typeLabels}} {
		n.setLabel(label.pair.beta, label.value)
		n.setLabel(label.pair.stable, label.value)
	}
	for key, value := range found.Labels {
		n.setLabel(key, value)
	}
	d.writeAddresses(n)
	if !complete {
		n.addRemark(remarkCloud)
	}
}

// Remarks stand above a Node of which a snapshot does not know all.
const (
	remarkProviderID = "spec.providerID: the manager sets it to the cloud's name of the instance, which is not known here"
	remarkCloud      = "the manager also writes zone, region, type and addresses as the cloud has them; a snapshot with --prove has those that are missing here"
)

// writeAddresses is what a manager writes where the kubelet leaves addresses to it. The order of types does not matter.
func (d *differ) writeAddresses(n *nodeState) {
	found, complete := d.nodes.instanceOf(n.Name)
	if !complete || !found.Found || len(found.Addresses) == 0 {
		return
	}
	if !reflect.DeepEqual(byType(n.Addresses), byType(found.Addresses)) {
		n.Addresses = found.Addresses
	}
}

func byType(addresses []string) map[string][]string {
	out := map[string][]string{}
	for _, a := range addresses {
		kind, address, _ := strings.Cut(a, "=")
		out[kind] = append(out[kind], address)
	}
	return out
}

// labelPair is a label under its two names. Managers have the stable one follow the beta one.
type labelPair struct{ beta, stable string }

var (
	zoneLabels   = labelPair{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone}
	regionLabels = labelPair{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion}
	typeLabels   = labelPair{corev1.LabelInstanceType, corev1.LabelInstanceTypeStable}
	labelPairs   = []labelPair{zoneLabels, regionLabels, typeLabels}
)

func isUninitialized(taint string) bool {
	key, _, _ := strings.Cut(taint, "=")
	return key == component.TaintUninitialized
}
