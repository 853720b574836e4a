package metrics

import (
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var runs atomic.Int64

// unused is a name that no collector has: the registry is the process's own, and a test may run several times in it.
func unused(name string) string { return fmt.Sprintf("transplant_ccm_test_%s_%d", name, runs.Add(1)) }

func gauge(name, help string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA})
}

// values are what the registry serves under a name.
func values(t *testing.T, name string) []float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				values = append(values, m.GetGauge().GetValue())
			}
		}
	}
	return values
}

func TestACollectorThatIsThereAlreadyStays(t *testing.T) {
	twice := unused("twice")
	first, second := gauge(twice, "Twice."), gauge(twice, "Twice.")
	Register(first)
	first.Set(1)
	Register(second)
	second.Set(2)
	if got := values(t, twice); len(got) != 1 || got[0] != 1 {
		t.Errorf("the registry serves %v, want the first collector's value alone", got)
	}
}

func TestACollectorRegisteredAgainIsServedOnce(t *testing.T) {
	name := unused("again")
	again := gauge(name, "Again.")
	Register(again, again)
	Register(again)
	again.Set(3)
	if got := values(t, name); len(got) != 1 || got[0] != 3 {
		t.Errorf("the registry serves %v, want one value", got)
	}
}

func TestTheCollectorsAfterOneThatIsThereAlreadyAreRegistered(t *testing.T) {
	name := unused("last")
	there := unused("there")
	Register(gauge(there, "There."))
	last := gauge(name, "Last.")
	Register(gauge(there, "There."), last)
	last.Set(4)
	if got := values(t, name); len(got) != 1 || got[0] != 4 {
		t.Errorf("the registry serves %v, want the last collector's value", got)
	}
}

func TestACollectorWithAnotherHelpIsLeftOutAndCanBeUsed(t *testing.T) {
	help := unused("help")
	first, second := gauge(help, "Upstream's words."), gauge(help, "Our words.")
	Register(first)
	first.Set(5)
	Register(second)
	second.Set(6)
	if got := values(t, help); len(got) != 1 || got[0] != 5 {
		t.Errorf("the registry serves %v, want the first collector's value alone", got)
	}
}

func TestAnAdoptedCollectorIsTheOneThatIsServed(t *testing.T) {
	adopted := unused("adopted")
	first, second := gauge(adopted, "One."), gauge(adopted, "One.")
	if got := Adopt(first); got != first {
		t.Error("a collector whose name is free is not registered itself")
	}
	Adopt(second).Set(7)
	if got := values(t, adopted); len(got) != 1 || got[0] != 7 {
		t.Errorf("the registry serves %v, want what was set through the adopted collector", got)
	}
}

func TestACollectorOfAnotherKindIsNotAdopted(t *testing.T) {
	kind := unused("kind")
	Register(gauge(kind, "One."))
	counter := metrics.NewCounter(&metrics.CounterOpts{Name: kind, Help: "One.", StabilityLevel: metrics.ALPHA})
	if got := Adopt(counter); got != counter {
		t.Error("a gauge is adopted for a counter")
	}
	counter.Inc()
}
