package service

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings beyond upstream's.
type Options struct {
	// DriftPeriod is how often each load balancer is looked at with GetLoadBalancer. 0 for never.
	DriftPeriod time.Duration
	// ResyncPeriod is how often each load balancer is ensured though nothing is known to have changed. 0 for never.
	ResyncPeriod time.Duration
	// DriftQPS bounds the calls that both make together.
	DriftQPS float64
	// NodeBatchWindow is how long a node waits for others before load balancers are updated. Several wait until none has joined for twice as long, for
	// NodeBatchInterval at most.
	NodeBatchWindow time.Duration
	// NodeBatchInterval is the least time between two updates of load balancers for nodes that join.
	NodeBatchInterval time.Duration
	// StuckAfter is how long one Service may take before the controller counts as stuck.
	StuckAfter time.Duration
	// StateConfigMap is where fingerprints are kept, as namespace/name. Empty for the default, "none" for nowhere.
	StateConfigMap string
}

const (
	flagDriftPeriod       = "load-balancer-drift-period"
	flagResyncPeriod      = "load-balancer-resync-period"
	flagDriftQPS          = "load-balancer-drift-qps"
	flagNodeBatchWindow   = "load-balancer-node-batch-window"
	flagNodeBatchInterval = "load-balancer-node-batch-interval"
	flagStuckAfter        = "load-balancer-stuck-after"
	flagStateConfigMap    = "load-balancer-state-configmap"
)

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		DriftPeriod:       30 * time.Minute,
		ResyncPeriod:      12 * time.Hour,
		DriftQPS:          2,
		NodeBatchWindow:   time.Second,
		NodeBatchInterval: 10 * time.Second,
		StuckAfter:        15 * time.Minute,
	}
}

// AddFlags binds the settings to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.DriftPeriod, flagDriftPeriod, o.DriftPeriod,
		"How often each load balancer is looked at, with one reading call, for whether it is still there and at its address. "+
			"One that is gone is made again. 0 turns it off.")
	fs.DurationVar(&o.ResyncPeriod, flagResyncPeriod, o.ResyncPeriod,
		"How often each load balancer is ensured though nothing is known to have changed. "+
			"This finds members and listeners that somebody changed in the cloud. 0 turns it off.")
	fs.Float64Var(&o.DriftQPS, flagDriftQPS, o.DriftQPS,
		"How many load balancers per second are looked at or ensured for drift, at most.")
	fs.DurationVar(&o.NodeBatchWindow, flagNodeBatchWindow, o.NodeBatchWindow,
		"How long a node that has joined waits for others before load balancers get it. Several wait until none has joined for twice as long, "+
			"for --"+flagNodeBatchInterval+" at most if that is longer. Nodes that leave do not wait.")
	fs.DurationVar(&o.NodeBatchInterval, flagNodeBatchInterval, o.NodeBatchInterval,
		"The least time between two updates of the load balancers for nodes that join, so that many nodes that join one after the other cost few updates.")
	fs.DurationVar(&o.StuckAfter, flagStuckAfter, o.StuckAfter,
		"How long work on one Service may take before the health check of the controller fails and names it.")
	fs.StringVar(&o.StateConfigMap, flagStateConfigMap, o.StateConfigMap,
		`The ConfigMap, as namespace/name, that tells the next leader which load balancers are in line, so that it need not ensure them all. `+
			`Empty for kube-system/transplant-service-state-<provider>, "none" for nowhere.`)
}

// Validate returns what is wrong with the settings.
func (o *Options) Validate() []error {
	var errs []error
	for _, p := range []struct {
		flag   string
		period time.Duration
		off    bool // zero turns it off
	}{
		{flagDriftPeriod, o.DriftPeriod, true},
		{flagResyncPeriod, o.ResyncPeriod, true},
		{flagNodeBatchInterval, o.NodeBatchInterval, true},
		{flagNodeBatchWindow, o.NodeBatchWindow, false},
		{flagStuckAfter, o.StuckAfter, false},
	} {
		switch {
		case p.period < 0:
			errs = append(errs, fmt.Errorf("--%s must not be negative, it is %s", p.flag, p.period))
		case p.period == 0 && !p.off:
			errs = append(errs, fmt.Errorf("--%s must be more than zero", p.flag))
		}
	}
	if o.DriftQPS <= 0 {
		errs = append(errs, fmt.Errorf("--%s must be more than zero, it is %v", flagDriftQPS, o.DriftQPS))
	}
	namespace, name, _ := strings.Cut(o.StateConfigMap, "/")
	if o.StateConfigMap != "" && o.StateConfigMap != stateNowhere && (namespace == "" || name == "") {
		errs = append(errs, fmt.Errorf("--%s must be namespace/name, empty or %q, it is %q", flagStateConfigMap, stateNowhere, o.StateConfigMap))
	}
	return errs
}
