package v1alpha1

import "time"

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
	// EnvNames without values; Env holds the values of the few that decide how the API or the cloud is reached (KUBERNETES_SERVICE_HOST, HTTPS_PROXY
	// without its user, NO_PROXY, AWS_REGION).
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

// DisruptionBudget is a PodDisruptionBudget that allows no disruption now, or could not be judged; the others are counted only.
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
	// Autoscaled tells that a cluster autoscaler may change Replicas.
	Autoscaled bool `json:"autoscaled,omitempty"`
}

// KubeadmConfig is what kubeadm would write into the manifests at the next upgrade: ConfigMap kube-system/kubeadm-config.
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

// KubeletDefaults is what a kubelet that joins gets: ConfigMap kube-system/kubelet-config (kubelet-config-1.x before 1.24).
type KubeletDefaults struct {
	Name               string          `json:"name"`
	FeatureGates       map[string]bool `json:"featureGates,omitempty"`
	ServerTLSBootstrap bool            `json:"serverTLSBootstrap,omitempty"`
	ProviderID         string          `json:"providerID,omitempty"`
	// SHA256 of Text.
	SHA256 string `json:"sha256,omitempty"`
	// Text is the KubeletConfiguration as it stands (data.kubelet of the ConfigMap), so that a plan can show what it changes.
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
	// Within60 is how many of Count took no more than 60 seconds (the KEP's objective is 99% of them), up to the histogram's nearest bound above it, which
	// is 64; nil for a counter.
	Within60 *uint64 `json:"within60,omitempty"`
}
