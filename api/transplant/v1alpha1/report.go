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
	// Result is ok, or the first thing that is not: failed, overlap, lost, unknown, unfinished, rolled-back.
	Result string `json:"result"`
	// Reasons say why Result is not ok, one sentence each.
	Reasons         []string        `json:"reasons,omitempty"`
	Strategy        string          `json:"strategy"`
	Started         time.Time       `json:"started"`
	Ended           time.Time       `json:"ended"`
	DurationSeconds float64         `json:"durationSeconds"`
	Handover        Handover        `json:"handover"`
	Gaps            []Gap           `json:"gaps"`
	Overlaps        []Overlap       `json:"overlaps,omitempty"`
	Tenures         []Tenure        `json:"tenures,omitempty"`
	Inventory       InventoryReport `json:"inventory"`
	Steps           []StepReport    `json:"steps"`
	// Unpromised are the windows that cannot be closed, with their measured lengths where known.
	Unpromised []string `json:"unpromised,omitempty"`
	// Waivers, findings and effects of the plan.
	Findings []Finding `json:"findings,omitempty"`
	// Sources say which evidence there was: ownership log, cloud audit log, inventory; and what was missing.
	Sources []string `json:"sources,omitempty"`
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
	LoadBalancers LoadBalancerDiff `json:"loadBalancers"`
	Routes        CountDiff        `json:"routes"`
	Nodes         NodeDiff         `json:"nodes"`
	// Differences are sentences, one each; expected ones are marked as such.
	Differences []Difference `json:"differences,omitempty"`
}

// LoadBalancerDiff counts load balancers.
type LoadBalancerDiff struct {
	Before         int `json:"before"`
	After          int `json:"after"`
	Recreated      int `json:"recreated"`
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
	Object   string `json:"object"`
	Field    string `json:"field"`
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
	Expected bool   `json:"expected"`
	Why      string `json:"why,omitempty"`
}

// StepReport is a step and how it went.
type StepReport struct {
	ID              string           `json:"id"`
	Phase           string           `json:"phase"`
	Title           string           `json:"title"`
	Result          string           `json:"result"`
	Started         *time.Time       `json:"started,omitempty"`
	DurationSeconds float64          `json:"durationSeconds"`
	Error           string           `json:"error,omitempty"`
	Handovers       []HandoverRecord `json:"handovers,omitempty"`
}
