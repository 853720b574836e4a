package node

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings of the controller that upstream does not have.
type Options struct {
	// GatherWindow is how long a node that has joined waits for others, to be read in one call with them. While nodes keep joining it grows to a second.
	GatherWindow time.Duration
	// RetryLimit is the longest time between two attempts to initialise a node.
	RetryLimit time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{GatherWindow: 50 * time.Millisecond, RetryLimit: 2 * time.Minute}
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.GatherWindow, "node-sync-gather-window", o.GatherWindow, "How long a node that has joined waits for others that join, to be read from the "+
		"cloud in one call with them, if the provider can list instances. While nodes keep joining it grows to a second.")
	fs.DurationVar(&o.RetryLimit, "node-sync-retry-limit", o.RetryLimit, "The longest time between two attempts to initialise a node. Attempts start 200ms apart.")
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	if o.GatherWindow < 0 {
		errs = append(errs, fmt.Errorf("--node-sync-gather-window is %s, but must not be negative", o.GatherWindow))
	}
	if o.RetryLimit <= 0 {
		errs = append(errs, fmt.Errorf("--node-sync-retry-limit is %s, but must be longer than 0", o.RetryLimit))
	}
	return errs
}
