package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/pages"
)

// drivers installs the CSI drivers of the provider and looks at them.
func (p Parts) drivers(ctx context.Context, r *Result) error {
	if !p.CSI {
		r.CSIReady = true
		r.addCSIMessage("no CSI driver is wanted (spec.disableCsiDriver)")
		return nil
	}
	list := driversOf[p.Provider]
	if len(list) == 0 {
		r.wait("no CSI driver is known here for provider %q: set spec.disableCsiDriver and install one", p.Provider)
		return nil
	}
	ready := true
	var errs []error
	for _, d := range list {
		why, err := p.driver(ctx, d, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("installing the CSI driver %s: %w", d.name, err))
		}
		if why != "" {
			r.wait("CSI driver %s: %s", d.name, why)
			r.addCSIMessage("%s: %s", d.name, why)
		}
		ready = ready && why == "" && err == nil
	}
	r.CSIReady = ready
	if ready && r.CSIMessage == "" {
		r.addCSIMessage("the controller and the node part of the CSI driver run")
	}
	return errors.Join(errs...)
}

// driver installs one, and says what is missing, a clause; empty when nothing is.
func (p Parts) driver(ctx context.Context, d driver, r *Result) (string, error) {
	object, err := p.User.Kube.StorageV1().CSIDrivers().Get(ctx, d.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if !p.CCMReady {
			return "is not installed", nil
		}
	case err != nil:
		return "", fmt.Errorf("reading CSIDriver %s: %w", d.name, err)
	case object.Labels[managedBy] != fieldManager:
		return p.foreign(ctx, d)
	}
	if p.CCMReady {
		if err := p.install(ctx, d, r); err != nil {
			return "", err
		}
	}
	return p.running(ctx, d)
}

// install applies what differs from what was applied last, or everything when it does not run.
func (p Parts) install(ctx context.Context, d driver, r *Result) error {
	version, err := p.keepCredentials(ctx)
	if err != nil {
		return err
	}
	objects, err := d.manifests(p.Minor, p.ClusterName)
	if err != nil {
		return err
	}
	digest, err := mark(objects, version)
	if err != nil {
		return err
	}
	old := p.appliedDigest(ctx, d)
	if why, err := p.running(ctx, d); old == digest && why == "" && err == nil {
		return nil
	}
	for _, o := range objects {
		if err := p.apply(ctx, o); err != nil {
			return err
		}
	}
	if old != digest {
		r.did("installed the CSI driver %s", d.name)
	}
	return p.class(ctx, d, r)
}

// mark writes the version of the credentials into the pods, so that new ones restart them. It writes what was applied
// as a whole into the workloads.
func mark(objects []*unstructured.Unstructured, version string) (string, error) {
	text, err := json.Marshal(objects)
	if err != nil {
		return "", fmt.Errorf("encoding what is applied: %w", err)
	}
	sum := sha256.Sum256(append(text, version...))
	digest := hex.EncodeToString(sum[:8])
	for _, o := range objects {
		if o.GetKind() != "Deployment" && o.GetKind() != "DaemonSet" {
			continue
		}
		o.SetAnnotations(map[string]string{appliedIs: digest})
		if err := unstructured.SetNestedField(
			o.Object,
			version,
			"spec",
			"template",
			"metadata",
			"annotations",
			credentialsAre,
		); err != nil {
			return "", fmt.Errorf("marking %s: %w", o.GetName(), err)
		}
	}
	return digest, nil
}

// appliedDigest is what was applied last; empty when that is not the same everywhere, or not known.
func (p Parts) appliedDigest(ctx context.Context, d driver) string {
	one, err := p.User.Kube.AppsV1().Deployments(component.Namespace).Get(ctx, d.controllerName(), metav1.GetOptions{})
	if err != nil {
		return ""
	}
	two, err := p.User.Kube.AppsV1().DaemonSets(component.Namespace).Get(ctx, d.nodeName(), metav1.GetOptions{})
	if err != nil || one.Annotations[appliedIs] != two.Annotations[appliedIs] {
		return ""
	}
	return one.Annotations[appliedIs]
}

// resources of what is applied, by kind.
var resources = map[string]string{
	"CSIDriver":          "csidrivers",
	"ServiceAccount":     "serviceaccounts",
	"ClusterRole":        "clusterroles",
	"ClusterRoleBinding": "clusterrolebindings",
	"Role":               "roles",
	"RoleBinding":        "rolebindings",
	"Lease":              "leases",
	"ConfigMap":          "configmaps",
	"Deployment":         "deployments",
	"DaemonSet":          "daemonsets",
	"StorageClass":       "storageclasses",
}

