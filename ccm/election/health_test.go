package election_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestHealth(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", both())
		w.leads(a, migrationLease, time.Second)
		b := w.start("b", both())
		<-time.After(time.Minute)
		for _, p := range []*process{a, b} {
			for _, l := range []string{mainLease, migrationLease, "another"} {
				if err := p.Check(l); err != nil {
					t.Errorf("%s, %s: %v", p.name, l, err)
				}
			}
		}
		synctest.Wait()                   // a renewal of this very moment would be one behind the suspension
		a.clock.suspend(13 * time.Second) // and its loop has not woken up
		if err := a.Check(mainLease); err == nil || !strings.Contains(err.Error(), "was last renewed 1") {
			t.Errorf("a leader that did not renew: %v", err)
		}
		w.lost(w.stops(a, 2*retryPeriod), "was not renewed in time")
		if err := a.Check(mainLease); err == nil {
			t.Errorf("it is healthy after a loss")
		}
		synctest.Wait()
		b.clock.suspend(time.Minute)
		if err := b.Check(migrationLease); err == nil || !strings.Contains(err.Error(), "has been stuck for") {
			t.Errorf("a standby whose loop is stuck: %v", err)
		}
		w.leads(b, mainLease, 20*time.Second)
		<-time.After(2 * retryPeriod)
		if err := b.Check(migrationLease); err != nil {
			t.Errorf("after it went on: %v", err)
		}
		b.terminate()
		if err := b.Check(mainLease); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestEventsHaveTheWordsOfClientGo(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	bubble(t, func(w *world) {
		a := w.start("a", one(), func(_ *process, c *election.Config) { c.Recorder = recorder })
		w.leads(a, mainLease, time.Second)
		a.terminate()
	})
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	if diff := cmp.Diff([]string{"Normal LeaderElection a became leader", "Normal LeaderElection a stopped leading"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// series are the values of our and upstream's series of leases, by name and labels.
func series(t *testing.T) map[string]float64 {
	t.Helper()
	families := must[[]*dto.MetricFamily](t)(legacyregistry.DefaultGatherer.Gather())
	got := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "leader_election_") && !strings.HasPrefix(f.GetName(), "transplant_ccm_") {
			continue
		}
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			switch {
			case m.GetGauge() != nil:
				got[key] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				got[key] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				got[key] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	bubble(t, func(w *world) {
		before := series(t)
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		<-time.After(time.Second)
		b := w.start("b", both(), func(p *process, _ *election.Config) { p.client.noWatch = true }) // its values are shown now
		<-time.After(3500 * time.Millisecond)
		want := func(what string, changes map[string]float64) {
			t.Helper()
			got := series(t)
			for key, v := range changes {
				if got[key]-before[key] != v && got[key] != v {
					t.Errorf("%s: %s is %v, before %v; want %v", what, key, got[key], before[key], v)
				}
			}
		}
		want("standby", map[string]float64{
			"leader_election_master_status " + mainLease:           0,
			"transplant_ccm_lease_holder_info a " + mainLease:      1,
			"transplant_ccm_lease_transitions_total " + mainLease:  0,
			"transplant_ccm_fence_refused_total " + mainLease:      0,
			"transplant_ccm_fence_refused_total " + migrationLease: 0,
			"leader_election_slowpath_total " + mainLease:          0,
			"transplant_ccm_lease_handover_seconds " + mainLease:   0,
			"transplant_ccm_lease_holder_info b " + migrationLease: 0,
			"leader_election_master_status " + migrationLease:      0,
		})
		if age := series(t)["transplant_ccm_lease_seconds_since_renewal "+mainLease]; age <= 0 || age > 5 {
			t.Errorf("the lease was renewed %v s ago", age)
		}
		a.terminate()
		w.leads(b, mainLease, 5*time.Second)
		<-time.After(time.Second)
		if b.Fence("none") != nil {
			t.Errorf("there is a fence for a lease that is not configured")
		}
		want("leader", map[string]float64{
			"leader_election_master_status " + mainLease:               1,
			"leader_election_master_status " + migrationLease:          1,
			"transplant_ccm_lease_holder_info b " + mainLease:          1,
			"transplant_ccm_lease_transitions_total " + mainLease:      1,
			"transplant_ccm_lease_seconds_since_renewal " + mainLease:  1,
			"transplant_ccm_lease_holder_info b " + migrationLease:     1,
			"transplant_ccm_lease_transitions_total " + migrationLease: 0,
		})
		b.terminate()
		if err := b.Fence(mainLease).Check(); err == nil {
			t.Errorf("the fence is open after the end")
		}
		want("ended", map[string]float64{"leader_election_master_status " + mainLease: 0, "leader_election_master_status " + migrationLease: 0})
		if got := series(t)["transplant_ccm_fence_refused_total "+mainLease]; got < 1 {
			t.Errorf("%v refused writes are counted", got)
		}
	})
}

func TestConfigsThatCannotWorkAreRefused(t *testing.T) {
	good := func() election.Config {
		return election.Config{Identity: "a", Leases: both(), LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod}
	}
	leases := func(l ...election.Lease) func(*election.Config) { return func(c *election.Config) { c.Leases = l } }
	if _, err := election.New(good()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*election.Config){
		"the identity is empty: every process needs one of its own":                       func(c *election.Config) { c.Identity = "" },
		"the retry period is 0s and has to be more than 0":                                func(c *election.Config) { c.RetryPeriod = 0 },
		"the renew deadline is 2s and has to be more than 2.4s, 1.2 retry periods":        func(c *election.Config) { c.RenewDeadline = 2 * time.Second },
		"the lease duration is 10s and has to be more than the renew deadline, 10s":       func(c *election.Config) { c.LeaseDuration = renewDeadline },
		`lease "cloud-controller-manager" is listed twice`:                                func(c *election.Config) { c.Leases[1] = c.Leases[0] },
		`lease "x" follows lease "y", which is not contended for before it`:               leases(election.Lease{Name: "x", After: "y"}),
		`lease "b" follows lease "a", which is not contended for before it`:               leases(election.Lease{Name: "a"}, election.Lease{Name: "b", After: "a"}),
		"the identity is empty: every process needs one of its own\nthe retry period is ": func(c *election.Config) { c.Identity, c.RetryPeriod = "", -1 },
	} {
		c := good()
		change(&c)
		if _, err := election.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}
