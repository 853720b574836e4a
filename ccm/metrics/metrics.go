// Package metrics decides where the collectors of the cloud-controller-manager's packages are registered, and what happens when the registry
// refuses one: the program goes on without it. Upstream's controllers register the same names, with other help texts, and a program that links both,
// to compare them, would otherwise not start.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Register registers collectors in the registry that /metrics serves. Of two of the same name the first one stays. A collector that was left out
// can still be used; its values are served nowhere.
func Register(collectors ...metrics.Registerable) {
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		if err := legacyregistry.Register(c); err != nil && !errors.As(err, &already) {
			klog.ErrorS(err, "A metric is not served", "metric", c.FQName())
		}
	}
}
