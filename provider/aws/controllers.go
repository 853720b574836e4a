package aws

import (
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider/app/config"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/ccm/cloud"
)

// NewControllers returns the library's controllers, node IPAM and the tagging controller. The last two do not run by
// default: both are asked for, with --controllers=*,tagging for example. Upstream's main does the same with tagging,
// and has no node IPAM.
func NewControllers() ccm.Controllers {
	tags, c := &tagging.ControllerWrapper{}, ccm.NewControllers()
	tags.Options.AddFlags(c.Flags.FlagSet("tagging controller"))
	c.Constructors[tagging.TaggingControllerKey] = ccm.ControllerInitFuncConstructor{
		InitContext: ccm.ControllerInitContext{ClientName: tagging.TaggingControllerClientName},
		Constructor: func(
			initContext ccm.ControllerInitContext,
			completed *config.CompletedConfig,
			provider cloudprovider.Interface,
		) ccm.InitFunc {
			return tags.StartTaggingControllerWrapper(initContext, completed, upstreamProvider(provider))
		},
	}
	ccm.ControllersDisabledByDefault.Insert(tagging.TaggingControllerKey)
	return c
}

// upstreamProvider is what the tagging controller asserts the type of. Its requests go through clients that ask the
// fences.
func upstreamProvider(provider cloudprovider.Interface) cloudprovider.Interface {
	if ours, ok := cloud.Unwrap(provider).(interface{ AWS() *awsv1.Cloud }); ok {
		return ours.AWS()
	}
	return provider
}
