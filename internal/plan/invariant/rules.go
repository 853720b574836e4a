package invariant

import (
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// CheckAllowed says which steps of a plan, forward or back, must not be executed, by rule and step.
func CheckAllowed(p *v1.Plan, live *v1.Snapshot) error {
	r := &planView{Plan: p, snap: live}
	var errs []error
	for _, rule := range Rules {
		if rule.anyDirection {
			if err := rule.holds(r); err != nil {
				errs = append(errs, fmt.Errorf("rule %s, %s: %w", rule.ID, rule.Title, err))
			}
		}
	}
	return errors.Join(errs...)
}

// eachAllowed makes a rule of an allowance: it names the first step that breaks it.
func eachAllowed(holds func(allowed.Judge, v1.Step) error) func(*planView) error {
	return func(r *planView) error { return allowed.CheckEach(r.Plan, r.snap, holds) }
}

// Rule is something that holds of every plan, whatever the cluster and the options.
type Rule struct {
	// ID is P-01 and so on; it is never given to another rule.
	ID string
	// Title is a clause that holds, Why what would happen otherwise.
	Title, Why string
	// holds returns what breaks the rule. What only a snapshot can tell is not looked at without one.
	holds func(r *planView) error
	// anyDirection reports whether it holds of rollbacks, too: it judges each step by itself.
	anyDirection bool
}

// Rules are all of them. Make verifies every plan against them; so may a reader of one from a file.
var Rules = []Rule{
	{
		"P-01",
		"no cloud-controller-manager starts before every kube-controller-manager respects the migration lease, or runs no cloud loop any longer",
		"two managers would run every loop, and write to the cloud side by side",
		oneOwner,
		false,
	},
	{
		"P-02",
		"a kube-apiserver restarts only after its host's kube-controller-manager gave the loops up and before its host's cloud-controller-manager starts",
		"an owner that cannot renew its lease ends, and the loops with it",
		apiServers,
		false,
	},
	{
		"P-03",
		"rights come first, roles that exist are never changed, and create is granted apart",
		"a manager without the right to a lease runs no loop, and nothing says so; resource names never match a create",
		rightsFirst,
		false,
	},
	{"P-04", "a file is on a host before a component there is told of it, and goes only after none names it",
		"a manager does not start without a file that it is told of", filesFirst, false},
	{"P-05", "no kubelet becomes external and no node is tainted before a cloud-controller-manager runs",
		"a node that registers keeps its taint, and nothing can be scheduled on it", managerFirst, false},
	{
		"P-06",
		"kubelets of the control plane change first and one at a time, then the first worker of each kind alone, then workers within maxUnavailable; every in-tree kubelet that can be reached has its step",
		"a mistake would take many nodes at once; and a migration that skips kubelets looks complete until the next upgrade, when they do not start",
		kubeletOrder,
		false,
	},
	{"P-07", "CSI migration is on in every kube-controller-manager and scheduler before the first kubelet has it",
		"a kubelet that leaves volumes to CSI waits for an attachment that no controller makes", csiOrder, false},
	{
		"P-08",
		"--external-cloud-volume-plugin, its --cloud-config and the in-tree plugin stay until the last kubelet is done",
		"volumes of nodes that have not changed could not be attached or detached",
		pluginStays,
		false,
	},
	{"P-09", "a node with volumes of the in-tree plugin is drained before its kubelet leaves them to CSI",
		"CSI cannot unmount what it did not mount", drainedFirst, false},
	{"P-10", "no step sets a feature gate or a flag that the component's version does not know",
		"the component would not start", knownGates, false},
	{"P-11", "--feature-gates of the cluster's owner are merged, never replaced",
		"a gate that another component depends on would fall back to its default", gatesMerged, false},
	{
		"P-12",
		"--controllers of the cluster's owner are merged, never replaced, and what they switch off stays off in the cloud-controller-manager",
		"a controller would stop or start that the plan does not name",
		controllersMerged,
		false,
	},
	{"P-13", "node IPAM has one manager",
		"two allocators give two nodes the same pod CIDR", oneAllocator, false},
	{"P-14", "an image credential provider's config and binary are on a host before its kubelet names them",
		"a kubelet does not start with a config that is not there", credentialsFirst, false},
	{
		"P-15",
		"the cloud-controller-manager has the cluster name of the live kube-controller-manager, or the one that was asked for",
		"load balancers would be made again under another name, with other addresses, and the old ones left behind",
		sameName,
		false,
	},
	{"P-16", "flags that decide about routes, pod CIDRs and load balancers are carried over with their values",
		"routes would be deleted or made twice", carriedOver, false},
	{
		"P-17",
		"leader migration is off in every external kube-controller-manager",
		"it would sit on the migration lease with nothing to run: no loop runs anywhere and every health check is green",
		migrationOff,
		false,
	},
	{
		"P-18",
		"the in-tree cloud config is never written or removed",
		"there would be no way back, and an in-tree manager that restarts would die of a key that it does not know",
		inTreeConfigKept,
		false,
	},
	{
		"P-19",
		"every change on a host or of an object requires the facts that it was made from, among them the cluster's uid",
		"a plan would be applied to another cluster, or over another client's change",
		boundToFacts,
		false,
	},
	{"P-20", "a plan holds no secret",
		"it is printed, reviewed and kept in the cluster", noSecret, false},
	{"P-21", "every change says how it is undone",
		"an operator at night would have to guess", undoTold, false},
	{"P-22", "providerIDs are filled in after the handover, node by node, and only where there is none",
		"an in-tree manager would write next to the new one; a providerID cannot be changed", fillLast, false},
	{
		"P-23",
		"the cloud-controller-manager runs on nodes that are not initialised, on the host's network and resolver, with a priority of its own",
		"it would wait for the network, the DNS or the node that waits for it",
		podShape,
		false,
	},
	{"P-24", "no port of the cloud-controller-manager is taken on its host",
		"it would crash for ever next to the one that has the port", portFree, false},
	{"P-25", "a kubelet keeps its name, addresses, providerID and taints",
		"a node that registers under another name orphans volumes and pods of the old one", kubeletIdentity, false},
	{"P-26", "no kube-apiserver is left external with the admission plugin " + flagvalue.PluginPVLabels,
		"it asks an in-tree provider that is not there: volumes are refused or left without their zone", labelsPlugin, false},
	{
		"P-27",
		"a restart of an owner names its leases, its group and, where there is another host, its successors; the owners are looked at in the end",
		"a lease would have to run out before another manager takes over",
		restartsTold,
		false,
	},
	{"P-28", "each migration config names the loops as its own component and version calls them",
		"a name of another version matches nothing, and the manager runs the loop next to the other one", ownDialect, false},
	{"P-29", "what kubeadm would write at the next upgrade is what the plan leaves behind",
		"the next kubeadm upgrade would bring the in-tree provider back", kubeadmAgrees, false},
	{
		"P-30",
		"authorities, files of the cloud config and proxies of the kube-controller-manager reach the cloud-controller-manager, or the plan says that they do not",
		"a manager behind a proxy or with a private authority does not reach its cloud",
		trustKept,
		false,
	},
	{
		"P-31",
		"Azure: the official manager leaves nodes to the cloud-node-manager, which runs before the first kubelet changes; ours has none next to it",
		"no manager initialises nodes, or two managers do",
		initialisesNodes,
		false,
	},
	{"P-32", "no plan is made for a provider that has no external manager here",
		"the loops would end and never begin again", supportedOnly, false},
	{
		"P-33",
		"after every step the component starts with its --cloud-provider and the gates that its version wants next to it",
		"from 1.29 on a kube-apiserver whose gates disagree with --cloud-provider ends at once",
		startsAgain,
		false,
	},
	{
		"P-34",
		"where kube-controller-managers give up the cloud loops a cloud-controller-manager starts, on each of their hosts or as a workload",
		"no manager would run the cloud loops, and nothing would say so",
		successorThere,
		false,
	},
	{
		"P-35",
		"a kubelet's change is made in every file that names it, and all of these files are backed up and put back together",
		"the file that is read last wins, and which one that is changes with the next drop-in",
		everywhere,
		false,
	},
	{
		"P-36",
		"after any step, no manager or scheduler is newer than an API server, and no component is older than the version skew policy allows",
		"a manager asks an API server that is older than itself for what is not there",
		skewKept,
		false,
	},
	{
		"P-37",
		"a component that gets another version is given no flag, feature gate or admission plugin that this version does not take",
		"the component would not start",
		startsUpgraded,
		false,
	},
	{
		"P-38",
		"every API server, manager and scheduler gets the target version, and kubeadm is told; without one no image changes",
		"the control plane would stay between two versions, and kubeadm would take it back",
		targetReached,
		false,
	},
	{
		"P-39",
		"a hosted cloud-controller-manager starts only when every pod of kube-controller-manager was seen to run no cloud loop, or to respect the migration lease",
		"an old pod that still ends, or whose node is away, would write to the cloud next to it",
		seedOneOwner,
		false,
	},
	{
		"P-40",
		"a hosted control plane keeps its in-tree provider until its machines are done and the cloud-controller-manager was seen to own the loops",
		"volumes of machines that are not replaced yet could not be attached or detached",
		seedKeepsProvider,
		false,
	},
	{
		"P-41",
		"in a seed only the namespace of the cluster is changed, and no credential of it stands in the plan",
		"another cluster's control plane would be changed, or a reader of the plan could use the cloud",
		seedStays,
		false,
	},
	{
		"P-42",
		"a step changes files of the kubelets and the components, and its own, and no other file of a host",
		"a user who may change a plan or the journal would be root on the control plane",
		eachAllowed(allowed.Judge.CheckPlace),
		true,
	},
	{
		"P-43",
		"what is written on a host is what this program makes there: no static pod but the manager's, which mounts its own files read-only",
		"a plan could start any program on the control plane",
		eachAllowed(allowed.Judge.CheckContent),
		true,
	},
	{
		"P-44",
		"copied files are the image credential provider of the options; derived ones come from the host or the namespace of the control plane",
		"a kubeconfig of the operator, or a key, could be copied to a host",
		eachAllowed(allowed.Judge.CheckSource),
		true,
	},
	{"P-45", "of a component only the flags, gates, mounts and versions of a migration change",
		"a plan could switch authorization off", eachAllowed(allowed.Judge.CheckEdits), true},
	{
		"P-46",
		"an object is made byte for byte as this program makes it, and only objects of a migration are patched or deleted",
		"a plan could bind whomever it likes to cluster-admin",
		eachAllowed(allowed.Judge.CheckObject),
		true,
	},
	{
		podsRule,
		"after the template of the manager's DaemonSet was changed, its pod on each host is replaced before anything else changes",
		"pods would come back as they were, or run without a file or a lease that they need",
		podsReplaced,
		false,
	},
}

// Verify returns every rule that a plan of a migration breaks. The snapshot that it was made from may be nil: then only
// what the plan itself says is looked at. A rollback has an order of its own and is not judged here.
func Verify(p *v1.Plan, snap *v1.Snapshot) error {
	if p.Direction == planstep.Rollback {
		return nil
	}
	r, err := buildView(p, snap)
	if err != nil {
		return err
	}
	var errs []error
	for _, rule := range Rules {
		if err := rule.holds(r); err != nil {
			errs = append(errs, fmt.Errorf("rule %s, %s: %w", rule.ID, rule.Title, err))
		}
	}
	return errors.Join(errs...)
}
