package cloud

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestFlagsSetTheOptionsAndSenselessOnesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want Options
		errs string
	}{
		"the defaults": {nil, Options{CallTimeout: 2 * time.Minute, LoadBalancerTimeout: 15 * time.Minute}, ""},
		"all flags": {[]string{"--cloud-call-timeout=30s", "--cloud-load-balancer-timeout=5m", "--cloud-max-qps=12.5"},
			Options{30 * time.Second, 5 * time.Minute, 12.5}, ""},
		"nothing that makes sense": {[]string{"--cloud-call-timeout=0s", "--cloud-load-balancer-timeout=-1s", "--cloud-max-qps=-1"},
			Options{0, -time.Second, -1},
			"--cloud-call-timeout is 0s, and must be more than 0\n--cloud-load-balancer-timeout is -1s, and must be more than 0\n" +
				"--cloud-max-qps is -1, and must be 0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			got.AddFlags(flags)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			text := ""
			if err := errors.Join(got.Validate()...); err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(c.errs, text); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(NewOptions(), Options{}.withDefaults()); diff != "" {
		t.Errorf("the zero value has not the defaults:\n%s", diff)
	}
}
