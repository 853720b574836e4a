package faults

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Lengths of faults.
type Lengths struct {
	// Outage of the API at the first step of each sort, and at the others. An outage longer than a manager's renew
	// deadline makes it give up its leases.
	Outage, ShortOutage time.Duration
	// Access is for how long a host is out of reach; Off, for how long a rebooted host is off; Full, for how long at most
	// its disk is full.
	Access, Off, Full time.Duration
	// Frozen is for how long managers are stopped: a lease may expire in it, or not. Cloud is for how long the cloud is
	// not as it should be.
	Frozen, Cloud time.Duration
}

// Whole are the lengths of the whole matrix.
var Whole = Lengths{
	Outage:      time.Minute,
	ShortOutage: 8 * time.Second,
	Access:      5 * time.Second,
	Off:         3 * time.Second,
	Full:        5 * time.Second,
	Frozen:      12 * time.Second,
	Cloud:       10 * time.Second,
}

// Kinds that happen at every step: a kill at each point of it, one of each of the others where the step has a host to
// have it on.
var (
	OfTheCluster  = []Kind{APIGone, Rebooted, AccessLost, DiskFull}
	OfTheOperator = []Kind{Interrupted, ClockWrong, HungUp, InterruptedTwice, PipeBroken, Terminated, LogDiskFull}
)

// OfTheSurroundings are kinds that happen at random only: what managers depend on, and the managers themselves.
var OfTheSurroundings = []Kind{ManagersFrozen, APIFrozen, CloudThrottled, CloudFailing, CloudGone, InstanceStopped}

// KilledEverywhere kills the command before, during and after every step.
func KilledEverywhere(step, host string) []Fault {
	var out []Fault
	for _, point := range []string{Before, During, After} {
		out = append(out, Fault{Kind: Killed, Point: point, Step: step, Host: host})
	}
	return out
}

// InTurns gives every step one of the kinds, the next one to the next step; turn shifts them, so that as many campaigns
// as there are kinds let each happen at every step. A step that has no host gets, in the first turn, what needs none.
// The point is most often the one in the middle of a step.
func InTurns(kinds []Kind, turn int, l Lengths) func(step, host string) []Fault {
	seen := map[string]bool{}
	n, lone := 0, 0
	return func(step, host string) []Fault {
		var kind Kind
		switch fit := without(kinds, host == ""); {
		case len(fit) == 0 || host == "" && turn > 0:
			return nil
		case host == "":
			kind = fit[lone%len(fit)]
			lone++
		default:
			kind = fit[(n+turn)%len(fit)]
			n++
		}
		f := Fault{Kind: kind, Point: During, Step: step, Host: host, For: l.of(kind, n)}
		if sort := sortOf(step); kind == APIGone && host != "" && !seen[sort] {
			seen[sort], f.For = true, l.Outage
		}
		if (n+lone)%4 == 0 {
			f.Point = Before
		}
		return []Fault{f}
	}
}

// of is how long a fault lasts.
func (l Lengths) of(kind Kind, n int) time.Duration {
	switch kind {
	case APIGone, APIFrozen:
		return l.ShortOutage
	case ManagersFrozen:
		return l.Frozen
	case CloudThrottled, CloudFailing, CloudGone:
		return l.Cloud
	case AccessLost:
		return l.Access
	case DiskFull:
		return l.Full
	case Rebooted, InstanceStopped:
		return l.Off
	case ClockWrong:
		return []time.Duration{2 * time.Hour, -3 * time.Hour}[n%2]
	default:
		return 0
	}
}

// without leaves out the kinds that need a host where there is none.
func without(kinds []Kind, lone bool) []Kind {
	var out []Kind
	for _, k := range kinds {
		if !lone || k != AccessLost && k != DiskFull && k != Rebooted && k != InstanceStopped {
			out = append(out, k)
		}
	}
	return out
}

// sortOf is what steps of one sort share: their ID without the host, or the first word of an object's.
func sortOf(step string) string {
	if before, _, ok := cutLast(step, "@"); ok {
		return before
	}
	word, _, _ := strings.Cut(step, "/")
	return word
}

// These gives the faults of a list to the steps that they name; a step that nothing is for goes undisturbed.
func These(list []Fault) func(step, host string) []Fault {
	return func(step, host string) []Fault {
		var out []Fault
		for _, f := range list {
			if f.Step == step {
				f.Host = host
				out = append(out, f)
			}
		}
		return out
	}
}

// Random gives a share of the steps a fault: of any kind, at a point and for a time of its own. A seed gives a step the
// same fault each time, in whatever order the steps come.
func Random(seed uint64, share float64, l Lengths) func(step, host string) []Fault {
	kinds := slices.Concat([]Kind{Killed}, OfTheCluster, OfTheOperator, OfTheSurroundings)
	return func(step, host string) []Fault {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(step)) // it never fails
		random := rand.New(rand.NewPCG(seed, hash.Sum64()))
		if random.Float64() >= share {
			return nil
		}
		fit := without(kinds, host == "")
		f := Fault{Kind: fit[random.IntN(len(fit))], Point: During, Step: step, Host: host}
		f.For = l.of(f.Kind, random.IntN(2))
		if slices.Contains(OfTheCluster, f.Kind) || slices.Contains(OfTheSurroundings, f.Kind) {
			f.For = time.Duration(float64(f.For) * (0.5 + 1.5*random.Float64())) // from half as long to twice as long
		}
		switch {
		case f.Kind == Killed:
			f.Point = []string{Before, During, After}[random.IntN(3)]
		case random.IntN(3) == 0:
			f.Point = Before
		}
		return []Fault{f}
	}
}
