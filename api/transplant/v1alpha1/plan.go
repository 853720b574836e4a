package v1alpha1

import "time"

// KindPlan is the kind of Plan.
const KindPlan = "Plan"

// Plan is the ordered steps of a migration or of its rollback, bound to the facts it was made from. The same values are
// printed, diffed, executed and reported.
type Plan struct {
	TypeMeta    `json:",inline"`
	Created     time.Time `json:"created"`
	ToolVersion string    `json:"toolVersion"`
	Cluster     Cluster   `json:"cluster"`
	// Strategy is leader-migration or downtime.
	Strategy string `json:"strategy"`
	// Direction is forward or rollback.
	Direction string  `json:"direction"`
	Options   Options `json:"options"`
	// Facts that steps require; a step names those it needs by ID.
	Facts []Fact `json:"facts"`
	Steps []Step `json:"steps"`
	// Until is the ID of the last step that apply executes at once; the rest waits for the next apply. Empty means all.
	Until string `json:"until,omitempty"`
	// Effects are sentences: what will change, what will not, what cannot be promised.
	Effects []string `json:"effects,omitempty"`
	// Findings that were not passed when the plan was made.
	Findings []Finding `json:"findings,omitempty"`
}

// Options are the choices a plan was made with.
type Options struct {
	Strategy string `json:"strategy,omitempty"`
	// Image of the cloud-controller-manager.
	Image string `json:"image"`
	// Env of the cloud-controller-manager, NAME=VALUE. Never a secret: name a file instead.
	Env []string `json:"env,omitempty"`
	// LeaseName is the migration lease.
	LeaseName string `json:"leaseName"`
	// RetryPeriod is --leader-elect-retry-period of the managers during the migration, e.g. 250ms.
	RetryPeriod string `json:"retryPeriod"`
	// RenewDeadline is --leader-elect-renew-deadline of the managers during the migration: how long a resumed in-tree
	// owner may go on writing.
	RenewDeadline string `json:"renewDeadline"`
	// ClusterName overrides the --cluster-name of the live kube-controller-manager; empty means carry it over.
	ClusterName string `json:"clusterName,omitempty"`
	// KeepLeaderMigration leaves leader migration on at the end.
	KeepLeaderMigration bool `json:"keepLeaderMigration,omitempty"`
	// Shape of the cloud-controller-manager: static-pod or daemonset; empty means static-pod on hosts, daemonset where
	// there are none.
	Shape string `json:"shape,omitempty"`
	// NodeIPAM is keep (in the kube-controller-manager) or move (to the cloud-controller-manager); empty means keep,
	// unless the allocator is the cloud's.
	NodeIPAM string `json:"nodeIPAM,omitempty"`
	// Volumes is csi or in-tree; empty means what the cluster can do. csi switches the in-tree volume plugins off, in the
	// order of KEP-625; with in-tree, --external-cloud-volume-plugin keeps them.
	Volumes string `json:"volumes,omitempty"`
	// CredentialProvider is the path, on the machine that runs apply, of the image credential provider's binary that is
	// put on every host. {arch} in it stands for the architecture of a host.
	CredentialProvider string `json:"credentialProvider,omitempty"`
	// CredentialProviderSHA256 is of that file when the plan was made. For one of each architecture it is
	// amd64:SUM,arm64:SUM.
	CredentialProviderSHA256 string `json:"credentialProviderSHA256,omitempty"`
	// DisableInTree switches the in-tree providers off in every component that becomes external, in versions where that
	// is not the default (KEP-2395). None of them can then fall back to its in-tree provider.
	DisableInTree bool `json:"disableInTree,omitempty"`
	// ReplaceHosts plans for control-plane hosts that are replaced, not edited: new ones of version N+1 come, those of
	// version N go.
	ReplaceHosts bool `json:"replaceHosts,omitempty"`
	// TargetVersion is the Kubernetes version N+1 that the control plane has in the end, e.g. v1.27.4. It is that of the
	// new hosts if hosts are replaced, else of the images that its static pods get. Empty means that no version changes.
	TargetVersion string `json:"targetVersion,omitempty"`
	// MaxUnavailable is how many nodes may be not Ready or under change at a time while kubelets change. Those that are
	// not Ready for other reasons count. It is N, or N% of all nodes (rounded down, at least one). Empty means 1.
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	// Soak is for how long the first worker of each kind is watched before another one changes, as a duration; empty means
	// 10s.
	Soak string `json:"soak,omitempty"`
	// PauseAfterCanary stops apply behind the first worker of each kind; the next apply goes on with the others.
	PauseAfterCanary bool `json:"pauseAfterCanary,omitempty"`
	// DrainTimeout bounds the wait for the pods of a node that is drained, as a duration; empty means 15m.
	DrainTimeout string `json:"drainTimeout,omitempty"`
	// ForceUnmanaged lets a drain evict pods that no controller would bring back.
	ForceUnmanaged bool `json:"forceUnmanaged,omitempty"`
	// Part of the migration of a hosted control plane that the plan is for: handover, finish or install. Empty for a
	// cluster that runs its own control plane.
	Part string `json:"part,omitempty"`
}

