package aws

import (
	"testing"

	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"
	"k8s.io/cloud-provider/app"
)

func TestControllersAreTheLibrarysAndTaggingOnRequest(t *testing.T) {
	c := NewControllers()
	for name := range app.DefaultInitFuncConstructors {
		if c.Constructors[name].Constructor == nil {
			t.Errorf("the library's %s is missing", name)
		}
	}
	if c.Constructors[tagging.TaggingControllerKey].Constructor == nil {
		t.Error("the tagging controller is missing")
	}
	if _, leaked := app.DefaultInitFuncConstructors[tagging.TaggingControllerKey]; leaked {
		t.Error("the tagging controller got into the library's own table")
	}
	if !app.ControllersDisabledByDefault.Has(tagging.TaggingControllerKey) {
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
