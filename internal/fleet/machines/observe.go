package machines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Evidence is what is known of whether a kubelet is external. The API shows no kubelet's flags, so it is what the
// kubelet's flags lead to.
type Evidence string

// Evidence, the strongest first.
const (
	// EvidenceTaint: the node had the taint node.cloudprovider.kubernetes.io/uninitialized when it was first seen. Only an
	// external kubelet registers so.
	EvidenceTaint Evidence = "Taint"
	// EvidenceInitialized: a cloud-controller-manager gave the node its providerID, which it does for tainted nodes only.
	// An in-tree node without providerID may have been tainted later in its life, in order to get one. So a node from
	// before the change has to have got it soon after it registered.
	EvidenceInitialized Evidence = "Initialized"
	// EvidenceCircumstance: the node, its machine and the MachineSet are all younger than the moment since which machines
	// are made external, and the annotation says so. Nothing of the node itself says otherwise.
	EvidenceCircumstance Evidence = "Circumstance"
	// EvidenceInTree: the kubelet gave the node its providerID, as the in-tree provider does at registration. It speaks
	// against.
	EvidenceInTree Evidence = "InTree"
	// EvidenceNone: nothing is known.
	EvidenceNone Evidence = "None"
)

// kubeletManager is the field manager of a kubelet: the first part of its user agent.
const kubeletManager = component.Kubelet

// soon is how long an external node may have waited for its cloud-controller-manager.
const soon = time.Hour

// proof is what the node itself shows.
func proof(n Node, r Record) Evidence {
	switch {
	case r.wasRegisteredTainted(n.UID):
		return EvidenceTaint
	case n.ProviderIDBy == kubeletManager:
		return EvidenceInTree
	// <provider>-cloud-controller-manager, cloud-controller-manager, cloud-node-manager
	case strings.Contains(n.ProviderIDBy, "cloud"):
		if old := r.ExternalSince == nil || n.Created.Before(*r.ExternalSince); old && n.ProviderIDAt.Sub(n.Created) > soon {
			return EvidenceNone
		}
		return EvidenceInitialized
	default: // machine-controller, a human, or an API server that does not say
		return EvidenceNone
	}
}

// Observation is what Observe makes of Facts.
type Observation struct {
	// Total machines: Machines, and Nodes that no Machine owns. Done of them run external, Waiting do not: Total = Done +
	// Waiting.
	Total, Done, Waiting int
	// Deleting of Total are being deleted; Wanted is how many machines MachineDeployments and free MachineSets want.
	Deleting, Wanted int
	// Machines, those that wait first, then by namespace and name.
	Machines []MachineState
	// Deployments by namespace and name.
	Deployments []DeploymentState
	// Complete reports whether the migration of the machines is over: nothing waits, nothing is unknown, and what makes
	// machines makes external ones.
	Complete bool
	// Unknown are sentences about what could not be looked at.
	Unknown []string
	// Warnings are sentences about what does not hold the migration up and should be known.
	Warnings []string
}

// MachineState is one machine, or one Node without a Machine.
type MachineState struct {
	// Namespace and Name of the Machine; both empty for a Node without one.
	Namespace, Name string
	// Node is the name of its Node; empty when it has none.
	Node string
	// Deployment is the name of its MachineDeployment; empty when it has none.
	Deployment string
	// Deleting reports whether its deletion was asked for.
	Deleting bool
	Migrated bool
	// Reason why it is not migrated; empty when it is.
	Reason Reason
	// Message says the same as a clause, with what an administrator has to do, if anything.
	Message string
	// Evidence that its kubelet is external, or is not.
	Evidence Evidence
}

// Title names it in sentences.
func (m MachineState) Title() string {
	if m.Name == "" {
		return "node " + m.Node
	}
	return m.Name
}

// DeploymentState is one MachineDeployment.
type DeploymentState struct {
	Namespace, Name string
	// Wanted machines, how many there are that are not being deleted, and how many of those are migrated.
	Wanted, Machines, Done int
	// Settled reports whether its rollout is finished, whatever its machines run.
	Settled bool
	// Reason why it is not settled, or OldTemplate; empty otherwise.
	Reason  Reason
	Message string
}

// Key is namespace/name.
func (d DeploymentState) Key() string { return d.Namespace + "/" + d.Name }

