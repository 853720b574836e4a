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
	// ProbeAlive: the probes ran until now. Counts are there once a minute.
	ProbeAlive = "alive"
	// ProbeEnd: the probes were ended in order.
	ProbeEnd = "end"
)

// ProbeEvent is a line of a disruption log (JSON lines): something that a probe saw. A line is written on every change, and as a heartbeat; silence of
// a path between two heartbeats means that it was looked at every Interval and that nothing changed.
type ProbeEvent struct {
	// Time of the event: the wall clock when the run of the probes began, and the monotonic time since.
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// Kind and Path name what is probed, e.g. tcp and "shop/web a1b2.elb.amazonaws.com:443"; empty of begin, alive and end.
	Kind string `json:"kind,omitempty"`
	Path string `json:"path,omitempty"`
	// IntervalSeconds is the time between two looks, of begin and path: a shorter outage can go unseen. Zero for what is pushed.
	IntervalSeconds float64 `json:"intervalSeconds,omitempty"`
	// BudgetSeconds is the longest outage that a path may have, of begin; nil when none was given.
	BudgetSeconds *float64 `json:"budgetSeconds,omitempty"`
	// Since is the last moment at which the path was seen to work, of down; of lost, the end of the last look; of up, the last failed look's begin.
	Since *time.Time `json:"since,omitempty"`
	// Began is when the first failed look began, of down.
	Began *time.Time `json:"began,omitempty"`
	Error string     `json:"error,omitempty"`
	// Looks by kind and path, of alive and end, in this run of the probes.
	Looks map[string]int `json:"looks,omitempty"`
	// Reconnects of the watches by kind and path, of alive and end.
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

// Disruption is what a cluster's clients would have noticed of a migration, as probes saw it that ran beside it.
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
	// Looks that were made; after a crash up to a minute of them is missing. Of a watch, the events that it delivered.
	Looks int `json:"looks"`
	// IntervalSeconds is the time between two looks; 0 for what is pushed.
	IntervalSeconds float64 `json:"intervalSeconds,omitempty"`
	// Reconnects of a watch, those at its agreed end included.
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
	// Gone tells that the path ended before the probes did: its Service was deleted.
	Gone bool `json:"gone,omitempty"`
}

// Outage is a time in which a path did not work.
type Outage struct {
	// Begin is the last moment at which the path was seen to work, End the first at which it was again, so that Seconds is never too small. It is too
	// large by two looks at most.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Seconds from Begin to End.
	Seconds float64 `json:"seconds"`
	// LeastSeconds from the end of the first failed look to the begin of the last: for so long it was out at least.
	LeastSeconds float64 `json:"leastSeconds"`
	// Open tells that the path was still out when the probes ended, or when the looks at it did.
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

// Unobserved is a time in which nobody looked.
type Unobserved struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds float64   `json:"seconds"`
	Why     string    `json:"why"`
}
