// Package bench decides how the cloud-controller-manager of this repository is compared with upstream's: the same
// kube-apiserver, the same simulated cloud and the same provider, in which one process after the other does the same
// work.
//
//	scenario x implementation x size x throttle --> world (etcd, kube-apiserver, cloud) --> managers --> Result --> table, JSON, chart
//
// A world is used for one run of a scenario and is gone afterwards. What is counted is what the cloud and the API
// server have seen from a process: the managers are told apart by their credentials and by the name that they call the
// cloud with.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options say what is measured. The zero value measures everything.
type Options struct {
	// Manager is the path of the program sim-cloud-controller-manager.
	Manager string
	// Scenarios are the names of the scenarios to run. Default: all.
	Scenarios []string
	// Implementations are the names of the implementations to compare. Default: all that a scenario is for.
	Implementations []string
	// Nodes and Services replace a scenario's own sizes. Each number of nodes is measured by itself.
	Nodes    []int
	Services int
	// Throttle says with which clouds to measure: on, off, or both, where a scenario tries both. Default: both.
	Throttle string
	// Limit ends a measurement that takes longer; it is reported with what was done by then. Default: 5 minutes.
	Limit time.Duration
	// Window is for how long a steady state is watched. Default: 1 minute.
	Window time.Duration
	// Rounds is how often a handover is measured. Default: 5.
	Rounds int
	// Version is that of kube-apiserver. Default: that of package apiserver.
	Version string
	// Dir is where the worlds are made. They are removed unless they failed. Default: the system's directory for temporary
	// files.
	Dir string
	// Progress is told what happens. Default: nobody.
	Progress io.Writer

	flags  []string // further flags of every manager, for tests
	pauses pauses   // tests have shorter ones
}

// pauses are how long things are waited for of which nobody says that they are over.
type pauses struct {
	start   time.Duration // how quiet a manager is that has started
	idle    time.Duration // and one that has done all that a change has caused
	standby time.Duration // until a process that serves has seen who leads
	between time.Duration // from one node to the next of those that are added one by one
}

// defaultPauses: upstream's queue waits 5 s before it tries a load balancer again, and nobody waits longer than 4.4 s
// between two looks at a lease.
var defaultPauses = pauses{
	start:   3 * time.Second,
	idle:    10 * time.Second,
	standby: 5 * time.Second,
	between: 500 * time.Millisecond,
}

// How a cloud is throttled.
const (
	ThrottleOn   = "on"
	ThrottleOff  = "off"
	ThrottleBoth = "both"
)

func (o Options) withDefaults() (Options, error) {
	if o.Limit == 0 {
		o.Limit = 5 * time.Minute
	}
	if o.Window == 0 {
		o.Window = time.Minute
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Throttle == "" {
		o.Throttle = ThrottleBoth
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.pauses == (pauses{}) {
		o.pauses = defaultPauses
	}
	return o, o.validate()
}

func (o Options) validate() error {
	var errs []error
	if o.Manager == "" {
		errs = append(errs, errors.New("the path of sim-cloud-controller-manager is empty"))
	}
	known := func(what string, asked, all []string) {
		for _, name := range asked {
			if !slices.Contains(all, name) {
				errs = append(errs, fmt.Errorf("%s %q is none of %s", what, name, strings.Join(all, ", ")))
			}
		}
	}
	known("scenario", o.Scenarios, ScenarioNames())
	known("implementation", o.Implementations, ImplementationNames())
	known("throttle", []string{o.Throttle}, []string{ThrottleOn, ThrottleOff, ThrottleBoth})
	if slices.ContainsFunc(o.Nodes, func(n int) bool { return n < 1 }) {
		errs = append(errs, fmt.Errorf("numbers of nodes are %v; each has to be 1 at least", o.Nodes))
	}
	if o.Services < 0 || o.Limit < 0 || o.Window < 0 || o.Rounds < 0 {
		errs = append(errs, errors.New("a negative size, limit, window or number of rounds was asked for"))
	}
	return errors.Join(errs...)
}

// Run measures, one run after the other, and returns the results so far also when a run fails. Report, if it is not
// nil, gets the results of each run as soon as they are there.
func Run(ctx context.Context, o Options, report func([]Result)) ([]Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("reading the options of the bench: %w", err)
	}
	var all []Result
	var errs []error
	for _, p := range plan(o) {
		fmt.Fprintf(o.Progress, "%s\n", p)
		results, err := p.run(ctx, o)
		all = append(all, results...)
		if report != nil {
			report(all)
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		if err != nil { // the other runs tell something all the same
			errs = append(errs, fmt.Errorf("measuring %s: %w", p, err))
			fmt.Fprintf(o.Progress, "  failed: %v\n", err)
		}
	}
	return all, errors.Join(errs...)
}

// setup is one run to be made.
type setup struct {
	scenario       scenario
	implementation implementation
	nodes          int
	services       int
	throttled      bool
}

// String tells people which run it is.
func (s setup) String() string {
	text := fmt.Sprintf("%s, %s, %d nodes", s.scenario.name, s.implementation.name, s.nodes)
	if s.services > 0 {
		text += fmt.Sprintf(", %d services", s.services)
	}
	if s.throttled {
		text += ", throttled"
	}
	return text
}

// plan lists the runs: implementations side by side, so that what is compared is measured within minutes of each other.
func plan(o Options) []setup {
	var out []setup
	for _, s := range scenarios {
		if len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, s.name) {
			continue
		}
		sizes := s.nodes
		if len(o.Nodes) > 0 {
			sizes = o.Nodes
		}
		services := s.services
		if services > 0 && o.Services > 0 {
			services = o.Services
		}
		for _, nodes := range sizes {
			for _, throttled := range s.throttles(o.Throttle) {
				for _, i := range implementations {
					if s.compares(i) && (len(o.Implementations) == 0 || slices.Contains(o.Implementations, i.name)) {
						out = append(out, setup{s, i, nodes, services, throttled})
					}
				}
			}
		}
	}
	return out
}