// shown is how many machines of a reason a message names.
const shown = 3

// Reasons are one sentence per reason, sorted: how many machines wait for it, and the first of them.
func (o Observation) Reasons() []string {
	names := map[Reason][]string{}
	for _, m := range o.Machines {
		if !m.Migrated {
			names[m.Reason] = append(names[m.Reason], m.Title())
		}
	}
	var out []string
	for reason, list := range names {
		slices.Sort(list)
		more := ""
		if len(list) > shown {
			list, more = list[:shown], fmt.Sprintf(" and %d more", len(list)-shown)
		}
		out = append(out, fmt.Sprintf("%s: %s%s", reason, strings.Join(list, ", "), more))
	}
	for _, d := range o.Deployments {
		if !d.Settled {
			out = append(out, fmt.Sprintf("%s: MachineDeployment %s %s", d.Reason, d.Name, d.Message))
		}
	}
	slices.Sort(out)
	return out
}

// Message is the observation in a sentence or two, of bounded length.
func (o Observation) Message() string {
	if len(o.Unknown) > 0 {
		return "not known: " + strings.Join(first(o.Unknown, shown), "; ")
	}
	head := fmt.Sprintf("%d of %d machines run with the external cloud provider", o.Done, o.Total)
	if o.Total == 0 {
		head = "there are no machines"
	}
	if reasons := o.Reasons(); len(reasons) > 0 {
		return head + "; " + strings.Join(first(reasons, 2*shown), "; ")
	}
	if !o.Complete {
		return head + "; machine-controller, operating-system-manager or the cloud-controller-manager is not ready to make external ones"
	}
	return head
}

func first(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(slices.Clone(list[:n]), fmt.Sprintf("and %d more", len(list)-n))
}

// Observe judges facts. It never says that something is complete which it does not know.
func Observe(f Facts) Observation {
	w := newLiveObjects(f)
	o := Observation{Unknown: slices.Clone(f.Unknown)}
	for _, m := range f.Machines {
		o.Machines = append(o.Machines, w.machine(m))
		if !m.Deleting.IsZero() {
			o.Deleting++
		}
	}
	for _, n := range f.Nodes {
		if w.machineOf[n.UID] == "" && !n.Virtual {
			o.Machines = append(o.Machines, w.stray(n))
		}
	}
	has := countByDeployment(o.Machines)
	for _, d := range f.Deployments {
		o.Deployments = append(o.Deployments, w.deployment(d, has[key(d)]))
		if !d.Deleting {
			o.Wanted += d.Replicas
		}
	}
	setsDone := w.countStandaloneSets(&o)
	o.count()
	o.warn(f)
	settled := !slices.ContainsFunc(o.Deployments, func(d DeploymentState) bool { return !d.Settled })
	o.Complete = settled && setsDone && o.Waiting == 0 && len(o.Unknown) == 0 && f.CCMReady &&
		f.Record.ExternalSince != nil
	return o
}

func (o *Observation) count() {
	o.Total = len(o.Machines)
	for _, m := range o.Machines {
		if m.Migrated {
			o.Done++
		}
	}
	o.Waiting = o.Total - o.Done
	slices.SortFunc(o.Machines, func(a, b MachineState) int {
		if a.Migrated != b.Migrated {
			if b.Migrated {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Title(), b.Title()))
	})
	slices.SortFunc(o.Deployments, func(a, b DeploymentState) int { return cmp.Compare(a.Key(), b.Key()) })
}

func (o *Observation) warn(f Facts) {
	for _, d := range o.Deployments {
		if d.Reason == OldTemplate {
			o.Warnings = append(o.Warnings, fmt.Sprintf("MachineDeployment %s %s", d.Name, d.Message))
		}
	}
	for _, a := range f.Attachments {
		o.Warnings = append(
			o.Warnings,
			fmt.Sprintf("volume %s is still attached to node %s, which does not exist any longer", a.Volume, a.Node),
		)
	}
	slices.Sort(o.Warnings)
}

// liveObjects is facts with what belongs together found.
type liveObjects struct {
	Facts
	nodeOf      map[string]*Node // machine uid ->
	machineOf   map[string]string
	setByUID    map[string]*MachineSet
	deployByUID map[string]*Deployment
	newestOf    map[string]*MachineSet // deployment uid -> the set of its template
	machinesOf  map[string][]Machine   // deployment uid ->
}

