// Package metrics decides where the collectors of the cloud-controller-manager's packages are registered, and what
// happens when the registry refuses one. The program goes on without it, or counts into the existing collector.
//
// Upstream's controllers have series of the same names, and panic when one is taken. So our controller lets upstream's
// register first, and then adopts its collectors. A program starts with any controllers in any order, and both count
// into one series.
package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Register registers collectors in the registry that /metrics serves. Of two of the same name the first one stays. A
// collector that was left out can still be used; its values are served nowhere.
func Register(collectors ...metrics.Registerable) {
	for _, c := range collectors {
		var already prometheus.AlreadyRegisteredError
		if err := legacyregistry.Register(c); err != nil && !errors.As(err, &already) {
			klog.ErrorS(err, "A metric is not served", "metric", c.FQName())
		}
	}
}

// RegisterUpstreams calls a constructor of upstream's, which begins with registering its series, before upstream's
// controller could find ours there and panic. The constructor may panic after that, as it does without the informers
// that it is not given.
func RegisterUpstreams(construct func()) {
	defer func() { _ = recover() }()
	construct()
}

// Adopt registers a collector that upstream has as well, under the same name and with the same help. It returns the one
// that is served: upstream's if that was registered before, else own.
func Adopt[T metrics.Registerable](own T) T {
	err := legacyregistry.Register(own)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if served, same := already.ExistingCollector.(T); same {
			return served
		}
		err = fmt.Errorf("the collector that has its name is a %T, not a %T", already.ExistingCollector, own)
	}
	if err != nil {
		klog.ErrorS(err, "A metric is not served", "metric", own.FQName())
	}
	return own
}
