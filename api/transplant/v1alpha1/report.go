package v1alpha1

import "time"

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
	Reasons         []string  `json:"reasons,omitempty"`
	Strategy        string    `json:"strategy"`
	Direction       string    `json:"direction"`
	Started         time.Time `json:"started"`
	Ended           time.Time `json:"ended"`
	DurationSeconds float64   `json:"durationSeconds"`
	// Without are the hosts that were taken out of the migration since they were gone for good; nothing is known of what they run.
	Without  []HostOut `json:"without,omitempty"`
	Handover Handover  `json:"handover"`
	Gaps     []Gap     `json:"gaps"`
	// Pauses are the gaps of loops that stay in kube-controller-manager: their manager does not change, but its process was restarted. They are
	// apart from Gaps because what they last is that manager's own start: v1.26 sleeps for 10 s before it first lists nodes for node IPAM.
	Pauses      []Gap           `json:"pauses,omitempty"`
	Overlaps    []Overlap       `json:"overlaps,omitempty"`
	LateEffects []LateEffect    `json:"lateEffects,omitempty"`
	Tenures     []Tenure        `json:"tenures,omitempty"`
	Inventory   InventoryReport `json:"inventory"`
	// Disruption is what clients noticed; nil when the run was not probed.
	Disruption *Disruption  `json:"disruption,omitempty"`
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
	// OverlappingWrites counts mutating calls that arrived from an old owner after the new owner's first; nil without an audit log.
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
	// Volumes are the PersistentVolumes of clouds and CSI drivers, Attachments the VolumeAttachments that are attached, Drivers the CSI drivers of all nodes.
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
	// Object is e.g. Node/worker-1, LoadBalancer/a1b2, Route/rtb-1/10.200.1.0/24, Service/shop/web. Field is "object" where the whole thing came or went.
	Object   string `json:"object"`
	Field    string `json:"field"`
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
	Expected bool   `json:"expected"`
	Why      string `json:"why,omitempty"`
	// By is who changed it, as far as managed fields and events tell; only of verify.
	By string `json:"by,omitempty"`
	// Accepted is the reason that the operator gave for living with it; only of verify.
	Accepted string `json:"accepted,omitempty"`
}

// StepReport is a step and how it went.
type StepReport struct {
	ID    string `json:"id"`
	Phase string `json:"phase"`
	Title string `json:"title"`
	Host  string `json:"host,omitempty"`
	// Result is that of the journal's record, or pending when the step was never begun.
	Result          string           `json:"result"`
	Started         *time.Time       `json:"started,omitempty"`
	DurationSeconds float64          `json:"durationSeconds"`
	Error           string           `json:"error,omitempty"`
	Handovers       []HandoverRecord `json:"handovers,omitempty"`
}