func newLiveObjects(f Facts) *liveObjects {
	w := &liveObjects{
		Facts:       f,
		setByUID:    map[string]*MachineSet{},
		deployByUID: map[string]*Deployment{},
		newestOf:    map[string]*MachineSet{},
		machinesOf:  map[string][]Machine{},
	}
	for i := range f.Deployments {
		w.deployByUID[f.Deployments[i].UID] = &f.Deployments[i]
	}
	for i := range f.Sets {
		s := &f.Sets[i]
		w.setByUID[s.UID] = s
		if s.Owner != "" && isNewerSet(s, w.newestOf[s.Owner]) {
			w.newestOf[s.Owner] = s
		}
	}
	for _, m := range f.Machines {
		if d := w.deploymentOf(m); d != nil {
			w.machinesOf[d.UID] = append(w.machinesOf[d.UID], m)
		}
	}
	w.nodeOf, w.machineOf = match(f.Machines, f.Nodes)
	return w
}

// isNewerSet reports whether a MachineSet stands for a newer template than another.
func isNewerSet(s, than *MachineSet) bool {
	if than == nil || s.Revision != than.Revision {
		return than == nil || s.Revision > than.Revision
	}
	return s.Created.After(than.Created)
}

// match finds the node of each machine. It does so by the label that names the machine's uid, then by the id of the
// instance. Next come the uid and then the name that machine-controller wrote down. Last comes the machine's own name.
// Addresses are not looked at: another instance may have inherited one. A node belongs to one machine, the one with the
// strongest claim.
func match(machines []Machine, nodes []Node) (nodeOf map[string]*Node, machineOf map[string]string) {
	nodeOf, machineOf = map[string]*Node{}, map[string]string{}
	alive := map[string]bool{}
	for _, m := range machines {
		alive[m.UID] = true
	}
	for _, claim := range claims {
		claimant := map[string]string{} // by what a node must have, the machine's uid
		for _, m := range machines {
			if key := claim.machine(m); key != "" && nodeOf[m.UID] == nil && claimant[key] == "" {
				claimant[key] = m.UID
			}
		}
		for i := range nodes {
			n := &nodes[i]
			uid := claimant[claim.node(*n)]
			marked := alive[n.OwnedBy] && uid != n.OwnedBy // the label names another machine
			if uid != "" && !marked && nodeOf[uid] == nil && machineOf[n.UID] == "" {
				nodeOf[uid], machineOf[n.UID] = n, uid
			}
		}
	}
	return nodeOf, machineOf
}

// claims are what a machine has and its node has to have, the strongest first. What is empty claims nothing.
var claims = []struct {
	machine func(Machine) string
	node    func(Node) string
}{
	{func(m Machine) string { return m.UID }, func(n Node) string { return n.OwnedBy }},
	{func(m Machine) string { return m.ProviderID }, func(n Node) string { return n.ProviderID }},
	{func(m Machine) string { return m.NodeUID }, func(n Node) string { return n.UID }},
	{func(m Machine) string {
		if m.NodeUID != "" {
			return "" // that node was another one of the same name
		}
		return m.NodeName
	}, func(n Node) string { return n.Name }},
	{func(m Machine) string { return m.Name }, func(n Node) string { return n.Name }},
}

func (w *liveObjects) deploymentOf(m Machine) *Deployment {
	s := w.setByUID[m.Owner]
	if s == nil {
		return nil
	}
	return w.deployByUID[s.Owner]
}

func (w *liveObjects) machine(m Machine) MachineState {
	s := MachineState{
		Namespace: m.Namespace,
		Name:      m.Name,
		Deleting:  !m.Deleting.IsZero(),
		Evidence:  EvidenceNone,
	}
	if d := w.deploymentOf(m); d != nil {
		s.Deployment = d.Name
	}
	n := w.nodeOf[m.UID]
	if n != nil {
		s.Node = n.Name
		s.Evidence = proof(*n, w.Record)
		if s.Evidence == EvidenceNone && w.isPresumedExternal(m, *n) {
			s.Evidence = EvidenceCircumstance
		}
	}
	s.Reason, s.Message = w.reason(m, n, s.Evidence)
	s.Migrated = s.Reason == ""
	return s
}

