package ccm

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheVersionInALine(t *testing.T) {
	built := "(" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{
		{Path: "k8s.io/api", Version: "v0.37.2"}, {Path: "k8s.io/cloud-provider", Version: "v0.37.2"}, {Path: "k8s.io/cloud-provider-aws", Version: "v1.37.0"}}}
	for _, c := range []struct {
		name    string
		version string
		info    *debug.BuildInfo
		want    string
	}{
		{"a build that sets the version", "v2.0.0", nil, "a-manager v2.0.0 " + built},
		{"go install", "", installed, "a-manager v1.2.3 (k8s.io/cloud-provider v0.37.2, k8s.io/cloud-provider-aws v1.37.0, " + built[1:]},
		{"go run", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "a-manager devel " + built},
		{"a build that knows nothing", "", nil, "a-manager devel " + built},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := versionOf("a-manager", c.version, c.info).String(); got != c.want {
				t.Errorf("the version is %q, want %q", got, c.want)
			}
		})
	}
}
