package cloudprovider

import (
	"strings"
	"testing"
)

func TestPlatforms(t *testing.T) {
	for plugin := range platforms {
		if _, _, ok := PluginOf(plugin); !ok {
			t.Errorf("no plugin %s", plugin)
		}
	}
	for minor, want := range map[int]string{20: "6.7 Update 3", 23: "6.7 Update 3", 24: "7.0 Update 2", 28: "7.0 Update 2"} {
		if got := PlatformFor("kubernetes.io/vsphere-volume", minor); !strings.Contains(got, want) {
			t.Errorf("1.%d: %q", minor, got)
		}
	}
	if got := PlatformFor("kubernetes.io/aws-ebs", 26); got != "" {
		t.Errorf("aws: %q", got)
	}
}
