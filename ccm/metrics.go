package ccm

import (
	"sync"

	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
	"github.com/transplant-dev/transplant/internal/boundtoken"
)

// controllerLease tells which manager would run what after a handover, without waiting for one.
var controllerLease = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name: "transplant_ccm_controller_lease", StabilityLevel: metrics.ALPHA,
	Help: "1 for each controller that this process runs while it holds the lease, standby included. The lease is none without leader election.",
}, []string{"controller", "lease"})

// controllerSkipped tells of a controller that nobody runs, though it was asked for.
var controllerSkipped = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name: "transplant_ccm_controller_skipped", StabilityLevel: metrics.ALPHA,
	Help: "1 for each controller of the program's author that is enabled and has declined to start, which its log explains: its work is not done.",
}, []string{"controller"})

// tokenExpiry tells when this manager would be locked out.
var tokenExpiry = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "transplant_ccm_token_expiration_timestamp_seconds", StabilityLevel: metrics.ALPHA,
	Help: "When the token of this manager expires, in seconds since 1970. It is renewed once a third of its life is over. 0 without --renew-token.",
})

func showTokenExpiry(c boundtoken.Claims) { tokenExpiry.Set(float64(c.Expires.Unix())) }

var registration sync.Once

func registerMetrics() {
	registration.Do(func() { ccmmetrics.Register(controllerLease, controllerSkipped, tokenExpiry) })
}

// showGroups sets the gauge.
func showGroups(groups []*group) {
	controllerLease.Reset()
	controllerSkipped.Reset()
	for _, g := range groups {
		for _, name := range g.controllers {
			controllerLease.WithLabelValues(name, g.lease).Set(1)
		}
	}
}
