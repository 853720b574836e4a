package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/podreason"
)

// serialized is a function that is told of events, for callers that are not safe for concurrent use.
func serialized(tell func(Event)) func(Event) {
	var mu sync.Mutex
	return func(ev Event) {
		mu.Lock()
		defer mu.Unlock()
		tell(ev)
	}
}

// Options of an Engine.
type Options struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Seed hosts the control plane; nil for a cluster that runs its own.
	Seed *Seed
	// Hosts whose files and processes steps act on.
	Hosts []hostaccess.Host
	// HostsAreNodes reports whether the hosts are those of the cluster's Nodes and have their names, and no flag named
	// them.
	HostsAreNodes bool
	// NamedHosts are those that the operator says are of the control plane.
	NamedHosts []string
	// NodeNames maps a host's name to its Node's.
	NodeNames map[string]string
	// Scrape asks a manager on a host, or in a pod of the seed, for its gauges; an error means unknown.
	Scrape func(ctx context.Context, component, host, address string) (v1.Manager, error)
	// Version asks a component on a host for the version of its program. It is empty when the component does not say it,
	// and an error when it does not answer. Steps that change a version prove it by this; nil leaves that to mirror pods.
	Version func(ctx context.Context, component, host, address string) (string, error)
	// ToolVersion of this program goes into the journal with what it writes; empty leaves the one that is there.
	ToolVersion string
	// Before is the snapshot from before the migration, that verifications compare with.
	Before *v1.Snapshot
	// Live is a snapshot of the cluster as it is now. The places of what steps change are read from it, and never from a
	// plan or a journal. Nil for Before.
	Live *v1.Snapshot
	// Compare says in sentences what differs from before the migration without an explanation, and what could not be
	// compared. It is nil if the whole cluster is not read. Steps that verify ask it when all that they look at themselves
	// is right.
	Compare func(ctx context.Context) (problems, unknown []string)
	// Objectives are judged before each step: the run is paused where they are breached. Nil where none are judged.
	Objectives *objectives.Watch
	// Later are the IDs of the steps that this run leaves for another one; see planstep.ForNodes.
	Later map[string]bool
	// Unjudged lets a test execute steps that no migration has.
	Unjudged bool
	// Tell is called for everything a watching operator wants to know; nil for silence.
	Tell func(Event)
	// Extend makes the lock on the cluster last as long as its only API server may be away, until the returned function is
	// called. It is nil without a lock.
	Extend func(ctx context.Context, away time.Duration) (restore func(), err error)
	// ReadLocal reads a file of this machine that a step copies to hosts; os.ReadFile when nil.
	ReadLocal func(path string) ([]byte, error)
	// Clock is the real one when nil.
	Clock clock.Clock
	// Hook is called at named points of a step ("before", "during", "after"); tests kill the process there.
	Hook func(point, step string)
}

// EventKind says what happened to a step.
type EventKind string

// Kinds of events. A step that ended has its result as the kind.
const (
	EventStarted  EventKind = "started"
	EventProgress EventKind = "progress"
	// EventWaiting comes with each look at what is waited for.
	EventWaiting     EventKind = "waiting"
	EventPaused      EventKind = "paused"
	EventResumed     EventKind = "resumed"
	EventDeferred    EventKind = "deferred"
	EventDone                  = EventKind(v1.StepResultDone)
	EventAlreadyDone           = EventKind(v1.StepResultAlreadyDone)
	EventSkipped               = EventKind(v1.StepResultSkipped)
	EventFailed                = EventKind(v1.StepResultFailed)
	EventInterrupted           = EventKind(v1.StepResultInterrupted)
)

// WaitingPrefix begins the message of an EventProgress that says at once what is waited for.
const WaitingPrefix = "waiting: "

// Event is something that happened to a step.
type Event struct {
	Time    time.Time
	Step    v1.Step
	Kind    EventKind
	Message string
	// Number of the step in the plan, from 1, and how many there are.
	Number, Total int
}

// Env is what a step is executed in: clients, hosts, the journal, the clock, and what this process has learned on its
// way.
type Env struct {
	Options
	HostsByName map[string]hostaccess.Host
	Journal     *journal.Journal
	Plan        *v1.Plan
	LeaseClient handover.Leases
	Numbers     map[string]int
	// Stopping is closed when the operator asked to stop.
	Stopping <-chan struct{}
	// NodeBudget counts the nodes under change.
	NodeBudget NodeBudget
	// Kinds of steps, and what executes each.
	Kinds map[v1.StepKind]func(*Env) Executor
	// Said remembers what was said once and is not said again.
	Said map[string]bool
	// UnreachableHosts are the hosts that were out of reach.
	UnreachableHosts *Reachability
	// ExcludedHosts are the hosts that were excluded from the migration.
	ExcludedHosts []hostaccess.Host
	// Proofs are what this process has seen of holders itself.
	Proofs *Proofs
	// Pods says why pods that are waited for do not run.
	Pods *podreason.Reader
	// StaleLeases are the leases that steps have looked at without success.
	StaleLeases map[string]*handover.Silence
}

