package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/managerprogram/programtest"
)

func TestNoOtherCloudIsLinked(t *testing.T) { programtest.LinksOneCloud(t, "aws") }

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

func TestVersionSaysWhichAPIServersItIsTestedAgainst(t *testing.T) {
	version = "v1.2.3"
	defer func() { version = "" }()
	command, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--version=json"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	var got ccm.Version
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	first, last := proven.Minors()
	want := ccm.Kubernetes{Min: fmt.Sprintf("1.%d", first), Max: fmt.Sprintf("1.%d", last), Tested: proven.Versions()}
	if diff := cmp.Diff(want, got.Kubernetes); diff != "" || got.Name != "aws-cloud-controller-manager" || got.Version != "v1.2.3" {
		t.Errorf("--version=json prints %s", out.String())
	}
}

func TestEveryFlagOfTheLibraryIsThere(t *testing.T) {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	library := app.NewCloudControllerManagerCommand(
		opts,
		nil,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		wait.NeverStop,
	)
	ours, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	var differ []string
	library.Flags().VisitAll(func(flag *pflag.Flag) {
		got := ours.Flags().Lookup(flag.Name)
		switch {
		case got == nil:
			t.Errorf("--%s is missing", flag.Name)
		case got.DefValue != flag.DefValue:
			differ = append(differ, flag.Name)
		}
	})
	documented := []string{"concurrent-node-lifecycle-syncs", "concurrent-node-syncs", "concurrent-service-syncs", "kube-api-burst", "kube-api-qps"}
	if diff := cmp.Diff(documented, differ); diff != "" {
		t.Errorf("flags whose default is not the library's (-documented +ours):\n%s", diff)
	}
}
