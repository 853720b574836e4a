package nodelifecycle

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings of the controller that upstream does not have.
type Options struct {
	// TakeoverGrace is for how long after the first takeover a node that was not Ready before it is not deleted. 0: it is
	// deleted at once. It counts from when the lease was adopted, which a restart or another replica does not change, so
	// it has an end.
	TakeoverGrace time.Duration
	// BackoffLimit is how seldom a node is asked for at least whose state does not change, or for which calls fail. How
	// long an instance that is shut down can be gone before its node is deleted is up to this.
	BackoffLimit time.Duration
	// DeletionLimit and DeletionLimitPercent (of all nodes) are how many nodes may be deleted within DeletionWindow. The
	// larger one holds. If the cloud has no instance for more, none of them is deleted. Nodes whose instances the cloud
	// describes as terminated do not count.
	DeletionLimit        int
	DeletionLimitPercent int
	// TerminatedLimitPercent is the limit for those, if it is larger than DeletionLimit. It never allows all nodes.
	TerminatedLimitPercent int
	DeletionWindow         time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		TakeoverGrace:          5 * time.Minute,
		BackoffLimit:           time.Minute,
		DeletionLimit:          10,
		DeletionLimitPercent:   10,
		TerminatedLimitPercent: 50,
		DeletionWindow:         10 * time.Minute,
	}
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(
		&o.TakeoverGrace,
		"node-deletion-grace-after-takeover",
		o.TakeoverGrace,
		"How long to keep a node without an instance, if it was not Ready before "+
			"this kind of manager took over from another. Restarts do not prolong it. Without leader election "+
			"the time is kept on the lease that would be held; if that is not allowed, there is no such time. 0 deletes such nodes at once.",
	)
	fs.DurationVar(
		&o.BackoffLimit,
		"node-monitor-backoff-limit",
		o.BackoffLimit,
		"The longest time between two calls to the cloud about a node that is not "+
			"Ready and whose instance stays shut down. The same holds for an unchanged instance, and for a call that fails again and again, if the provider cannot list instances. Every --node-monitor-period if that is longer.",
	)
	fs.IntVar(
		&o.DeletionLimit,
		"node-deletion-limit",
		o.DeletionLimit,
		"How many nodes may be deleted within --node-deletion-window because the "+
			"cloud has no instance for them. If it has none for more, none of them is deleted until an operator says so. "+
			"Nodes whose instances the cloud describes as terminated are counted by themselves. See also "+
			"--node-deletion-limit-percent and --node-deletion-limit-terminated-percent.",
	)
	fs.IntVar(
		&o.DeletionLimitPercent,
		"node-deletion-limit-percent",
		o.DeletionLimitPercent,
		"The same as a percentage of all nodes. "+
			"The larger of the two limits holds. 100 turns the limit off, and that for terminated instances.",
	)
	fs.IntVar(&o.TerminatedLimitPercent, "node-deletion-limit-terminated-percent", o.TerminatedLimitPercent, "How many "+
		"nodes, in percent of all, may be deleted within --node-deletion-window because the cloud describes their instances as "+
		"terminated. If it is more than this and --node-deletion-limit, or all nodes, none of them is deleted until an operator "+
		"says so. 100 turns this limit off.")
	fs.DurationVar(&o.DeletionWindow, "node-deletion-window", o.DeletionWindow,
		"For how long a deleted node counts towards --node-deletion-limit.")
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	if o.TakeoverGrace < 0 {
		errs = append(
			errs,
			fmt.Errorf("--node-deletion-grace-after-takeover is %s, but must not be negative", o.TakeoverGrace),
		)
	}
	if o.BackoffLimit < 0 {
		errs = append(errs, fmt.Errorf("--node-monitor-backoff-limit is %s, but must not be negative", o.BackoffLimit))
	}
	if o.DeletionLimit < 0 {
		errs = append(errs, fmt.Errorf("--node-deletion-limit is %d, but must not be negative", o.DeletionLimit))
	}
	if o.DeletionLimitPercent < 0 || o.DeletionLimitPercent > 100 {
		errs = append(
			errs,
			fmt.Errorf("--node-deletion-limit-percent is %d, but must be from 0 to 100", o.DeletionLimitPercent),
		)
	}
	if o.TerminatedLimitPercent < 0 || o.TerminatedLimitPercent > 100 {
		errs = append(
			errs,
			fmt.Errorf("--node-deletion-limit-terminated-percent is %d, but must be from 0 to 100", o.TerminatedLimitPercent),
		)
	}
	if o.DeletionWindow < 0 {
		errs = append(errs, fmt.Errorf("--node-deletion-window is %s, but must not be negative", o.DeletionWindow))
	}
	return errs
}
