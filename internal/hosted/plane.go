package hosted

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// Part is a part of a hosted migration, which has a plan and a journal of its own.
type Part string

// The parts, in order.
const (
	// Handover moves the loops to the cloud-controller-manager. Machines and volumes go on as they were.
	Handover Part = "handover"
	// Finish removes the in-tree provider from the control plane, which may only be when every machine's kubelet is
	// external.
	Finish Part = "finish"
	// Install gives a control plane that was external from the start its cloud-controller-manager. It has the journal
	// of Handover, in whose place it stands.
	Install Part = v1.PartInstall
)

// Clients reach one API server.
type Clients struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Scrape asks a manager in a pod for its gauges at an address (IP:port); an error means that what it runs is unknown.
// Component is kube-controller-manager or cloud-controller-manager.
type Scrape func(ctx context.Context, component, pod, address string) (v1.Manager, error)

// Plane is the control plane of one cluster that the seed hosts. Its methods may be called one after another; Run and
// Rollback hold the lock of the cluster, the others change nothing and hold none.
type Plane struct {
	// Name of the cluster, for sentences.
	Name string
	// Namespace in the seed, cluster-<name> as a rule.
	Namespace string
	// Seed is the cluster that hosts, User the one that is migrated.
	Seed, User Clients
	// Scrape reaches the managers' pods; NewScraper makes one that connects to the pods' addresses.
	Scrape Scrape
	// Options of the plan: Image, Env, Strategy and ClusterName may be empty, and are chosen then. They count for a
	// plan that is made, not for one that was begun.
	Options v1.Options
	// Provider as --cloud-provider names it: aws, azure, gce, openstack, vsphere. Empty means what controller-manager
	// was started with.
	Provider string
	// Accept are findings that may be: code -> reason.
	Accept map[string]string
	// Confirmed is what a person confirmed of Handover's plan (Confirmation); empty for nothing. Run does not begin
	// Handover with another plan; what was begun goes on by its journal.
	Confirmed string
	// Pinned is the SHA-256 (Sum) of the steps that Run and Rollback may execute, whether they are started or
	// continued. It is empty for any steps.
	Pinned string
	// Ledger keeps which plans were begun; nil where a person approves what is gone on with.
	Ledger Ledger
	// Holder names who holds the lock, for another process that finds it held; empty for migrate.Holder of this
	// process.
	Holder string
	// StealLock takes the lock from a holder that is certainly dead.
	StealLock bool
	// Ended reports whether a holder of the lock can change nothing any longer, so that its lock is taken at once; nil
	// if none can.
	Ended func(holder string) bool
	// Progress notes what Gather waits for; nil notes nothing.
	Progress *collect.Progress
	// Tell receives for how long another holder's lock is observed; nil without a receiver.
	Tell func(string)
	// Objectives are those of KEP-2395, which Run and Rollback judge and are paused by; nil where none are judged.
	// IgnoreObjectives has them counted alone.
	Objectives       *objectives.Watch
	IgnoreObjectives bool
	// ToolVersion stands in snapshots and plans.
	ToolVersion string
	// Memory bounds, in bytes, what a run keeps of the cluster: the snapshot, and the journal. The usual bound, for the
	// largest supported cluster, when 0. The operator's memory is for all clusters.
	Memory int64
	// Clock is the real one when nil.
	Clock clock.Clock
	// Boot is the clock by which the lock runs out: the time since the boot, which counts while the machine is
	// suspended. Nil is package boottime's. Only a test with a Clock of its own has another.
	Boot func() time.Duration
	// Hook is called at named points of a step ("before", "during", "after"); tests end a run there.
	Hook func(point, step string)
}

// BlockedError says that the checks refuse the migration. Nothing was changed.
type BlockedError struct{ Report v1.CheckReport }

// UnplannedError says that no plan can be made, and what to do about it. Nothing was changed.
type UnplannedError struct {
	Part Part
	Err  error
}

// LockedError says that another process is changing this cluster.
type LockedError = lock.HeldError

// StaleError says that the control plane is no longer as it was when the plan was made. A plan of which no step was
// begun is made again by the next Run.
type StaleError = step.StaleError

// VerifyError says that a step was executed and its effect did not show. The next Run looks again, and goes on when
// it shows.
type VerifyError = step.VerifyError

// Errors that Run and Rollback return next to the types above.
var (
	// ErrInterrupted: stop was closed, and the step under way was finished first.
	ErrInterrupted = step.ErrInterrupted
	// ErrNothingBegun: there is no journal to go back from.
	ErrNothingBegun = journal.ErrNoJournal
	// ErrTooLate: the migration cannot be rolled back any longer, because its Finish was begun.
	ErrTooLate = errors.New("the in-tree provider was removed from the control plane: there is no way back")
	// ErrRollback: a rollback was begun and has to be finished with Rollback before anything else.
	ErrRollback = errors.New("a rollback was begun and is not finished: go on with it")
)

// Owner is who runs a loop.
type Owner struct {
	// Component is kube-controller-manager or cloud-controller-manager; empty when no manager runs the loop.
	Component string `json:"component,omitempty"`
	// Pod is its name in the seed.
	Pod string `json:"pod,omitempty"`
	// ByLease reports whether the pod does not say which loops it runs, as managers before 1.26 and the one of Azure do
	// not. It holds its lease, and its flags leave the loop on. Such an owner may run nothing, when what it is
	// configured by is wrong.
	ByLease bool `json:"byLease,omitempty"`
	// Also are further pods (component/pod) that run the same loop now. That must never be.
	Also []string `json:"also,omitempty"`
}

// Owners says who runs the cloud loops at one moment.
type Owners struct {
	Time time.Time `json:"time"`
	// Loops maps service, route, cloud-node-lifecycle (the names that LoopNames lists) to their owner. It has no loop
	// that this cluster lacks. Routes may be the network's and not the cloud's, and not every provider has load
	// balancers.
	Loops map[string]Owner `json:"loops"`
	// Managers are the pods that were asked, with what they said; Error of one whose answer is unknown.
	Managers []v1.Manager `json:"managers,omitempty"`
	// Leases of the managers in the user cluster.
	Leases []v1.Lease `json:"leases,omitempty"`
	// Unknown are sentences about what could not be looked at. While there are any, an owner may be missing in Loops,
	// and it is not proven that no manager runs a loop.
	Unknown []string `json:"unknown,omitempty"`
}

// LoopNames are the cloud loops as Owners names them.
func LoopNames() []string { return []string{"service", "route", "cloud-node-lifecycle"} }
