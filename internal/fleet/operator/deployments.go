package operator

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// Deployments of a control plane that decisions depend on.
const (
	apiserver         = "apiserver"
	controllerManager = "controller-manager"
)

// inTreeProvider is an annotation of cached Deployments only: the provider that kube-controller-manager's flags name, if that is in-tree.
const inTreeProvider = "transplant.dev/in-tree-provider"

// foreignManager is an annotation of cached Deployments only: they run a cloud-controller-manager that this program did not make.
const foreignManager = "transplant.dev/foreign-cloud-controller-manager"

// deployments caches of all Deployments in the seed what decisions depend on, with one watch: a few hundred bytes each.
type deployments struct {
	factory informers.SharedInformerFactory
	lister  appslisters.DeploymentLister
	synced  cache.InformerSynced
}

func newDeployments(kube kubernetes.Interface, changed func(namespace string)) *deployments {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(stripped))
	informer := factory.Apps().V1().Deployments()
	_, _ = informer.Informer().AddEventHandler(cache.FilteringResourceEventHandler{ // fails only for one that was stopped
		FilterFunc: func(o any) bool { return concerns(o) },
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { changed(namespaceOfDeployment(o)) },
			UpdateFunc: func(was, is any) {
				if moved(was.(*appsv1.Deployment), is.(*appsv1.Deployment)) {
					changed(namespaceOfDeployment(is))
				}
			},
			DeleteFunc: func(o any) { changed(namespaceOfDeployment(o)) },
		},
	})
	return &deployments{factory: factory, lister: informer.Lister(), synced: informer.Informer().HasSynced}
}

func (d *deployments) run(ctx context.Context) {
	d.factory.Start(ctx.Done())
	<-ctx.Done()
	d.factory.Shutdown()
}

// plane is what the cache knows of a control plane.
func (d *deployments) plane(namespace string) state.Plane {
	out := state.Plane{Known: d.synced()}
	if !out.Known {
		return out
	}
	out.Apiserver, _ = d.workload(namespace, apiserver)
	out.ControllerManager, out.InTree = d.workload(namespace, controllerManager)
	out.Foreign = d.foreign(namespace)
	return out
}

// foreign is the first Deployment of a namespace, by name, that runs a cloud-controller-manager of another program; empty when there is none.
func (d *deployments) foreign(namespace string) string {
	all, err := d.lister.Deployments(namespace).List(labels.Everything())
	if err != nil { // a lister's List has none
		return ""
	}
	var names []string
	for _, found := range all {
		if isForeign(found) {
			names = append(names, found.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func isForeign(d *appsv1.Deployment) bool {
	_, is := d.Annotations[foreignManager]
	return is
}

func (d *deployments) workload(namespace, name string) (*state.Workload, string) {
	found, err := d.lister.Deployments(namespace).Get(name)
	if err != nil { // a lister's only error is that there is none
		return nil, ""
	}
	return &state.Workload{Desired: ptr.Deref(found.Spec.Replicas, 1), Ready: found.Status.ReadyReplicas}, found.Annotations[inTreeProvider]
}

// stripped leaves what is wanted of a Deployment.
func stripped(o any) (any, error) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return o, nil
	}
	out := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion}}
	if runsManager(d) && d.Labels[managedBy] != managedByUs {
		out.Annotations = map[string]string{foreignManager: ""}
		return out, nil
	}
	if !concerns(out) {
		return out, nil
	}
	out.Spec.Replicas = d.Spec.Replicas
	out.Status.ReadyReplicas = d.Status.ReadyReplicas
	if provider := inTree(d); provider != "" && d.Name == controllerManager {
		out.Annotations = map[string]string{inTreeProvider: provider}
	}
	return out, nil
}

// Deployments of cloud-controller-managers that this program made carry this label.
const (
	managedBy   = "app.kubernetes.io/managed-by"
	managedByUs = "transplant"
)

// runsManager reports whether a container of a Deployment is a cloud-controller-manager, however its command is wrapped. One that is scaled to zero counts:
// it may come back.
func runsManager(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return snapshot.SeedComponent(&c) == plan.CCM })
}

// inTree is the in-tree provider in the flags of a component, however its command is wrapped.
func inTree(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		flags := controlplane.FlagsOf(controlplane.Unwrapped(slices.Concat(c.Command, c.Args)))
		if provider := flags["cloud-provider"]; provider != "" && provider != "external" {
			return provider
		}
	}
	return ""
}

func concerns(o any) bool {
	d, ok := deploymentOf(o)
	return ok && (d.Name == apiserver || d.Name == controllerManager || isForeign(d))
}

// moved tells that something changed which decisions depend on.
func moved(was, is *appsv1.Deployment) bool {
	return ptr.Deref(was.Spec.Replicas, 1) != ptr.Deref(is.Spec.Replicas, 1) || was.Annotations[inTreeProvider] != is.Annotations[inTreeProvider] ||
		isForeign(was) != isForeign(is) ||
		(was.Status.ReadyReplicas == 0) != (is.Status.ReadyReplicas == 0)
}

func deploymentOf(o any) (*appsv1.Deployment, bool) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	d, ok := o.(*appsv1.Deployment)
	return d, ok
}

func namespaceOfDeployment(o any) string {
	d, ok := deploymentOf(o)
	if !ok {
		return ""
	}
	return d.Namespace
}