func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	return o.GroupVersionKind().GroupVersion().WithResource(resources[o.GetKind()])
}

// apply is a server-side apply. Our fields are taken from any other owner: the objects carry names of our own.
func (p Parts) apply(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := p.User.Dynamic.Resource(resourceOf(o)).
		Namespace(o.GetNamespace()).
		Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// class makes the StorageClass of the driver, once. It is the default one only when there is none: with two defaults,
// which one a claim gets is chance.
func (p Parts) class(ctx context.Context, d driver, r *Result) error {
	if d.class.name == "" {
		return nil
	}
	list, err := p.User.Kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing StorageClasses: %w", err)
	}
	usual := true
	for _, c := range list.Items {
		if c.Name == d.class.name {
			return nil
		}
		usual = usual && c.Annotations[defaultClass] != "true" && c.Annotations[oldDefault] != "true"
	}
	o, err := d.storageClass(usual)
	if err != nil {
		return err
	}
	_, err = p.User.Dynamic.Resource(resourceOf(o)).Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making StorageClass %s: %w", d.class.name, err)
	}
	r.did("made the StorageClass %s", d.class.name)
	return nil
}

// running says what of our driver does not run, a clause; empty when all does. Without a node there is nothing to run
// on, and nothing to mount.
func (p Parts) running(ctx context.Context, d driver) (string, error) {
	set, err := p.User.Kube.AppsV1().DaemonSets(component.Namespace).Get(ctx, d.nodeName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "its node part is not there", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading DaemonSet %s: %w", d.nodeName(), err)
	}
	s := set.Status
	if s.ObservedGeneration < set.Generation {
		return "its node part was changed and not looked at yet", nil
	}
	if tolerated := max(
		1,
		s.DesiredNumberScheduled/10,
	); s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberReady < s.DesiredNumberScheduled-tolerated ||
		s.NumberReady == 0 && s.DesiredNumberScheduled > 0 {
		return fmt.Sprintf(
			"its node part runs on %d of %d nodes, %d of which are of the newest",
			s.NumberReady,
			s.DesiredNumberScheduled,
			s.UpdatedNumberScheduled,
		), nil
	}
	controller, err := p.User.Dynamic.Resource(deploymentsResource).
		Namespace(component.Namespace).
		Get(ctx, d.controllerName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "its controller is not there", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Deployment %s: %w", d.controllerName(), err)
	}
	why := unready(controller)
	if why == "" {
		return "", nil
	}
	nodes, err := p.User.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return "", nil
	}
	return "its controller " + why, nil
}

// foreign reads a driver that another program has installed: two of a driver would act on the same volumes.
func (p Parts) foreign(ctx context.Context, d driver) (string, error) {
	known, _ := csidriver.DriverOf(d.name)
	missing := []string{"controller", "node part"}
	for _, kind := range []string{"deployments", "statefulsets", "daemonsets"} {
		resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: kind}
		err := pages.Each(ctx, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return p.User.Dynamic.Resource(resource).List(ctx, options)
		}, func(object runtime.Object) error {
			o, ok := object.(*unstructured.Unstructured)
			if !ok || !runs(o, known) {
				return nil
			}
			part, ready := "controller", isAvailable(o, "availableReplicas")
			if kind == "daemonsets" {
				part, ready = "node part", true // CSINode says for each machine whether it runs there
			}
			if ready {
				missing = slices.DeleteFunc(missing, func(m string) bool { return m == part })
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", kind, err)
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	return fmt.Sprintf(
		"the operator did not install it, and its %s does not run; fix it, or delete CSIDriver %s and the operator installs its own",
		strings.Join(missing, " and "),
		d.name,
	), nil
}

func runs(o *unstructured.Unstructured, d csidriver.Driver) bool {
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	return slices.ContainsFunc(list, func(c any) bool {
		m, ok := c.(map[string]any)
		image, text := m["image"].(string)
		return ok && text && d.IsImage(image)
	})
}

func isAvailable(o *unstructured.Unstructured, path string) bool {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", path)
	if n == 0 {
		n, _, _ = unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	}
	return n > 0
}
