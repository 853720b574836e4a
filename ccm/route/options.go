package route

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings of the controller that upstream does not have.
type Options struct {
	// ResyncPeriod is how often all routes are listed even without an event. A change that another client made in the
	// cloud can last that long. Each period is up to a tenth longer, so that the managers of many clusters do not list at
	// the same moment.
	ResyncPeriod time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{ResyncPeriod: 10 * time.Minute} }

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(
		&o.ResyncPeriod,
		"route-resync-period",
		o.ResyncPeriod,
		"How often the routes in the cloud are compared with the nodes even if no node "+
			"has changed. It bounds how long a route that was deleted or changed in the cloud stays so. An explicit --route-reconciliation-period takes precedence.",
	)
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() []error {
	if o.ResyncPeriod <= 0 {
		return []error{fmt.Errorf("--route-resync-period is %s, but must be longer than 0", o.ResyncPeriod)}
	}
	return nil
}
