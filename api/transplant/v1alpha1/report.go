package v1alpha1

import "time"

// Kinds of paths that are probed.
const (
	// PathAPIWatch is a watch of the API, as every controller and kubelet holds one.
	PathAPIWatch = "api-watch"
	// PathAPIRead are reads through the address of the kubeconfig.
	PathAPIRead = "api-read"
	// PathEndpoints is whether a Service that had ready endpoints has any.
	PathEndpoints = "endpoints"
	// PathTCP are connections to a port of a load balancer's address.
	PathTCP = "tcp"
	// PathTCPKept is a connection that stays open through a port of a load balancer's address.
	PathTCPKept = "tcp-kept"
	// PathHTTP are GET requests to a URL.
	PathHTTP = "http"
)

// Events of a disruption log.
const (
	// ProbeBegin: a run of the probes began; what was between the line before and this one was not observed.
	ProbeBegin = "begin"
	// ProbePath: the path is probed from now on.
	ProbePath = "path"
	// ProbeSkipped: the path is not probed; Error says why.
	ProbeSkipped = "skipped"
	// ProbeDown: a look failed and the one before did not.
	ProbeDown = "down"
	// ProbeUp: a look succeeded and the one before did not.
	ProbeUp = "up"
	// ProbeLost: the path was not looked at from Since to Time; Error says why.
	ProbeLost = "lost"
	// ProbeGone: the path ended, since its Service was deleted or is no longer of that kind: no outage.
	ProbeGone = "gone"
	// ProbeIdle: the outage of a kept connection that began at Since was none. Each connection of that path is closed when
	// it was silent for as long.
	ProbeIdle = "idle"
	// ProbeAlive: the probes ran until now. Counts are there once a minute.
	ProbeAlive = "alive"
	// ProbeEnd: the probes were ended in order.
	ProbeEnd = "end"
)

// ProbeEvent is a line of a disruption log (JSON lines): something that a probe saw. A line is written on every change,
// and as a heartbeat. Silence of a path between two heartbeats means that it was probed every Interval and that nothing
// changed.
type ProbeEvent struct {
	// Time of the event: the wall clock when the run of the probes began, and the monotonic time since.
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// Kind and Path name what is probed, e.g. tcp and "shop/web a1b2.elb.amazonaws.com:443"; empty of begin, alive and
	// end.
	Kind string `json:"kind,omitempty"`
	Path string `json:"path,omitempty"`
	// IntervalSeconds is the time between two looks, of begin and path: a shorter outage can go unseen. Zero for what is
	// pushed.
	IntervalSeconds float64 `json:"intervalSeconds,omitempty"`
	// BudgetSeconds is the longest outage that a path may have, of begin; nil when none was given.
	BudgetSeconds *float64 `json:"budgetSeconds,omitempty"`
	// ConnectTo has where else than published it is connected to, of begin, each as HOST[:PORT]=ADDRESS[:PORT].
	ConnectTo []string `json:"connectTo,omitempty"`
	// Since depends on the state. Of down, it is the last moment at which the path was seen to work. Of lost, it is the
	// end of the last probe; of up, the start of the last failed probe. Of idle, it is the start of the outage that was
	// none.
	Since *time.Time `json:"since,omitempty"`
	// Began is when the first failed look began, of down.
	Began *time.Time `json:"began,omitempty"`
	Error string     `json:"error,omitempty"`
	// Looks by kind and path, of alive and end, in this run of the probes.
	Looks map[string]int `json:"looks,omitempty"`
	// Reconnects of the watches, and of kept connections that were closed while idle, by kind and path, of alive and end.
	Reconnects map[string]int `json:"reconnects,omitempty"`
	// SlowestSeconds is the longest that a look which succeeded took, by kind and path, of alive and end.
	SlowestSeconds map[string]float64 `json:"slowestSeconds,omitempty"`
}

// KindDisruption is the kind of Disruption where it is a document of its own: transplant probe -o json.
const KindDisruption = "Disruption"

// Results of a Disruption.
const (
	// DisruptionMeasured: no budget was given, so that nothing is judged.
	DisruptionMeasured = "measured"
	// DisruptionWithin: no path was out for longer than the budget.
	DisruptionWithin = "within-budget"
	// DisruptionOver: a path was out for longer than the budget.
	DisruptionOver = "over-budget"
	// DisruptionUnknown: no outage was seen to be over the budget, but a time without looks is long enough to hide one.
	DisruptionUnknown = "unknown"
)

