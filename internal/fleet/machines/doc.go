// Package machines decides which machines of a user cluster really run with an external cloud provider, when all of them do, and which
// MachineDeployment may be restarted next so that they will.
//
// Machines, MachineSets and MachineDeployments are those of machine-controller (cluster.k8s.io/v1alpha1, in the user cluster). Look gathers Facts and
// Observe judges them; Observe is pure. Restarter carries out what Next, pure as well, allows.
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
// The cluster is complete when every machine is migrated, every MachineDeployment has what it wants, the machine components make external machines, and a
// cloud-controller-manager is ready to receive them. What could not be looked at is unknown, and unknown is never complete.
package machines
