package main

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
)

func TestVersionIsOurs(t *testing.T) {
	for _, flag := range []string{"--version", "--version=raw"} {
		command, err := newCommand()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command.SetOut(&out)
		command.SetArgs([]string{flag})
		if err := command.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), "aws-cloud-controller-manager ") || strings.Contains(out.String(), "$Format") {
			t.Errorf("%s prints %q", flag, out.String())
		}
	}
}

func TestDescribe(t *testing.T) {
	built := "(" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{
		{Path: "k8s.io/api", Version: "v0.37.2"}, {Path: "k8s.io/cloud-provider", Version: "v0.37.2"}, {Path: "k8s.io/cloud-provider-aws", Version: "v1.37.0"}}}
	for _, c := range []struct {
		name    string
		version string
		info    *debug.BuildInfo
		want    string
	}{
		{"a build that sets the version", "v2.0.0", nil, "aws-cloud-controller-manager v2.0.0 " + built},
		{"go install", "", installed, "aws-cloud-controller-manager v1.2.3 (k8s.io/cloud-provider v0.37.2, k8s.io/cloud-provider-aws v1.37.0, " + built[1:]},
		{"go run", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "aws-cloud-controller-manager devel " + built},
		{"a build that knows nothing", "", nil, "aws-cloud-controller-manager devel " + built},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(c.version, c.info); got != c.want {
				t.Errorf("describe = %q, want %q", got, c.want)
			}
		})
	}
}

func TestEveryFlagOfTheLibraryIsThere(t *testing.T) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	library := app.NewCloudControllerManagerCommand(opts, nil, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	ours, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	library.Flags().VisitAll(func(flag *pflag.Flag) {
		if got := ours.Flags().Lookup(flag.Name); got == nil || got.DefValue != flag.DefValue {
			t.Errorf("--%s: we have %v, the library's default is %q", flag.Name, got, flag.DefValue)
		}
	})
}