// Disruption is what a cluster's clients would have noticed of a migration, as probes saw it that ran next to it.
type Disruption struct {
	TypeMeta `json:",inline"`
	// Result is measured, within-budget, over-budget or unknown.
	Result string `json:"result"`
	// Reasons say why Result is over-budget or unknown, one sentence each.
	Reasons []string `json:"reasons,omitempty"`
	// BudgetSeconds is the longest outage that a path may have; nil when none was given.
	BudgetSeconds *float64 `json:"budgetSeconds,omitempty"`
	// IntervalSeconds is the time between two looks at a path, unless the path has one of its own.
	IntervalSeconds float64 `json:"intervalSeconds"`
	// From and To are the first and the last moment at which the probes ran; between them lie the times in Unobserved.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Paths by kind, then name.
	Paths []PathDisruption `json:"paths"`
	// NotProbed are the paths that could not be probed from where the probes ran, and why. They count for nothing.
	NotProbed []NotProbed `json:"notProbed,omitempty"`
	// Unobserved are the times in which no probe ran: between two runs, and while the machine slept.
	Unobserved []Unobserved `json:"unobserved,omitempty"`
}

// PathDisruption is what happened to one path.
type PathDisruption struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Looks that were made; after a crash up to a minute of them is missing. Of a watch, the events that it delivered; of
	// kept connections, those that were opened.
	Looks int `json:"looks"`
	// IntervalSeconds is the time between two looks; 0 for what is pushed.
	IntervalSeconds float64 `json:"intervalSeconds,omitempty"`
	// Reconnects of a watch, those at its agreed end included. Of kept connections, those after one that was closed while
	// idle, which is no outage.
	Reconnects int `json:"reconnects,omitempty"`
	// Outages in the order of time.
	Outages []Outage `json:"outages,omitempty"`
	// LongestSeconds and TotalSeconds are of Outages.
	LongestSeconds float64 `json:"longestSeconds"`
	TotalSeconds   float64 `json:"totalSeconds"`
	// SlowestSeconds is the longest that a look which succeeded took.
	SlowestSeconds float64 `json:"slowestSeconds,omitempty"`
	// Unobserved are the times in which this path alone was not looked at.
	Unobserved []Unobserved `json:"unobserved,omitempty"`
	// Result is that of Disruption, for this path.
	Result string `json:"result"`
	// Gone reports whether the path ended before the probes did: its Service was deleted.
	Gone bool `json:"gone,omitempty"`
}

// Outage is a time in which a path did not work.
type Outage struct {
	// Begin is the last moment at which the path was seen to work. End is the first at which it worked again, so that
	// Seconds is never too small. It is too large by two looks at most.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Seconds from Begin to End.
	Seconds float64 `json:"seconds"`
	// LeastSeconds from the end of the first failed look to the begin of the last: for so long it was out at least.
	LeastSeconds float64 `json:"leastSeconds"`
	// Open reports whether the path was still out when the probes ended, or when the looks at it did.
	Open bool `json:"open,omitempty"`
	// Error is that of the first failed look.
	Error string `json:"error"`
	// Steps of the migration that were under way meanwhile, by id.
	Steps []string `json:"steps,omitempty"`
}

// NotProbed is a path that was not probed.
type NotProbed struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Unobserved is a time without samples.
type Unobserved struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds float64   `json:"seconds"`
	Why     string    `json:"why"`
}

// KindReport is the kind of Report.
const KindReport = "Report"

