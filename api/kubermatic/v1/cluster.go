package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a Cluster. Their presence counts, their value is empty. The original never removes them; nor do we.
const (
	// CCMMigrationNeeded says that the cloud loops have to move out of kube-controller-manager.
	CCMMigrationNeeded = "ccm-migration.k8c.io/migration-needed"
	// CSIMigrationNeeded says that volumes have to move to a CSI driver.
	CSIMigrationNeeded = "csi-migration.k8c.io/migration-needed"
)

// Annotations that are Transplant's own, all optional.
const (
	// AnnotationRestartMachines asks the operator to restart the MachineDeployments itself: "true". Without it the
	// operator touches no machines.
	AnnotationRestartMachines = "transplant.dev/restart-machine-deployments"
	// AnnotationMaxUnavailable is how many machines of the cluster may be missing at a time while the operator restarts
	// MachineDeployments: a number or a percentage. Default: 1.
	AnnotationMaxUnavailable = "transplant.dev/max-unavailable"
	// AnnotationStrategy is the strategy of the handover, as the command line's --strategy; by default the number of
	// replicas of kube-controller-manager decides.
	AnnotationStrategy = "transplant.dev/strategy"
	// AnnotationHold keeps the operator from starting the migration of a cluster until it is removed; its value says who
	// and why. `transplant fleet apply` releases clusters in waves by it.
	AnnotationHold = "transplant.dev/hold"
	// AnnotationPlan is the plan that a person confirmed: the SHA-256 of its steps, and behind it some digits of each. The
	// operator begins with no other plan, and takes the annotation off when it has begun. It is written together with what
	// starts the migration; without it the operator's own plan is executed. For a plan that stands in a journal and
	// that the operator has not begun, it is how a person approves of it.
	AnnotationPlan = "transplant.dev/plan-sha256"
	// AnnotationWave is written by "transplant fleet apply" when it starts a cluster: in which wave of which rollout that
	// was. It is read to show the waves, and decides nothing.
	AnnotationWave = "transplant.dev/wave"
	// AnnotationOperator is the installation of the operator (namespace/lease of its seed) that migrates the cluster. It
	// is written by the first one that begins; others leave the cluster alone until an administrator removes the
	// annotation.
	AnnotationOperator = "transplant.dev/operator"
)

// ForceRestart is the annotation in the template of a MachineDeployment whose change replaces all of its machines; its
// value is a time in nanoseconds.
const ForceRestart = "forceRestart"

// Keys of spec.features.
const (
	FeatureExternalCloudProvider = "externalCloudProvider"
	FeatureCCMClusterName        = "ccmClusterName"
	FeatureVSphereCSIClusterID   = "vsphereCSIClusterID"
)

// Cluster is a user cluster whose control plane runs in the seed. The strictest rules are in the schema, so that they
// hold while no webhook can be reached. The feature stays on, and the provider stays what it is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:metadata:labels="app.kubernetes.io/managed-by=transplant"
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec) && has(oldSelf.spec.features) && 'externalCloudProvider' in oldSelf.spec.features && oldSelf.spec.features['externalCloudProvider']) || (has(self.spec) && has(self.spec.features) && 'externalCloudProvider' in self.spec.features && self.spec.features['externalCloudProvider'])",message="feature gate \"externalCloudProvider\" cannot be disabled once it's enabled"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.cloud) || !has(oldSelf.spec.cloud.providerName) || oldSelf.spec.cloud.providerName == \"\" || (has(self.spec) && has(self.spec.cloud) && has(self.spec.cloud.providerName) && self.spec.cloud.providerName == oldSelf.spec.cloud.providerName)",message="not allowed to change the cloud provider"
// +kubebuilder:printcolumn:name="HumanReadableName",type=string,JSONPath=".spec.humanReadableName"
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=".spec.cloud.providerName"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
// +kubebuilder:printcolumn:name="External",type=boolean,JSONPath=".spec.features.externalCloudProvider"
// +kubebuilder:printcolumn:name="Migrated",type=string,JSONPath=".status.conditions.CSIKubeletMigrationCompleted.status"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.conditions.TransplantMigration.reason"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=".status.conditions.TransplantMigration.message"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitzero"`
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSpec is what the cluster should be. Fields that Transplant does not act on are not listed; they are preserved.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClusterSpec struct {
	// HumanReadableName is what people call the cluster.
	HumanReadableName string `json:"humanReadableName,omitempty"`
	// Version of Kubernetes, as v1.26.0 or 1.26.0.
	//
	// +kubebuilder:validation:Pattern=`^(v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?([-+][0-9A-Za-z.+-]+)?)?$`
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// ExposeStrategy of the user cluster's API: NodePort, LoadBalancer or Tunneling.
	//
	// +kubebuilder:validation:Enum="";NodePort;LoadBalancer;Tunneling
	ExposeStrategy string `json:"exposeStrategy,omitempty"`
	// Features by name; externalCloudProvider starts the migration. A feature that is false is off for every reader.
	Features map[string]bool `json:"features,omitempty"`
	// Cloud says where the machines are.
	Cloud CloudSpec `json:"cloud,omitzero"`
	// DisableCSIDriver leaves the CSI driver out.
	DisableCSIDriver bool `json:"disableCsiDriver,omitempty"`
	// DisableCSIDriverAlias is the same under the name that people guess; either of them leaves the driver out. See
	// CSIDriverDisabled.
	DisableCSIDriverAlias bool            `json:"disableCSIDriver,omitempty"`
	ClusterNetwork        *ClusterNetwork `json:"clusterNetwork,omitempty"`
	CNIPlugin             *CNIPlugin      `json:"cniPlugin,omitempty"`
	// Pause keeps every controller away from the cluster.
	Pause bool `json:"pause,omitempty"`
	// PauseReason says why.
	PauseReason string `json:"pauseReason,omitempty"`
}

