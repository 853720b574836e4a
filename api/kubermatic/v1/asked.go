package v1

// What a Cluster says, asked in the words of the migration. All of it is pure.

// External reports whether the cluster is to be run by an external cloud provider: the feature is there and true. A
// feature that is there and false is off.
func (c *Cluster) External() bool { return c.Spec.Features[FeatureExternalCloudProvider] }

// CSIDriverDisabled reports whether the CSI driver is to be left out, by either spelling.
func (s ClusterSpec) CSIDriverDisabled() bool { return s.DisableCSIDriver || s.DisableCSIDriverAlias }

// MigrationCompleted reports whether the original's condition says that the migration is over, machines included.
func (c *Cluster) MigrationCompleted() bool {
	return c.Status.Conditions.IsTrue(ConditionCSIKubeletMigrationCompleted)
}

// NeedsMigration reports whether a migration is asked for and not over. As the original judges it, both annotations are
// there then, and the condition is not True.
func (c *Cluster) NeedsMigration() bool {
	_, ccm := c.Annotations[CCMMigrationNeeded]
	_, csi := c.Annotations[CSIMigrationNeeded]
	return ccm && csi && !c.MigrationCompleted()
}

// ControlPlaneNamespace is the namespace of the control plane in the seed. It follows from the name of the cluster. The
// status has it as well and is not read: an account that may write it could lead the operator to any other namespace.
func (c *Cluster) ControlPlaneNamespace() string { return "cluster-" + c.Name }

// RestartsMachines reports whether the owner of the cluster wants the operator to restart its MachineDeployments.
func (c *Cluster) RestartsMachines() bool { return c.Annotations[AnnotationRestartMachines] == "true" }
