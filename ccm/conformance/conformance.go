// Package conformance decides whether our controllers do what those of k8s.io/cloud-provider do. Each scenario happens
// twice, to a cluster and a cloud in memory: once with upstream's controller, once with ours. Both are made by the
// constructor that a manager registers. What both called of the cloud, wrote to the API server, told as events and
// counted is compared.
//
//	Scenario --> World(upstream) --> Observed --\
//	        \--> World(ours)     --> Observed ---> Differences: none, or one that is meant and documented
//
// A scenario runs in a bubble of testing/synctest: time passes only when everything waits, so that an hour of nothing
// is nothing for certain.
package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Difference is one that is meant, as the table in "Change one import" of
// docs/explanation/cloud-controller-manager.md says it.
type Difference string

// The differences that are meant.
const (
	OneLifeOfTheProvider     Difference = "the provider is started once, under the first lease that is won, and ended after the last controller"
	CachesOfTheirOwn         Difference = "our controllers have caches of their own, filled on standby"
	WorkOnlyWithALease       Difference = "a lease and its work go together: no write or call without the lease, and no lease without work"
	NothingHoldsUpTheRest    Difference = "what hangs or fails does not hold up the rest: more workers by default, a call rate and a time limit for each call"
	ComparedWithWhatShouldBe Difference = "load balancers, routes and Nodes are compared with what they should be, and the cloud is called where they differ"
	CarefulDeletion          Difference = "a node is deleted after two looks, and not many at once"
)

// Differences are all differences that are meant.
var Differences = []Difference{
	OneLifeOfTheProvider, CachesOfTheirOwn, WorkOnlyWithALease, NothingHoldsUpTheRest, ComparedWithWhatShouldBe,
	CarefulDeletion,
}

// Scenario is something that happens to a cluster while a controller is at work.
type Scenario struct {
	// Name says what happens.
	Name string
	// Controller is the name under which the controller is registered, such as names.ServiceLBController.
	Controller string
	// Cloud changes the simulated cloud before the controller starts. A scenario without it is one for an author's
	// provider too.
	Cloud func(*Cloud)
	// Settings changes the manager's configuration.
	Settings func(*config.Config)
	// Gates are features that are on or off in both.
	Gates map[string]bool
	// Defaults has each library run with its own defaults, and not both with upstream's.
	Defaults bool
	// Before is what there is before the controller starts.
	Before []runtime.Object
	// Fails prepares failures before the controller starts.
	Fails func(*World)
	// Steps happen one after the other. Each is left a minute to be answered.
	Steps []func(*World)
	// Endless says that something fails for good, so that only whether a call was made is compared, and not how often.
	Endless bool
	// Triggers has the trigger of a route sync compared as well, and syncs that changed nothing.
	Triggers bool
	// Meant is the documented difference that the scenario shows; empty if both have to do the same.
	Meant Difference
	// Where is what may be different then, by the first words of what Differences say.
	Where []string
}

// Observed is what a controller did.
type Observed struct {
	// Changes are the calls that change the cloud, by what they are about, in order.
	Changes map[string][]string
	// Reads counts the other calls by their names.
	Reads map[string]int
	// Writes counts what changed an object in the API server, by object.
	Writes map[string]int
	// Objects are the Nodes and Services in the end.
	Objects map[string]runtime.Object
	// Events are the kinds of events by their objects, each once, of the reasons that upstream has. More are those of
	// other reasons.
	Events, More []string
	// Metrics are the series that both libraries have and that have counted.
	Metrics []string
}

// Result is how the two did in a scenario.
type Result struct {
	Scenario       Scenario
	Upstream, Ours Observed
	// Differences say what ours did otherwise; none if both did the same.
	Differences []string
}

