package v1alpha1

import "time"

// FileRecord is a file that a step changes beside its own: its backup, and what the step wrote. The fields are those of StepRecord.
type FileRecord struct {
	// Path of the file on the host.
	Path         string `json:"path"`
	Backup       string `json:"backup,omitempty"`
	BackupSHA256 string `json:"backupSHA256,omitempty"`
	BackupMode   string `json:"backupMode,omitempty"`
	AfterSHA256  string `json:"afterSHA256,omitempty"`
}

// NodeRecord is what a node was like right before its kubelet was changed. It is kept while the step is under way, so that whoever goes on with it after
// a crash compares with the same, and taken out when the step is done.
type NodeRecord struct {
	UID        string `json:"uid"`
	ProviderID string `json:"providerID,omitempty"`
	// Addresses are Type=address, in the object's order.
	Addresses []string          `json:"addresses,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Taints are key=value:effect, sorted.
	Taints []string `json:"taints,omitempty"`
	// Drivers are the CSI drivers that were registered on the node, sorted.
	Drivers []string `json:"drivers,omitempty"`
	// Attachable are the allocatable attachable-volumes-* resources.
	Attachable map[string]string `json:"attachable,omitempty"`
	// ReadyPods are the pods of the node that were Ready, namespace/name, sorted.
	ReadyPods []string `json:"readyPods,omitempty"`
	// Names are those in the serving certificate of the kubelet; empty when it could not be looked at.
	Names []string `json:"names,omitempty"`
	// PID and StartTicks name the kubelet's process that ran before.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"startTicks,omitempty"`
}

// UndoRecord is a change of a host that is being taken back because its node did not come back as it was.
type UndoRecord struct {
	Started time.Time `json:"started"`
	// Reason is a clause that says what was not as before.
	Reason string `json:"reason"`
	// Ended is when the host was seen to be as it was; nil while that is not so.
	Ended *time.Time `json:"ended,omitempty"`
}
