package hosted

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/plan"
)

func TestTheLoopsOfAHostedControlPlaneAreHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		wrapped  bool
	}{"one replica": {1, false}, "one replica behind http-prober": {1, true}, "two replicas": {2, false}, "two replicas behind http-prober": {2, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.replicas, c.wrapped)
			w.owns(plan.KCM)
			w.run(Handover)
			w.owns(plan.CCM)
			w.run(Finish)
			w.owns(plan.CCM)
		})
	}
}
