// Package fleet decides what a trial of the operator for fleets is: a seed of the lab with user clusters, the operator
// as deploy/operator deploys it, a Cluster object as its owner would write it, and judges of its own: each account's
// audit log, and what the API servers showed when. Its tests are the walk-through of the published guide and the holes
// of the original.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/retry"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/seed"
)

// OperatorNamespace is where deploy/operator puts the operator.
const OperatorNamespace = seed.OperatorNamespace

// World is a seed under the operator's hands.
type World struct {
	*seed.Seed
	root   string
	kube   kubernetes.Interface // without a Seed
	dyn    dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Start starts a seed with the CRDs of deploy/crds, without user clusters and without the operator. The caller stops
// it. Sets are programs that its user clusters need next to the usual ones.
func Start(ctx context.Context, o seed.Options, sets ...string) (*World, error) {
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	if o.Binaries, err = build.Ensure(ctx, build.Options{Sets: slices.Concat(build.DefaultSets, sets)}); err != nil {
		return nil, err
	}
	if o.Programs == nil {
		if o.Programs, err = seed.BuildPrograms(ctx, filepath.Join(o.Dir, "bin")); err != nil {
			return nil, err
		}
	}
	s, err := seed.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &World{
		Seed:   s,
		root:   root,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.Client().Discovery())),
	}
	if err := w.InstallCRDs(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// On is a World of an API server alone: without nodes, controllers and user clusters.
func On(server *apiserver.Server) (*World, error) {
	config, err := server.Config("lab")
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{}
	w := &World{}
	if w.root, err = build.FindRoot(); err != nil {
		return nil, err
	}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if w.dyn, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(w.kube.Discovery()))
	return w, nil
}

// Client is the administrator's, of the seed.
func (w *World) Client() kubernetes.Interface {
	if w.kube != nil {
		return w.kube
	}
	return w.Seed.Client()
}

// Dynamic is the administrator's client of the seed for kinds without Go types.
func (w *World) Dynamic() dynamic.Interface {
	if w.dyn != nil {
		return w.dyn
	}
	return w.Seed.Dynamic()
}

// InstallCRDs applies deploy/crds and waits until both groups are served.
func (w *World) InstallCRDs(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(w.root, "deploy", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := w.Apply(ctx, file, nil); err != nil {
			return err
		}
	}
	return seed.Await(ctx, "Clusters to be served", func(ctx context.Context) error {
		for _, group := range []string{kv1.GroupName, kv1.LegacyGroupName} {
			if _, err := w.Dynamic().Resource(clusters(group)).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

func clusters(group string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "clusters"}
}

// Apply applies the objects of a file by server-side apply; change may change one first.
func (w *World) Apply(ctx context.Context, file string, change func(*unstructured.Unstructured)) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading manifest: %w", err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("parsing %q: %w", file, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if change != nil {
			change(o)
		}
		if _, err := w.apply(ctx, o); err != nil {
			return fmt.Errorf("applying %q: %w", file, err)
		}
	}
}

func (w *World) apply(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := o.GroupVersionKind()
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		w.mapper.Reset()
		if mapping, err = w.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	out, err := w.Dynamic().
		Resource(mapping.Resource).
		Namespace(o.GetNamespace()).
		Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "lab", Force: true})
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind.Kind, o.GetName(), err)
	}
	return out, nil
}

// InstallOperator applies deploy/operator in the order that it asks for, with further flags, and waits until its
// replicas are ready and its webhooks can be called.
func (w *World) InstallOperator(ctx context.Context, flags ...string) error {
	if err := w.installManifests(ctx, nil, flags...); err != nil {
		return err
	}
	if err := w.AwaitRollout(ctx, OperatorNamespace, "transplant-operator"); err != nil {
		return err
	}
	if err := w.Apply(ctx, filepath.Join(w.root, "deploy", "operator", "webhooks.yaml"), nil); err != nil {
		return err
	}
	return seed.Await(ctx, "the certificates of the webhooks", func(ctx context.Context) error {
		m, err := w.Client().
			AdmissionregistrationV1().
			MutatingWebhookConfigurations().
			Get(ctx, "transplant-operator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		v, err := w.Client().
			AdmissionregistrationV1().
			ValidatingWebhookConfigurations().
			Get(ctx, "transplant-operator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(m.Webhooks[0].ClientConfig.CABundle) == 0 || len(v.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("no authority is to be trusted yet")
		}
		return nil
	})
}

// installManifests applies the operator and its rights; change may change each object first.
func (w *World) installManifests(ctx context.Context, change func(*unstructured.Unstructured), flags ...string) error {
	more := func(o *unstructured.Unstructured) {
		if change != nil {
			change(o)
		}
		if o.GetKind() != "Deployment" {
			return
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		c := containers[0].(map[string]any) //nolint:forcetypeassert // of our own manifest
		args, _, _ := unstructured.NestedStringSlice(c, "args")
		for _, flag := range flags {
			name, _, _ := strings.Cut(flag, "=")
			args = append(slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, name+"=") }), flag)
		}
		_ = unstructured.SetNestedStringSlice(c, args, "args")                                          // it was one
		_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers") // it was one
	}
	for _, name := range []string{"operator.yaml", "rbac.yaml"} {
		if err := w.Apply(ctx, filepath.Join(w.root, "deploy", "operator", name), more); err != nil {
			return err
		}
	}
	return nil
}

