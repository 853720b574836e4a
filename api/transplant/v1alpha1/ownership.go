package v1alpha1

import "time"

// OwnershipEvent is a line of an ownership log (JSON lines): something that was observed about who runs which loop. The recorder writes a line on
// every change and on every failed look; silence between two lines of one source means that nothing changed while looks succeeded, which
// Looked of the next line or of a heartbeat line proves.
type OwnershipEvent struct {
	Time time.Time `json:"time"`
	// Source is lease, scrape or process.
	Source string `json:"source"`
	// Lease, Holder and Transitions are of source lease.
	Lease       string `json:"lease,omitempty"`
	Holder      string `json:"holder,omitempty"`
	Transitions int32  `json:"transitions,omitempty"`
	// Component and Host name the manager of a scrape or process event.
	Component string `json:"component,omitempty"`
	Host      string `json:"host,omitempty"`
	// Loops are the running_managed_controllers at 1, and Leads the leader_election_master_status at 1; of source scrape.
	Loops []string `json:"loops,omitempty"`
	Leads []string `json:"leads,omitempty"`
	// ProcessStarted tells incarnations of a manager apart.
	ProcessStarted *time.Time `json:"processStarted,omitempty"`
	// PID, StartTicks and Ended are of source process. Ended is set when the process is gone for certain.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	Ended      bool   `json:"ended,omitempty"`
	// Looked is when the previous successful look of this source began: the change happened between Looked and Time.
	Looked *time.Time `json:"looked,omitempty"`
	// Error is set when the look failed: what the source says is unknown from Looked on, never "ended".
	Error string `json:"error,omitempty"`
}

// Tenure is a time during which one manager ran a loop.
type Tenure struct {
	Loop      string `json:"loop"`
	Component string `json:"component"`
	Host      string `json:"host"`
	PID       int    `json:"pid,omitempty"`
	// From is the first moment at which it could act, To the moment at which it ended; nil when it still runs.
	From time.Time  `json:"from"`
	To   *time.Time `json:"to,omitempty"`
	// Certain is false where a look was missing at either end.
	Certain bool `json:"certain"`
}

// Gap is a time during which nobody ran a loop.
type Gap struct {
	Loop string `json:"loop"`
	// From and To are managers, component@host.
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is the step that ended the old owner, or why it ended.
	Cause   string    `json:"cause"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Seconds float64   `json:"seconds"`
	// Certain is false when a look was missing, so that Seconds is an upper bound.
	Certain bool `json:"certain"`
}

// Overlap is a mutating call that arrived from an old owner after the new owner's first one, or two managers that ran one loop.
type Overlap struct {
	Loop  string    `json:"loop"`
	Old   string    `json:"old"`
	New   string    `json:"new"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Calls are the Seq of the calls in the audit log; empty for an overlap that only gauges show.
	Calls []int64 `json:"calls,omitempty"`
	// Evidence is calls or gauges.
	Evidence string `json:"evidence"`
}