// CloudSpec says in which cloud the user cluster's machines are. Exactly one of the providers should be given;
// ProviderName decides, and where it is empty the one that is given does.
//
// +kubebuilder:pruning:PreserveUnknownFields
type CloudSpec struct {
	// DatacenterName is called dc in the API.
	DatacenterName string `json:"dc,omitempty"`
	ProviderName   string `json:"providerName,omitempty"`

	AWS          *ProviderSpec  `json:"aws,omitempty"`
	Azure        *ProviderSpec  `json:"azure,omitempty"`
	GCP          *ProviderSpec  `json:"gcp,omitempty"`
	Openstack    *OpenstackSpec `json:"openstack,omitempty"`
	VSphere      *ProviderSpec  `json:"vsphere,omitempty"`
	Hetzner      *HetznerSpec   `json:"hetzner,omitempty"`
	Digitalocean *ProviderSpec  `json:"digitalocean,omitempty"`
	Kubevirt     *ProviderSpec  `json:"kubevirt,omitempty"`
	Anexia       *ProviderSpec  `json:"anexia,omitempty"`
}

// ProviderSpec is the part of a provider's settings that Transplant reads: none. What is in it is preserved, and holds
// credentials: it is never logged, printed or copied.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ProviderSpec struct{}

// OpenstackSpec are the settings of OpenStack.
//
// +kubebuilder:pruning:PreserveUnknownFields
type OpenstackSpec struct {
	// UseOctavia makes load balancers Octavia's instead of Neutron's.
	UseOctavia *bool `json:"useOctavia,omitempty"`
}

// HetznerSpec are the settings of Hetzner Cloud.
//
// +kubebuilder:pruning:PreserveUnknownFields
type HetznerSpec struct {
	// Network that the machines are in. Without one, here or in the datacenter, the external cloud provider cannot be
	// used.
	Network string `json:"network,omitempty"`
}

// ClusterNetwork are the address ranges of the cluster.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClusterNetwork struct {
	IPFamily string         `json:"ipFamily,omitempty"`
	Pods     *NetworkRanges `json:"pods,omitempty"`
	Services *NetworkRanges `json:"services,omitempty"`
}

// NetworkRanges are address ranges in CIDR notation.
//
// +kubebuilder:pruning:PreserveUnknownFields
type NetworkRanges struct {
	CIDRBlocks []string `json:"cidrBlocks,omitempty"`
}

// CNIPlugin is what networks pods.
//
// +kubebuilder:pruning:PreserveUnknownFields
type CNIPlugin struct {
	Type    string `json:"type,omitempty"`
	Version string `json:"version,omitempty"`
}

// ClusterStatus is what the cluster is.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClusterStatus struct {
	// NamespaceName of the control plane in the seed: cluster-<name>.
	NamespaceName string           `json:"namespaceName,omitempty"`
	Versions      *ClusterVersions `json:"versions,omitempty"`
	// Conditions by type. It is a map, not a list.
	Conditions ClusterConditions `json:"conditions,omitempty"`
}

