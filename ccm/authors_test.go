package ccm

import (
	"io"
	"strings"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// What authors of other cloud-controller-managers do, and upstream's library does with it.

func TestAnAuthorsOwnNodeIPAMControllerRuns(t *testing.T) {
	if app.ControllersDisabledByDefault.Has(NodeIPAMController) {
		t.Errorf("importing this package turns the %s of every author off", NodeIPAMController)
	}
	server := apitest.New(t)
	w := newWorker(NodeIPAMController)
	m := run(t, server, &provider{}, map[string]*worker{NodeIPAMController: w})
	w.leads(t)
	if err := m.end(); err != nil {
		t.Error(err)
	}
}

func TestOnlyOurNodeIPAMControllerIsOffByDefault(t *testing.T) {
	help := func(constructor ControllerInitFuncConstructor) string {
		opts, err := options.NewCloudControllerManagerOptions()
		if err != nil {
			t.Fatal(err)
		}
		command := NewCloudControllerManagerCommand(opts, func(*config.CompletedConfig) cloudprovider.Interface { return nil },
			map[string]ControllerInitFuncConstructor{NodeIPAMController: constructor}, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, nil)
		command.SetOut(io.Discard)
		usage := command.Flags().Lookup("controllers").Usage
		_, off, _ := strings.Cut(usage, "Disabled-by-default controllers: ")
		return off
	}
	if off := help(NodeIPAMConstructor()); off != NodeIPAMController {
		t.Errorf("with ours, %q is disabled by default", off)
	}
	if off := help(newWorker(NodeIPAMController).constructor()); off != "" {
		t.Errorf("with an author's, %q is disabled by default", off)
	}
}
