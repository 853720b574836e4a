package faults

import (
	"strings"
	"time"
)

// Lengths of faults.
type Lengths struct {
	// Outage of the API at the first step of each sort, and at the others. An outage longer than a manager's renew deadline makes it give up its leases.
	Outage, ShortOutage time.Duration
	// Access is for how long a host is out of reach; Off, for how long a rebooted host is off; Full, for how long at most its disk is full.
	Access, Off, Full time.Duration
}

// Whole are the lengths of the whole matrix.
var Whole = Lengths{Outage: time.Minute, ShortOutage: 12 * time.Second, Access: 10 * time.Second, Off: 4 * time.Second, Full: 5 * time.Second}

// EachStep chooses one kind of fault for every step: a kill at each of the three points, another one at a point that changes from step to step. What needs a
// host is left out where the step has none.
func EachStep(kind Kind, l Lengths) func(step, host string) []Fault {
	seen := map[string]bool{}
	n := 0
	return func(step, host string) []Fault {
		if kind == Killed {
			return []Fault{{Kind: kind, Point: Before, Step: step, Host: host}, {Kind: kind, Point: During, Step: step, Host: host}, {Kind: kind, Point: After, Step: step, Host: host}}
		}
		f := Fault{Kind: kind, Point: During, Step: step, Host: host}
		switch kind {
		case AccessLost, DiskFull, Rebooted:
			if host == "" {
				return nil
			}
			f.For = map[Kind]time.Duration{AccessLost: l.Access, DiskFull: l.Full, Rebooted: l.Off}[kind]
		case APIGone:
			f.For = l.ShortOutage
			if sort := sortOf(step); !seen[sort] {
				seen[sort], f.For = true, l.Outage
			}
		case ClockWrong:
			f.For = []time.Duration{2 * time.Hour, -3 * time.Hour}[n%2]
		default:
		}
		if n++; n%3 == 0 {
			f.Point = Before
		}
		return []Fault{f}
	}
}

// sortOf is what steps of one sort share: their ID without the host, or the first word of an object's.
func sortOf(step string) string {
	if before, _, ok := cutLast(step, "@"); ok {
		return before
	}
	word, _, _ := strings.Cut(step, "/")
	return word
}

// InTurn gives the faults of a list to the steps that they name; a step that nothing is for goes undisturbed.
func InTurn(list []Fault) func(step, host string) []Fault {
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