// reason is why a machine is not migrated; empty when it is.
func (w *liveObjects) reason(m Machine, n *Node, e Evidence) (Reason, string) {
	external := e == EvidenceTaint || e == EvidenceInitialized || e == EvidenceCircumstance
	switch {
	case !m.Deleting.IsZero() && !external:
		return BeingDeleted, "is being deleted since " + m.Deleting.UTC().
			Format("15:04:05") +
			", and what it runs is not known to be external"
	case n == nil:
		return NoNode, noNode(m)
	}
	if reason, message := up(*n); reason != "" {
		return reason, message
	}
	if external {
		return volumes(*n, w.Volumes)
	}
	return w.against(m, *n, e)
}

// longest is how much of what machine-controller says goes into a message.
const longest = 200

func noNode(m Machine) string {
	if m.Error == "" {
		return "has no node"
	}
	return "has no node: " + visible.Cut(strings.Join(strings.Fields(mask.Text(m.Error)), " "), longest)
}

// up is why a node is not one that works.
func up(n Node) (Reason, string) {
	switch {
	case !n.Ready:
		return NodeNotReady, "its node is not ready"
	case n.Uninitialized:
		return Uninitialized, "its node waits to be initialized by the cloud-controller-manager"
	case n.ProviderID == "":
		return NoProviderID, "its node has no providerID"
	}
	return "", ""
}

// volumes is why the volumes of a node are not handed over.
func volumes(n Node, wanted []Volume) (Reason, string) {
	for _, v := range wanted {
		if !slices.Contains(n.Drivers, v.Driver) {
			return DriverMissing, "its node does not run the CSI driver " + v.Driver
		}
		if v.Plugin != "" && !slices.Contains(n.Plugins, v.Plugin) {
			return PluginNotMigrated, "its kubelet does not hand volumes of " + v.Plugin + " over to " + v.Driver
		}
	}
	return "", ""
}

// against is why a node that works is not taken for external.
func (w *liveObjects) against(m Machine, n Node, e Evidence) (Reason, string) {
	external := m.External == "true"
	switch {
	case e == EvidenceInTree && external:
		return AnnotationContradicted, "its annotation says external, but its kubelet runs an in-tree provider (it gave the node its providerID itself): change the MachineDeployment's template"
	case e == EvidenceInTree:
		return InTree, "its kubelet runs an in-tree provider"
	case w.Record.ExternalSince == nil || n.Created.Before(*w.Record.ExternalSince):
		return OlderThanChange, "its node is older than the change of machine-controller"
	case m.Created.Before(*w.Record.ExternalSince) || w.hasOldUserdata(m):
		return OldUserdata, "it was made from userdata older than the change of operating-system-manager: change the MachineDeployment's template"
	default:
		return AnnotationMissing, "nothing shows that its kubelet is external, and its annotation does not say so"
	}
}

// isPresumedExternal reports whether everything around a node says that it is external. It is asked only when the node
// itself says nothing.
func (w *liveObjects) isPresumedExternal(m Machine, n Node) bool {
	since := w.Record.ExternalSince
	return since != nil && m.External == "true" && !n.Created.Before(*since) && !m.Created.Before(*since) &&
		!w.hasOldUserdata(m)
}

// hasOldUserdata reports whether a machine was made by a MachineSet of before the change: userdata is rendered for a
// revision of the MachineDeployment once.
func (w *liveObjects) hasOldUserdata(m Machine) bool {
	s := w.setByUID[m.Owner]
	return s != nil && w.Record.ExternalSince != nil && s.Created.Before(*w.Record.ExternalSince)
}

// stray judges a node that no machine owns.
func (w *liveObjects) stray(n Node) MachineState {
	s := MachineState{Node: n.Name, Evidence: proof(n, w.Record)}
	if s.Reason, s.Message = up(n); s.Reason == "" {
		switch s.Evidence {
		case EvidenceTaint, EvidenceInitialized:
			s.Reason, s.Message = volumes(n, w.Volumes)
		default:
			s.Reason, s.Message = NodeWithoutMachine, "no machine owns it and nothing shows that its kubelet is external: replace it, or delete it when its instance is gone"
		}
	}
	s.Migrated = s.Reason == ""
	return s
}
