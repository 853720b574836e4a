package v1alpha1

import "time"

// Kinds of the documents that stand in a support bundle and nowhere else.
const (
	KindBundleManifest = "BundleManifest"
	KindBundleEvents   = "BundleEvents"
	KindBundleLeases   = "BundleLeases"
	KindBundlePods     = "BundlePods"
	KindBundleVersions = "BundleVersions"
)

// BundleManifest says what a support bundle holds, and what it does not.
type BundleManifest struct {
	TypeMeta    `json:",inline"`
	ToolVersion string    `json:"toolVersion"`
	Created     time.Time `json:"created"`
	Cluster     Cluster   `json:"cluster"`
	// Run is the migration that the journal is of; empty where none was started.
	Run    string       `json:"run,omitempty"`
	Limits BundleLimits `json:"limits"`
	// Files are in the order in which the archive has them. The manifest itself is before them.
	Files []BundleFile `json:"files"`
	// Missing is what could not be read, or had no room.
	Missing []BundleGap `json:"missing,omitempty"`
	// Notes are sentences about what is not there because there is none, and about what a bundle never holds.
	Notes []string `json:"notes,omitempty"`
}

// BundleLimits are the bounds under which a bundle was made.
type BundleLimits struct {
	// MaxBytes bounds all files together, unpacked.
	MaxBytes int64 `json:"maxBytes"`
	// LogBytes and LogLines bound one log. Its end is kept.
	LogBytes int   `json:"logBytes"`
	LogLines int64 `json:"logLines"`
	// Since is from when on logs and events are kept; zero for all that there are.
	Since time.Time `json:"since,omitzero"`
	// TimeoutSeconds bounds the whole, LogTimeoutSeconds one log.
	TimeoutSeconds    float64 `json:"timeoutSeconds"`
	LogTimeoutSeconds float64 `json:"logTimeoutSeconds"`
}

// BundleFile is one file of a bundle.
type BundleFile struct {
	// Name in the archive is this program's own. No name of the cluster is in it.
	Name string `json:"name"`
	// What says what the file is.
	What string `json:"what"`
	// Object, Container and Node say which log it is; Previous, that it is of the container before the last restart.
	Object    string `json:"object,omitempty"`
	Container string `json:"container,omitempty"`
	Node      string `json:"node,omitempty"`
	Previous  bool   `json:"previous,omitempty"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	// Cut says what was left out of the file, and by which bound; empty for nothing.
	Cut string `json:"cut,omitempty"`
}

// BundleGap is what a bundle was to hold, and why it does not, or not whole.
type BundleGap struct {
	What  string `json:"what"`
	Error string `json:"error"`
}

// BundleEvents are events of the control plane's namespace and of Nodes, the oldest first.
type BundleEvents struct {
	TypeMeta `json:",inline"`
	// Left is how many older ones were left out.
	Left   int           `json:"left,omitempty"`
	Events []BundleEvent `json:"events"`
}

// BundleEvent is an event.
type BundleEvent struct {
	// Time is when it was last seen.
	Time   time.Time `json:"time"`
	Count  int32     `json:"count,omitempty"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	// Object is Kind/namespace/name.
	Object string `json:"object"`
	// From is who reported it.
	From    string `json:"from,omitempty"`
	Message string `json:"message"`
}

// BundleLeases are the Leases of the control plane's namespace, by name.
type BundleLeases struct {
	TypeMeta `json:",inline"`
	Leases   []BundleLease `json:"leases"`
}

// BundleLease is a Lease.
type BundleLease struct {
	Name            string     `json:"name"`
	Holder          string     `json:"holder,omitempty"`
	Acquired        *time.Time `json:"acquired,omitempty"`
	Renewed         *time.Time `json:"renewed,omitempty"`
	DurationSeconds int32      `json:"durationSeconds,omitempty"`
	Transitions     int32      `json:"transitions,omitempty"`
}

// BundlePods are the pods of kube-apiserver and of the managers, by component and name.
type BundlePods struct {
	TypeMeta `json:",inline"`
	// Left is how many were left out.
	Left int         `json:"left,omitempty"`
	Pods []BundlePod `json:"pods"`
}

// BundlePod is the status of a pod.
type BundlePod struct {
	Component string     `json:"component"`
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Node      string     `json:"node,omitempty"`
	Phase     string     `json:"phase"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Deleted   *time.Time `json:"deleted,omitempty"`
	// Addresses are that of the pod and that of its host.
	Addresses []string `json:"addresses,omitempty"`
	// Conditions are Type=Status, with the reason and the message behind it.
	Conditions []string          `json:"conditions,omitempty"`
	Containers []BundleContainer `json:"containers,omitempty"`
}

// BundleContainer is the status of a container.
type BundleContainer struct {
	Name     string `json:"name"`
	Image    string `json:"image,omitempty"`
	ImageID  string `json:"imageID,omitempty"`
	Ready    bool   `json:"ready"`
	Restarts int32  `json:"restarts,omitempty"`
	// State and Before are sentences about how it is, and how the container before the last restart ended.
	State  string `json:"state,omitempty"`
	Before string `json:"before,omitempty"`
}

// BundleVersions are the versions of all that takes part.
type BundleVersions struct {
	TypeMeta   `json:",inline"`
	Transplant string `json:"transplant"`
	Platform   string `json:"platform"`
	Server     string `json:"server,omitempty"`
	// Seed is the version of the seed's API server, where a seed hosts the control plane.
	Seed string `json:"seed,omitempty"`
	// Left is how many nodes were left out.
	Left  int          `json:"left,omitempty"`
	Nodes []BundleNode `json:"nodes,omitempty"`
}

// BundleNode is what runs on a node.
type BundleNode struct {
	Name    string `json:"name"`
	Ready   string `json:"ready,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	OS      string `json:"os,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
}