// Report is the proof of a migration.
type Report struct {
	TypeMeta    `json:",inline"`
	ToolVersion string    `json:"toolVersion"`
	Created     time.Time `json:"created"`
	Cluster     Cluster   `json:"cluster"`
	Run         string    `json:"run"`
	// Result is ok, or the first thing that is not: failed, overlap, lost, disrupted, unknown, unfinished, rolled-back.
	Result string `json:"result"`
	// Reasons say why Result is not ok, one sentence each; the first is of the kind that Result names.
	Reasons   []string `json:"reasons,omitempty"`
	Strategy  string   `json:"strategy"`
	Direction string   `json:"direction"`
	// User started the migration, as the tool saw them.
	User string `json:"user,omitempty"`
	// Waits are the times during which the run waited since that was asked for. Stops are those during which no command
	// executed it.
	Waits []PauseRecord `json:"waits,omitempty"`
	Stops []StopRecord  `json:"stops,omitempty"`
	// PlanSHA256 is that of the plan, as plan prints it and --plan-sha256 takes it. RollbackSHA256 is that of the
	// rollback, where one was begun.
	PlanSHA256      string    `json:"planSHA256,omitempty"`
	RollbackSHA256  string    `json:"rollbackSHA256,omitempty"`
	Started         time.Time `json:"started"`
	Ended           time.Time `json:"ended"`
	DurationSeconds float64   `json:"durationSeconds"`
	// IdleSeconds are those of DurationSeconds during which the run was paused, or no command executed it.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
	// Sentence is the whole report in one sentence, for a reader who knows no loop.
	Sentence string `json:"sentence,omitempty"`
	// Moved counts the hosts that were changed; nil of a rollback, and where no step is about a host.
	Moved *MovedHosts `json:"moved,omitempty"`
	// Without are the hosts that were excluded from the migration since they were gone for good; nothing is known of what
	// they run.
	Without  []HostOut `json:"without,omitempty"`
	Handover Handover  `json:"handover"`
	Gaps     []Gap     `json:"gaps"`
	// Pauses are the gaps of loops that stay in kube-controller-manager: their manager does not change, but its process
	// was restarted. They are apart from Gaps because their length is that manager's own start. v1.26 sleeps for 10 s
	// before it first lists nodes for node IPAM.
	Pauses      []Gap           `json:"pauses,omitempty"`
	Overlaps    []Overlap       `json:"overlaps,omitempty"`
	LateEffects []LateEffect    `json:"lateEffects,omitempty"`
	Tenures     []Tenure        `json:"tenures,omitempty"`
	Inventory   InventoryReport `json:"inventory"`
	// Disruption is what clients noticed; nil when the run was not probed.
	Disruption *Disruption `json:"disruption,omitempty"`
	// Objectives say whether the managers kept those of KEP-2395; nil where no manager showed its series.
	Objectives *Objectives  `json:"objectives,omitempty"`
	Steps      []StepReport `json:"steps"`
	// Unpromised are the windows that cannot be closed, with their measured lengths where known.
	Unpromised []string `json:"unpromised,omitempty"`
	// Findings that were not passed when the plan was made, with the reasons of those that were accepted.
	Findings []Finding `json:"findings,omitempty"`
	// Sources say which evidence there was: ownership log, cloud audit log, inventory.
	Sources []Source `json:"sources,omitempty"`
	// Unknown are the sentences that name a source and a window in which looks were missing.
	Unknown []string `json:"unknown,omitempty"`
	// Notes are observations that change no verdict.
	Notes []string `json:"notes,omitempty"`
}

// Objectives are the service level objectives of KEP-2395, by what managers counted themselves.
type Objectives struct {
	// Windows are before, during and after the migration, those in which a manager was read.
	Windows []ObjectiveWindow `json:"windows"`
}

// Names of an ObjectiveWindow.
const (
	// WindowBefore ends with the first step that changes a manager.
	WindowBefore = "before"
	WindowDuring = "during"
	// WindowAfter is from the end of the migration to when the report was made.
	WindowAfter = "after"
)

// ObjectiveWindow is what all managers counted in a time.
type ObjectiveWindow struct {
	Name   string            `json:"name"`
	From   time.Time         `json:"from"`
	To     time.Time         `json:"to"`
	Series []ObjectiveSeries `json:"series"`
}

// ObjectiveSeries is how much one of the five series grew in a window.
type ObjectiveSeries struct {
	// Name without the subsystem that differs between versions, e.g. nodesync_error_total.
	Name string `json:"name"`
	// Count is the number of samples of a histogram, or of errors.
	Count uint64 `json:"count"`
	// Slow is how many samples took more than 60 seconds; up to 64 where the histogram has no nearer bound.
	Slow uint64 `json:"slow,omitempty"`
	// MostIn15Minutes is the largest growth of the counter of errors in 15 minutes; an average where managers were looked
	// at more rarely.
	MostIn15Minutes float64 `json:"mostIn15Minutes,omitempty"`
	// Breach says how the objective is not kept; empty when it is.
	Breach string `json:"breach,omitempty"`
}

// MovedHosts counts the hosts of which at least one step is done.
type MovedHosts struct {
	ControlPlanes int `json:"controlPlanes"`
	// Workers are the other hosts whose kubelets were changed.
	Workers int `json:"workers"`
}

// Results of a report.
const (
	ResultOK      = "ok"
	ResultFailed  = "failed"
	ResultOverlap = "overlap"
	ResultLost    = "lost"
	// ResultDisrupted: a path was out for longer than the budget that was given with --probe-budget.
	ResultDisrupted  = "disrupted"
	ResultUnknown    = "unknown"
	ResultUnfinished = "unfinished"
	ResultRolledBack = "rolled-back"
)

// Source is one kind of evidence.
type Source struct {
	Name string `json:"name"`
	// Present is false when the evidence is missing.
	Present bool `json:"present"`
	// Detail says what it consists of, or what its absence leaves unproven.
	Detail string `json:"detail"`
}

// Handover sums up the changes of owner.
type Handover struct {
	// GapSeconds is the largest of the gaps.
	GapSeconds float64 `json:"gapSeconds"`
	// OverlappingWrites counts mutating calls that arrived from an old owner after the new owner's first; nil without an
	// audit log.
	OverlappingWrites *int `json:"overlappingWrites"`
	// LateEffects counts calls sent before the old owner's end that took effect after it; nil without an audit log.
	LateEffects *int `json:"lateEffects"`
	// Assisted counts the leases that were released for an owner that had ended.
	Assisted int `json:"assisted"`
}

