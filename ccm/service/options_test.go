package service

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

func TestFlagsAreTheOptions(t *testing.T) {
	o := NewOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	if errs := o.Validate(); len(errs) != 0 {
		t.Errorf("the defaults are refused: %v", errs)
	}
	if o.StuckAfter <= cloud.DefaultLoadBalancerTimeout {
		t.Errorf("a call is stuck after %s, and may take %s", o.StuckAfter, cloud.DefaultLoadBalancerTimeout)
	}
	err := fs.Parse([]string{
		"--load-balancer-drift-period=1m", "--load-balancer-resync-period=0", "--load-balancer-drift-qps=0.5", "--load-balancer-node-batch-window=2s",
		"--load-balancer-node-batch-interval=3s", "--load-balancer-stuck-after=4m", "--load-balancer-state-configmap=a/b",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		DriftPeriod: time.Minute, DriftQPS: 0.5, NodeBatchWindow: 2 * time.Second, NodeBatchInterval: 3 * time.Second,
		StuckAfter: 4 * time.Minute, StateConfigMap: "a/b",
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if errs := o.Validate(); len(errs) != 0 {
		t.Errorf("they are refused: %v", errs)
	}
}

func TestSettingsWithWhichNothingWouldBeDoneAreRefused(t *testing.T) {
	for flag, change := range map[string]func(*Config){
		"--concurrent-service-syncs":          func(c *Config) { c.Workers = 0 },
		"--load-balancer-drift-period":        func(c *Config) { c.Options.DriftPeriod = -1 },
		"--load-balancer-resync-period":       func(c *Config) { c.Options.ResyncPeriod = -1 },
		"--load-balancer-drift-qps":           func(c *Config) { c.Options.DriftQPS = 0 },
		"--load-balancer-node-batch-window":   func(c *Config) { c.Options.NodeBatchWindow = 0 },
		"--load-balancer-node-batch-interval": func(c *Config) { c.Options.NodeBatchInterval = -1 },
		"--load-balancer-stuck-after":         func(c *Config) { c.Options.StuckAfter = 0 },
		"--load-balancer-state-configmap":     func(c *Config) { c.Options.StateConfigMap = "nowhere" },
		"no load balancers":                   func(c *Config) { c.Cloud = &fakeCloud{none: true} },
		"no cloud provider":                   func(c *Config) { c.Cloud = nil },
	} {
		t.Run(flag, func(t *testing.T) {
			factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
			config := Config{
				Client: fake.NewClientset(), Cloud: newFakeCloud(), Services: factory.Core().V1().Services(), Nodes: factory.Core().V1().Nodes(),
				Workers: 1, Options: NewOptions(),
			}
			change(&config)
			_, err := New(config)
			if err == nil || !strings.Contains(err.Error(), flag) {
				t.Errorf("error %v, want one that names %s", err, flag)
			}
		})
	}
}
