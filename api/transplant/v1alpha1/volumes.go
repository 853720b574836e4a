package v1alpha1

import "time"

// Volumes are the cluster's storage objects, as far as a migration of the cloud provider touches them.
type Volumes struct {
	PersistentVolumes []PersistentVolume `json:"persistentVolumes,omitempty"`
	// Claims are the PersistentVolumeClaims that are bound or lost; sorted by Ref. They were gathered where Snapshot.Counts has persistentvolumeclaims.
	Claims         []VolumeClaim      `json:"claims,omitempty"`
	StorageClasses []StorageClass     `json:"storageClasses,omitempty"`
	CSIDrivers     []string           `json:"csiDrivers,omitempty"`
	CSINodes       []CSINode          `json:"csiNodes,omitempty"`
	Attachments    []VolumeAttachment `json:"attachments,omitempty"`
}

// PersistentVolume is a PersistentVolume of an in-tree cloud plugin or of a CSI driver; others are counted only.
type PersistentVolume struct {
	Name string `json:"name"`
	// Plugin is the in-tree plugin, e.g. kubernetes.io/aws-ebs; empty for a CSI volume.
	Plugin string `json:"plugin,omitempty"`
	// Driver is the CSI driver; empty for an in-tree volume.
	Driver string `json:"driver,omitempty"`
	// Handle is the cloud's name of the disk: the volume id, the path of a VMDK.
	Handle       string `json:"handle,omitempty"`
	StorageClass string `json:"storageClass,omitempty"`
	// ProvisionedBy and MigratedTo are the values of the annotations pv.kubernetes.io/provisioned-by and pv.kubernetes.io/migrated-to.
	ProvisionedBy string `json:"provisionedBy,omitempty"`
	MigratedTo    string `json:"migratedTo,omitempty"`
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"`
	Phase         string `json:"phase,omitempty"`
	// Claim is namespace/name of the PersistentVolumeClaim that it is bound to.
	Claim string `json:"claim,omitempty"`
	// Zones are the zones and regions of its labels and node affinity, key=value; sorted. A volume without any can be mounted from anywhere, or nowhere.
	Zones    []string `json:"zones,omitempty"`
	Deleting bool     `json:"deleting,omitempty"`
}

// VolumeClaim is a PersistentVolumeClaim that has, or had, a volume.
type VolumeClaim struct {
	// Ref is namespace/name.
	Ref string `json:"ref"`
	// Volume is the PersistentVolume's name; Phase is Bound, or Lost when the volume is gone.
	Volume string `json:"volume"`
	Phase  string `json:"phase"`
}

// StorageClass is a StorageClass.
type StorageClass struct {
	Name           string `json:"name"`
	Provisioner    string `json:"provisioner"`
	Default        bool   `json:"default,omitempty"`
	AllowExpansion bool   `json:"allowExpansion,omitempty"`
	BindingMode    string `json:"bindingMode,omitempty"`
	// Parameters without those whose names speak of a secret's content.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// CSINode is what a node's kubelet says of its CSI drivers.
type CSINode struct {
	Name    string          `json:"name"`
	Drivers []CSINodeDriver `json:"drivers,omitempty"`
	// MigratedPlugins is the annotation storage.alpha.kubernetes.io/migrated-plugins, sorted: the in-tree plugins that this kubelet leaves to CSI.
	MigratedPlugins []string `json:"migratedPlugins,omitempty"`
}

// CSINodeDriver is a driver registered on a node.
type CSINodeDriver struct {
	Name string `json:"name"`
	// Limit is how many volumes the driver attaches to the node; nil when it does not say.
	Limit        *int32   `json:"limit,omitempty"`
	TopologyKeys []string `json:"topologyKeys,omitempty"`
}

// VolumeAttachment is a VolumeAttachment.
type VolumeAttachment struct {
	Name string `json:"name"`
	// Attacher is a CSI driver, or an in-tree plugin's name.
	Attacher string `json:"attacher"`
	Node     string `json:"node"`
	Volume   string `json:"volume,omitempty"`
	Attached bool   `json:"attached"`
	Deleting bool   `json:"deleting,omitempty"`
	// Error is the last one of attaching or detaching.
	Error   string    `json:"error,omitempty"`
	Created time.Time `json:"created"`
}
