// Package faults decides what is done to a migration, at which point of which step, to see whether it comes to its end
// all the same, and what is written down about that. A campaign runs one command of the product again and again, lets
// one thing go wrong at a time, and goes on until the command has come to its end; a table tells for each step and
// fault how long that took and how often the command had to be run again.
//
//	command ──"during:STEP"──> campaign ──inject──> cluster
//	   │   <──"go on" | SIGKILL──   │   ──heal, after a while──>
//	   └── ends with an error ──> run it again
//
// It knows nothing of the cluster but what Cluster says: a lab of processes and one of real hosts are treated alike.
package faults

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind string

// What can go wrong. The first five are of the cluster, the next seven of the machine that the command runs on. The
// last six are of what managers depend on.
const (
	Killed     Kind = "killed"      // the command dies of SIGKILL
	APIGone    Kind = "API gone"    // nobody reaches an API server for a while
	AccessLost Kind = "access lost" // the command cannot reach the step's host, while everything on it goes on
	DiskFull   Kind = "disk full"   // no byte is free on the step's host
	Rebooted   Kind = "rebooted"    // everything on the step's host ends at once, and is started again after a while

	Interrupted      Kind = "Ctrl-C"
	InterruptedTwice Kind = "Ctrl-C twice"
	Terminated       Kind = "SIGTERM"
	HungUp           Kind = "SIGHUP"
	PipeBroken       Kind = "broken pipe"    // nobody reads standard error any longer
	LogDiskFull      Kind = "state dir full" // the ownership log of this machine cannot be written
	ClockWrong       Kind = "clock jumped"   // the command goes on under a clock that is hours off

	ManagersFrozen  Kind = "managers frozen"  // managers are stopped and continued
	APIFrozen       Kind = "API frozen"       // every API server is stopped and continued
	CloudThrottled  Kind = "cloud throttled"  // the cloud lets few calls of managers pass
	CloudFailing    Kind = "cloud failing"    // the cloud answers managers with 5xx
	CloudGone       Kind = "cloud gone"       // the cloud does not answer managers
	InstanceStopped Kind = "instance stopped" // the machine of the step's host is off, and the cloud says so
)

// Points of a step.
const (
	Before = "before" // nothing of it was done
	During = "during" // what it is about to do is written down
	After  = "after"  // it is done and written down
)

// Heal takes a fault away.
type Heal func(ctx context.Context) error

// ErrNotHere is what a Cluster returns for a fault that it cannot make.
var ErrNotHere = errors.New("this cluster cannot make this fault")

// Cluster is what a campaign acts upon.
type Cluster interface {
	// Name heads the table.
	Name() string
	// Hosts are the names of the machines, as the IDs of steps end in them.
	Hosts() []string
	// Command is the product's command line, built with the tag faults, with what it needs to reach this cluster. It is
	// not started.
	Command(args ...string) *exec.Cmd

	// StopAPI makes every API server unreachable.
	StopAPI(ctx context.Context) (Heal, error)
	// LoseAccess cuts the command off from a host, for example by an eviction of the pod through which it acts there.
	LoseAccess(ctx context.Context, host string) (Heal, error)
	// FillDisk leaves no byte free where the command writes on a host.
	FillDisk(ctx context.Context, host string) (Heal, error)
	// Reboot ends everything on a host at once; Heal boots it.
	Reboot(ctx context.Context, host string) (Heal, error)
	// How says in a sentence how a fault is made here.
	How(kind Kind) string

	// Up waits until the API and every host are there again.
	Up(ctx context.Context) error
	// Watch starts to look for what must not happen at any moment: two owners, writes of two managers to the cloud.
	Watch(ctx context.Context) (Judge, error)
	// Facts are what an undisturbed run and a disturbed one must leave alike, a line each, sorted: files of hosts,
	// objects, the cloud.
	Facts(ctx context.Context) ([]string, error)
}

// Disturbable is a Cluster in which what managers depend on goes wrong, too.
type Disturbable interface {
	// Disturb makes one of OfTheSurroundings. Host is the step's, and empty where it has none.
	Disturb(ctx context.Context, kind Kind, host string) (Heal, error)
}

// Judge ends a watch and says what it saw.
type Judge func() ([]Problem, error)

// Problem is something that must not happen, and when it did.
type Problem struct {
	From, To time.Time
	Text     string
}

// Fault is one thing that goes wrong at one point of one step.
type Fault struct {
	Kind  Kind
	Point string
	Step  string
	// Host of the step; empty where it has none.
	Host string
	// For is how long it lasts; a kill and a signal have no length.
	For time.Duration
}

// hostOf finds the host in the ID of a step, which ends in @HOST; empty when there is none.
func hostOf(step string, hosts []string) string {
	_, name, ok := cutLast(step, "@")
	if !ok {
		return ""
	}
	for _, h := range hosts {
		if h == name {
			return h
		}
	}
	return ""
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// belongs reports whether a point is of a step, or of what it does in between, whose ID goes on behind the step's.
func belongs(at, step string) bool { return at == step || strings.HasPrefix(at, step+"/") }
