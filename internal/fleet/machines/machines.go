// Package machines decides which machines of a user cluster really run with an external cloud provider, and when all of
// them do. It also decides which MachineDeployment may be restarted next.
//
// Machines, MachineSets and MachineDeployments are those of machine-controller (cluster.k8s.io/v1alpha1, in the user
// cluster). Look gathers Facts and Observe judges them; Observe is pure. Restarter executes what Next, pure as well,
// allows.
//
// A machine counts as migrated by its Node, never by what its annotations promise:
//
//	no Node                     NoNode, BeingDeleted
//	Node not up                 NodeNotReady, NoProviderID, Uninitialized
//	Node up, evidence against   InTree, AnnotationContradicted
//	Node up, no evidence        OlderThanChange, OldUserdata, AnnotationMissing
//	Node up, evidence for       migrated: EvidenceTaint > EvidenceInitialized > EvidenceCircumstance
//	volumes not taken over      DriverMissing, PluginNotMigrated
//
// The cluster is complete when every machine is migrated and every MachineDeployment has what it wants. The machine
// components also have to make external machines, and a cloud-controller-manager has to be ready to receive them. What
// could not be looked at is unknown, and unknown is never complete.
package machines

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Facts are what Observe and Next judge, gathered beforehand by Gather.
type Facts struct {
	// Time at which they were gathered.
	Time time.Time
	// CCMReady reports whether a cloud-controller-manager runs every loop of the cluster. The caller knows.
	CCMReady bool
	// Volumes are the CSI drivers that every node has to run; empty when the cluster has none (spec.disableCsiDriver).
	Volumes []Volume
	// Record is what earlier looks have seen.
	Record Record

	// NoMachineAPI reports whether the user cluster does not serve cluster.k8s.io: its nodes belong to no machines.
	NoMachineAPI bool
	Machines     []Machine
	Sets         []MachineSet
	Deployments  []Deployment
	Nodes        []Node
	// Attachments are the volumes that are attached to nodes which no longer exist.
	Attachments []Attachment
	// Unknown are sentences about what could not be looked at. While there are any, nothing is complete.
	Unknown []string
}

// Volume is a CSI driver that takes the place of an in-tree volume plugin.
type Volume struct {
	// Driver is its name, e.g. ebs.csi.aws.com: a node that runs it lists it in its CSINode.
	Driver string
	// Plugin is the in-tree plugin, e.g. kubernetes.io/aws-ebs, which a kubelet that hands its volumes over lists in the
	// annotation storage.alpha.kubernetes.io/migrated-plugins of its CSINode. Empty where that is not asked for.
	Plugin string
}

// Machine is a Machine.
type Machine struct {
	Namespace, Name, UID string
	Created              time.Time
	// Deleting is when its deletion was asked for; zero when it was not.
	Deleting time.Time
	// Owner is the uid of its MachineSet; empty when it has none.
	Owner string
	// External is the value of AnnotationExternal; empty when the annotation is missing.
	External string
	// ProviderID, NodeName and NodeUID are what machine-controller wrote down of the node: the id of the instance, and
	// status.nodeRef. It finds nodes by their address, too, so the latter two may be wrong.
	ProviderID, NodeName, NodeUID string
	// Error is status.errorReason and errorMessage: what machine-controller gave up on.
	Error string
}

// MachineSet is a MachineSet.
type MachineSet struct {
	Namespace, Name, UID string
	Created              time.Time
	// Owner is the uid of its MachineDeployment; empty when it has none.
	Owner string
	// Replicas that it wants.
	Replicas int
	// Revision of the MachineDeployment that it stands for; the greatest is the one of the newest template. 0 when it does
	// not say.
	Revision int
	Deleting bool
}

// Deployment is a MachineDeployment.
type Deployment struct {
	Namespace, Name, UID, ResourceVersion string
	Generation, ObservedGeneration        int64
	Deleting, Paused                      bool
	// Replicas that it wants.
	Replicas int
	// Updated, Total, Ready and Available are status.{updated,,ready,available}replicas.
	Updated, Total, Ready, Available int
	// MaxUnavailable and MaxSurge of the rolling update; nil means machine-controller's default: 0 and 1.
	MaxUnavailable, MaxSurge *intstr.IntOrString
	// ForceRestart is the annotation of its template whose change replaces its machines.
	ForceRestart string
}

// Node is a Node with what its CSINode says.
type Node struct {
	Name, UID, ProviderID string
	Created               time.Time
	Ready                 bool
	// NotReadySince is when the condition Ready stopped being True; zero when it is.
	NotReadySince time.Time
	// Uninitialized reports whether it carries the taint node.cloudprovider.kubernetes.io/uninitialized.
	Uninitialized bool
	// ProviderIDBy is the field manager that set spec.providerID: kubelet, aws-cloud-controller-manager, ... Empty when
	// the API server does not say.
	ProviderIDBy string
	// ProviderIDAt is when that manager last wrote to the node (next to its status). If it wrote nothing later, that is
	// when it set the providerID. Zero when the API server does not say.
	ProviderIDAt time.Time
	// OwnedBy is the label by which machine-controller marks the node of a machine: the machine's uid.
	OwnedBy string
	// Virtual reports whether no kubelet of a cloud's instance runs there (label type=virtual-kubelet).
	Virtual bool
	// Drivers and Plugins are the CSI drivers that run on it and the in-tree plugins that its kubelet hands over. Both are
	// empty when it has no CSINode.
	Drivers, Plugins []string
}