// maxLocal is how long a file may be that is copied to hosts, in bytes: several times the largest image credential
// provider.
const maxLocal = 512 << 20

// readLocal reads a regular file of this machine. A plan may come from the cluster and name a pipe or a device, which
// would be read for ever.
func readLocal(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	case info.Size() > maxLocal:
		return nil, fmt.Errorf("%s has %d bytes, and a file that is copied to hosts has at most %d", name, info.Size(), maxLocal)
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// NewEnv returns the environment of steps that write what they do into the journal.
func NewEnv(o Options, j *journal.Journal) *Env {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Tell == nil {
		o.Tell = func(Event) {}
	}
	if o.ReadLocal == nil {
		o.ReadLocal = readLocal
	}
	if o.Hook == nil {
		o.Hook = func(string, string) {}
	}
	j.WrittenBy(o.ToolVersion)
	o.Tell = serialized(o.Tell)
	without := slices.DeleteFunc(
		slices.Clone(o.Hosts),
		func(h hostaccess.Host) bool { return !journal.IsExcluded(j.Doc(), h.Name()) },
	)
	o.Hosts = journal.Staying(j.Doc(), o.Hosts)
	e := &Env{
		Options:          o,
		Journal:          j,
		UnreachableHosts: &Reachability{},
		Proofs:           newProofs(),
		Pods:             &podreason.Reader{Clock: o.Clock, NoNodes: o.Seed != nil},
		ExcludedHosts:    without,
		HostsByName:      map[string]hostaccess.Host{},
		Numbers:          map[string]int{},
		Said:             map[string]bool{},
	}
	for _, h := range o.Hosts {
		e.HostsByName[h.Name()] = h
	}
	e.LeaseClient = handover.Leases{Client: o.Kube.CoordinationV1().Leases(component.Namespace), Now: o.Clock.Now}
	return e
}

// ErrInterrupted is returned when the operator asked to stop and the current step was finished first.
var ErrInterrupted = errors.New("interrupted between two steps")

// Report reports an event of a step to the operator.
func (e *Env) Report(s v1.Step, kind EventKind, message string) {
	s.ID, _, _ = strings.Cut(s.ID, trust.MovingInfix) // a part of the step that an onlooker knows
	e.Tell(
		Event{
			Time:    e.Clock.Now(),
			Step:    s,
			Kind:    kind,
			Message: message,
			Number:  e.Numbers[s.ID],
			Total:   len(e.Plan.Steps),
		},
	)
}

// CloudProvider is the in-tree one that moves; plans of the first version did not say.
func (e *Env) CloudProvider() string {
	if e.Plan.Cluster.Provider == "" {
		return cloudprovider.AWS
	}
	return e.Plan.Cluster.Provider
}

// Location is where the engine's run is kept.
func (e *Env) Location() journal.ObjectLocation {
	if e.Journal != nil && e.Journal.Home.Kube != nil {
		return e.Journal.Home
	}
	return journal.InCluster(e.Kube)
}

// IsWorker reports whether a host had no part of the control plane before the migration. One that is not known may
// have. One that has a part of it now is none: its earlier state is in a ConfigMap.
func (e *Env) IsWorker(name string) bool {
	isControlPlane := func(h v1.Host) bool { return h.Name == name && h.ControlPlane }
	if e.Before == nil || slices.ContainsFunc(trust.BeforeHosts(e.Live), isControlPlane) {
		return false
	}
	if slices.ContainsFunc(e.Before.Managers, func(m v1.Manager) bool { return m.Host == name }) {
		return false // it ran a manager of a Deployment, which has no manifest on the host
	}
	return slices.ContainsFunc(
		e.Before.Hosts,
		func(h v1.Host) bool { return h.Name == name && !h.ControlPlane && !h.APIOnly },
	)
}

// NodeOf is the name of a host's node.
func (e *Env) NodeOf(host string) string {
	if name := e.NodeNames[host]; name != "" {
		return name
	}
	if e.Before != nil {
		for _, h := range e.Before.Hosts {
			if h.Name == host && h.NodeName != "" {
				return h.NodeName
			}
		}
	}
	return host
}

// StepByID finds a step of the migration or of its rollback by its ID.
func (e *Env) StepByID(id string) (v1.Step, bool) {
	doc := e.Journal.Doc()
	for _, s := range append(slices.Clone(doc.Plan.Steps), journal.RollbackSteps(doc)...) {
		if s.ID == id {
			return s, true
		}
	}
	return v1.Step{}, false
}
