package v1alpha1

import "time"

// CloudCall is one request to the cloud's API as the cloud saw it: a line of a cloud audit log (JSON lines). The lab's
// simulated endpoint writes it; a converter from a cloud provider's own audit trail may.
type CloudCall struct {
	// Seq orders calls by arrival; unique within one log.
	Seq int64 `json:"seq"`
	// Key is who asked: the access key id, one per process in the lab. Never a secret.
	Key string `json:"key"`
	// Service is the API: ec2, elb, elbv2, imds; on OpenStack its type in the catalog, as load-balancer and network.
	Service string `json:"service"`
	// Action is the operation, e.g. CreateRoute; on OpenStack the method and the path behind the version, with {id} for
	// IDs, e.g. PUT routers/{id}.
	Action string `json:"action"`
	// Mutating reports whether the operation changes the cloud when it succeeds.
	Mutating bool `json:"mutating"`
	// Params are the request's parameters, flattened as they were sent.
	Params map[string]string `json:"params,omitempty"`
	// Resources are the cloud objects that the call named or made, e.g. "rtb-lab", "loadbalancer/a1b2".
	Resources []string `json:"resources,omitempty"`
	// Arrived is when the whole request had been read.
	Arrived time.Time `json:"arrived"`
	// Effect is when the change took effect (or the answer was computed); nil when it never did.
	Effect *time.Time `json:"effect,omitempty"`
	// Error is the API error code that was answered; empty when the call succeeded.
	Error string `json:"error,omitempty"`
	// Unknown marks a call that the simulator did not know; every one is a failure of the lab.
	Unknown bool `json:"unknown,omitempty"`
}

// Sources of an OwnershipEvent.
const (
	SourceLease   = "lease"
	SourceScrape  = "scrape"
	SourceProcess = "process"
)

// OwnershipEvent is a line of an ownership log (JSON lines): something that was observed about who runs which loop. The
// recorder writes a line on every change, on every transition from reads that succeed to reads that fail, and as a
// heartbeat. Silence between two lines of one source means that nothing changed while reads succeeded. Looked of the
// later line proves it.
type OwnershipEvent struct {
	// Time is when the look ended: a change happened before it.
	Time time.Time `json:"time"`
	// Source is lease, scrape or process.
	Source string `json:"source"`
	// Lease, Holder and Transitions are of source lease.
	Lease       string `json:"lease,omitempty"`
	Holder      string `json:"holder,omitempty"`
	Transitions int32  `json:"transitions,omitempty"`
	// Renewed is the lease's renewTime, by the clock of its holder. PreviousRenewed is the last one that was seen of the
	// previous holder; on the line that shows a change of holder.
	Renewed         *time.Time `json:"renewed,omitempty"`
	PreviousRenewed *time.Time `json:"previousRenewed,omitempty"`
	// Component and Host name the manager of a scrape or process event.
	Component string `json:"component,omitempty"`
	Host      string `json:"host,omitempty"`
	// Loops are the running_managed_controllers at 1, and Leads the leader_election_master_status at 1; of source scrape.
	Loops []string `json:"loops,omitempty"`
	Leads []string `json:"leads,omitempty"`
	// Series are those of KEP-2395 that a manager shows; of source scrape. Without them they are as on the manager's line
	// before.
	Series []Series `json:"series,omitempty"`
	// ProcessStarted tells incarnations of a manager apart.
	ProcessStarted *time.Time `json:"processStarted,omitempty"`
	// PID, StartTicks and Ended are of source process. Ended is set when the process is gone for certain. A line without
	// PID and without Error says that the component has no process on the host.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	Ended      bool   `json:"ended,omitempty"`
	// Began is when this look began: what it found was true no earlier. Nil for an event of a watch, which is pushed.
	Began *time.Time `json:"began,omitempty"`
	// Looked is when the previous successful look of this source began: a change happened between Looked and Time. Nil on
	// the first line of a source that a recorder writes.
	Looked *time.Time `json:"looked,omitempty"`
	// Error is set when the look failed: what the source says is unknown from Looked on, never "ended".
	Error string `json:"error,omitempty"`
}

// Reasons for which a tenure ended.
const (
	// EndProcess: the process was seen to be gone. It is the only proof.
	EndProcess = "process ended"
	// EndLoop: the process lives and says that it no longer runs the loop.
	EndLoop = "loop stopped"
	// EndRestarted: another process answers at the manager's address; the old one was not seen to end.
	EndRestarted = "restarted"
	// EndLease: another holder has the lease; the old owner was not seen to end.
	EndLease = "lease lost"
)

// Tenure is a time during which one manager ran a loop.
type Tenure struct {
	Loop      string `json:"loop"`
	Component string `json:"component"`
	Host      string `json:"host"`
	PID       int    `json:"pid,omitempty"`
	// From is when it was first seen able to act: its gauge at 1, or its first mutating call if that is earlier.
	From time.Time `json:"from"`
	// To is the last moment at which it was seen alive before its end; nil when it still runs.
	To *time.Time `json:"to,omitempty"`
	// End says why it ended: process ended, loop stopped, restarted, lease lost; empty when it still runs.
	End string `json:"end,omitempty"`
	// LeaseHeld is when the lease that governs the loop was first seen held by this manager; nil when that was not seen.
	LeaseHeld *time.Time `json:"leaseHeld,omitempty"`
	// Earlier reports whether it ran the loop already when the log began.
	Earlier bool `json:"earlier,omitempty"`
	// Certain is false where a look was missing at either end.
	Certain bool `json:"certain"`
}

// Gap is a time during which no manager ran a loop.
type Gap struct {
	Loop string `json:"loop"`
	// From and To are managers, component@host. To is empty when no manager took the loop over until the end of the log.
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is the step that ended the old owner, or why it ended.
	Cause string `json:"cause"`
	// Start is the last moment at which the old owner was seen alive. End is the first at which the new one was seen able
	// to act. So Seconds is never too small.
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Seconds float64   `json:"seconds"`
	// LeaseSeconds is the part of Seconds until the new owner held the lease that governs the loop: the handover. The rest
	// is the manager's own start. For example, a kube-controller-manager waits ten seconds before it starts node IPAM and
	// the controllers that its random order puts after it. Nil when the lease was not seen to be won.
	LeaseSeconds *float64 `json:"leaseSeconds,omitempty"`
	// Certain is false when a read is missing, so that Seconds may be far too large. Otherwise it is too large by two
	// reading intervals at most.
	Certain bool `json:"certain"`
}

// Overlap is a mutating call that arrived from an old owner after the new owner's first one, or two managers that ran
// one loop.
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

// Kinds of evidence of an Overlap.
const (
	EvidenceCalls  = "calls"
	EvidenceGauges = "gauges"
)

// LateEffect is a mutating call that was sent before its sender ended and took effect afterwards. It is no overlap: no
// client could have recalled it.
type LateEffect struct {
	Seq     int64     `json:"seq"`
	Loop    string    `json:"loop"`
	Owner   string    `json:"owner"`
	Service string    `json:"service"`
	Action  string    `json:"action"`
	Arrived time.Time `json:"arrived"`
	Effect  time.Time `json:"effect"`
}