// Attachment is a VolumeAttachment.
type Attachment struct{ Name, Node, Volume string }

// Looker looks at the machines of one cluster and restarts MachineDeployments where it may. One call is one pass that
// does not wait for anything but the answers of the two API servers, each bounded by its context.
type Looker struct {
	// Name of the cluster, for sentences.
	Name string
	// Store is where the record is kept, in the seed.
	Store Store
	// Kube and Dynamic reach the user cluster.
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// CCMReady: a cloud-controller-manager runs every loop. PartsReady: machine-controller, its webhook and
	// operating-system-manager have rolled out with their new flags (parts.Result.MachinesReady). The first look at which
	// both hold is since when machines count as made external.
	CCMReady, PartsReady bool
	// Volumes are the CSI drivers that every node has to run (parts.Result.Volumes).
	Volumes []Volume
	// Clock is the real one when nil.
	Clock clock.PassiveClock
}

// Look gathers, remembers what was seen, and judges. An error means that nothing was found out. Who looks does not
// restart: a restart that has stopped may begin again when it is wanted again (Policy.Wanted).
func (l Looker) Look(ctx context.Context) (Observation, error) {
	f, o, version, err := l.readAll(ctx)
	if err != nil {
		return o, err
	}
	after := f.Record.clone()
	after.Restart = Next(f, o, Policy{}).Record
	_, err = l.Store.Save(ctx, after, f.Record, version)
	return o, err
}

func (l Looker) readAll(ctx context.Context) (Facts, Observation, string, error) {
	record, version, err := l.Store.Load(ctx)
	if err != nil {
		return Facts{}, Observation{}, "", err
	}
	f, err := Gather(ctx, l.Kube, l.Dynamic, l.clock().Now())
	if err != nil {
		return Facts{}, Observation{}, "", fmt.Errorf("looking at the machines of cluster %s: %w", l.Name, err)
	}
	before := record.clone()
	if len(f.Unknown) == 0 {
		record.See(f.Nodes)
	}
	if l.CCMReady && l.PartsReady {
		record.External(f.Time)
	}
	if version, err = l.Store.Save(ctx, record, before, version); err != nil {
		return Facts{}, Observation{}, "", err
	}
	f.CCMReady, f.Volumes, f.Record = l.CCMReady, l.Volumes, record
	return f, Observe(f), version, nil
}

func (l Looker) clock() clock.PassiveClock {
	if l.Clock == nil {
		return clock.RealClock{}
	}
	return l.Clock
}

// Reason says why a machine, or a MachineDeployment, is not done. Reasons stand in conditions and messages.
type Reason string

// Reasons of machines.
const (
	// NoNode: no Node belongs to the machine. It was just made, it never joined, or its Node was deleted.
	NoNode Reason = "NoNode"
	// BeingDeleted: the machine goes, and what runs on it is not known to be external.
	BeingDeleted Reason = "BeingDeleted"
	// NodeNotReady: the kubelet does not report.
	NodeNotReady Reason = "NodeNotReady"
	// NoProviderID: the node's instance is not known: a cloud-controller-manager cannot keep it.
	NoProviderID Reason = "NoProviderID"
	// Uninitialized: the kubelet is external and waits for a cloud-controller-manager.
	Uninitialized Reason = "Uninitialized"
	// InTree: the kubelet itself gave the node its providerID, which an external one leaves to the
	// cloud-controller-manager.
	InTree Reason = "InTree"
	// AnnotationContradicted: as InTree, although the machine's annotation says external. Its userdata is older than the
	// annotation.
	AnnotationContradicted Reason = "AnnotationContradicted"
	// OlderThanChange: the node registered before machines were made external, and nothing proves that it is.
	OlderThanChange Reason = "OlderThanChange"
	// OldUserdata: the machine is new, but its MachineSet is not. operating-system-manager has not rendered new userdata
	// for it, so it starts as its predecessors did. Only a change of the MachineDeployment's template helps.
	OldUserdata Reason = "OldUserdata"
	// AnnotationMissing: nothing proves that the node is external, and not even the machine's annotation says so.
	AnnotationMissing Reason = "AnnotationMissing"
	// DriverMissing: a CSI driver does not run on the node.
	DriverMissing Reason = "DriverMissing"
	// PluginNotMigrated: the kubelet still mounts the volumes of the in-tree plugin itself.
	PluginNotMigrated Reason = "PluginNotMigrated"
	// NodeWithoutMachine: a node that no machine owns, and nothing proves that it is external. No MachineDeployment
	// replaces it.
	NodeWithoutMachine Reason = "NodeWithoutMachine"
)

// Reasons of MachineDeployments.
const (
	// NotObserved: machine-controller has not looked at the last change.
	NotObserved Reason = "NotObserved"
	// Paused: the rollout was stopped before it was finished.
	Paused Reason = "Paused"
	// WantsMachines: it wants more machines than there are.
	WantsMachines Reason = "WantsMachines"
	// RolloutUnfinished: not every machine is of the newest template and available, or old ones are left.
	RolloutUnfinished Reason = "RolloutUnfinished"
	// OldTemplate: it wants no machine, but those that it will make one day start from userdata of before the change. It
	// does not count as unfinished.
	OldTemplate Reason = "OldTemplate"
)