// AwaitRollout waits until a Deployment of the seed runs its newest template alone.
func (w *World) AwaitRollout(ctx context.Context, namespace, name string) error {
	return seed.Await(ctx, "Deployment "+namespace+"/"+name, func(ctx context.Context) error {
		d, err := w.Client().AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rolledOut(d) {
			return nil
		}
		pods, err := w.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var why []string
		for i := range pods.Items {
			for _, s := range pods.Items[i].Status.ContainerStatuses {
				if !s.Ready && s.State.Waiting != nil {
					why = append(why, pods.Items[i].Name+": "+s.State.Waiting.Message)
				}
			}
		}
		return fmt.Errorf(
			"%d of %d replicas are updated, %d available %s",
			d.Status.UpdatedReplicas,
			*d.Spec.Replicas,
			d.Status.AvailableReplicas,
			strings.Join(why, "; "),
		)
	})
}

func rolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.Replicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
}

// Object is a Cluster of one of the groups.
type Object struct {
	w     *World
	Group string
	Name  string
}

// Create writes a Cluster as the guide shows one, with a spec of the caller's on top.
func (w *World) Create(ctx context.Context, group, name string, spec map[string]any) (*Object, error) {
	full := map[string]any{
		"exposeStrategy":    "NodePort",
		"humanReadableName": "determined-raman",
		"version":           "v1.26.0",
		"cloud": map[string]any{
			"dc":           "aws-lab",
			"providerName": "aws",
			"aws":          map[string]any{"vpcId": "vpc-lab", "secretAccessKey": seed.CloudSecret(name)},
		},
	}
	for key, value := range spec {
		full[key] = value
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": full}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Cluster"})
	o.SetName(name)
	if _, err := w.Dynamic().Resource(clusters(group)).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating Cluster %q: %w", name, err)
	}
	obj := &Object{w, group, name}
	return obj, obj.PatchStatus(ctx, map[string]any{
		"namespaceName": "cluster-" + name,
		"versions": map[string]any{
			"controlPlane":      "v1.26.0",
			"apiserver":         "v1.26.0",
			"controllerManager": "v1.26.0",
			"scheduler":         "v1.26.0",
		},
	})
}

// Get reads it.
func (o *Object) Get(ctx context.Context) (*unstructured.Unstructured, error) {
	return o.w.Dynamic().Resource(clusters(o.Group)).Get(ctx, o.Name, metav1.GetOptions{})
}

// Patch merges a patch into it.
func (o *Object) Patch(ctx context.Context, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return tripped(func() error {
		_, err := o.w.Dynamic().
			Resource(clusters(o.Group)).
			Patch(ctx, o.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "owner"})
		return err
	})
}

// tripped writes again when the API server has failed over a rule of the schema, as v1.26.0 does once in some hundred
// concurrent writes; see docs/explanation/known-limits.md.
func tripped(write func() error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "internal error")
	}, write)
}

// PatchStatus merges a patch into its status.
func (o *Object) PatchStatus(ctx context.Context, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return tripped(func() error {
		_, err := o.w.Dynamic().
			Resource(clusters(o.Group)).
			Patch(ctx, o.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "original"}, "status")
		return err
	})
}

// Feature switches externalCloudProvider.
func (o *Object) Feature(ctx context.Context, on bool) error {
	return o.Patch(
		ctx,
		map[string]any{"spec": map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: on}}},
	)
}

// Annotate sets an annotation, or removes it when value is nil.
func (o *Object) Annotate(ctx context.Context, key string, value any) error {
	return o.Patch(ctx, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// Condition is one of the status.
type Condition struct {
	Status, Reason, Message string
}

// Conditions are those of the status, by type.
func (o *Object) Conditions(ctx context.Context) (map[kv1.ClusterConditionType]Condition, error) {
	have, err := o.Get(ctx)
	if err != nil {
		return nil, err
	}
	found, _, err := unstructured.NestedMap(have.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	out := map[kv1.ClusterConditionType]Condition{}
	for name, value := range found {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("condition %q is no object", name)
		}
		text := func(key string) string {
			s, _ := fields[key].(string)
			return s
		}
		out[kv1.ClusterConditionType(name)] = Condition{text("status"), text("reason"), text("message")}
	}
	return out, nil
}

// AwaitCondition waits until a condition is as want says; empty fields of want match anything.
func (o *Object) AwaitCondition(ctx context.Context, condition kv1.ClusterConditionType, want Condition) error {
	return seed.Await(
		ctx,
		fmt.Sprintf("condition %s of Cluster %s to be %+v", condition, o.Name, want),
		func(ctx context.Context) error {
			all, err := o.Conditions(ctx)
			if err != nil {
				return err
			}
			have, ok := all[condition]
			if !ok || want.Status != "" && have.Status != want.Status || want.Reason != "" && have.Reason != want.Reason ||
				!strings.Contains(have.Message, want.Message) {
				return fmt.Errorf("conditions are %+v", all)
			}
			return nil
		},
	)
}

// AwaitPhase waits for a phase.
func (o *Object) AwaitPhase(ctx context.Context, phase string) error {
	return o.AwaitCondition(ctx, kv1.ConditionMigration, Condition{Reason: phase})
}

// ScaleOperator changes how many replicas the operator has, and waits for it.
func (w *World) ScaleOperator(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := w.Client().
		AppsV1().
		Deployments(OperatorNamespace).
		Patch(ctx, "transplant-operator", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("scaling the operator: %w", err)
	}
	if err := w.AwaitRollout(ctx, OperatorNamespace, "transplant-operator"); err != nil {
		return err
	}
	return seed.Await(ctx, "the other replicas to be gone", func(ctx context.Context) error {
		pods, err := w.Client().CoreV1().Pods(OperatorNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
}