// InventoryReport compares what there was before with what there is after.
type InventoryReport struct {
	// Known is false when one of the two inventories is missing or incomplete: the counts then prove nothing.
	Known         bool             `json:"known"`
	LoadBalancers LoadBalancerDiff `json:"loadBalancers"`
	Routes        CountDiff        `json:"routes"`
	Nodes         NodeDiff         `json:"nodes"`
	// Services are those of type LoadBalancer, Serving the Services of any type that had a ready endpoint.
	Services CountDiff `json:"services"`
	Serving  CountDiff `json:"serving"`
	// Volumes are the PersistentVolumes of clouds and CSI drivers, Attachments the VolumeAttachments that are attached,
	// Drivers the CSI drivers of all nodes.
	Volumes     CountDiff `json:"volumes"`
	Attachments CountDiff `json:"attachments"`
	Drivers     CountDiff `json:"drivers"`
	// Unknown says what could not be compared, and why: part: reason. Known is about nodes, services and the cloud alone.
	Unknown []string `json:"unknown,omitempty"`
	// Differences between the two inventories; expected ones are marked as such.
	Differences []Difference `json:"differences,omitempty"`
}

// LoadBalancerDiff counts load balancers.
type LoadBalancerDiff struct {
	Before int `json:"before"`
	After  int `json:"after"`
	// Recreated counts those of the same name and another identity or creation time.
	Recreated int `json:"recreated"`
	// AddressChanged counts those whose clients would have to learn a new address.
	AddressChanged int `json:"addressChanged"`
}

// CountDiff counts objects.
type CountDiff struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// NodeDiff counts nodes.
type NodeDiff struct {
	Before            int `json:"before"`
	After             int `json:"after"`
	ChangedProviderID int `json:"changedProviderID"`
	// Recreated counts nodes of the same name and another UID.
	Recreated int `json:"recreated"`
}

// Difference is one thing that is not as it was.
type Difference struct {
	// Object is e.g. Node/worker-1, LoadBalancer/a1b2, Route/rtb-1/10.200.1.0/24, Service/shop/web. Field is "object"
	// where the whole thing came or went.
	Object   string `json:"object"`
	Field    string `json:"field"`
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
	Expected bool   `json:"expected"`
	Why      string `json:"why,omitempty"`
	// By is who changed it, as far as managed fields and events tell; only of verify.
	By string `json:"by,omitempty"`
	// Accepted is the reason that the operator gave for living with it, with who gave it and when where the journal has
	// that.
	Accepted string `json:"accepted,omitempty"`
}

// StepReport is a step and how it went.
type StepReport struct {
	ID    string `json:"id"`
	Phase string `json:"phase"`
	Title string `json:"title"`
	Host  string `json:"host,omitempty"`
	// Result is that of the journal's record, or pending when the step was never begun.
	Result          StepResult       `json:"result"`
	Started         *time.Time       `json:"started,omitempty"`
	DurationSeconds float64          `json:"durationSeconds"`
	Error           string           `json:"error,omitempty"`
	Handovers       []HandoverRecord `json:"handovers,omitempty"`
}

// KindVerification is the kind of Verification.
const KindVerification = "Verification"

// Verification says whether a cluster is as its last migration, or its rollback, promised.
type Verification struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster   `json:"cluster"`
	Run      string    `json:"run"`
	Phase    string    `json:"phase"`
	TakenAt  time.Time `json:"takenAt"`
	// Result is ok, failed, or unknown where nothing failed but a fact is missing.
	Result string `json:"result"`
	// Checks in a fixed order; one that does not apply is skipped and says why.
	Checks []VerificationCheck `json:"checks"`
	// Problems are the sentences of the checks that failed or are unknown; empty when Result is ok.
	Problems []string `json:"problems"`
}

// VerificationCheck is one thing that was verified.
type VerificationCheck struct {
	// Name is finished, owners, hosts, nodes, services, endpoints, volumes, attachments, csi-drivers, load-balancers,
	// routes, disruption or facts.
	Name string `json:"name"`
	// Outcome is pass, fail, skip or unknown.
	Outcome Outcome `json:"outcome"`
	Summary string  `json:"summary"`
	// Problems are what failed or is unknown, one sentence each.
	Problems []string `json:"problems,omitempty"`
	// Differences of the check's objects, expected and accepted ones included.
	Differences []Difference `json:"differences,omitempty"`
}

// VerificationUnknown is the Result of a Verification in which nothing failed but a fact is missing.
const VerificationUnknown = "unknown"

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
