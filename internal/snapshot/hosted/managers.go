package hosted

import (
	"context"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
	"github.com/transplant-dev/transplant/internal/together"
)

// AskSeedManagers asks the pods of the managers in the seed for their gauges.
func AskSeedManagers(ctx context.Context, g *collect.Collector) {
	var wg together.Group
	var mu sync.Mutex
	for _, p := range workloads.SeedPods(g.SeedPods, component.KCM, component.CCM) {
		if !p.RunsNow() {
			continue
		}
		wg.Go(func() {
			m := v1.Manager{Component: p.Component, Host: p.Name, Error: "its pod has no address"}
			if p.Address != "" {
				m = g.AskManager(ctx, v1.Component{Name: p.Component, Address: p.Address}, p.Name)
			}
			if m.Error != "" {
				g.Unknown(
					"managers/"+p.Name+"/"+p.Component,
					"asking "+p.Component+" in pod "+p.Name+" which loops it runs: "+m.Error,
				)
			}
			mu.Lock()
			defer mu.Unlock()
			g.Snap.Managers = append(g.Snap.Managers, m)
		})
	}
	wg.Wait()
}
