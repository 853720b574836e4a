package hosted

import (
	"context"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
)

// routes of the world's cluster are not the cloud's, as Kubermatic has it: nobody is missed who would run a route loop.
func TestALoopThatAClusterHasNotIsNobodysBusiness(t *testing.T) {
	w := newWorld(t, 1, false)
	o, err := w.plane().Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if route, has := o.Loops["route"]; has || len(o.Loops) != 2 {
		t.Errorf("the loops are %+v, and that of routes is %+v", o.Loops, route)
	}
}

func TestTheOwnerOfAManagerThatDoesNotSayWhatItRunsIsTakenFromItsLease(t *testing.T) {
	w := newWorld(t, 1, false)
	w.run(Handover)
	w.owns(plan.CCM)
	mute := w.plane()
	mute.Scrape = func(ctx context.Context, component, pod, address string) (v1.Manager, error) {
		m, err := w.scrape(ctx, component, pod, address)
		m.Loops, m.Leads = nil, nil
		return m, err
	}
	look := func() Owner {
		t.Helper()
		o, err := mute.Owners(t.Context())
		if err != nil || len(o.Unknown) > 0 {
			t.Fatalf("%v, unknown %v", err, o.Unknown)
		}
		return o.Loops["service"]
	}
	if got := look(); got.Component != "" {
		t.Errorf("one that would say what it runs, and says nothing, is taken for %+v", got)
	}
	mute.Provider = "azure" // whose manager never says it
	if got := look(); got.Component != plan.CCM || !got.ByLease || len(got.Also) > 0 {
		t.Errorf("the owner is %+v", got)
	}
	mute.Scrape = func(context.Context, string, string, string) (v1.Manager, error) { return v1.Manager{}, nil } // the managers do not renew meanwhile
	w.clock.Step(10 * time.Minute)
	if got := look(); got.Component != "" {
		t.Errorf("with leases that ran out the owner is %+v", got)
	}
}
