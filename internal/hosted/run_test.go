package hosted

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/component"
)

func TestTheLoopsOfAHostedControlPlaneAreHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		wrapped  bool
	}{"one replica": {1, false}, "one replica behind http-prober": {1, true}, "two replicas": {2, false}, "two replicas behind http-prober": {2, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.replicas, c.wrapped)
			w.owns(component.KCM)
			w.run(Handover)
			w.owns(component.CCM)
			w.run(Finish)
			w.owns(component.CCM)
		})
	}
}

// A cluster of no machines has nothing that a check of nodes could find, and that is no reason to leave its loops where they are.
func TestAClusterWithoutNodesIsMigrated(t *testing.T) {
	w := newWorld(t, 1, false)
	for _, node := range []string{"n1", "n2"} {
		w.user.Delete("/api/v1/nodes/" + node)
	}
	w.run(Handover)
	w.owns(component.CCM)
	w.run(Finish)
	w.owns(component.CCM)
}