// Parts of the migration of a hosted control plane.
const (
	PartHandover = "handover"
	PartFinish   = "finish"
	// PartInstall gives a control plane that was external from the start its cloud-controller-manager.
	PartInstall = "install"
)

// NotIn is the value of Step.Expect for a loop that no manager of a component may run. Which other manager runs it, if
// any, is not checked.
func NotIn(component string) string { return "!" + component }

// Shapes of a cloud-controller-manager, what happens to node IPAM, and what to the volumes.
const (
	ShapeStaticPod = "static-pod"
	ShapeDaemonSet = "daemonset"
	IPAMKeep       = "keep"
	IPAMMove       = "move"
	VolumesCSI     = "csi"
	VolumesInTree  = "in-tree"
)

// Fact is something that held when the plan was made.
type Fact struct {
	// ID is e.g. file:cp-1:/etc/kubernetes/manifests/kube-controller-manager.yaml.
	ID string `json:"id"`
	// Value is compared: a SHA-256, a uid, a version; "absent" for a file that is not there.
	Value string `json:"value"`
	// Detail is shown next to the live one when the fact no longer holds: for a manifest, its command, one argument a
	// line.
	Detail string `json:"detail,omitempty"`
}

// ChangedFact is what a plan relies on and what is otherwise by now.
type ChangedFact struct {
	// Fact is its ID; empty for what a step came upon.
	Fact string `json:"fact,omitempty"`
	// Message says what is otherwise, and how it was.
	Message string `json:"message"`
	// Object is where it stands in the API: Kind/name or Kind/namespace/name. Host and Path are for a file.
	Object string `json:"object,omitempty"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path,omitempty"`
	// ChangedBy is the field manager that wrote it last, after the plan was made; empty where that is not known.
	ChangedBy string `json:"changedBy,omitempty"`
	// ChangedAt is when ChangedBy wrote it, or when the file was modified last.
	ChangedAt *time.Time `json:"changedAt,omitempty"`
}

// StepKind says what a step does.
type StepKind string

