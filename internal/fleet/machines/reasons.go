package machines

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
	// NoProviderID: nobody has said which instance the node is: a cloud-controller-manager cannot keep it.
	NoProviderID Reason = "NoProviderID"
	// Uninitialized: the kubelet is external and waits for a cloud-controller-manager.
	Uninitialized Reason = "Uninitialized"
	// InTree: the kubelet itself gave the node its providerID, which an external one leaves to the cloud-controller-manager.
	InTree Reason = "InTree"
	// AnnotationContradicted: as InTree, although the machine's annotation says external. Its userdata is older than the annotation.
	AnnotationContradicted Reason = "AnnotationContradicted"
	// OlderThanChange: the node registered before machines were made external, and nothing proves that it is.
	OlderThanChange Reason = "OlderThanChange"
	// OldUserdata: the machine is new, but its MachineSet is not: operating-system-manager has not rendered new userdata for it, so that it starts as its
	// predecessors did. Only a change of the MachineDeployment's template helps.
	OldUserdata Reason = "OldUserdata"
	// AnnotationMissing: nothing proves that the node is external, and not even the machine's annotation says so.
	AnnotationMissing Reason = "AnnotationMissing"
	// DriverMissing: a CSI driver does not run on the node.
	DriverMissing Reason = "DriverMissing"
	// PluginNotMigrated: the kubelet still mounts the volumes of the in-tree plugin itself.
	PluginNotMigrated Reason = "PluginNotMigrated"
	// NodeWithoutMachine: a node that no machine owns, and nothing proves that it is external. No MachineDeployment replaces it.
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
	// OldTemplate: it wants no machine, but those that it will make one day start from userdata of before the change. It does not count as unfinished.
	OldTemplate Reason = "OldTemplate"
)
