package kubelet

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Range is a span of delays; one is drawn for each use.
type Range struct{ Min, Max time.Duration }

// Profile is every delay of the simulated kubelet. What the package promises holds in all profiles; only the times
// differ.
type Profile struct {
	Name string

	// FileCheck is the period of the full rescan of the manifest directory. Only a rescan notices that a manifest became
	// invalid.
	FileCheck time.Duration
	// InvalidAfter is how long a manifest must have been invalid for a rescan to give up its pod. It keeps frequent
	// rescans from punishing a moment that a real kubelet, which looks every 20 s, almost never sees.
	InvalidAfter time.Duration
	// StopDelay is the time from a changed manifest to the SIGTERM of the old pod.
	StopDelay Range
	// MaxGrace caps the pod's terminationGracePeriodSeconds; zero means no cap.
	MaxGrace time.Duration
	// StartGap is the time from the end of the old pod to the start of its successor. The mirror pod shows the old pod,
	// Running and Ready, until then.
	StartGap Range
	// StatusDelay is the time from a change of a pod to its visibility in the API.
	StatusDelay time.Duration
	// MirrorSync is the period in which mirror pods are compared with the API although nothing changed here.
	MirrorSync time.Duration

	// ExitSeen is the time from the end of a container to the reaction to it.
	ExitSeen time.Duration
	// BackOff is the delay of the second restart in a row, doubled for each further one up to BackOffMax. The first is not
	// delayed.
	BackOff, BackOffMax time.Duration
	// BackOffReset is how long a container must have run for its back-off to be forgotten.
	BackOffReset time.Duration
	// SetupRetry is the period in which a container is tried again that could not be started, for want of a file or a
	// program.
	SetupRetry time.Duration
	// ProbeMax caps the initial delay and the period of probes; zero means no cap. It does not shorten the time that a
	// probe may go on to fail before the container is restarted, so that a short profile has no restarts that a long one
	// would not have.
	ProbeMax time.Duration

	// NodeStatus is the period of the node's status updates, LeaseRenew that of its lease renewals.
	NodeStatus, LeaseRenew time.Duration
	// ServiceRestart is the time after which the supervisor starts a kubelet again that ended with an error.
	ServiceRestart time.Duration
}

// Short returns the profile for tests and demonstrations: the order of events of a real kubelet, in about a tenth of
// its time.
func Short() Profile {
	return Profile{
		Name:           "short",
		FileCheck:      time.Second,
		InvalidAfter:   500 * time.Millisecond,
		StopDelay:      Range{20 * time.Millisecond, 60 * time.Millisecond},
		MaxGrace:       1500 * time.Millisecond,
		StartGap:       Range{500 * time.Millisecond, 900 * time.Millisecond},
		StatusDelay:    50 * time.Millisecond,
		MirrorSync:     time.Second,
		ExitSeen:       100 * time.Millisecond,
		BackOff:        time.Second,
		BackOffMax:     10 * time.Second,
		BackOffReset:   30 * time.Second,
		SetupRetry:     500 * time.Millisecond,
		ProbeMax:       500 * time.Millisecond,
		NodeStatus:     5 * time.Second,
		LeaseRenew:     2 * time.Second,
		ServiceRestart: time.Second,
	}
}

// Measured returns the profile with the delays that were measured on a kubelet v1.30 and v1.36: an edited
// kube-controller-manager is gone after 0.2-0.7 s, back after 10-15 s and Ready after 21-30 s; a kube-apiserver takes
// its 30 s of grace before that.
func Measured() Profile {
	return Profile{
		Name:           "kubelet",
		FileCheck:      20 * time.Second,
		InvalidAfter:   time.Second,
		StopDelay:      Range{200 * time.Millisecond, 600 * time.Millisecond},
		StartGap:       Range{9900 * time.Millisecond, 13800 * time.Millisecond},
		StatusDelay:    900 * time.Millisecond,
		MirrorSync:     2 * time.Second,
		ExitSeen:       time.Second,
		BackOff:        10 * time.Second,
		BackOffMax:     5 * time.Minute,
		BackOffReset:   10 * time.Minute,
		SetupRetry:     5 * time.Second,
		NodeStatus:     10 * time.Second,
		LeaseRenew:     10 * time.Second,
		ServiceRestart: 10 * time.Second,
	}
}

// dice draws delays; the same seed and host give the same sequence.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed uint64, host string) *dice {
	h := fnv.New64a()
	_, _ = h.Write([]byte(host)) // a hash never returns an error
	return &dice{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

func (d *dice) draw(r Range) time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return r.Min + time.Duration(d.rng.Int64N(int64(r.Max-r.Min)))
}

// Profiles lists the profiles that have a name, in the order in which they are offered.
func Profiles() []Profile { return []Profile{Short(), Measured()} }

// ProfileByName finds the delays that a flag names.
func ProfileByName(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("profile %q is not known: choose from %q", name, names)
}