// Kinds of steps; internal/migrate has one executor for each.
const (
	// StepEnsureObject creates an API object that is absent; one that exists with the same content is left alone.
	StepEnsureObject StepKind = "EnsureObject"
	// StepDeleteObject deletes an API object that a step of this migration made.
	StepDeleteObject StepKind = "DeleteObject"
	// StepWriteFile writes a file on a host.
	StepWriteFile StepKind = "WriteFile"
	// StepRemoveFile removes a file on a host, or restores what was there before.
	StepRemoveFile StepKind = "RemoveFile"
	// StepEditManifest changes the flags and mounts of a static pod and waits until the new process is ready.
	StepEditManifest StepKind = "EditManifest"
	// StepAddManifest puts a static pod on a host and waits until it is ready.
	StepAddManifest StepKind = "AddManifest"
	// StepRemoveManifest takes a static pod off a host and waits until its process is gone.
	StepRemoveManifest StepKind = "RemoveManifest"
	// StepRestoreManifest puts back the bytes of a manifest from its backup.
	StepRestoreManifest StepKind = "RestoreManifest"
	// StepKubelet changes the flags of a kubelet and restarts it.
	StepKubelet StepKind = "Kubelet"
	// StepVerify looks, and changes nothing.
	StepVerify StepKind = "Verify"
	// StepPatchObject changes fields of an API object that is there: Patch is a strategic or JSON merge patch, Ref the
	// object. What was there is kept in the record, so that it can be put back.
	StepPatchObject StepKind = "PatchObject"
	// StepUnpatchObject puts back what StepPatchObject changed; Restore names that step.
	StepUnpatchObject StepKind = "UnpatchObject"
	// StepScale sets the replicas of the Deployment Ref and waits until its pods are gone, or ready.
	StepScale StepKind = "Scale"
	// StepEditWorkload changes flags in the pod template of Ref. It waits until that is rolled out, unless steps of
	// StepReplacePod do so.
	StepEditWorkload StepKind = "EditWorkload"
	// StepReplacePod deletes the pod of the DaemonSet Ref on Host, and gives up the leases that it held. Then it waits
	// until a pod of the present template is ready there. It is for DaemonSets of update strategy OnDelete.
	StepReplacePod StepKind = "ReplacePod"
	// StepEditUnit changes the flags of a systemd unit where they are written, reloads systemd and restarts the unit.
	StepEditUnit StepKind = "EditUnit"
	// StepStopUnit and StepStartUnit stop and start a systemd unit, and wait until its process is gone, or ready.
	StepStopUnit  StepKind = "StopUnit"
	StepStartUnit StepKind = "StartUnit"
	// StepCopyFile puts a file of the machine that runs apply (Source, of SHA-256 Content) on a host; what was there is
	// kept.
	StepCopyFile StepKind = "CopyFile"
	// StepInitializeNode gives the Node Ref the taint with which the cloud-controller-manager initialises a node. It waits
	// until the taint is gone and the providerID is there.
	StepInitializeNode StepKind = "InitializeNode"
	// StepAwait tells the operator what to create or to take down, and waits until the cluster shows it.
	StepAwait StepKind = "Await"
)

// Step is one change, or one look.
type Step struct {
	// ID is unique within the plan and stable for the same snapshot and options, e.g. roll/kube-controller-manager@cp-2.
	ID    string   `json:"id"`
	Phase string   `json:"phase"`
	Kind  StepKind `json:"kind"`
	Title string   `json:"title"`
	Why   string   `json:"why,omitempty"`
	// Host is empty for steps on the API.
	Host      string `json:"host,omitempty"`
	Component string `json:"component,omitempty"`
	// Path of the file or manifest on the host.
	Path string `json:"path,omitempty"`
	// Files are those that the step changes, or puts back, next to Path; only for a kubelet.
	Files []string `json:"files,omitempty"`
	// Object is the API object as JSON (EnsureObject), or its reference (DeleteObject) in Ref.
	Object string `json:"object,omitempty"`
	Ref    string `json:"ref,omitempty"`
	// Content of a file or of a whole manifest that holds no secret. Derive names a derivation where the content comes
	// from the host.
	Content string `json:"content,omitempty"`
	// Derive is "" or the name of a derivation: cloud-config (from Source), ccm-kubeconfig (from Source and a token).
	Derive string `json:"derive,omitempty"`
	Source string `json:"source,omitempty"`
	// Edits of a manifest or of kubelet flags.
	Edits []Edit `json:"edits,omitempty"`
	// Restore names the step whose backup holds the bytes to put back (RestoreManifest, RemoveFile, and Kubelet in a
	// rollback).
	Restore string `json:"restore,omitempty"`
	// Mode of a new file, octal.
	Mode string `json:"mode,omitempty"`
	// Changes are what is printed: field, before and after.
	Changes []Change `json:"changes,omitempty"`
	// Leases that are released when the process that held them has provably ended.
	Leases []string `json:"leases,omitempty"`
	// Successors are the components one of which must be ready on another host before an owner is stopped.
	Successors []string `json:"successors,omitempty"`
	// Expect is the ownership that holds after the step: loop -> component. A loop mapped to "" has one owner of either
	// kind; see also NotIn.
	Expect map[string]string `json:"expect,omitempty"`
	// Group names steps that are done together on one host; the engine defers a group whose host owns loops behind the
	// others of its phase.
	Group string `json:"group,omitempty"`
	// Requires are the IDs of the facts that must still hold before the step.
	Requires []string `json:"requires,omitempty"`
	// Patch of StepPatchObject, JSON.
	Patch string `json:"patch,omitempty"`
	// Replicas of StepScale.
	Replicas *int32 `json:"replicas,omitempty"`
	// Unit is the systemd unit of StepEditUnit, StepStopUnit and StepStartUnit.
	Unit string `json:"unit,omitempty"`
	// Await is what StepAwait waits for.
	Await *Await `json:"await,omitempty"`
	// Drain reports whether the node is drained before the step and made schedulable after it.
	Drain bool `json:"drain,omitempty"`
	// Batch names neighbouring steps that are done side by side, each on a host of its own; empty for a step that is done
	// alone.
	Batch string `json:"batch,omitempty"`
	// Canary reports whether the step is the first for workers of its kind: what it changed is watched for a while before
	// the next one. Plans of earlier versions have one, whatever their workers are.
	Canary bool `json:"canary,omitempty"`
	// Manual are the commands with which an operator does the same by hand; the engine does not run them.
	Manual []string `json:"manual,omitempty"`
	// Undo tells how the step is undone; empty for steps that need no undo.
	Undo string `json:"undo,omitempty"`
	// EstimateSeconds is a guess for the reader.
	EstimateSeconds float64 `json:"estimateSeconds,omitempty"`
}