// ClusterVersions are the versions that run.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClusterVersions struct {
	ControlPlane      string `json:"controlPlane,omitempty"`
	Apiserver         string `json:"apiserver,omitempty"`
	ControllerManager string `json:"controllerManager,omitempty"`
	Scheduler         string `json:"scheduler,omitempty"`
	OldestNodeVersion string `json:"oldestNodeVersion,omitempty"`
}

// ClusterConditionType is the key of a condition.
type ClusterConditionType string

// Condition types. The first is the original's, with its reasons and its meaning; CSIAddonInUse is one that it writes
// and we read; the others are ours.
const (
	// ConditionCSIKubeletMigrationCompleted says whether the migration is over, machines included.
	ConditionCSIKubeletMigrationCompleted ClusterConditionType = "CSIKubeletMigrationCompleted"
	// ConditionCSIAddonInUse blocks switching the CSI driver off.
	ConditionCSIAddonInUse ClusterConditionType = "CSIAddonInUse"

	// ConditionMigration is the one line to look at: its reason is the phase, its message what is waited for.
	ConditionMigration ClusterConditionType = "TransplantMigration"
	// ConditionLoopsOff says that no kube-controller-manager runs a cloud loop any longer, which was observed and not
	// concluded.
	ConditionLoopsOff ClusterConditionType = "TransplantInTreeLoopsOff"
	// ConditionCCMReady says that a cloud-controller-manager runs every loop.
	ConditionCCMReady ClusterConditionType = "TransplantCloudControllerManagerReady"
	// ConditionCSIReady says that the CSI driver's controller and node parts run.
	ConditionCSIReady ClusterConditionType = "TransplantCSIDriverReady"
	// ConditionMachines counts the machines whose nodes really are external.
	ConditionMachines ClusterConditionType = "TransplantMachinesMigrated"
	// ConditionPlan says which plans the operator has begun, by part: the SHA-256 of the steps and of the whole plan. The
	// operator goes on with no other plan, whatever a journal says. It is in the status: an account that may change
	// Clusters, or ConfigMaps next to a control plane, may not write that.
	ConditionPlan ClusterConditionType = "TransplantPlanBegun"
	// ConditionStuck is True when a phase takes longer than it may; its message says what is missing and what to do.
	ConditionStuck ClusterConditionType = "TransplantStuck"
)

// Reasons of ConditionCSIKubeletMigrationCompleted, as the original has them.
const (
	ReasonMigrationSuccess    = "CSIKubeletMigrationSuccess"    // True
	ReasonMigrationInProgress = "CSIKubeletMigrationInProgress" // False
)

// Messages of ConditionCSIKubeletMigrationCompleted, as the original has them.
const (
	MessageMigrationSuccess    = "external CCM/CSI migration completed"
	MessageMigrationInProgress = "migrating to external CCM"
)

// Phases: the reasons of ConditionMigration, in order. The condition is True with PhaseCompleted and PhaseNotNeeded,
// False with all others.
const (
	PhaseNotNeeded  = "NotNeeded"  // the feature is off, or another program runs the cluster's cloud-controller-manager
	PhaseHeld       = "Held"       // paused, hibernated, or held by AnnotationHold
	PhaseQueued     = "Queued"     // waits for its turn
	PhaseBlocked    = "Blocked"    // the checks refuse it; the message names them
	PhaseHandover   = "Handover"   // the control plane is being changed: loops off, proof, cloud-controller-manager
	PhaseComponents = "Components" // CSI driver, machine-controller, its webhook, operating-system-manager
	PhaseMachines   = "Machines"   // machines are replaced, by their owner or by us
	PhaseFinish     = "Finish"     // what was kept for old machines goes
	PhaseCompleted  = "Completed"
	PhaseFailed     = "Failed" // a step failed in a way that trying again does not repair; the message says what to do
)

// ClusterCondition is one condition. The original's schema demands kubermaticVersion and lastHeartbeatTime of each, so
// every writer sets both.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ClusterCondition struct {
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// KubermaticVersion is the version of the program that wrote it.
	KubermaticVersion string `json:"kubermaticVersion,omitempty"`
	// LastHeartbeatTime is when it was looked at last and something was written.
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime,omitzero"`
	// LastTransitionTime is when the status became what it is.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is one word for programs, Message a sentence for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
