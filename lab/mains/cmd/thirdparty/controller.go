package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
)

// newController is the constructor of a controller that needs the provider's own type, as AWS's tagging controller.
func (s *settings) newController(
	init app.ControllerInitContext, completed *config.CompletedConfig, given cloudprovider.Interface,
) app.InitFunc {
	own, mine := given.(*cloud)
	return func(ctx context.Context, c genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		if !mine {
			klog.Warningf("%s does not know the cloud, a %T", init.ClientName, given)
			return nil, false, nil
		}
		if err := equip(completed); err != nil {
			return nil, false, err
		}
		client := c.ClientBuilder.ClientOrDie(init.ClientName)
		go wait.Until(func() {
			if err := write(ctx, client, "thirdparty-controller-"+own.region); err != nil {
				klog.ErrorS(err, "Writing in the controller's loop")
			}
		}, period, ctx.Done())
		return &watched{brokenWhen: s.brokenWhen}, true, nil
	}
}

// equip sets up the shared informer of Nodes, and records an event for each of them.
func equip(completed *config.CompletedConfig) error {
	nodes := completed.SharedInformers.Core().V1().Nodes().Informer()
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			fields := len(node.ManagedFields)
			completed.EventRecorder.Eventf(node, corev1.EventTypeNormal, "Seen", "with %d managed fields", fields)
		}
	}})
	return errors.Join(err,
		nodes.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { klog.ErrorS(err, "Watching Nodes") }),
		nodes.SetTransform(func(object any) (any, error) {
			if node, ok := object.(*corev1.Node); ok {
				node.ManagedFields = nil
			}
			return object, nil
		}))
}

// watched is a controller with a health check.
type watched struct{ brokenWhen string }

func (w *watched) Name() string                                { return controlled }
func (w *watched) HealthChecker() healthz.UnnamedHealthChecker { return w }

// Check fails while the file is there.
func (w *watched) Check(*http.Request) error {
	if w.brokenWhen == "" {
		return nil
	}
	text, err := os.ReadFile(w.brokenWhen)
	if err != nil {
		return nil // it is not there
	}
	return errors.New(strings.TrimSpace(string(text)))
}
