package v1alpha1

import "time"

// Preview is what the new manager would write about the cluster's nodes, asked of the cloud by its own provider's code,
// with nothing written.
type Preview struct {
	Provider string `json:"provider"`
	// Calls to the cloud that it took.
	Calls int           `json:"calls,omitempty"`
	Nodes []NodePreview `json:"nodes,omitempty"`
	// Error is why there is no answer at all.
	Error string `json:"error,omitempty"`
}

// NodePreview is what the new manager would find for a node.
type NodePreview struct {
	Node string `json:"node"`
	// Found is false when the provider says that there is no such instance: the node lifecycle loop would delete the Node.
	Found      bool   `json:"found"`
	Shutdown   bool   `json:"shutdown,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	// Addresses as Type=address, in the provider's order.
	Addresses []string `json:"addresses,omitempty"`
	Zone      string   `json:"zone,omitempty"`
	Region    string   `json:"region,omitempty"`
	Type      string   `json:"type,omitempty"`
	// Labels beyond zone, region and type.
	Labels map[string]string `json:"labels,omitempty"`
	// Error is why this node is unknown.
	Error string `json:"error,omitempty"`
}

// DryRun is the API server's answer to an object that apply would write, sent with dryRun=All.
type DryRun struct {
	// Ref is Kind/namespace/name or Kind/name.
	Ref string `json:"ref"`
	// Verb is create, update or patch.
	Verb string `json:"verb"`
	// OK reports whether the API server, its admission plugins and its webhooks would take it.
	OK bool `json:"ok"`
	// Error is the refusal; Unanswered reports whether it was none, but no answer.
	Error      string `json:"error,omitempty"`
	Unanswered bool   `json:"unanswered,omitempty"`
	// Later reports whether it can only be judged once an earlier step is done.
	Later bool `json:"later,omitempty"`
}

// KindSnapshot is the kind of Snapshot.
const KindSnapshot = "Snapshot"

// Snapshot is every fact that check and plan look at, gathered once and read-only. It holds no secret: values of
// environment variables, of cloud configuration keys and of tokens are left out. A fact that could not be gathered is
// listed in Errors; it is unknown, never absent.
type Snapshot struct {
	TypeMeta    `json:",inline"`
	TakenAt     time.Time `json:"takenAt"`
	ToolVersion string    `json:"toolVersion"`
	Cluster     Cluster   `json:"cluster"`
	// Authorities are the SHA-256 of the certificates that the cluster's pods trust to be its API servers'; sorted.
	Authorities []string `json:"authorities,omitempty"`
	// Hosts are the control-plane hosts and, where host access knows them, the workers; sorted by name.
	Hosts []Host `json:"hosts,omitempty"`
	// ControlPlaneNodes are the Nodes on which the API shows a static pod of kube-apiserver, kube-controller-manager or
	// cloud-controller-manager, sorted. Their hosts may be unreachable.
	ControlPlaneNodes []string `json:"controlPlaneNodes,omitempty"`
	// Managers is what each running controller manager says of itself on /metrics.
	Managers []Manager `json:"managers,omitempty"`
	// Leases of the managers' elections in kube-system; sorted by name.
	Leases []Lease `json:"leases,omitempty"`
	// Access is what the API server's authorizer answered, for the caller and for the managers' identities.
	Access []AccessAnswer `json:"access,omitempty"`
	// Objects reports whether the API objects that a migration writes exist already; sorted.
	Objects  []ObjectState `json:"objects,omitempty"`
	Nodes    []Node        `json:"nodes,omitempty"`
	Services []Service     `json:"services,omitempty"`
	// Endpoints of every Service, also of one that has none; sorted by Service. They were gathered where Counts has
	// endpointslices.
	Endpoints []ServiceEndpoints `json:"endpoints,omitempty"`
	// APIServers are the addresses that the API servers announce themselves, in the EndpointSlice default/kubernetes;
	// sorted. They were gathered where Counts has endpointslices; snapshots of earlier versions have none.
	APIServers []string `json:"apiServers,omitempty"`
	// NamedHosts are the hosts that the operator says are of the control plane (--control-plane-hosts); sorted.
	NamedHosts []string        `json:"namedHosts,omitempty"`
	Cloud      *CloudInventory `json:"cloud,omitempty"`
	// Hosted are control-plane components that run as Deployments in this cluster; their Manifest is
	// Deployment/namespace/name.
	Hosted []Component `json:"hosted,omitempty"`
	// SeedToken is the token of the manager of a hosted control plane, in a Secret of the seed; nil where there is none.
	SeedToken *ManagerToken `json:"seedToken,omitempty"`
	// Workloads, Webhooks, Budgets, CertificateRequests and Machines are sorted by Ref or name.
	Workloads           []Workload           `json:"workloads,omitempty"`
	Webhooks            []Webhook            `json:"webhooks,omitempty"`
	Budgets             []DisruptionBudget   `json:"budgets,omitempty"`
	CertificateRequests []CertificateRequest `json:"certificateRequests,omitempty"`
	Machines            []MachineObject      `json:"machines,omitempty"`
	Volumes             *Volumes             `json:"volumes,omitempty"`
	// Counts of objects that are not kept one by one: namespaces, services, persistentvolumes, poddisruptionbudgets, ...
	Counts          map[string]int   `json:"counts,omitempty"`
	Kubeadm         *KubeadmConfig   `json:"kubeadm,omitempty"`
	KubeletDefaults *KubeletDefaults `json:"kubeletDefaults,omitempty"`
	// APIGroups that the API server serves, group/version; sorted.
	APIGroups []string `json:"apiGroups,omitempty"`
	Clocks    []Clock  `json:"clocks,omitempty"`
	// Preview and DryRuns are proofs by doing, there when they were asked for.
	Preview *Preview `json:"preview,omitempty"`
	DryRuns []DryRun `json:"dryRuns,omitempty"`
	// Calls is how many requests the API was asked, by verb; it shows that the cost does not grow with the cluster.
	Calls map[string]int `json:"calls,omitempty"`
	// Errors are the facts that could not be gathered; sorted by Fact.
	Errors []GatherError `json:"errors,omitempty"`
}

// Cluster names a cluster so that a plan made for one is not applied to another.
type Cluster struct {
	// Name is the --cluster-name that the live kube-controller-manager runs with; it names load balancers and cloud tags.
	Name string `json:"name,omitempty"`
	// UID is the uid of the namespace kube-system.
	UID     string `json:"uid,omitempty"`
	Server  string `json:"server,omitempty"`
	Context string `json:"context,omitempty"`
	// Version is the API server's gitVersion, e.g. v1.26.0.
	Version string `json:"version,omitempty"`
	// Provider is the in-tree provider that the live managers name, e.g. aws; empty when they name none or several.
	Provider string `json:"provider,omitempty"`
	// Seed is the namespace of another cluster, the seed, in which the control plane runs as Deployments, and SeedUID that
	// namespace's uid. Both are empty for a cluster that runs its own control plane. Objects in a namespace of this name
	// are the seed's.
	Seed    string `json:"seed,omitempty"`
	SeedUID string `json:"seedUID,omitempty"`
}

// Host is a machine whose files and processes can be reached.
type Host struct {
	Name string `json:"name"`
	// NodeName is the Node object of the host; empty when none matches.
	NodeName string `json:"nodeName,omitempty"`
	// ControlPlane reports whether the host has a kube-controller-manager or kube-apiserver manifest.
	ControlPlane bool `json:"controlPlane"`
	// Claims are the components that the host itself says that it runs, while no Node of its name is labelled as control
	// plane; sorted. Nothing else of them is kept, and ControlPlane is false.
	Claims []string `json:"claims,omitempty"`
	// Components found as static pod manifests; sorted by name.
	Components []Component `json:"components,omitempty"`
	Kubelet    *Kubelet    `json:"kubelet,omitempty"`
	// Files that a migration reads or writes, present or not; sorted by path.
	Files []File `json:"files,omitempty"`
	// LeaderMigration is the content of the leader migration config that a component of this host names or that lies at
	// the default path.
	LeaderMigration []LeaderMigrationFile `json:"leaderMigration,omitempty"`
	CloudConfig     *CloudConfig          `json:"cloudConfig,omitempty"`
	// CloudConfigs are those that the host's kube-apiserver or kubelet names and that are not CloudConfig; sorted by path.
	CloudConfigs []CloudConfig `json:"cloudConfigs,omitempty"`
	// APIOnly reports whether the host could not be reached. Its components are then what the mirror pods in the API say,
	// and nothing else is known of it.
	APIOnly bool `json:"apiOnly,omitempty"`
	// Authorities are the SHA-256 of the certificates that the host trusts to be its API server's; sorted.
	Authorities []string `json:"authorities,omitempty"`
	// ManagerToken is that of the cloud-controller-manager; nil where no file of the host holds one.
	ManagerToken *ManagerToken `json:"managerToken,omitempty"`
}

// ManagerToken is what the token in a file or a Secret says of itself. The token is left out.
type ManagerToken struct {
	// Path of the file, or Secret/namespace/name.
	Path    string    `json:"path"`
	Expires time.Time `json:"expires,omitzero"`
	// Error says why the content of the file is no token that expires.
	Error string `json:"error,omitempty"`
}

// Ways in which a component is started.
const (
	RunsStaticPod  = "static-pod"
	RunsSystemd    = "systemd"
	RunsDeployment = "deployment"
)

// Component is a control-plane component as its manifest says and as it runs.
type Component struct {
	// Name is the program: kube-apiserver, kube-controller-manager, kube-scheduler, cloud-controller-manager.
	Name string `json:"name"`
	// Runs is how it is started; empty means static-pod.
	Runs string `json:"runs,omitempty"`
	// Manifest is the path on the host of the file that holds its flags. That is the static pod's manifest, or the unit
	// file, drop-in or environment file of a systemd unit. For a Deployment it is Deployment/namespace/name. SHA256 is of
	// its bytes, or of the pod template.
	Manifest string `json:"manifest"`
	// Unit is the systemd unit, e.g. kube-controller-manager.service.
	Unit string `json:"unit,omitempty"`
	// Sources tells for each flag the file it comes from, where that is not Manifest.
	Sources map[string]string `json:"sources,omitempty"`
	// Remarks are what an edit has to mind: "anchors", "args split between command and args", "unknown field spec.foo".
	Remarks []string `json:"remarks,omitempty"`
	// Replicas of a Deployment.
	Replicas *int32 `json:"replicas,omitempty"`
	SHA256   string `json:"sha256"`
	Image    string `json:"image,omitempty"`
	// Version is what the program of a unit reports, e.g. v1.26.0. It is empty for what an image names, and if the program
	// was not asked.
	Version string `json:"version,omitempty"`
	// Command is the program with its arguments as the manifest has them (command then args).
	Command []string `json:"command,omitempty"`
	// Flags are the flags of Command by name without dashes; the last one wins, as in pflag. A flag without value is
	// "true".
	Flags map[string]string `json:"flags,omitempty"`
	// EnvNames are the names of environment variables; their values are not gathered.
	EnvNames []string `json:"envNames,omitempty"`
	// HostPaths maps mount paths to host paths.
	HostPaths map[string]string `json:"hostPaths,omitempty"`
	// Address is host:port where the component serves /metrics, from --bind-address and --secure-port.
	Address string `json:"address,omitempty"`
	// Processes that run now; more than one is a fault (a backup file in the manifests directory is a second pod).
	Processes []Process `json:"processes,omitempty"`
	// Pod is the mirror pod in the API.
	Pod *MirrorPod `json:"pod,omitempty"`
	// CloudConfig is that of a Deployment in a seed, from the ConfigMap or Secret that it mounts.
	CloudConfig *CloudConfig `json:"cloudConfig,omitempty"`
	// Rollout says why the Deployment in a seed is not what its template says; empty when it is.
	Rollout string `json:"rollout,omitempty"`
	// Error says why the manifest could not be understood.
	Error string `json:"error,omitempty"`
}

// Process is one process on a host.
type Process struct {
	PID int `json:"pid"`
	// StartTicks is the start time in clock ticks since boot (field 22 of /proc/PID/stat): with PID it names a process for
	// good.
	StartTicks uint64    `json:"startTicks"`
	Started    time.Time `json:"started"`
	// State is the kernel's letter: R, S, D, T (stopped), Z.
	State string `json:"state"`
	// Args is the command line.
	Args []string `json:"args,omitempty"`
}

// MirrorPod is what the API knows of a static pod.
type MirrorPod struct {
	Name  string `json:"name"`
	UID   string `json:"uid"`
	Hash  string `json:"hash,omitempty"`
	Ready bool   `json:"ready"`
	// Command of the first container as the API shows it: it lags behind the file after an edit.
	Command []string `json:"command,omitempty"`
}

// Kubelet is how a host's kubelet is started.
type Kubelet struct {
	// Source is the file that holds the flags.
	Source string            `json:"source"`
	SHA256 string            `json:"sha256"`
	Flags  map[string]string `json:"flags,omitempty"`
	// Sources tells for each flag the file it comes from, where that is not Source.
	Sources map[string]string `json:"sources,omitempty"`
	// Also tells for a flag that stands in several files the others of them, sorted; for most flags what they say there
	// counts for nothing.
	Also map[string][]string `json:"also,omitempty"`
	// Files are every file that the unit reads: the unit, its drop-ins in order, environment files, the configuration.
	Files []File `json:"files,omitempty"`
	// Version from the binary's own answer, where it was asked; else the Node's.
	Version string `json:"version,omitempty"`
	// Process that runs now; its arguments are the proof of what the kubelet runs with.
	Process *Process       `json:"process,omitempty"`
	Config  *KubeletConfig `json:"config,omitempty"`
	// Credentials is the image credential provider's configuration; nil when the kubelet names none.
	Credentials *CredentialProviders `json:"credentials,omitempty"`
	// Error says why the flags are not known.
	Error string `json:"error,omitempty"`
}

// KubeletConfig is what matters here of a KubeletConfiguration file.
type KubeletConfig struct {
	Path                    string          `json:"path"`
	SHA256                  string          `json:"sha256,omitempty"`
	StaticPodPath           string          `json:"staticPodPath,omitempty"`
	ProviderID              string          `json:"providerID,omitempty"`
	FeatureGates            map[string]bool `json:"featureGates,omitempty"`
	ServerTLSBootstrap      bool            `json:"serverTLSBootstrap,omitempty"`
	RotateCertificates      bool            `json:"rotateCertificates,omitempty"`
	RegisterWithTaints      []string        `json:"registerWithTaints,omitempty"`
	ShutdownGracePeriod     string          `json:"shutdownGracePeriod,omitempty"`
	CredentialProviderNames []string        `json:"credentialProviderNames,omitempty"`
	// GateFiles tells for each gate the file that decides about it, where that is not Path: the last drop-in of
	// --config-dir that names it.
	GateFiles map[string]string `json:"gateFiles,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// CredentialProviders is a CredentialProviderConfig and its binaries.
type CredentialProviders struct {
	ConfigPath string               `json:"configPath"`
	BinDir     string               `json:"binDir"`
	APIVersion string               `json:"apiVersion,omitempty"`
	SHA256     string               `json:"sha256,omitempty"`
	Providers  []CredentialProvider `json:"providers,omitempty"`
	Error      string               `json:"error,omitempty"`
}

// CredentialProvider is one image credential provider on a host.
type CredentialProvider struct {
	Name        string   `json:"name"`
	APIVersion  string   `json:"apiVersion,omitempty"`
	MatchImages []string `json:"matchImages,omitempty"`
	// Present reports whether the binary is there and may be executed.
	Present bool   `json:"present"`
	SHA256  string `json:"sha256,omitempty"`
	// Asked is the image that it was asked about; Answered reports whether it gave credentials of the API version that the
	// config names. The credentials themselves are not kept.
	Asked    string `json:"asked,omitempty"`
	Answered bool   `json:"answered,omitempty"`
	Error    string `json:"error,omitempty"`
}

// File is a file on a host.
type File struct {
	Path    string `json:"path"`
	Present bool   `json:"present"`
	SHA256  string `json:"sha256,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

// LeaderMigrationFile is a leader migration configuration on a host.
type LeaderMigrationFile struct {
	Path    string `json:"path"`
	UsedBy  string `json:"usedBy,omitempty"`
	Content string `json:"content"`
}

// CloudConfig is a provider's configuration on a host, without its values.
type CloudConfig struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// UsedBy are the components whose --cloud-config it is; sorted.
	UsedBy []string `json:"usedBy,omitempty"`
	// Keys are "Section.Key" or "Section \"sub\".Key", sorted.
	Keys []string `json:"keys,omitempty"`
	// ServiceOverrides are the values of ServiceOverride.Service: their spelling decides whether the external provider
	// sees them.
	ServiceOverrides []string `json:"serviceOverrides,omitempty"`
	// Provider whose configuration it is, e.g. aws; Format is ini, yaml or json.
	Provider string `json:"provider,omitempty"`
	Format   string `json:"format,omitempty"`
	// Settings are the values of keys that decide what the provider does and can hold no secret; see the catalogue.
	Settings map[string]string `json:"settings,omitempty"`
	// Problems are sentences about keys that a provider does not know or would refuse, each beginning with the key.
	Problems []string `json:"problems,omitempty"`
	// DerivedSHA256 is the hash of the external provider's config that Transplant derives from it.
	DerivedSHA256 string `json:"derivedSHA256,omitempty"`
	// DerivedChanges are the sentences that say what the derivation renamed, added or dropped.
	DerivedChanges []string `json:"derivedChanges,omitempty"`
	Error          string   `json:"error,omitempty"`
}

// Manager is what a controller manager's /metrics say.
type Manager struct {
	Component string `json:"component"`
	Host      string `json:"host"`
	Address   string `json:"address"`
	// Loops whose running_managed_controllers gauge is 1, by metric name; sorted.
	Loops []string `json:"loops,omitempty"`
	// Leads are the leases whose leader_election_master_status is 1; sorted.
	Leads []string `json:"leads,omitempty"`
	// CloudCalls counts the successful requests to the cloud that the process says it made; nil when it does not say.
	CloudCalls *int64 `json:"cloudCalls,omitempty"`
	// Series are those of KEP-2395 that it shows.
	Series []Series `json:"series,omitempty"`
	// ProcessStarted is process_start_time_seconds.
	ProcessStarted *time.Time `json:"processStarted,omitempty"`
	// Version is what kubernetes_build_info says that the process was built as, e.g. v1.27.4; empty when it does not say.
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
	// ErrorReason is why there is an Error, where a program goes by it.
	ErrorReason ErrorReason `json:"errorReason,omitempty"`
}

// ErrorReason is why something was not gathered, for programs; the error next to it says it to people.
type ErrorReason string

// ErrorReasonNotMadeYet is of what cannot be asked before a migration has begun, since its first steps make what it is
// asked with.
const ErrorReasonNotMadeYet ErrorReason = "NotMadeYet"

// Lease is an election's lease.
type Lease struct {
	Name            string     `json:"name"`
	Holder          string     `json:"holder"`
	DurationSeconds int32      `json:"durationSeconds,omitempty"`
	AcquireTime     *time.Time `json:"acquireTime,omitempty"`
	RenewTime       *time.Time `json:"renewTime,omitempty"`
	Transitions     int32      `json:"transitions"`
	ResourceVersion string     `json:"resourceVersion"`
}

// AccessAnswer is one access review.
type AccessAnswer struct {
	// Who is "self" or a user name.
	Who       string `json:"who"`
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Path      string `json:"path,omitempty"`
	Allowed   bool   `json:"allowed"`
	// Error is why the answer is unknown.
	Error string `json:"error,omitempty"`
}

// ObjectState reports whether an API object exists.
type ObjectState struct {
	// Ref is Kind/namespace/name or Kind/name.
	Ref     string `json:"ref"`
	Present bool   `json:"present"`
	UID     string `json:"uid,omitempty"`
	// Digest is a hash of the fields a migration cares for (rules, subjects); empty when absent.
	Digest string `json:"digest,omitempty"`
}

// Node is a Node object.
type Node struct {
	Name           string            `json:"name"`
	UID            string            `json:"uid"`
	ProviderID     string            `json:"providerID,omitempty"`
	Addresses      []string          `json:"addresses,omitempty"` // Type=address, in the object's order
	Labels         map[string]string `json:"labels,omitempty"`
	Taints         []string          `json:"taints,omitempty"` // key=value:effect, sorted
	PodCIDRs       []string          `json:"podCIDRs,omitempty"`
	KubeletVersion string            `json:"kubeletVersion,omitempty"`
	// Ready is True, False or Unknown; ReadySince is when that began.
	Ready      string     `json:"ready"`
	ReadySince *time.Time `json:"readySince,omitempty"`
	Created    time.Time  `json:"created"`
	// NetworkUnavailable is the status of that condition; only a route loop or the CNI clears it. Empty when the node has
	// no such condition.
	NetworkUnavailable string `json:"networkUnavailable,omitempty"`
	Unschedulable      bool   `json:"unschedulable,omitempty"`
	// Annotations that steer cloud controllers and kubelets: alpha.kubernetes.io/provided-node-ip,
	// csi.volume.kubernetes.io/nodeid, ...
	Annotations map[string]string `json:"annotations,omitempty"`
	SystemUUID  string            `json:"systemUUID,omitempty"`
	// OS is linux or windows.
	OS string `json:"os,omitempty"`
	// OSImage is the operating system with its release as the kubelet reports it, e.g. Ubuntu 22.04.3 LTS.
	OSImage string `json:"osImage,omitempty"`
	// ContainerRuntime is the container runtime with its version, e.g. containerd://1.6.8.
	ContainerRuntime string `json:"containerRuntime,omitempty"`
	// VolumesInUse are in status.volumesInUse: kubernetes.io/aws-ebs/... is mounted by the in-tree plugin,
	// kubernetes.io/csi/... by CSI.
	VolumesInUse []string `json:"volumesInUse,omitempty"`
	// Attachable are the allocatable attachable-volumes-* resources.
	Attachable map[string]string `json:"attachable,omitempty"`
	// Registries are the hosts from which the node's images come that need the cloud's credentials, as far as
	// status.images shows.
	Registries []string `json:"registries,omitempty"`
	// ControlPlaneImages are those of kube-apiserver, kube-controller-manager and kube-scheduler that the node has, by
	// their tags, as far as status.images shows; sorted.
	ControlPlaneImages []string `json:"controlPlaneImages,omitempty"`
}

// Service is a Service of type LoadBalancer.
type Service struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Class       string            `json:"class,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Ports       []string          `json:"ports,omitempty"`     // port/protocol->nodePort
	Addresses   []string          `json:"addresses,omitempty"` // status.loadBalancer.ingress, hostname or IP
	Finalizers  []string          `json:"finalizers,omitempty"`
	Created     time.Time         `json:"created"`
	Deleting    bool              `json:"deleting,omitempty"`
	// ExternalTrafficPolicy is Cluster or Local; HealthCheckNodePort belongs to Local.
	ExternalTrafficPolicy string `json:"externalTrafficPolicy,omitempty"`
	HealthCheckNodePort   int32  `json:"healthCheckNodePort,omitempty"`
	// LoadBalancerIP is the deprecated spec field.
	LoadBalancerIP string   `json:"loadBalancerIP,omitempty"`
	IPFamilies     []string `json:"ipFamilies,omitempty"`
	// Conditions as Type=Status(Reason), sorted.
	Conditions []string `json:"conditions,omitempty"`
	// Failing is what its manager's last event says; nil where that is of no failure, or there is none.
	Failing *SyncFailure `json:"failing,omitempty"`
}

// SyncFailure is an event with which a manager says that it cannot keep a Service's load balancer.
type SyncFailure struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	// Count is how often it was said.
	Count int32 `json:"count"`
}

