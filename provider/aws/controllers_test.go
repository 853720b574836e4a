package aws

import (
	"testing"

	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"

	"github.com/transplant-dev/transplant/ccm"
)

func TestControllersAreTheLibrarysAndTheOthersOnRequest(t *testing.T) {
	c := NewControllers()
	for name := range ccm.DefaultInitFuncConstructors {
		if c.Constructors[name].Constructor == nil {
			t.Errorf("the library's %s is missing", name)
		}
	}
	if c.Constructors[tagging.TaggingControllerKey].Constructor == nil {
		t.Error("the tagging controller is missing")
	}
	if c.Constructors[ccm.NodeIPAMController].Constructor == nil {
		t.Error("the node IPAM controller is missing")
	}
	if _, leaked := ccm.DefaultInitFuncConstructors[tagging.TaggingControllerKey]; leaked {
		t.Error("the tagging controller got into the library's own table")
	}
	if !ccm.ControllersDisabledByDefault.Has(tagging.TaggingControllerKey) {
		t.Error("the tagging controller runs without being asked for")
	}
	for alias, name := range c.Aliases {
		if c.Constructors[name].Constructor == nil {
			t.Errorf("the alias %s is of %s, which does not exist", alias, name)
		}
	}
	if c.Flags.FlagSet("tagging controller").Lookup("tags") == nil {
		t.Error("the tagging controller's flags are missing")
	}
}
