package metrics

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	first, second := gauge("transplant_ccm_test_twice", "Twice."), gauge("transplant_ccm_test_twice", "Twice.")
	Register(first)
	first.Set(1)
	Register(second)
	second.Set(2)
	if got := values(t, "transplant_ccm_test_twice"); len(got) != 1 || got[0] != 1 {
		t.Errorf("the registry serves %v, want the first collector's value alone", got)
	}
}

func TestACollectorRegisteredAgainIsServedOnce(t *testing.T) {
	again := gauge("transplant_ccm_test_again", "Again.")
	Register(again, again)
	Register(again)
	again.Set(3)
	if got := values(t, "transplant_ccm_test_again"); len(got) != 1 || got[0] != 3 {
		t.Errorf("the registry serves %v, want one value", got)
	}
}

func TestTheCollectorsAfterOneThatIsThereAlreadyAreRegistered(t *testing.T) {
	Register(gauge("transplant_ccm_test_there", "There."))
	last := gauge("transplant_ccm_test_last", "Last.")
	Register(gauge("transplant_ccm_test_there", "There."), last)
	last.Set(4)
	if got := values(t, "transplant_ccm_test_last"); len(got) != 1 || got[0] != 4 {
		t.Errorf("the registry serves %v, want the last collector's value", got)
	}
}

func TestACollectorWithAnotherHelpIsLeftOutAndCanBeUsed(t *testing.T) {
	first, second := gauge("transplant_ccm_test_help", "Upstream's words."), gauge("transplant_ccm_test_help", "Our words.")
	Register(first)
	first.Set(5)
	Register(second)
	second.Set(6)
	if got := values(t, "transplant_ccm_test_help"); len(got) != 1 || got[0] != 5 {
		t.Errorf("the registry serves %v, want the first collector's value alone", got)
	}
}

func TestAnAdoptedCollectorIsTheOneThatIsServed(t *testing.T) {
	first, second := gauge("transplant_ccm_test_adopted", "One."), gauge("transplant_ccm_test_adopted", "One.")
	if got := Adopt(first); got != first {
		t.Error("a collector whose name is free is not registered itself")
	}
	Adopt(second).Set(7)
	if got := values(t, "transplant_ccm_test_adopted"); len(got) != 1 || got[0] != 7 {
		t.Errorf("the registry serves %v, want what was set through the adopted collector", got)
	}
}

func TestACollectorOfAnotherKindIsNotAdopted(t *testing.T) {
	Register(gauge("transplant_ccm_test_kind", "One."))
	counter := metrics.NewCounter(&metrics.CounterOpts{Name: "transplant_ccm_test_kind", Help: "One.", StabilityLevel: metrics.ALPHA})
	if got := Adopt(counter); got != counter {
		t.Error("a gauge is adopted for a counter")
	}
	counter.Inc()
}