// Run runs all scenarios with both libraries, each as a test of its own, and fails where ours does otherwise without
// that being meant. newProvider makes the provider of an author, once for each library and scenario. It is called
// within a bubble of testing/synctest, and so needs a cloud in memory. Scenarios that set up the simulated cloud are
// left out then. It is nil for the simulated cloud.
//
// Run it without the race detector: upstream's service controller has a data race, which fails a test by chance.
func Run(t *testing.T, scenarios []Scenario, newProvider func() cloudprovider.Interface) []Result {
	t.Helper()
	var results []Result
	for _, s := range scenarios {
		if newProvider != nil && (s.Cloud != nil || s.Meant != "") {
			continue
		}
		t.Run(s.Controller+"/"+s.Name, func(t *testing.T) {
			r := Compare(t, s, newProvider)
			results = append(results, r)
			switch {
			case s.Meant == "" && len(r.Differences) > 0:
				t.Errorf("ours does otherwise than upstream:\n%s", strings.Join(r.Differences, "\n"))
			case s.Meant != "" && len(r.Differences) == 0:
				t.Errorf("both do the same, but this is to be different: %s", s.Meant)
			case s.Meant != "":
				for _, other := range slices.DeleteFunc(slices.Clone(r.Differences), s.expectsDifference) {
					t.Errorf("ours does otherwise than upstream, and not only where it is meant to:\n%s", other)
				}
			}
		})
	}
	return results
}

// expectsDifference reports whether a difference is where it is meant to be.
func (s Scenario) expectsDifference(difference string) bool {
	return slices.ContainsFunc(s.Where, func(first string) bool { return strings.HasPrefix(difference, first) })
}

// Compare runs one scenario with both libraries.
func Compare(t *testing.T, s Scenario, newProvider func() cloudprovider.Interface) Result {
	t.Helper()
	r := Result{Scenario: s, Upstream: observe(t, upstreams, s, newProvider), Ours: observe(t, ours, s, newProvider)}
	r.Differences = differences(s, r.Upstream, r.Ours)
	return r
}

// observe runs a scenario with one library. The two count into the same series, so that they cannot run at the same
// time.
func observe(t *testing.T, l library, s Scenario, newProvider func() cloudprovider.Interface) (o Observed) {
	t.Helper()
	before := counted(t)
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // one of them waits by a time of the process, which is not that of a bubble
	defer func() { utilruntime.ErrorHandlers = handlers }()
	setGates(t, s.Gates)
	synctest.Test(t, func(t *testing.T) {
		w := &World{t: t, api: newAPIServer()}
		w.provider = &recorder{failures: failures{}}
		if newProvider != nil {
			w.provider.Interface = newProvider()
		} else {
			w.Cloud = &Cloud{}
			if s.Cloud != nil {
				s.Cloud(w.Cloud)
			}
			w.provider.Interface = &simulated{w.Cloud}
		}
		// Services come after nodes: where both come at once, what upstream's does first is a matter of chance.
		var nodes, others []runtime.Object
		for _, o := range s.Before {
			if _, ok := o.(*corev1.Node); ok {
				nodes = append(nodes, o)
			} else {
				others = append(others, o)
			}
		}
		w.Put(nodes...)
		if s.Fails != nil {
			s.Fails(w)
		}
		w.start(l, s)
		w.Put(others...)
		w.Pass(rest)
		for _, step := range s.Steps {
			step(w)
			w.Pass(rest)
		}
		o = w.observed()
		w.stop()
	})
	for series, value := range counted(t) {
		if value > before[series] {
			o.Metrics = append(o.Metrics, series)
		}
	}
	if !s.Triggers {
		o.Metrics = withoutTriggers(o.Metrics)
	}
	slices.Sort(o.Metrics)
	o.Metrics = slices.Compact(o.Metrics)
	return o
}

func (w *World) observed() Observed {
	w.t.Helper()
	objects, err := w.api.objects()
	if err != nil {
		w.t.Fatal(err)
	}
	o := Observed{Changes: map[string][]string{}, Reads: map[string]int{}, Objects: objects}
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	for _, c := range w.provider.calls {
		if c.changes {
			o.Changes[c.object] = append(o.Changes[c.object], c.String())
		} else {
			o.Reads[c.name]++
		}
	}
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	o.Writes = maps.Clone(w.api.writes)
	for _, event := range w.api.events {
		if reason := strings.Fields(event)[1]; slices.Contains(reasons, reason) {
			o.Events = append(o.Events, event)
		} else {
			o.More = append(o.More, event)
		}
	}
	slices.SortStableFunc(o.Events, func(a, b string) int { return strings.Compare(about(a), about(b)) })
	return o
}

