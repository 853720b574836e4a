package web

import (
	"context"
	"strings"
	"testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

func TestThePageShowsNoSecretOfAnError(t *testing.T) {
	secrets, planted := canary.PlantError()
	closed := func(o *Options) {
		o.Plane = func(context.Context, view.Object) (Plane, error) { return nil, planted }
	}
	for name, change := range map[string][]withOptions{"of looks and events": nil, "of the control plane": {closed}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change...)
			w.plane.broken, w.said = planted, planted.Error()
			w.put(cluster("c1", kubermaticv1.PhaseHandover, "step 4 of 11"))
			shown := ""
			for _, path := range []string{c1, c1 + "/check", "/api/clusters"} {
				shown += w.as("alice").ask("GET", path, nil).body
			}
			if !strings.Contains(shown, "(masked)") {
				t.Errorf("nothing is said to be masked, so that nothing is proven: %s", shown)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for where, text := range map[string]string{"the page": shown, "the log": w.logged.String()} {
				if found := secrets.In(text); len(found) > 0 {
					t.Errorf("%s shows the secret of %q", where, found)
				}
			}
		})
	}
}
