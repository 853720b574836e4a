package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestForHowLongItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, want := range []time.Duration{40 * time.Second, 20 * time.Second, 0} {
			began := time.Now()
			if For(ctx, 40*time.Second); time.Since(began) != want {
				t.Errorf("it waited for %s, want %s", time.Since(began), want)
			}
		}
	})
}
