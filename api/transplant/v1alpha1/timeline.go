package v1alpha1

import "time"

// KindTimeline is the kind of Timeline.
const KindTimeline = "Timeline"

// Sources of a TimelineEntry.
const (
	TimelineRun      = "run"
	TimelineStep     = "step"
	TimelineHandover = "handover"
	TimelinePause    = "pause"
	TimelineLease    = "lease"
	TimelineEvent    = "event"
	TimelineProbe    = "probe"
)

// Timeline is what happened during a run, from all sources, in the order of time.
type Timeline struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	Run      string  `json:"run,omitempty"`
	Phase    string  `json:"phase,omitempty"`
	// Started is what offsets are counted from: the beginning of the run.
	Started time.Time `json:"started,omitzero"`
	// Untrusted says which rules the journal breaks that the entries are from; empty when it keeps them all.
	Untrusted string          `json:"untrusted,omitempty"`
	Entries   []TimelineEntry `json:"entries"`
	// NotRead are the sentences that name what could not be read, and so is not in this document.
	NotRead []string `json:"notRead,omitempty"`
}

// TimelineEntry is something that happened.
type TimelineEntry struct {
	// Time is by the clock of its source: the journal's is that of who carries the run out, an event's that of the component that reported it.
	Time time.Time `json:"time"`
	// OffsetSeconds is from the beginning of the run; negative before it.
	OffsetSeconds float64 `json:"offsetSeconds"`
	// DurationSeconds is nil for something that has no duration, or is not over.
	DurationSeconds *float64 `json:"durationSeconds,omitempty"`
	// Source is run, step, handover, pause, lease, event or probe.
	Source string `json:"source"`
	// Level is info, warning or error.
	Level string `json:"level"`
	// Object is what it happened to: a step's ID, a lease, Kind/namespace/name.
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	// Count is how often an event was seen, when more than once; Time is that of the last.
	Count int `json:"count,omitempty"`
}
