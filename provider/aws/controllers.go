// Package aws decides what the AWS cloud-controller-manager is made of: the upstream AWS provider, the upstream controllers and the tagging
// controller, put together as upstream's own main does, and warnings about cloud configs that would send calls somewhere else than intended.
package aws

import (
	"maps"

	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	cliflag "k8s.io/component-base/cli/flag"
)

// Controllers are the controllers of the AWS cloud-controller-manager.
type Controllers struct {
	// Constructors make the controllers, by canonical name.
	Constructors map[string]app.ControllerInitFuncConstructor
	// Aliases are the names that --controllers takes beside the canonical ones.
	Aliases map[string]string
	// Flags are the flags of controllers that the library does not know.
	Flags cliflag.NamedFlagSets
}

// NewControllers returns the library's controllers and the tagging controller. It takes tagging off the library's list of controllers that run
// by default, as upstream's main does: tagging every instance is asked for with --controllers=*,tagging.
func NewControllers() Controllers {
	tags := &tagging.ControllerWrapper{}
	c := Controllers{Constructors: maps.Clone(app.DefaultInitFuncConstructors), Aliases: names.CCMControllerAliases()}
	tags.Options.AddFlags(c.Flags.FlagSet("tagging controller"))
	c.Constructors[tagging.TaggingControllerKey] = app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: tagging.TaggingControllerClientName},
		Constructor: tags.StartTaggingControllerWrapper,
	}
	app.ControllersDisabledByDefault.Insert(tagging.TaggingControllerKey)
	return c
}
