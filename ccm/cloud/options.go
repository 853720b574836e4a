package cloud

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings of a shell. The zero value has the defaults.
type Options struct {
	// CallTimeout is how long a call may take before its caller is told that it did not answer. Default 2 minutes.
	CallTimeout time.Duration
	// LoadBalancerTimeout is CallTimeout for the calls that change load balancers. They may wait for minutes for what they made or deleted: on AWS
	// a security group is deleted only once nothing uses it, which is waited for for 10 minutes. Default 15 minutes.
	LoadBalancerTimeout time.Duration
	// MaxQPS is the most calls per second that all controllers together make. 0 is as many as the cloud takes without throttling.
	MaxQPS float64
}

// The defaults.
const (
	DefaultCallTimeout         = 2 * time.Minute
	DefaultLoadBalancerTimeout = 15 * time.Minute
)

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{CallTimeout: DefaultCallTimeout, LoadBalancerTimeout: DefaultLoadBalancerTimeout}
}

// AddFlags adds the flags of the settings.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.CallTimeout, "cloud-call-timeout", o.CallTimeout,
		"How long a call to the cloud provider may take. A call that goes on for longer is given up and counts as failed, also if the provider hangs.")
	fs.DurationVar(&o.LoadBalancerTimeout, "cloud-load-balancer-timeout", o.LoadBalancerTimeout,
		"How long a call to the cloud provider that creates, changes or deletes a load balancer may take. Some providers wait in it for minutes.")
	fs.Float64Var(&o.MaxQPS, "cloud-max-qps", o.MaxQPS,
		"The most calls per second to the cloud provider. 0 sets no limit of its own: the rate adapts to what the cloud takes without throttling.")
}

// Validate returns everything that is wrong with the settings.
func (o *Options) Validate() []error {
	var errs []error
	if o.CallTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--cloud-call-timeout is %s, and must be more than 0", o.CallTimeout))
	}
	if o.LoadBalancerTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--cloud-load-balancer-timeout is %s, and must be more than 0", o.LoadBalancerTimeout))
	}
	if !(o.MaxQPS >= 0) { // not a number is refused, too
		errs = append(errs, fmt.Errorf("--cloud-max-qps is %v, and must be 0 or more", o.MaxQPS))
	}
	return errs
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.LoadBalancerTimeout <= 0 {
		o.LoadBalancerTimeout = DefaultLoadBalancerTimeout
	}
	return o
}
