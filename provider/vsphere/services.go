package vsphere

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm"
	"github.com/transplant-dev/transplant/internal/mask/events"
)

// NewControllers returns the library's controllers and node IPAM. In place of the service controller, which has nothing
// to do without load balancers, one says so at the Services that wait for one.
func NewControllers() ccm.Controllers {
	c := ccm.NewControllers()
	c.Constructors[names.ServiceLBController] = ccm.ControllerInitFuncConstructor{
		InitContext: c.Constructors[names.ServiceLBController].InitContext,
		Constructor: func(
			initContext ccm.ControllerInitContext,
			completed *config.CompletedConfig,
			_ cloudprovider.Interface,
		) ccm.InitFunc {
			return func(
				ctx context.Context,
				_ genericcontrollermanager.ControllerContext,
			) (controller.Interface, bool, error) {
				api := completed.ClientBuilder.ClientOrDie(initContext.ClientName)
				n, err := newNotices(api, completed.SharedInformers, noticeAfter, noticeAgain)
				if err != nil {
					return nil, false, err
				}
				ccm.Go(ctx, n.Run)
				return n, true, nil
			}
		},
	}
	return c
}

const (
	// noticeAfter is how long another controller has to give a Service an address before an event says that none did.
	noticeAfter = time.Minute
	// noticeAgain is when the event is sent again: API servers keep events for an hour.
	noticeAgain = time.Hour

	noticeReason = "NoLoadBalancers"
	notice       = "vSphere has no load balancers, and no other controller has given this Service an address: install one, " +
		"such as MetalLB or kube-vip, or set spec.type to NodePort or ClusterIP"
)

// notices sends an event to each Service of type LoadBalancer that nothing serves. It changes no Service.
type notices struct {
	services     coreinformers.ServiceInformer
	queue        workqueue.TypedDelayingInterface[cache.ObjectName]
	broadcaster  record.EventBroadcaster
	events       record.EventRecorder
	after, again time.Duration
}

func newNotices(
	api kubernetes.Interface,
	factory informers.SharedInformerFactory,
	after, again time.Duration,
) (*notices, error) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(events.Sink(api.CoreV1()))
	n := &notices{
		services: factory.Core().V1().Services(), after: after, again: again,
		queue:       workqueue.NewTypedDelayingQueue[cache.ObjectName](),
		broadcaster: broadcaster,
		events:      broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "service-controller"}),
	}
	_, err := n.services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: n.seen,
		UpdateFunc: func(old, updated any) {
			before, _ := old.(*corev1.Service)
			now, _ := updated.(*corev1.Service)
			if before != nil && now != nil && !needsLoadBalancer(before) {
				n.seen(now)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	return n, nil
}

// Name implements controller.Interface.
func (n *notices) Name() string { return names.ServiceLBController }

func (n *notices) seen(object any) {
	if service, ok := object.(*corev1.Service); ok && needsLoadBalancer(service) {
		n.queue.AddAfter(cache.MetaObjectToName(service), n.after)
	}
}

// Run sends events until the context ends.
func (n *notices) Run(ctx context.Context) {
	defer n.broadcaster.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), n.services.Informer().HasSynced) {
		return
	}
	klog.FromContext(ctx).Info("vSphere has no load balancers: Services of type LoadBalancer are left to other controllers")
	defer context.AfterFunc(ctx, n.queue.ShutDown)()
	for {
		key, ended := n.queue.Get()
		if ended {
			return
		}
		service, err := n.services.Lister().Services(key.Namespace).Get(key.Name)
		if err == nil && needsLoadBalancer(service) {
			n.events.Event(service, corev1.EventTypeWarning, noticeReason, notice)
			n.queue.AddAfter(key, n.again)
		}
		n.queue.Done(key)
	}
}

// needsLoadBalancer reports whether a Service waits for a load balancer of the cloud's and has none. One with a class
// is another controller's.
func needsLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil &&
		len(service.Status.LoadBalancer.Ingress) == 0 && service.DeletionTimestamp == nil
}