// reasons are those of upstream's events. Ours tells more, as it serves more metrics.
var reasons = []string{
	"EnsuringLoadBalancer", "EnsuredLoadBalancer", "SyncLoadBalancerFailed", "UnAvailableLoadBalancer",
	"UpdatedLoadBalancer", "UpdateLoadBalancerFailed",
	"DeletingLoadBalancer", "DeletedLoadBalancer", "DeleteLoadBalancerFailed", "Synced", "DeletingNode",
	"DeletingNodeFailed", "FailedToCreateRoute", refused,
}

// refused is what is noted where a controller returns an error instead of starting.
const refused = "refused"

// withoutTriggers leaves out why routes were looked at, and that this has changed nothing: upstream looks every 10 s,
// and ours when nodes change.
func withoutTriggers(series []string) (out []string) {
	for _, one := range series {
		one, _, _ = strings.Cut(one, " trigger=")
		if one != "route_controller_route_sync_total outcome=noop" {
			out = append(out, one)
		}
	}
	return out
}

// about is the object of an event.
func about(event string) string { return event[strings.LastIndex(event, " ")+1:] }

// shared are the beginnings of the names of upstream's series.
var shared = []string{
	"service_controller_", "route_controller_", "node_controller_", "cloud_node_lifecycle_controller_",
}

// counted are the values of upstream's series: of counters, and how much histograms have.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if !slices.ContainsFunc(shared, func(prefix string) bool { return strings.HasPrefix(family.GetName(), prefix) }) {
			continue
		}
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// differences are what ours did otherwise.
func differences(s Scenario, upstream, ours Observed) (all []string) {
	add := func(what string, want, got any) {
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			all = append(all, what+" (-upstream +ours):\n"+diff)
		}
	}
	changes := []map[string][]string{upstream.Changes, ours.Changes}
	if s.Endless {
		for i := range changes {
			changes[i] = once(changes[i])
		}
	}
	add("calls that change the cloud", changes[0], changes[1])
	for name, n := range ours.Reads {
		if most := upstream.Reads[name]; n > most && (!s.Endless || most == 0) {
			all = append(all, fmt.Sprintf("%s is called %d times, by upstream %d times", name, n, most))
		}
	}
	for object, n := range ours.Writes {
		if most := upstream.Writes[object]; n > most && (!s.Endless || most == 0) {
			all = append(all, fmt.Sprintf("writes of %s: %d, by upstream %d", object, n, most))
		}
	}
	add("objects", upstream.Objects, ours.Objects)
	add("events", upstream.Events, ours.Events)
	add("series that have counted", upstream.Metrics, ours.Metrics)
	slices.Sort(all)
	return all
}

// once are calls, without those that only repeat the one before.
func once(calls map[string][]string) map[string][]string {
	out := map[string][]string{}
	for object, all := range calls {
		out[object] = slices.Compact(slices.Clone(all))
	}
	return out
}

// Table is what the scenarios showed, one line each.
func Table(results []Result) string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "%-34s %-86s %-10s %-10s %s\n", "CONTROLLER", "SCENARIO", "UPSTREAM", "OURS", "DIFFERENCE THAT IS MEANT",
	)
	for _, r := range results {
		same := "same"
		switch {
		case len(r.Differences) > 0 && r.Scenario.Meant != "":
			same = "other"
		case len(r.Differences) > 0:
			same = "WRONG"
		}
		fmt.Fprintf(
			&b, "%-34s %-86s %-10s %-10s %s\n", r.Scenario.Controller, r.Scenario.Name, r.Upstream.brief(), same,
			r.Scenario.Meant,
		)
	}
	return b.String()
}

// brief is how much a controller did: calls that change the cloud, and events.
func (o Observed) brief() string {
	calls := 0
	for _, all := range o.Changes {
		calls += len(all)
	}
	return fmt.Sprintf("%d/%d", calls, len(o.Events))
}

// Scenarios are all scenarios of the four controllers.
func Scenarios() []Scenario {
	return slices.Concat(serviceScenarios(), routeScenarios(), nodeScenarios(), lifecycleScenarios())
}

// setGates turns features on or off until the test ends.
func setGates(t *testing.T, gates map[string]bool) {
	t.Helper()
	before := map[string]bool{}
	for name := range gates {
		before[name] = utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(before); err != nil {
			t.Error(err)
		}
	})
}
