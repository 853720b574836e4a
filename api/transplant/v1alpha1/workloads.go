package v1alpha1

import (
	"net"
	"time"
)

// Volumes are the cluster's storage objects, as far as a migration of the cloud provider touches them.
type Volumes struct {
	PersistentVolumes []PersistentVolume `json:"persistentVolumes,omitempty"`
	// Claims are the PersistentVolumeClaims that are bound or lost; sorted by Ref. They were gathered where
	// Snapshot.Counts has persistentvolumeclaims.
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
	// ProvisionedBy and MigratedTo are the values of the annotations pv.kubernetes.io/provisioned-by and
	// pv.kubernetes.io/migrated-to.
	ProvisionedBy string `json:"provisionedBy,omitempty"`
	MigratedTo    string `json:"migratedTo,omitempty"`
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"`
	Phase         string `json:"phase,omitempty"`
	// Claim is namespace/name of the PersistentVolumeClaim that it is bound to.
	Claim string `json:"claim,omitempty"`
	// Zones are the zones and regions of its labels and node affinity, key=value; sorted. A volume without any can be
	// mounted from anywhere, or nowhere.
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
	// MigratedPlugins is the annotation storage.alpha.kubernetes.io/migrated-plugins, sorted: the in-tree plugins that
	// this kubelet leaves to CSI.
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

// Roles of workloads that a migration has to know of.
const (
	RoleCCM               = "cloud-controller-manager"
	RoleNodeManager       = "cloud-node-manager" // Azure's, one on each node
	RoleKCM               = "kube-controller-manager"
	RoleKAS               = "kube-apiserver"
	RoleScheduler         = "kube-scheduler"
	RoleCSIController     = "csi-controller"
	RoleCSINode           = "csi-node"
	RoleCNI               = "cni"
	RoleDNS               = "dns"
	RoleProxy             = "kube-proxy"
	RoleMachineController = "machine-controller"
	RoleAutoscaler        = "cluster-autoscaler"
	RoleKonnectivity      = "konnectivity"
	RoleCSRApprover       = "csr-approver"
	RoleWebhook           = "webhook"
)

// Workload is a Deployment, DaemonSet or StatefulSet with one of the roles above. Others are not kept.
type Workload struct {
	// Ref is Kind/namespace/name.
	Ref string `json:"ref"`
	// Role by its image and what it runs, never by its name alone.
	Role string `json:"role"`
	UID  string `json:"uid,omitempty"`
	// Containers in the order of the pod.
	Containers   []Container       `json:"containers,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"` // of the pod template
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	HostNetwork  bool              `json:"hostNetwork,omitempty"`
	DNSPolicy    string            `json:"dnsPolicy,omitempty"`
	// Tolerations as key=value:effect; "*" stands for every key, and an empty value or effect for every one.
	Tolerations    []string `json:"tolerations,omitempty"`
	PriorityClass  string   `json:"priorityClass,omitempty"`
	ServiceAccount string   `json:"serviceAccount,omitempty"`
	// Strategy is Recreate, RollingUpdate or OnDelete; MaxSurge is "" or as written.
	Strategy string `json:"strategy,omitempty"`
	MaxSurge string `json:"maxSurge,omitempty"`
	Replicas int32  `json:"replicas"`
	Ready    int32  `json:"ready"`
	// Nodes on which its pods run, sorted; empty when that was not asked.
	Nodes []string `json:"nodes,omitempty"`
}

// Container is a container of a workload.
type Container struct {
	Name    string            `json:"name"`
	Image   string            `json:"image"`
	Command []string          `json:"command,omitempty"` // command, then args; secrets masked
	Flags   map[string]string `json:"flags,omitempty"`
	// EnvNames are without values. Env holds the values of the few that decide how the API or the cloud is reached:
	// KUBERNETES_SERVICE_HOST, HTTPS_PROXY without its user, NO_PROXY, AWS_REGION.
	EnvNames  []string          `json:"envNames,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	HostPorts []int32           `json:"hostPorts,omitempty"`
	Requests  map[string]string `json:"requests,omitempty"`
	Limits    map[string]string `json:"limits,omitempty"`
}

// Webhook is one webhook of an admission configuration.
type Webhook struct {
	// Ref is ValidatingWebhookConfiguration/name/webhook or MutatingWebhookConfiguration/name/webhook.
	Ref           string `json:"ref"`
	FailurePolicy string `json:"failurePolicy"`
	// TimeoutSeconds of one call.
	TimeoutSeconds int32         `json:"timeoutSeconds"`
	Rules          []WebhookRule `json:"rules,omitempty"`
	// NamespaceSelector and ObjectSelector in the notation of kubectl -l; empty selects everything.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	ObjectSelector    string `json:"objectSelector,omitempty"`
	// Service is namespace/name of the backend, or URL where it is outside.
	Service string `json:"service,omitempty"`
	URL     string `json:"url,omitempty"`
	// Ready is how many endpoints of the Service are ready; nil when unknown or not a Service.
	Ready *int `json:"ready,omitempty"`
	// Backend is the Ref of the workload behind the Service; empty when it was not found.
	Backend string `json:"backend,omitempty"`
}

// WebhookRule is which requests a webhook is asked about.
type WebhookRule struct {
	Groups     []string `json:"groups,omitempty"`
	Resources  []string `json:"resources,omitempty"`
	Operations []string `json:"operations,omitempty"`
	Scope      string   `json:"scope,omitempty"`
}

// DisruptionBudget is a PodDisruptionBudget that allows no disruption now, or could not be judged; the others are
// counted only.
type DisruptionBudget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Allowed   int32  `json:"allowed"`
	Expected  int32  `json:"expected"`
	Healthy   int32  `json:"healthy"`
	Desired   int32  `json:"desired"`
}

// CertificateRequest is a CertificateSigningRequest of a kubelet that is not issued.
type CertificateRequest struct {
	Name       string `json:"name"`
	SignerName string `json:"signerName"`
	Username   string `json:"username"`
	// State is Pending, Approved (and not issued), Denied or Failed.
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	// Names are the DNS names and addresses that a serving certificate is asked for, sorted.
	Names []string `json:"names,omitempty"`
	// Problem is why Names are not known, or what else is asked for.
	Problem string `json:"problem,omitempty"`
}

// MachineObject is an object of machine-controller (cluster.k8s.io) or Cluster API (cluster.x-k8s.io).
type MachineObject struct {
	// Ref is Kind.group/namespace/name.
	Ref      string `json:"ref"`
	Replicas *int32 `json:"replicas,omitempty"`
	Ready    *int32 `json:"ready,omitempty"`
	Node     string `json:"node,omitempty"`
	Paused   bool   `json:"paused,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// External is the annotation by which machine-controller makes kubelets external.
	External bool `json:"external,omitempty"`
	// Autoscaled reports whether a cluster autoscaler may change Replicas.
	Autoscaled bool `json:"autoscaled,omitempty"`
}

// KubeadmConfig is what kubeadm would write into the manifests at the next upgrade: ConfigMap
// kube-system/kubeadm-config.
type KubeadmConfig struct {
	APIVersion           string `json:"apiVersion,omitempty"`
	KubernetesVersion    string `json:"kubernetesVersion,omitempty"`
	ClusterName          string `json:"clusterName,omitempty"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	PodSubnet            string `json:"podSubnet,omitempty"`
	ImageRepository      string `json:"imageRepository,omitempty"`
	// ExtraArgs by component (apiServer, controllerManager, scheduler), flags by name, secrets masked.
	ExtraArgs map[string]map[string]string `json:"extraArgs,omitempty"`
	// ExtraVolumes by component: host paths, sorted.
	ExtraVolumes map[string][]string `json:"extraVolumes,omitempty"`
	// SHA256 of the ClusterConfiguration; a plan that changes it requires this.
	SHA256 string `json:"sha256,omitempty"`
	// ClusterConfiguration as it stands, so that a plan can show what it changes; secrets masked.
	ClusterConfiguration string `json:"clusterConfiguration,omitempty"`
	Error                string `json:"error,omitempty"`
}

// Endpoint is the host of ControlPlaneEndpoint, and its port where it has one; empty for none.
func (c *KubeadmConfig) Endpoint() (host, port string) {
	if c == nil {
		return "", ""
	}
	host, port, err := net.SplitHostPort(c.ControlPlaneEndpoint)
	if err != nil {
		return c.ControlPlaneEndpoint, ""
	}
	return host, port
}

// KubeletDefaults is what a kubelet that joins gets: ConfigMap kube-system/kubelet-config (kubelet-config-1.x before
// 1.24).
type KubeletDefaults struct {
	Name               string          `json:"name"`
	FeatureGates       map[string]bool `json:"featureGates,omitempty"`
	ServerTLSBootstrap bool            `json:"serverTLSBootstrap,omitempty"`
	ProviderID         string          `json:"providerID,omitempty"`
	// SHA256 of Text.
	SHA256 string `json:"sha256,omitempty"`
	// Text is the KubeletConfiguration as it stands (data.kubelet of the ConfigMap), so that a plan can show what it
	// changes.
	Text string `json:"text,omitempty"`
}

// Clock is how far a clock is from the one of the machine that took the snapshot.
type Clock struct {
	// Who is api or host/<name>.
	Who string `json:"who"`
	// OffsetMillis is positive when that clock is ahead; it is known to within UncertaintyMillis.
	OffsetMillis      int64 `json:"offsetMillis"`
	UncertaintyMillis int64 `json:"uncertaintyMillis"`
}

// Series is one of the five series that KEP-2395 tells operators to watch, as a manager shows it.
type Series struct {
	// Name without the subsystem that differs between versions, e.g. nodesync_error_total.
	Name string `json:"name"`
	// Count and Sum of a histogram, in seconds; for a counter Sum is its value and Count is 0.
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	// Within60 is how many of Count took no more than 60 seconds; the KEP's objective is 99% of them. The histogram's
	// nearest bound above is 64. It is nil for a counter.
	Within60 *uint64 `json:"within60,omitempty"`
}