// ServiceEndpoints counts what is behind a Service, as its EndpointSlices say at one moment.
type ServiceEndpoints struct {
	// Service is namespace/name.
	Service string `json:"service"`
	Ready   int    `json:"ready"`
	Total   int    `json:"total"`
}

// CloudInventory is what the cloud holds for the cluster.
type CloudInventory struct {
	Provider      string          `json:"provider"`
	LoadBalancers []LoadBalancer  `json:"loadBalancers,omitempty"`
	Routes        []Route         `json:"routes,omitempty"`
	Instances     []CloudInstance `json:"instances,omitempty"`
	// Leftovers are what a manager has made for Services next to load balancers, as far as a Service may be gone.
	Leftovers []CloudLeftover `json:"leftovers,omitempty"`
	// Errors are the parts that could not be read.
	Errors []string `json:"errors,omitempty"`
}

// CloudLeftover is a floating IP without a port, or a security group (OpenStack). It is left if its Service is gone.
type CloudLeftover struct {
	Kind string `json:"kind"` // floating IP, security group
	ID   string `json:"id"`
	Name string `json:"name"`
	// Service is namespace/name or UID is the Service's: one of both.
	Service string `json:"service,omitempty"`
	UID     string `json:"uid,omitempty"`
}

// LoadBalancer is a load balancer in the cloud.
type LoadBalancer struct {
	// ID is stable for the life of the load balancer: the ARN, or the name and creation time of a classic one.
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Kind    string    `json:"kind"` // classic, network
	Address string    `json:"address"`
	Scheme  string    `json:"scheme,omitempty"`
	Created time.Time `json:"created"`
	Members []string  `json:"members,omitempty"`
	// Listeners as port/protocol->port, sorted.
	Listeners []string `json:"listeners,omitempty"`
}

