package operator

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNamespacesAreLookedForWhenClustersChangeAndNotInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sweeps atomic.Int64
		var known atomic.Bool
		woken := make(chan struct{}, 1)
		d := newDeployments(nil, nil, func() ([]string, bool) {
			sweeps.Add(1)
			return nil, known.Load()
		}, func(context.Context) <-chan struct{} { return woken })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.run(ctx)
		}()
		time.Sleep(sweep / 2) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if n := sweeps.Load(); n != 1 {
			t.Errorf("while no cluster was known it looked %d times in %s", n, sweep/2)
		}
		known.Store(true)
		woken <- struct{}{}
		synctest.Wait()
		d.mu.Lock()
		complete := d.complete
		d.mu.Unlock()
		if !complete {
			t.Error("it has not looked when all clusters were known")
		}
		stop()
		<-ended
	})
}
