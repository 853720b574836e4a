package machines

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Facts are what Observe and Next judge, gathered beforehand by Gather.
type Facts struct {
	// Time at which they were gathered.
	Time time.Time
	// CCMReady tells that a cloud-controller-manager runs every loop of the cluster. The caller knows.
	CCMReady bool
	// Volumes are the CSI drivers that every node has to run; empty when the cluster has none (spec.disableCsiDriver).
	Volumes []Volume
	// Record is what earlier looks have seen.
	Record Record

	// NoMachineAPI tells that the user cluster does not serve cluster.k8s.io: its nodes are nobody's machines.
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
	// Plugin is the in-tree plugin, e.g. kubernetes.io/aws-ebs, which a kubelet that hands its volumes over lists in the annotation
	// storage.alpha.kubernetes.io/migrated-plugins of its CSINode. Empty where that is not asked for.
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
	// ProviderID, NodeName and NodeUID are what machine-controller wrote down of the node: the id of the instance, and status.nodeRef. It finds nodes by
	// their address, too, so the latter two may be wrong.
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
	// Revision of the MachineDeployment that it stands for; the greatest is the one of the newest template. 0 when it does not say.
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
	// Uninitialized tells that it carries the taint node.cloudprovider.kubernetes.io/uninitialized.
	Uninitialized bool
	// ProviderIDBy is the field manager that set spec.providerID: kubelet, aws-cloud-controller-manager, ... Empty when the API server does not say.
	ProviderIDBy string
	// ProviderIDAt is when that manager last wrote to the node (beside its status): as long as it wrote nothing later, when it set the providerID. Zero when
	// the API server does not say.
	ProviderIDAt time.Time
	// OwnedBy is the label by which machine-controller marks the node of a machine: the machine's uid.
	OwnedBy string
	// Virtual tells that no kubelet of a cloud's instance runs there (label type=virtual-kubelet).
	Virtual bool
	// Drivers and Plugins are the CSI drivers that run on it and the in-tree plugins that its kubelet hands over. Both are empty when it has no CSINode.
	Drivers, Plugins []string
}

// Attachment is a VolumeAttachment.
type Attachment struct{ Name, Node, Volume string }