// Route is a route to a pod CIDR.
type Route struct {
	Table  string `json:"table"`
	CIDR   string `json:"cidr"`
	Target string `json:"target"`
	State  string `json:"state"`
}

// CloudInstance is the instance that the provider would find for a Node.
type CloudInstance struct {
	Node  string `json:"node"`
	ID    string `json:"id,omitempty"`
	State string `json:"state,omitempty"`
	// Found is false when the cloud says that there is no such instance: the new manager would delete the Node.
	Found bool `json:"found"`
	// PrivateDNSName is the name that the provider expects the Node to have.
	PrivateDNSName string `json:"privateDNSName,omitempty"`
	// HostnameType is ip-name or resource-name (AWS).
	HostnameType string `json:"hostnameType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	Type         string `json:"type,omitempty"`
	// ClusterTags are the instance's tags kubernetes.io/cluster/<id>, id=owned or id=shared; sorted.
	ClusterTags []string `json:"clusterTags,omitempty"`
	// ClusterGroups is how many of its security groups carry the cluster's tag: the provider wants exactly one (AWS).
	ClusterGroups *int `json:"clusterGroups,omitempty"`
	// MetadataHops is the hop limit of the instance metadata service (AWS): with 1 a pod behind the CNI cannot reach it.
	MetadataHops *int `json:"metadataHops,omitempty"`
	// Profile reports whether the instance has an identity of its own that pods on it could use.
	Profile bool `json:"profile,omitempty"`
	// DiskUUID reports whether the machine shows its guest the UUIDs of its disks (vSphere: disk.enableUUID); nil where
	// the inventory does not say.
	DiskUUID *bool `json:"diskUUID,omitempty"`
}

// GatherError is a fact that is unknown.
type GatherError struct {
	// Fact is nodes, services, leases, hosts/cp-1, managers/cp-1/kube-controller-manager, cloud/routes, ...
	Fact  string `json:"fact"`
	Error string `json:"error"`
}