// EditOp says what an Edit does.
type EditOp string

// What edits do.
const (
	EditSetFlag   EditOp = "setFlag"
	EditUnsetFlag EditOp = "unsetFlag"
	// EditAddHostPath mounts a path of the host at the same path of the container, EditRemoveHostPath takes that away.
	EditAddHostPath    EditOp = "addHostPath"
	EditRemoveHostPath EditOp = "removeHostPath"
	// EditMountConfigMap and EditUnmount are of a workload: Name is the volume, Value the ConfigMap, Path where it is
	// mounted.
	EditMountConfigMap EditOp = "mountConfigMap"
	EditUnmount        EditOp = "unmount"
	// EditSetImage gives the image of a manifest another tag. Registry and repository stay.
	EditSetImage EditOp = "setImage"
	// EditSetVersion is of kubeadm's ClusterConfiguration.
	EditSetVersion EditOp = "setVersion"
	// EditSetGate and EditUnsetGate are for featureGates in the kubelet's configuration file.
	EditSetGate   EditOp = "setGate"
	EditUnsetGate EditOp = "unsetGate"
)

// Edit is a change of a manifest or of kubelet flags.
type Edit struct {
	// Op is setFlag, unsetFlag, addHostPath, removeHostPath, mountConfigMap, unmount, setImage or setVersion; of a kubelet
	// also setGate and unsetGate.
	Op EditOp `json:"op"`
	// Name is the flag without dashes, the volume name, the component whose image it is, the field that holds the version,
	// or the gate.
	Name string `json:"name"`
	// Path of the file that is edited, where that is not the step's own; only for a kubelet, whose flags may be spread
	// over files.
	Path string `json:"path,omitempty"`
	// Value of the flag, the path (same on the host and in the container), the tag, or the version.
	Value string `json:"value,omitempty"`
	// PathType of a host path: File, Directory, FileOrCreate, DirectoryOrCreate.
	PathType string `json:"pathType,omitempty"`
}

// Change is one field before and after.
type Change struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Await is a condition of the cluster, all parts of which have to hold.
type Await struct {
	// Nodes is how many Nodes run Component with Flags at Version (a minor, e.g. 1.27, or a prefix of it); 0 means none
	// may.
	Nodes     int               `json:"nodes"`
	Component string            `json:"component"`
	Version   string            `json:"version,omitempty"`
	Flags     map[string]string `json:"flags,omitempty"`
	// NodeGone is a Node that has to be gone.
	NodeGone string `json:"nodeGone,omitempty"`
	// Instructions are shown to the operator, a line each.
	Instructions []string `json:"instructions,omitempty"`
}
